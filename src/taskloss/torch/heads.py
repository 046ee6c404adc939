"""Last layers of networks."""

from __future__ import annotations

import torch
from torch import nn

from .._checks import check_flag, check_whole
from .checks import check_floating

Tensor = torch.Tensor


class OrderedThresholds(nn.Module):
    """One score w'x and n_classes - 1 thresholds in increasing order: the scores of ordinal regression.

    v_j = w'x - theta_j for j = 1, ..., n_classes - 1, as all-thresholds wants them, each the score of "y >= j"; with
    `rising`, v_j = theta_j - w'x, as cumulative links want them, each the score of "y < j". theta_1 is free and the gaps
    are softplus of free numbers, so that no step of an optimiser can put thresholds out of order.

    Parameters
    ----------
    in_features : int
        Width of the input; 1 with `weight=False`, for a score that the network computes itself.
    n_classes : int
        Number of ordered labels.
    rising : bool
        Scores in increasing order, for `CumulativeLink`.
    weight : bool
        Whether there is a w; without, the input (..., 1) is the score.

    Attributes
    ----------
    thresholds : Tensor
        theta, in increasing order.

    Examples
    --------
    >>> import torch
    >>> from taskloss.torch import OrderedThresholds, TaskLoss
    >>> import taskloss as tl
    >>> head = OrderedThresholds(8, 5, rising=True)
    >>> loss = TaskLoss(tl.losses.Absolute(5), surrogate="cumulative-link")
    >>> loss(head(torch.randn(3, 8)), torch.tensor([0, 4, 2])).backward()
    """

    def __init__(self, in_features: int, n_classes: int, rising: bool = False, weight: bool = True) -> None:
        super().__init__()
        check_whole("in_features", in_features)
        check_whole("n_classes", n_classes, 2)
        check_flag("rising", rising)
        if not weight and in_features != 1:
            raise ValueError(
                f"Without a weight the input is the score itself: in_features must be 1, got {in_features}."
            )
        self.n_classes, self.rising = n_classes, rising
        self.score = nn.Linear(in_features, 1, bias=False) if weight else nn.Identity()
        self.first = nn.Parameter(torch.empty(1))
        self.gaps = nn.Parameter(torch.empty(n_classes - 2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Thresholds one apart, around zero."""
        nn.init.constant_(self.first, -(self.n_classes - 2) / 2)
        nn.init.constant_(self.gaps, 0.5413248546129181)  # softplus of it is one

    def extra_repr(self) -> str:
        return f"n_classes={self.n_classes}, rising={self.rising}"

    @property
    def thresholds(self) -> Tensor:
        # The smallest gap is a little above zero: softplus of very negative numbers is zero in float32.
        steps = nn.functional.softplus(self.gaps) + 1e-6
        return torch.cat([self.first, steps]).cumsum(0)

    def forward(self, x: Tensor) -> Tensor:
        check_floating(x, "x")
        if isinstance(self.score, nn.Linear) and x.shape[-1:] != (self.score.in_features,):
            raise ValueError(
                f"x must have the in_features={self.score.in_features} features along its last axis, got {tuple(x.shape)}."
            )
        if not torch.is_autocast_enabled(x.device.type) and x.dtype != self.first.dtype:
            raise ValueError(
                f"x is of type {x.dtype}, but the layer of {self.first.dtype}: convert one of them with .to(...)."
            )
        score = self.score(x)
        if score.shape[-1:] != (1,):
            raise ValueError(f"Without a weight the input must be one score along the last axis, got {tuple(x.shape)}.")
        return self.thresholds - score if self.rising else score - self.thresholds
