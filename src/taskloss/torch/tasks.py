"""What a kind of label asks of `TaskLoss`: how scores and targets lie in tensors; labels and label sets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from .._checks import said_of
from .._numpy import to_numpy
from ..losses.base import Loss
from ..surrogates.base import first_fit
from .checks import check_floating, check_same_device

Tensor = torch.Tensor


class Values(NamedTuple):
    """S of each example; which examples count, None where all do; and which targets are no labels."""

    values: Tensor
    keep: Tensor | None = None
    unknown: Tensor | None = None


def real(scores: Tensor) -> Tensor:
    """Scores in float32 or better, whatever a network under autocast makes."""
    check_floating(scores, "scores")
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def back(x: np.ndarray, like: Tensor) -> Tensor:
    return torch.as_tensor(np.asarray(x), device=like.device)


def both(keep: Tensor, mask: Any, scores: Tensor) -> Tensor:
    if mask is None:
        return keep
    if mask.shape != keep.shape:
        raise ValueError(
            f"The mask must have shape {tuple(keep.shape)}, one entry for each example, got {tuple(mask.shape)}."
        )
    check_same_device(scores, mask, "the mask")
    return keep & mask.bool()


class Task:
    """A loss and a surrogate on one kind of labels. Layout (mask, lengths, groups) comes as keywords."""

    def __init__(self, loss: Loss, surrogate: Any, ignore_index: int | None, validate: bool):
        self.loss: Any = loss
        self.surrogate, self.ignore_index, self.validate = surrogate, ignore_index, validate

    @property
    def size(self) -> int | None:
        """How many scores an example has, where that is fixed."""
        return None

    def values(self, scores: Any, targets: Any, **layout: Any) -> Values:
        raise NotImplementedError

    def moments(self, scores: Any, **layout: Any) -> Any:
        raise NotImplementedError

    def decide(self, scores: Any, loss: Any, costs: Any, **layout: Any) -> tuple[Tensor, Tensor]:
        """Outputs of least expected loss, and that loss."""
        raise NotImplementedError

    def judge(self, outputs: Any, targets: Any, loss: Any, **layout: Any) -> tuple[Tensor, Tensor | None]:
        """The loss of outputs against targets, and which examples count."""
        raise NotImplementedError

    def _other(self, loss: Any) -> Loss:
        """Another loss on the same labels."""
        if loss is None:
            return self.loss
        loss = Loss.resolve(loss)
        if loss.kind != self.loss.kind:
            raise ValueError(
                f"{loss!r} needs labels of another kind ({loss.kind}) than this TaskLoss is for ({self.loss.kind})."
            )
        return loss

    def _ignored(self, targets: Tensor) -> Tensor:
        """Which targets do not count."""
        if self.ignore_index is None:
            return torch.zeros_like(targets, dtype=torch.bool)
        return targets == self.ignore_index

    def _layout(self, layout: dict[str, Any], *known: str) -> None:
        for name, value in layout.items():
            if value is not None and name not in known:
                raise ValueError(f"{self.loss!r} takes no {name}: its labels are of kind {self.loss.kind!r}.")


class Rows(Task):
    """One row of scores for each example, along the last axis: labels, ordered labels, label sets."""

    def __init__(self, loss: Loss, surrogate: Any, ignore_index: int | None, validate: bool):
        super().__init__(loss, surrogate, ignore_index, validate)
        self.loss, self.surrogate = first_fit(loss.variants(), surrogate)
        self.table = None if self.loss.table is None else torch.from_numpy(self.loss.table)
        self._moved: dict[tuple[Any, ...], Tensor] = {}  # the table of each device and type that asked for it

    @property
    def size(self) -> int:
        return self.surrogate.size or self.loss.polytope.size

    def _scores(self, scores: Tensor) -> Tensor:
        scores = real(scores)
        if not scores.ndim or scores.shape[-1] != self.size:
            raise ValueError(
                f"Scores must have {self.size} numbers along the last axis for {self.surrogate!r} and n_labels={self.loss.n_labels}, got shape {tuple(scores.shape)}."
            )
        return scores

    def values(self, scores: Tensor, targets: Tensor, **layout: Any) -> Values:
        self._layout(layout, "mask")
        v = self._scores(scores)
        batch = v.shape[:-1]
        wanted = batch if self.table is not None else (*batch, self.loss.n_labels)
        if not isinstance(targets, Tensor):
            with said_of("targets", "be labels in a tensor or a list"):
                targets = torch.as_tensor(np.asarray(targets), device=v.device)
        check_same_device(v, targets, "targets")
        if targets.shape != wanted:
            raise ValueError(
                f"Targets must have shape {tuple(wanted)} for scores of shape {tuple(v.shape)}, got {tuple(targets.shape)}."
            )
        ignored = self._ignored(targets)
        if self.table is not None:
            codes = targets.long()
            unknown = ~ignored & ((codes < 0) | (codes >= len(self.table)) | (codes != targets))
            place = (v.device, v.dtype)
            if place not in self._moved:
                self._moved[place] = self.table.to(v)
            phi = self._moved[place][torch.where(ignored | unknown, 0, codes)]
            keep = ~ignored
        else:
            unknown = (~ignored & (targets != 0) & (targets != 1)).any(-1)
            hot = torch.where(ignored | unknown[..., None], 0, targets)
            if self.loss.signs and self.surrogate.separable:
                # Labels that nobody looked at leave the sum over labels.
                phi = 2 * hot.to(v) - 1
                terms = self.surrogate.risk_and_gradient(v, phi)[0]
                gone = self.surrogate.potential(phi[..., None])  # of each label alone
                values = torch.where(ignored, 0.0, terms + gone).sum(-1)
                return Values(values, both(~ignored.all(-1), layout.get("mask"), v), unknown)
            phi = torch.as_tensor(self.loss.phi(to_numpy(hot)), device=v.device).to(v)
            keep = ~ignored.any(-1)
        return Values(self.surrogate.value(v, phi), both(keep, layout.get("mask"), v), unknown)

    def moments(self, scores: Tensor, **layout: Any) -> Tensor:
        self._layout(layout, "mask")
        return self.surrogate.inverse_link(self._scores(scores))

    def _other(self, loss: Any) -> Loss:
        loss = super()._other(loss)
        if loss is self.loss:
            return loss
        loss = loss.bind(self.loss.n_labels)
        return loss.embedded_like(self.loss)

    def decide(self, scores: Tensor, loss: Any, costs: Any, **layout: Any) -> tuple[Tensor, Tensor]:
        mu = to_numpy(self.moments(scores, **layout)).astype(float)
        batch, other = mu.shape[:-1], self._other(loss)
        mu = mu.reshape(-1, mu.shape[-1])
        mu = mu if other is self.loss else self.loss.moments_for(other, mu)
        if costs is not None:
            costs = to_numpy(costs)
            costs = costs.reshape(-1, *costs.shape[len(batch) :])
        z = other.decode(mu, costs)
        risk = other.risk(z, mu, costs)
        return back(z.reshape(*batch, *z.shape[1:]), scores), back(risk.reshape(batch), scores)

    def judge(self, outputs: Tensor, targets: Tensor, loss: Any, **layout: Any) -> tuple[Tensor, Tensor | None]:
        other = self._other(loss)
        ignored = self._ignored(targets)
        keep = ~ignored if self.table is not None else ~ignored.any(-1)
        keep = both(keep, layout.get("mask"), outputs)
        found = other(to_numpy(outputs)[to_numpy(keep)], to_numpy(targets)[to_numpy(keep)])
        return back(found, outputs), None
