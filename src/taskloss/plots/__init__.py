"""Pictures with one look: what is decided, at which cost, from which moments. They need the extra `plot`.

Each is a display in scikit-learn's manner: `from_estimator`, `from_predictions` or the like makes it and draws it, `plot(ax)`
draws it again, `ax_` and `figure_` are matplotlib's. The functions return matplotlib's figures; they remake the paper's.
"""

from .base import Display
from .control import RiskControlDisplay
from .convolved import convolved_figure
from .curves import CalibrationFunctionDisplay, calibration_plot, comparison_plot, margins_plot
from .decisions import DecisionRegionDisplay, ExpectedCostDisplay
from .matching import MatchingDisplay
from .ordinal import OrdinalThresholdDisplay
from .paper import (
    consistency_figure,
    hamming_figure,
    map_figure,
    method_figure,
    partition_figure,
    thresholds_figure,
    zero_one_figure,
)
from .reliability import LossReliabilityDisplay
from .structures import RankingDisplay, SequenceRibbonDisplay
from .surrogates import SurrogateDisplay, surrogates_figure

__all__ = [
    "CalibrationFunctionDisplay",
    "DecisionRegionDisplay",
    "Display",
    "ExpectedCostDisplay",
    "LossReliabilityDisplay",
    "MatchingDisplay",
    "OrdinalThresholdDisplay",
    "RankingDisplay",
    "RiskControlDisplay",
    "SequenceRibbonDisplay",
    "SurrogateDisplay",
    "calibration_plot",
    "comparison_plot",
    "consistency_figure",
    "convolved_figure",
    "hamming_figure",
    "map_figure",
    "margins_plot",
    "method_figure",
    "partition_figure",
    "surrogates_figure",
    "thresholds_figure",
    "zero_one_figure",
]
