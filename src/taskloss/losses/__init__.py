"""L(z, y) = <psi(z), phi(y)> + c, what you are judged by. Knows its outputs and labels; never sees X or a surrogate."""

from ..registry import publish
from .base import Loss

__all__ = publish(__name__, Loss)
