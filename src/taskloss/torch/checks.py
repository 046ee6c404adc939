"""Bad input in one clear sentence."""

from __future__ import annotations

from collections.abc import Callable

import torch

Tensor = torch.Tensor


def found_bad(where: Tensor) -> bool:
    """Whether anything is true; on a GPU this waits for what was computed before."""
    return bool(where.any())


def refuse(bad: Tensor, explain: Callable[[], None], value: Tensor) -> None:
    """Explain at once if anything is bad; on a GPU, where `value` is going to be differentiated, at the end of its backward pass.

    By then the answer has long been there. Waiting for it before that would leave the GPU without work, since the backward pass
    is not yet queued: 1 ms of a step of 30.
    """
    if not (waits(bad) and torch.is_grad_enabled() and value.requires_grad):
        if found_bad(bad):
            explain()
        return
    found = torch.empty((), dtype=torch.bool, pin_memory=bad.is_cuda).copy_(bad.any(), non_blocking=True)
    arrived = torch.cuda.Event() if bad.is_cuda else None  # type: ignore[no-untyped-call]
    if arrived is not None:
        arrived.record()

    def look() -> None:
        if arrived is not None:
            arrived.synchronize()
        if found:
            explain()

    value.register_hook(lambda _: torch.autograd.Variable._execution_engine.queue_callback(look))  # type: ignore[no-untyped-call]


def refuse_weights(weights: Tensor | None) -> None:
    """Why there is no mean with these weights, or with none at all."""
    if weights is not None and found_bad(~torch.isfinite(weights)):
        raise ValueError("weights hold NaN or infinite values: give each example a finite number, 0 to leave it out.")
    raise ValueError(
        "Nothing counts, so that there is no mean: the batch is empty, or all of it is ignored, masked or of weight zero. "
        "Leave the batch out, or use reduction='sum'."
    )


def waits(x: Tensor) -> bool:
    """Whether reading a number of this tensor waits for a queue of work."""
    return x.is_cuda


def check_tensor(x: Tensor, what: str) -> None:
    if not isinstance(x, Tensor):
        raise ValueError(f"{what} must be a tensor, got {type(x).__name__}.")


def check_floating(x: Tensor, what: str) -> None:
    if not isinstance(x, Tensor) or not x.is_floating_point():
        kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(
            f"{what[:1].upper() if len(what) > 1 else what[:1]}{what[1:]} must be a tensor of real numbers, got {kind}."
        )


def check_same_device(x: Tensor, other: Tensor, what: str) -> None:
    if other.device != x.device:
        raise ValueError(
            f"Scores are on {x.device}, but {what} on {other.device}: move them with .to({str(x.device)!r})."
        )
