"""Measures that are functions of the confusion: F over a corpus, kappa, Matthews, G-mean, entity F."""

from typing import TYPE_CHECKING

from ..registry import publish
from .base import Metric as Metric

if TYPE_CHECKING:  # for editors: the registry imports every file of this folder, named here or not
    from .confusion import BalancedAccuracy as BalancedAccuracy
    from .confusion import GMean as GMean
    from .confusion import Kappa as Kappa
    from .confusion import Matthews as Matthews
    from .confusion import OfConfusion as OfConfusion
    from .fmeasure import EntityF as EntityF
    from .fmeasure import FMeasure as FMeasure

__all__ = publish(__name__, Metric)
