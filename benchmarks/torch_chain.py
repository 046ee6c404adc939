"""The CRF layer beside pytorch-crf: training steps, decoding and marginals, on the CPU and on a GPU where there is one."""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import pathlib
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torchcrf

from benchmarks.common import write_table
from taskloss._compiled.torch_chain import chain
from taskloss._compiled.torch_definition import SUMS, definition
from taskloss.torch import CRF

CPU_SIZES = [(64, 20, 26), (32, 128, 64)]
GPU_SIZES = [(64, 20, 26), (32, 128, 64), (64, 512, 32), (32, 128, 256)]
HEADER = [
    "B",
    "T",
    "K",
    "pytorch-crf, ms",
    "taskloss, ms",
    "times as fast",
    "spread",
    "pytorch-crf, MB",
    "taskloss, MB",
]

warnings.filterwarnings("ignore", message="where received a uint8")  # pytorch-crf's


def batch(size: tuple[int, int, int], device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Emissions, tags and a mask of lengths from half to full."""
    b, t, k = size
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(t // 2, t + 1, (b,), generator=generator)
    lengths[0] = t
    mask = torch.arange(t) < lengths[:, None]
    emissions = torch.randn((b, t, k), generator=generator)
    tags = torch.randint(k, (b, t), generator=generator)
    return emissions.to(device), tags.to(device), mask.to(device)


def layers(states: int, device: str) -> dict[str, Any]:
    torch.manual_seed(0)
    peer = torchcrf.CRF(states, batch_first=True).to(device)
    ours = CRF(states, batch_first=True).to(device)
    ours.load_state_dict(peer.state_dict())
    return {"pytorch-crf": peer, "taskloss": ours}


def step(layer: Any, emissions: torch.Tensor, tags: torch.Tensor, mask: Any) -> Callable[[], torch.Tensor]:
    """One training step: the likelihood and its gradients in emissions and transitions."""
    leaf = emissions.clone().requires_grad_()

    def run() -> torch.Tensor:
        leaf.grad = None
        layer.zero_grad()
        value = layer(leaf, tags, mask=mask)
        value.backward()
        assert leaf.grad is not None
        return leaf.grad

    return run


def times(work: Callable[[], Any], device: str, budget: float = 3.0) -> list[float]:
    """Wall-clock times in ms, Python and all, after a few runs to warm up."""

    def once() -> float:
        start = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - start)

    first = [once() for _ in range(3)]
    count = int(max(5, min(200, 1e3 * budget / first[-1])))
    return [once() for _ in range(count)]


def side_by_side(works: dict[str, Callable[[], Any]], device: str) -> tuple[dict[str, float], str]:
    """Medians, turn by turn, so that a neighbour's load falls on both; and the range of the turns' ratios."""
    rounds: list[dict[str, float]] = []
    for _ in range(3):
        rounds.append({name: statistics.median(times(work, device, 1.0)) for name, work in works.items()})
    medians = {name: statistics.median(r[name] for r in rounds) for name in works}
    peer, ours = works
    ratios = sorted(r[peer] / r[ours] for r in rounds)
    return medians, f"{ratios[0]:.3g} to {ratios[-1]:.3g}"


def peak(name: str, size: tuple[int, int, int], device: str) -> float:
    """The most memory that one training step takes beyond its inputs, in MB; on the CPU in a process of its own."""
    if device == "cpu":
        code = f"from benchmarks.torch_chain import growth; print(growth({name!r}, {size!r}))"
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return float(out.stdout)
    work = step(layers(size[2], device)[name], *batch(size, device))
    work()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    work()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 1e6


def growth(name: str, size: tuple[int, int, int]) -> float:
    """By how much the process grows in a large training step, after a small one has loaded everything; Linux only."""
    torch.set_num_threads(2)
    step(layers(size[2], "cpu")[name], *batch((2, 3, size[2]), "cpu"))()
    work = step(layers(size[2], "cpu")[name], *batch(size, "cpu"))

    def resident(field: str) -> float:
        lines = pathlib.Path("/proc/self/status").read_text().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(field)) / 1e3

    ctypes.CDLL(None).malloc_trim(0)  # what is free but kept must not count as there
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # sets the peak back to what is there now
    before = resident("VmRSS")
    work()
    return resident("VmHWM") - before


def training(device: str, sizes: list[tuple[int, int, int]]) -> list[list[Any]]:
    rows = []
    for size in sizes:
        both, data = layers(size[2], device), batch(size, device)
        works = {name: step(layer, *data) for name, layer in both.items()}
        one, other = (work().clone() for work in works.values())
        assert (one - other).abs().max() < 1e-3
        found, spread = side_by_side(works, device)
        a, b = found.values()
        rows.append([*size, a, b, a / b, spread, *(peak(name, size, device) for name in works)])
    return rows


def decoding(device: str, sizes: list[tuple[int, int, int]]) -> list[list[Any]]:
    rows = []
    for size in sizes:
        both, (emissions, _, mask) = layers(size[2], device), batch(size, device)
        with torch.no_grad():
            works = {name: functools.partial(layer.decode, emissions, mask=mask) for name, layer in both.items()}
            one, other = (work() for work in works.values())
            assert sum(a != b for a, b in zip(one, other, strict=True)) <= 1  # a tie may go either way
            found, spread = side_by_side(works, device)
        a, b = found.values()
        rows.append([*size, a, b, a / b, spread])
    return rows


def table_name(device: str) -> str:
    return "torch_chain" if device == "cpu" else "torch_chain_gpu"


def where(device: str) -> str:
    torch_version = f"torch {torch.__version__}"
    if device == "cpu":
        return f"{torch_version} on {torch.get_num_threads()} threads of the CPU."
    triton = importlib.metadata.version("triton")
    return f"{torch_version} and triton {triton} on one {torch.cuda.get_device_name()}."


def accuracy(device: str) -> list[list[Any]]:
    """Errors against the definition in float64."""
    rows = []
    for scale in (1.0, 100.0, 1e4):
        torch.manual_seed(0)
        unary = (scale * (2 * torch.rand(16, 128, 26) - 1)).to(device)
        pairs = (scale * (2 * torch.rand(26, 26) - 1)).to(device)
        value, nodes, _ = chain(unary, pairs, what=SUMS)
        right = definition(unary, pairs, None, None, None, SUMS)
        error = ((value.double() - right[0]) / right[0]).abs().max()
        rows.append([scale, float(error), float((nodes.double() - right[1]).abs().max())])
    return rows


def marginal_rate(size: tuple[int, int, int]) -> float:
    """Positions a second whose marginals are computed, on a GPU."""
    emissions, _, _ = batch(size, "cuda")
    layer = layers(size[2], "cuda")["taskloss"]
    with torch.no_grad():
        found = statistics.median(times(lambda: layer.marginals(emissions), "cuda"))
    return size[0] * size[1] / (1e-3 * found)


def transformer_share(length: int = 384, size: int = 32, states: int = 32) -> tuple[float, float, float]:
    """ms of a training step of a transformer (base size, bfloat16) with a linear head's cross-entropy, with a CRF, and with a CRF that does not validate."""
    torch.manual_seed(0)
    block = torch.nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.0, batch_first=True, activation="gelu")
    net = torch.nn.Sequential(
        torch.nn.TransformerEncoder(block, 12, enable_nested_tensor=False), torch.nn.Linear(768, states)
    ).cuda()
    x = torch.randn(size, length, 768, device="cuda")
    y = torch.randint(states, (size, length), device="cuda")
    crf = CRF(states, batch_first=True).cuda()
    fast = CRF(states, batch_first=True, validate=False).cuda()
    optimizer = torch.optim.AdamW([*net.parameters(), *crf.parameters(), *fast.parameters()], lr=1e-5, fused=True)

    def run(loss: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], None]:
        def work() -> None:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                scores = net(x)
            loss(scores).backward()
            optimizer.step()

        return work

    works = [
        run(lambda v: torch.nn.functional.cross_entropy(v.flatten(0, 1).float(), y.flatten())),
        run(lambda v: -crf(v, y, reduction="token_mean")),
        run(lambda v: -fast(v, y, reduction="token_mean")),
    ]
    found: list[list[float]] = [[], [], []]
    for turn in range(160):  # one step of each in turn: the clock's drift falls on all alike
        for work, kept in zip(works, found, strict=True):
            torch.cuda.synchronize()
            start = time.perf_counter()
            work()
            torch.cuda.synchronize()
            if turn >= 10:
                kept.append(1e3 * (time.perf_counter() - start))
    return tuple(statistics.median(column) for column in found)  # type: ignore[return-value]


