"""The sets M = hull phi(Y) and D: geometry and inference. Knows no loss and no data."""

from ..registry import publish
from .base import Polytope

__all__ = publish(__name__, Polytope)
