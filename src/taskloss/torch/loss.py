"""Any of the library's losses as a module."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .._checks import check_whole
from ..losses.base import Loss
from ..losses.tabular import CostMatrix
from .checks import found_bad, refuse, refuse_weights
from .structured import Matchings, Rankings, Sequences
from .tasks import Rows, Task

Tensor = torch.Tensor

_KINDS: dict[str, type[Task]] = {
    "classes": Rows,
    "indicator": Rows,
    "ranking": Rankings,
    "matching": Matchings,
    "sequence": Sequences,
}


class TaskLoss(nn.Module):
    """A surrogate of the loss you are judged by, to train a network with; and the predictions that minimise that loss.

    Called on scores and targets it is S(v, y), as smooth and convex in the scores as cross-entropy, reduced to a
    number. `predict` returns the outputs of least expected loss, which for other losses than 0-1 are not the argmax.

    Parameters
    ----------
    loss : Loss, str or array
        The task loss, its name, or a matrix of costs [output, label].
    surrogate : "auto", Surrogate or str
        "auto" is multinomial logistic on labels, independent logistic on label sets, listwise on rankings, row softmax
        on matchings and the conditional random field on sequences and trees.
    n_labels : int, optional
        The number of labels, where the loss does not have it: classes, label sets' columns, or states of sequences.
    reduction : {"mean", "sum", "none"}
        "mean" divides by the sum of the weights of the examples that count.
    ignore_index : int or None
        Targets of this value do not count. In a label set, that label; in a sequence, that position's tag is unknown,
        and the likelihood sums over it. With None all targets count, and sequences on a GPU need not wait for them.
    validate : bool
        Check values too, for one clear sentence in the place of a silent NaN. On a GPU it comes at the end of the backward
        pass where there is one, so that nothing waits for it.

    Attributes
    ----------
    size : int or None
        How many scores the network must give each example; None where examples differ.

    Notes
    -----
    Layouts, batch first and scores last, with their keywords::

        labels       scores                                            targets                   keywords
        classes      (..., size)                                       codes (...)               mask (...)
        label sets   (..., size)                                       0 and 1, (..., labels)    mask (...)
        rankings     (groups, items), or (items,)                      relevance, the same       mask, or groups
        matchings    (examples, rows, columns)                         the column of each row    mask (examples)
        sequences    nodes (B, T, K), or (nodes, pairs)                (B, T)                    mask or lengths
                     with pairs (K, K) or (B, T - 1, K, K)
        trees        the same, pairs in the order of their lower ends  (B, T)

    S(v, y) = D_h(phi(y), t^-1(v)), the Bregman divergence of the surrogate's potential: see the page on the theory.
    `predict`, `expected_loss` and `score` decide on the CPU and have no gradient.

    Examples
    --------
    >>> import torch
    >>> from taskloss.torch import TaskLoss
    >>> costs = [[0, 20], [1, 0]]  # answering 0 where 1 is true costs 20
    >>> loss = TaskLoss(costs)
    >>> scores = torch.tensor([[2.0, 0.0], [4.0, 0.0]], requires_grad=True)
    >>> loss(scores, torch.tensor([0, 1])).backward()
    >>> loss.predict(scores)
    tensor([1, 0])
    >>> loss.expected_loss(scores).round(decimals=3)
    tensor([0.8810, 0.3600], dtype=torch.float64)
    """

    def __init__(
        self,
        loss: Any,
        surrogate: Any = "auto",
        *,
        n_labels: int | None = None,
        reduction: str = "mean",
        ignore_index: int | None = -100,
        validate: bool = True,
    ) -> None:
        super().__init__()
        if not isinstance(reduction, str) or reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}.")
        loss = Loss.resolve(loss) if isinstance(loss, str | Loss | type) else CostMatrix(loss)
        if n_labels is not None:
            check_whole("n_labels", n_labels)
            loss = loss.bind(n_labels)
        self.reduction, self.validate = reduction, validate
        self.task = _KINDS[loss.kind](loss, surrogate, ignore_index, validate)

    def extra_repr(self) -> str:
        return f"{self.task.loss!r}, surrogate={self.task.surrogate!r}, reduction={self.reduction!r}"

    @property
    def loss(self) -> Loss:
        """The task loss."""
        return self.task.loss

    @property
    def surrogate(self) -> Any:
        """The surrogate, with its size where that is fixed."""
        return self.task.surrogate

    @property
    def size(self) -> int | None:
        return self.task.size

    def forward(
        self,
        scores: Any,
        targets: Tensor,
        weights: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        lengths: Any = None,
        groups: Any = None,
    ) -> Tensor:
        """S of the scores and targets, reduced; `weights` has one number for each example."""
        values, keep, unknown = self.task.values(scores, targets, mask=mask, lengths=lengths, groups=groups)
        if keep is not None:
            values = torch.where(keep, values, 0.0)
        share = torch.ones_like(values) if weights is None else self._shares(weights, values)
        if weights is not None:
            values = values * share
        share = share if keep is None else torch.where(keep, share, 0.0)
        count = share.sum() if self.reduction == "mean" else None
        if self.validate and not torch.compiler.is_compiling():
            wrong = ~torch.isfinite(values) if unknown is None else unknown | ~torch.isfinite(values)
            bad = wrong.any() if count is None else wrong.any() | (count == 0)
            refuse(bad, lambda: self._explain(scores, targets, weights, wrong, unknown), values)
        if self.reduction == "none":
            return values
        return values.sum() if count is None else values.sum() / count

    # The keywords `layout` of what follows are mask, lengths and groups, as above.

    def moments(self, scores: Any, **layout: Any) -> Any:
        """mu = t^-1(scores), the estimated mean of phi(y), with gradients; for sequences, of nodes and of pairs."""
        return self.task.moments(scores, **layout)

    def predict(self, scores: Any, loss: Any = None, costs: Any = None, **layout: Any) -> Tensor:
        """The outputs of least expected loss, as codes.

        Parameters
        ----------
        scores : Tensor
            What the network gave.
        loss : another loss on the same labels; the network stays as it is, only the decision changes.
        costs : costs that differ per example, (n, outputs, labels) in the place of the cost matrix, or (n, outputs), a
            price added to each output.
        """
        return self.task.decide(scores, loss, costs, **layout)[0]

    def expected_loss(self, scores: Any, loss: Any = None, costs: Any = None, **layout: Any) -> Tensor:
        """The expected loss of each prediction, as the scores estimate it."""
        return self.task.decide(scores, loss, costs, **layout)[1]

    def score(
        self, scores: Any, targets: Tensor, weights: Tensor | None = None, loss: Any = None, **layout: Any
    ) -> float:
        """Minus the mean task loss of the predictions; higher is better."""
        losses, keep = self.task.judge(self.predict(scores, loss, **layout), targets, loss, **layout)
        share = torch.ones_like(losses) if weights is None else self._shares(weights, losses)
        share = share if keep is None else torch.where(keep, share, 0.0)
        if not share.any():
            refuse_weights(weights)
        return -float((losses * share).sum() / share.sum())

    def _shares(self, weights: Tensor, values: Tensor) -> Tensor:
        if weights.shape != values.shape:
            raise ValueError(
                f"weights must have one number for each example, {tuple(values.shape)}, got {tuple(weights.shape)}."
            )
        return weights.to(values)

    def _explain(
        self, scores: Any, targets: Tensor, weights: Tensor | None, bad: Tensor, unknown: Tensor | None
    ) -> None:
        """One clear sentence on why S is not finite."""
        if unknown is not None and found_bad(unknown):
            at = tuple(torch.nonzero(unknown)[0].tolist())
            raise ValueError(
                f"Targets must be labels of {self.loss!r} (or ignore_index), got {targets[at].tolist()} at {list(at)}."
            )
        parts = scores if isinstance(scores, tuple | list) else (scores,)
        if any(found_bad(~torch.isfinite(part)) for part in parts):
            raise ValueError(
                "Scores hold NaN or infinite values: look for a diverged network, or lower the learning rate."
            )
        if not found_bad(bad) or (weights is not None and found_bad(~torch.isfinite(weights))):
            refuse_weights(weights)
        place = torch.nonzero(bad)[0].tolist()
        raise ValueError(
            f"The surrogate {self.surrogate!r} is infinite at example {place}: its scores are out of order or beyond its domain; "
            "for cumulative links use OrderedThresholds(..., rising=True)."
        )
