"""Training a network on the risk of its scores, by mini-batches."""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import pathlib
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import nn

from .._checks import check_number, check_whole, is_list, said_of
from ..hypotheses.network import Network, Torch
from ..solvers.base import Interrupted, Solution, Status

Tensor = torch.Tensor

_BLOCK_NUMBERS = 1 << 22  # of inputs in a block at prediction
_FORMAT = 1  # of checkpoints


def perceptron(n_inputs: int, n_scores: int, hidden: Any = (100,), dropout: float = 0.0) -> nn.Module:
    """Linear layers of these sizes with ReLU between them."""
    if not is_list(hidden):
        raise ValueError(f"module__hidden must be a list of the layers' sizes, got {hidden!r}.")
    for size in hidden:
        check_whole("module__hidden", size)
    check_number("module__dropout", dropout)
    if not 0 <= dropout < 1:
        raise ValueError(f"module__dropout must be at least zero and below one, got {dropout!r}.")
    layers: list[nn.Module] = []
    for size in hidden:
        layers += [nn.Linear(n_inputs, size), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
        n_inputs = size
    return nn.Sequential(*layers, nn.Linear(n_inputs, n_scores))


# -- modules -----------------------------------------------------------------------------------------------------------


def find_device(name: Any, fitting: bool = True) -> torch.device:
    """The device; where it is missing, ValueError in a fit, and the CPU at prediction."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
        return device
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        if not fitting:
            return torch.device("cpu")
        raise ValueError(
            f"PyTorch {torch.__version__} has no device {name!r} here: use device='cpu', or install PyTorch for that device."
        ) from error


@contextlib.contextmanager
def seeded(device: torch.device, *seeds: int) -> Iterator[None]:
    """PyTorch's generators with this seed, restored on exit."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(int(np.random.SeedSequence(seeds).generate_state(1)[0]))
        yield


def build(hypothesis: Torch, n_inputs: int, n_scores: int, device: torch.device) -> nn.Module:
    """A new module for one fit."""
    given = hypothesis.params_of("module")
    made = hypothesis.module
    if isinstance(made, nn.Module):
        if given:
            raise ValueError(
                f"module is made already, and module__{next(iter(given))} has nothing to act on: give its class, or a function."
            )
        return copy.deepcopy(made).to(device)
    names = " and ".join(f"module__{name}" for name in given) or "module"
    with (
        seeded(torch.device("cpu"), hypothesis.random_state),
        said_of(names, "be such that the module can be made"),
    ):
        module = (perceptron if made is None else made)(n_inputs, n_scores, **given)
    if not isinstance(module, nn.Module):
        raise ValueError(
            f"module={made!r} must return a torch.nn.Module when called with the numbers of inputs and scores, got {type(module).__name__}."
        )
    return module.to(device)


def restored(hypothesis: Torch, network: Network) -> nn.Module:
    """The module of a fit, from its state."""
    device = find_device(hypothesis.device, fitting=False)
    module = build(hypothesis, network.n_inputs, len(network.start), device)
    load(module, network.state)
    return module


def arrays(module: nn.Module) -> dict[str, np.ndarray]:
    """The state of a module as arrays; NumPy has no bfloat16, which single precision holds exactly."""
    state = {name: tensor.detach().cpu() for name, tensor in module.state_dict().items()}
    return {name: (t.float() if t.dtype == torch.bfloat16 else t).numpy().copy() for name, t in state.items()}


def load(module: nn.Module, state: dict[str, np.ndarray]) -> None:
    module.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in state.items()})


def place(module: nn.Module) -> tuple[torch.device, torch.dtype]:
    """The device and dtype of a module's parameters."""
    for parameter in module.parameters():
        if parameter.is_floating_point():
            return parameter.device, parameter.dtype
    return torch.device("cpu"), torch.float32


def rows_on(module: nn.Module, inputs: Any, rows: Any) -> Tensor:
    device, dtype = place(module)
    some = inputs[rows]
    some = some.toarray() if sparse.issparse(some) else np.array(some)  # a copy: layers may work in place
    return torch.from_numpy(some).to(device, dtype)


