"""g_theta(x), the scores. Knows X and theta; never sees the loss or the surrogate."""

from ..registry import publish
from .base import Hypothesis

__all__ = publish(__name__, Hypothesis)
