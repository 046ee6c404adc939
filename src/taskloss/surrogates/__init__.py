"""S(v, y) as a potential h and a link t. Knows one polytope or domain; never sees y itself, an output z, or X."""

from ..registry import publish
from .base import Surrogate, automatic

__all__ = [*publish(__name__, Surrogate), "automatic"]