def main(devices: list[str]) -> None:
    torch.set_num_threads(2)
    for device in devices or ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]:
        measure(device)


def measure(device: str) -> None:
    sizes = CPU_SIZES if device == "cpu" else GPU_SIZES
    note = (
        f"{where(device)} Likelihood and gradients of one batch, sequences of half to full length, Python included; medians of three turns that "
        "alternate, and the range of the turns' ratios; memory is the most that one step takes beyond its inputs."
    )
    name = table_name(device)
    peers = ["pytorch-crf"]
    write_table(name, "A CRF layer beside pytorch-crf: one training step", HEADER, training(device, sizes), peers, note)
    write_table(
        f"{name}_decode",
        "A CRF layer beside pytorch-crf: Viterbi decoding",
        HEADER[:7],
        decoding(device, sizes),
        peers,
        where(device),
    )
    write_table(
        f"{name}_accuracy",
        "Chains on tensors: error in float32 against the recursion in float64 logarithms",
        ["scores up to", "log-partition, largest relative error", "marginals, largest error"],
        accuracy(device),
        [],
        f"{where(device)} B = 16, T = 128, K = 26.",
    )
    if device == "cuda":
        plain, with_crf, unchecked = transformer_share()
        rows = [
            ["all marginals, B = 512, T = 512, K = 32, positions/s", f"{marginal_rate((512, 512, 32)):.3g}"],
            ["transformer (12 x 768, bfloat16, AdamW), B = 32, T = 384, cross-entropy: step, ms", plain],
            ["the same with a CRF over 32 tags, ms", with_crf],
            ["share of the step, %", 100 * (with_crf / plain - 1)],
            ["the same with validate=False, ms", unchecked],
            ["share of the step, %", 100 * (unchecked / plain - 1)],
        ]
        write_table(
            f"{name}_step",
            "A CRF on a GPU: marginals, and its share of a transformer's step",
            ["what", "measured"],
            rows,
            [],
            where(device),
        )


if __name__ == "__main__":
    main(sys.argv[1:])
