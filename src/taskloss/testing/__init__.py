"""Checks of user-defined parts against the laws that every loss, polytope, surrogate and hypothesis obeys.

The library's tests run the same functions over all its parts.

>>> import taskloss as tl
>>> from taskloss.testing import check_loss
>>> sorted(set(check_loss(tl.losses.Absolute(4)).values()))
['holds']
"""

from .hypotheses import check_hypothesis
from .losses import check_loss
from .polytopes import check_polytope
from .running import BrokenLawError, NotApplicableError
from .surrogates import check_surrogate

__all__ = [
    "BrokenLawError",
    "NotApplicableError",
    "check_hypothesis",
    "check_loss",
    "check_polytope",
    "check_surrogate",
]
