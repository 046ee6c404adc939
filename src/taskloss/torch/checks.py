"""Bad input in one clear sentence."""

from __future__ import annotations

import torch

Tensor = torch.Tensor


def found_bad(where: Tensor) -> bool:
    """Whether anything is true; on a GPU this waits for what was computed before."""
    return bool(where.any())


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
