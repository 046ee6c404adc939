"""The sets M = hull phi(Y) and D: geometry and inference. Knows no loss and no data."""

from typing import TYPE_CHECKING

from ..registry import publish
from .base import Polytope as Polytope
from .packed import PackedChains as PackedChains

if TYPE_CHECKING:  # for editors: the registry imports every file of this folder, named here or not
    from .birkhoff import Birkhoff as Birkhoff
    from .chain import Chain as Chain
    from .cube import Cube as Cube
    from .hull import Hull as Hull
    from .product import Product as Product
    from .simplex import Simplex as Simplex
    from .tree import Tree as Tree

__all__ = sorted([*publish(__name__, Polytope), "PackedChains"])