def forward(module: nn.Module, x: Tensor, precision: str | None) -> Tensor:
    if precision is None:
        return module(x)
    with torch.autocast(x.device.type, getattr(torch, precision)):
        return module(x)


def scores_of(module: nn.Module, inputs: Any, precision: str | None) -> np.ndarray:
    """The module's scores of all rows, in evaluation mode."""
    n, d = inputs.shape
    step, found = max(1, _BLOCK_NUMBERS // max(d, 1)), []
    module.eval()
    with torch.inference_mode():
        for first in range(0, max(n, 1), step):
            u = forward(module, rows_on(module, inputs, slice(first, first + step)), precision)
            found.append(u.double().cpu().numpy())
    return np.concatenate(found)


# -- the loop ----------------------------------------------------------------------------------------------------------


class Training:
    """One fit: a module, its optimizer and the epochs done."""

    def __init__(self, hypothesis: Torch, inputs: Any, risk: Any, options: Any):
        self.hypothesis, self.inputs, self.options = hypothesis, inputs, options
        self.device = find_device(hypothesis.device)
        self.n_inputs, self.n_scores = inputs.shape[1], risk.n_scores
        self.module = build(hypothesis, self.n_inputs, self.n_scores, self.device)
        self.done, self.best = 0, 0
        self.curve: list[float] = []
        last = options.start
        if last is not None and self._fits(last):
            load(self.module, last.state)
            self.start, self.begun, self.done = last.start, last.begun, last.epochs
            self.curve = list(last.curve[: last.epochs])
            if self.done > hypothesis.max_epochs:
                raise ValueError(
                    f"max_epochs={hypothesis.max_epochs} is less than the {self.done} epochs that a warm start begins with: raise it, or use "
                    "warm_start=False."
                )
        else:
            self.start, self.begun = hypothesis.begin(inputs, risk, options)
        if self.begun is not None:  # constants are added to each batch's scores, and other scores are the risk's offset
            risk = risk.shifted(self.begun.scores(inputs))
        self.risk, self.fixed = risk, risk.at_table()
        self.first = self.done
        self.kept, self.kept_table = arrays(self.module), self._table()
        self.penalised = [p for p in self.module.parameters() if p.requires_grad and p.ndim > 1]
        self.optimizer = self._optimizer()
        half = hypothesis.precision == "float16"
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=half) if half else None

    def _fits(self, last: Network) -> bool:
        shapes = {name: tuple(t.shape) for name, t in self.module.state_dict().items()}
        return len(last.start) == self.n_scores and shapes == {name: a.shape for name, a in last.state.items()}

    def _optimizer(self) -> torch.optim.Optimizer:
        kind = self.hypothesis.optimizer
        known = {name.lower(): c for name, c in vars(torch.optim).items() if isinstance(c, type)}
        if isinstance(kind, str):
            if kind.lower() not in known:
                raise ValueError(f"torch.optim has no optimizer {kind!r}: use 'adam', 'adamw', 'sgd', or a class.")
            kind = known[kind.lower()]
        if kind is torch.optim.LBFGS and self.hypothesis.precision == "float16":
            raise ValueError(
                "precision='float16' scales the gradients of single steps, which LBFGS does not take: use another optimizer."
            )
        parameters = [p for p in self.module.parameters() if p.requires_grad]
        if not parameters:
            raise ValueError(f"module={self.hypothesis.module!r} has no parameters that could be trained.")
        given = self.hypothesis.params_of("optimizer")
        with said_of(
            " and ".join(f"optimizer__{name}" for name in given) or "optimizer",
            "be such that the optimizer can be made",
        ):
            return kind(parameters, lr=float(self.hypothesis.lr), **given)

    # -- epochs --------------------------------------------------------------------------------------------------------

    def run(self) -> Solution:
        progress, status = self.options.progress, Status.TRAINED
        try:
            self._resume()
            self._evaluate()
            while True:
                if self._has_stalled():
                    status = Status.STOPPED_EARLY
                    break
                if self.done >= self.hypothesis.max_epochs:
                    break
                if progress is not None:
                    progress.count(self.done, self.hypothesis.max_epochs, "epochs")
                self._epoch()
                self.done += 1
                self._evaluate()
                self._save()
        except KeyboardInterrupt:
            raise Interrupted(self._solution(Status.INTERRUPTED)) from None
        solution = self._solution(status)
        if progress is not None:
            progress.close(status)
        return solution

    @property
    def _watched(self) -> bool:
        return self.options.monitor is not None and self.hypothesis.early_stopping is not None

    def _has_stalled(self) -> bool:
        return self._watched and self.done - self.best >= (self.hypothesis.early_stopping or 0)

    def _scores(self, inputs: Any) -> np.ndarray:
        """The scores beside those of the fit that it goes on from."""
        return self._finite(scores_of(self.module, inputs, self.hypothesis.precision) + self.start)

    @functools.cached_property
    def _held_offset(self) -> Any:
        return 0.0 if self.begun is None else self.begun.scores(self.options.monitor.inputs)

    def _evaluate(self) -> None:
        """Refit the table of transitions or thresholds, if any; then evaluate the held-out task loss."""
        if self.risk.table is not None:
            self.risk.risk_and_gradient(self._scores(self.inputs))
        monitor = self.options.monitor
        if monitor is None or len(self.curve) > self.done:
            return
        self.curve.append(float(monitor.loss(self._held_offset + self._scores(monitor.inputs))))
        if self.done == self.first or self.curve[self.done] < self.curve[self.best]:
            self.best, self.kept, self.kept_table = self.done, arrays(self.module), self._table()

    def _epoch(self) -> None:
        """A pass over the examples in even batches, in a random order that depends on the seed and the epoch alone."""
        seed, n = self.hypothesis.random_state, self.risk.n_examples
        order = np.random.default_rng([seed, self.done]).permutation(n)
        self.module.train()
        with seeded(self.device, seed, self.done + 1):
            for examples in np.array_split(order, -(-n // self.hypothesis.batch_size)):
                self._step(np.sort(examples))  # sorted, so that groups of equal size are adjacent

    def _step(self, examples: np.ndarray) -> None:
        part = self.fixed.take(examples)
        x = rows_on(self.module, self.inputs, self.risk.rows_of(examples))
        # weights sum to one over all examples: rescaled, the batch's gradient is unbiased
        scale = self.risk.n_examples / len(examples)

        def closure() -> Tensor:
            self.optimizer.zero_grad()
            u = forward(self.module, x, self.hypothesis.precision)
            v = self._finite(self._checked(u).detach().double().cpu().numpy() + self.start)
            value, dv = part.risk_and_gradient(v)
            total = scale * float(value.sum())
            if not np.isfinite(total):
                self._explain()
            slope = torch.from_numpy(np.ascontiguousarray(scale * dv)).to(u.device, torch.promote_types(u.dtype, torch.float32))  # fmt: skip
            inner = (slope * u).sum()  # has the risk's gradient in the parameters
            penalty = self.options.alpha / 2 * sum((p.square().sum() for p in self.penalised), torch.zeros_like(inner))
            loss = inner + penalty
            (loss if self.scaler is None else self.scaler.scale(loss)).backward()
            return torch.as_tensor(total + float(penalty.detach()))

        if self.scaler is None:
            self.optimizer.step(closure)  # type: ignore[arg-type]
        else:
            closure()
            self.scaler.step(self.optimizer)
            self.scaler.update()

    def _checked(self, u: Any) -> Tensor:
        if not isinstance(u, Tensor) or u.ndim != 2 or u.shape[1] != self.n_scores:
            shape = tuple(u.shape) if isinstance(u, Tensor) else type(u).__name__
            raise ValueError(f"The module must return {self.n_scores} scores for each row here, got shape {shape}.")
        return u

    def _table(self) -> np.ndarray | None:
        """A copy of the table of transitions or thresholds as it is now, if there is one."""
        return None if self.risk.table is None else self.risk.table.copy()

    def _finite(self, v: np.ndarray) -> np.ndarray:
        if not np.isfinite(v).all():
            self._explain()
        return v

    def _explain(self) -> None:
        if not all(bool(torch.isfinite(p).all()) for p in self.module.parameters()):
            raise ValueError(f"The network diverged in epoch {self.done + 1}: lower lr, or scale the features.")
        raise ValueError(
            f"The risk is not finite in epoch {self.done + 1}: lower lr, or scale the features in X; a surrogate for ordered scores needs shared=True, "
            "or a module that ends in taskloss.torch.OrderedThresholds."
        )

    def _solution(self, status: Status) -> Solution:
        epochs = self.done
        if self._watched:
            load(self.module, self.kept)
            epochs = self.best
        value = self.risk.value_and_gradient(self._scores(self.inputs))[0].sum()
        if (
            self._watched and self.kept_table is not None
        ):  # which was refitted: within tol of the one that was judged, and that one counts
            self.risk.table[:] = self.kept_table
        penalty = self.options.alpha / 2 * sum(float(p.detach().double().square().sum()) for p in self.penalised)
        network = Network(self.start, self.begun, self.n_inputs, arrays(self.module), epochs, self.curve)
        return Solution(network, float(value) + penalty, status, epochs, self.done + 1, np.nan)

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def _fingerprint(self) -> list[float]:
        """Numbers that identify the fit: of the data, the risk and the optimizer."""
        hypothesis, flat = self.hypothesis, np.tile(self.start, (self.risk.n_rows, 1))
        value = float(self.fixed.risk_and_gradient(flat)[0].sum())
        numbers = (
            float(self.inputs.sum()),
            value,
            float(hypothesis.lr),
            hypothesis.batch_size,
            hypothesis.random_state,
        )
        return [_FORMAT, *self.inputs.shape, self.options.alpha, *numbers]

    def _save(self) -> None:
        if self.hypothesis.checkpoint is None:
            return
        path = pathlib.Path(self.hypothesis.checkpoint)
        state = {
            "fingerprint": self._fingerprint_at_start,
            "module": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": None if self.scaler is None else self.scaler.state_dict(),
            "kept": {name: torch.from_numpy(value) for name, value in self.kept.items()},
            "table": _tensor(self._table()),
            "kept_table": _tensor(self.kept_table),
            "start": torch.from_numpy(np.array(self.start, dtype=float)),
            "curve": self.curve,
            "counts": [self.done, self.best, self.first],
        }
        temporary = path.with_name(path.name + ".part")
        torch.save(state, temporary)
        os.replace(temporary, path)  # atomic: an interruption leaves the previous file intact

    def _resume(self) -> None:
        path = self.hypothesis.checkpoint
        if path is None:
            return
        self._fingerprint_at_start = self._fingerprint()
        if not os.path.exists(path):
            return
        try:
            state = torch.load(path, map_location=self.device, weights_only=True)
            same = state["fingerprint"] == self._fingerprint_at_start
            if same:
                self.module.load_state_dict(state["module"])
                self.optimizer.load_state_dict(state["optimizer"])
        except (KeyError, RuntimeError, ValueError, EOFError, OSError, TypeError, pickle.UnpicklingError) as error:
            raise ValueError(f"checkpoint={str(path)!r} is no file of this network: delete it, or give another path.") from error  # fmt: skip
        if not same:
            raise ValueError(
                f"checkpoint={str(path)!r} is of a fit to other data or with other settings: delete it, or give another path."
            )
        if self.scaler is not None:
            self.scaler.load_state_dict(state["scaler"])
        self.kept = {name: value.cpu().numpy() for name, value in state["kept"].items()}
        self.start, self.curve = state["start"].cpu().numpy(), list(state["curve"])
        self.done, self.best, self.first = state["counts"]
        if self.risk.table is not None:
            self.risk.table[:] = state["table"].cpu().numpy()
            self.kept_table = state["kept_table"].cpu().numpy()


def _tensor(x: np.ndarray | None) -> torch.Tensor | None:
    return None if x is None else torch.from_numpy(x)
