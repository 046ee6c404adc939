"""g_theta(x), the scores. Knows X and theta; never sees the loss or the surrogate."""

from typing import TYPE_CHECKING

from ..registry import publish
from .base import Hypothesis as Hypothesis

if TYPE_CHECKING:  # for editors: the registry imports every file of this folder, named here or not
    from .boosting import Boosting as Boosting
    from .kernel import Kernel as Kernel
    from .linear import Linear as Linear
    from .network import Torch as Torch
    from .nystrom import Nystrom as Nystrom
    from .structured import Structured as Structured
    from .thresholds import Thresholds as Thresholds

__all__ = publish(__name__, Hypothesis)
