"""S(v, y) as a potential h and a link t. Knows one polytope or domain; never sees y itself, an output z, or X."""

from typing import TYPE_CHECKING

from ..registry import publish
from .base import Surrogate as Surrogate
from .base import automatic
from .outputs import ListedOutputs

if TYPE_CHECKING:  # for editors: the registry imports every file of this folder, named here or not
    from .chaincrf import ChainCRF as ChainCRF
    from .convolutional import ConvolutionalFenchelYoung as ConvolutionalFenchelYoung
    from .coordinatewise import AllThresholds as AllThresholds
    from .coordinatewise import Independent as Independent
    from .coordinatewise import OneVsAll as OneVsAll
    from .cumulative import CumulativeLink as CumulativeLink
    from .legendre import Legendre as Legendre
    from .listwise import Listwise as Listwise
    from .maxentropy import MaxEntropy as MaxEntropy
    from .maxentropy import Multinomial as Multinomial
    from .maxentropy import RowMultinomial as RowMultinomial
    from .mixture import Mixture as Mixture
    from .quadratic import Quadratic as Quadratic

__all__ = [*publish(__name__, Surrogate), "ListedOutputs", "automatic"]
