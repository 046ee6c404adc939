"""L(z, y) = <psi(z), phi(y)> + c, what you are judged by. Knows its outputs and labels; never sees X or a surrogate."""

from typing import TYPE_CHECKING

from ..registry import publish
from .base import Loss as Loss

if TYPE_CHECKING:  # for editors: the registry imports every file of this folder, named here or not
    from .chain import ChainCost as ChainCost
    from .chain import ChainHamming as ChainHamming
    from .chain import SequenceZeroOne as SequenceZeroOne
    from .fbeta import FBeta as FBeta
    from .hamming import Hamming as Hamming
    from .matching import MatchingHamming as MatchingHamming
    from .ndcg import DCG as DCG
    from .ndcg import NDCG as NDCG
    from .ndcg import PrecisionAt as PrecisionAt
    from .tabular import Absolute as Absolute
    from .tabular import Abstain as Abstain
    from .tabular import CostMatrix as CostMatrix
    from .tabular import Squared as Squared
    from .tabular import Tabular as Tabular
    from .tabular import ZeroOne as ZeroOne
    from .tree import TreeDistance as TreeDistance

__all__ = publish(__name__, Loss)
