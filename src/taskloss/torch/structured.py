"""Rankings, matchings, sequences and trees: how their scores and targets lie in tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from .._numpy import to_numpy
from ..losses.base import Loss
from ..losses.sequence import SequenceLoss
from ..surrogates.base import Surrogate
from .checks import check_floating, check_same_device
from .labellings import Labellings
from .tasks import Task, Values, back, real

Tensor = torch.Tensor


class Rankings(Task):
    """A score for each item: (B, M), with a mask where groups are smaller; or (N,), with the group of each item."""

    def __init__(self, loss: Loss, surrogate: Any, ignore_index: int | None, validate: bool):
        auto = isinstance(surrogate, str) and surrogate == "auto"
        super().__init__(loss, Surrogate.resolve("listwise" if auto else surrogate), ignore_index, validate)
        self._bound: dict[int, tuple[Loss, Surrogate]] = {}

    def _of_size(self, size: int) -> tuple[Loss, Surrogate]:
        if size not in self._bound:
            loss = self.loss.bind(size)
            self._bound[size] = loss, self.surrogate.bind(loss.polytope)
        return self._bound[size]

    def _groups(self, scores: Tensor, layout: dict[str, Any]) -> tuple[int, list[tuple[np.ndarray, np.ndarray]]]:
        """The number of groups; and for each size the numbers of its groups and the places (groups, size) of their items."""
        self._layout(layout, "mask", "groups")
        mask, groups = layout.get("mask"), layout.get("groups")
        if scores.ndim == 2:
            if groups is not None:
                raise ValueError("Scores of shape (groups, items) need no groups: mask the items that are padding.")
            inside = np.ones(scores.shape, dtype=bool) if mask is None else to_numpy(mask).astype(bool)
            if inside.shape != scores.shape:
                raise ValueError(f"The mask must have the scores' shape {tuple(scores.shape)}, got {inside.shape}.")
            places, ids = np.flatnonzero(inside), np.nonzero(inside)[0]
            sizes = inside.sum(1)
            if (sizes == 0).any():
                raise ValueError(f"Group {int(np.argmin(sizes))} has no items: drop it, there is nothing to rank.")
        elif scores.ndim == 1 and groups is not None:
            names, ids = np.unique(to_numpy(groups), return_inverse=True)
            if len(ids) != len(scores):
                raise ValueError(f"groups must name the group of each of the {len(scores)} items, got {len(ids)}.")
            places, sizes = np.arange(len(scores)), np.bincount(ids, minlength=len(names))
        else:
            raise ValueError(
                f"Scores of rankings must have shape (groups, items), or (items,) with groups=...; got {tuple(scores.shape)}."
            )
        order = places[np.argsort(ids, kind="stable")]
        starts = np.cumsum(sizes) - sizes
        found = []
        for size in np.unique(sizes):
            which = np.flatnonzero(sizes == size)
            found.append((which, order[starts[which][:, None] + np.arange(size)]))
        return len(sizes), found

    def _each(self, scores: Tensor, layout: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
        """(groups, places, scores, loss, surrogate) for each size."""
        flat = real(scores).reshape(-1)
        for which, places in self._groups(scores, layout)[1]:
            at = torch.from_numpy(places).to(scores.device)
            yield which, at, flat[at], *self._of_size(places.shape[1])

    def values(self, scores: Tensor, targets: Tensor, **layout: Any) -> Values:
        check_floating(scores, "scores")
        if targets.shape != scores.shape:
            raise ValueError(
                f"Targets must have the scores' shape {tuple(scores.shape)}, a relevance for each item, got {tuple(targets.shape)}."
            )
        check_same_device(scores, targets, "targets")
        relevance, parts, order = to_numpy(targets).reshape(-1).astype(float), [], []
        for which, at, v, loss, surrogate in self._each(scores, layout):
            phi = torch.as_tensor(loss.phi(relevance[at.cpu().numpy()]), device=v.device).to(v)
            parts.append(surrogate.value(v, phi))
            order.append(which)
        return Values(torch.cat(parts)[torch.from_numpy(np.argsort(np.concatenate(order))).to(scores.device)])

    def moments(self, scores: Tensor, **layout: Any) -> Tensor:
        out = torch.zeros_like(real(scores).reshape(-1))
        for _, at, v, _, surrogate in self._each(scores, layout):
            out = out.index_put((at,), surrogate.inverse_link(v))
        return out.reshape(scores.shape)

    def _other(self, loss: Any) -> Loss:
        return super()._other(loss).with_params(n_items=None)

    def decide(self, scores: Tensor, loss: Any, costs: Any, **layout: Any) -> tuple[Tensor, Tensor]:
        other = self._other(loss)
        ranks = np.full(scores.numel(), -1)
        risk = np.empty(self._groups(scores, layout)[0])
        for which, at, v, fitted, surrogate in self._each(scores, layout):
            bound = other.bind(v.shape[1])
            mu = fitted.moments_for(bound, to_numpy(surrogate.inverse_link(v)).astype(float))
            z = bound.decode(mu, costs)
            ranks[at.cpu().numpy()], risk[which] = z, bound.bayes_risk(z, mu)
        return back(ranks.reshape(scores.shape), scores), back(risk, scores)

    def judge(self, outputs: Tensor, targets: Tensor, loss: Any, **layout: Any) -> tuple[Tensor, Tensor | None]:
        other = self._other(loss)
        count, found = self._groups(outputs, layout)
        z, y, out = to_numpy(outputs).reshape(-1), to_numpy(targets).reshape(-1), np.empty(count)
        for which, places in found:
            out[which] = other.bind(places.shape[1])(z[places], y[places])
        return back(out, outputs), None


class Matchings(Task):
    """A table of scores (B, rows, columns) for each example; with outliers a last column for "matches nothing"."""

    def __init__(self, loss: Loss, surrogate: Any, ignore_index: int | None, validate: bool):
        auto = isinstance(surrogate, str) and surrogate == "auto"
        super().__init__(loss, Surrogate.resolve("row-multinomial" if auto else surrogate), ignore_index, validate)

    def _bind(self, scores: Tensor, loss: Any = None) -> Any:
        if scores.ndim != 3:
            raise ValueError(
                f"Scores of matchings must have shape (examples, rows, columns), got {tuple(scores.shape)}."
            )
        other: Any = self._other(loss).with_params(outliers=self.loss.outliers)
        return other.bind(scores.shape[1], scores.shape[2] - int(other.outliers))

    def values(self, scores: Tensor, targets: Tensor, **layout: Any) -> Values:
        self._layout(layout, "mask")
        v, loss = real(scores), self._bind(scores)
        check_same_device(v, targets, "targets")
        if targets.shape != v.shape[:2]:
            raise ValueError(
                f"Targets must have shape {tuple(v.shape[:2])}, the column of each row, got {tuple(targets.shape)}."
            )
        phi = torch.as_tensor(loss.phi(to_numpy(targets)), device=v.device).to(v)
        keep = layout.get("mask")
        return Values(
            self.surrogate.bind(loss.polytope).value(v.flatten(1), phi), None if keep is None else keep.bool()
        )

    def moments(self, scores: Tensor, **layout: Any) -> Tensor:
        self._layout(layout, "mask")
        v = real(scores)
        return self.surrogate.bind(self._bind(scores).polytope).inverse_link(v.flatten(1)).reshape(v.shape)

    def decide(self, scores: Tensor, loss: Any, costs: Any, **layout: Any) -> tuple[Tensor, Tensor]:
        other = self._bind(scores, loss)
        mu = to_numpy(self.moments(scores, **layout)).astype(float).reshape(len(scores), -1)
        z = other.decode(mu, costs)
        return back(z, scores), back(other.bayes_risk(z, mu), scores)

    def judge(self, outputs: Tensor, targets: Tensor, loss: Any, **layout: Any) -> tuple[Tensor, Tensor | None]:
        other: Any = self._other(loss)
        if other.n_rows is None:  # the loss itself asks for no number of columns: any that holds both will do
            columns = max(int(outputs.max()), int(targets.max()), outputs.shape[1] - 1) + 1
            other = other.bind(outputs.shape[1], columns)
        mask = layout.get("mask")
        return back(other(to_numpy(outputs), to_numpy(targets)), outputs), None if mask is None else mask.bool()


class Sequences(Task):
    """Chains and trees: scores are nodes (B, T, K), or a pair of those and pairs', (K, K) or (B, T - 1, K, K)."""

    loss: SequenceLoss

    def __init__(self, loss: Loss, surrogate: Any, ignore_index: int | None, validate: bool):
        super().__init__(loss, surrogate, ignore_index, validate)
        auto = isinstance(surrogate, str) and surrogate == "auto"
        if not auto and Surrogate.resolve(surrogate).name not in ("chain-crf", "max-entropy"):
            raise ValueError(
                f"{surrogate!r} is no surrogate on sequences here: pass 'auto', the conditional random field."
            )

    def law(self, scores: Any, layout: dict[str, Any]) -> Labellings:
        self._layout(layout, "mask", "lengths")
        nodes, pairs = scores if isinstance(scores, tuple | list) else (scores, None)
        check_floating(nodes, "scores")
        states = self.loss.n_labels
        if nodes.ndim != 3 or nodes.shape[2] != states:
            raise ValueError(
                f"Scores must have shape (sequences, positions, states) with {states} states, got {tuple(nodes.shape)}."
            )
        if pairs is None:
            pairs = nodes.new_zeros(states, states)
        if self.loss.allowed is not None:
            allowed = torch.as_tensor(np.asarray(self.loss.allowed).astype(bool), device=pairs.device)
            pairs = pairs.masked_fill(~allowed, -torch.inf)
        return Labellings(
            nodes, pairs, None, None, layout.get("mask"), layout.get("lengths"), self.loss.parents, self.validate
        )

    def values(self, scores: Any, targets: Tensor, **layout: Any) -> Values:
        return Values(-self.law(scores, layout).log_likelihood(targets, self.ignore_index))

    def moments(self, scores: Any, **layout: Any) -> tuple[Tensor, Tensor]:
        mu, pairs = self.law(scores, layout).marginals(pairs=True)
        assert pairs is not None
        return mu, pairs

    def _other(self, loss: Any) -> Any:
        other = super()._other(loss)
        return other if other is self.loss else other.bind(self.loss.n_labels)

    def decide(self, scores: Any, loss: Any, costs: Any, **layout: Any) -> tuple[Tensor, Tensor]:
        if costs is not None:
            raise ValueError("Losses on sequences take no costs per example: put them in the tables of ChainCost.")
        return self.law(scores, layout).decode(self._other(loss))

    def judge(self, outputs: Tensor, targets: Tensor, loss: Any, **layout: Any) -> tuple[Tensor, Tensor | None]:
        shape = torch.zeros((*outputs.shape, self.loss.n_labels), device=outputs.device)
        return self.law(shape, layout).losses(self._other(loss), outputs, targets), None
