"""The paper's theory, computed: decompositions, the phi-calibration check, calibration functions, bounds, figures."""

from . import plots, plots_convolved
from .calibration import Calibration, calibration
from .closed import margin_calibration
from .convolved import LinearCalibration, linear_calibration
from .decomposition import Decomposition, decompose
from .learning import ASGDBound, OsokinComparison, asgd_bound, osokin_comparison, sample_size
from .problem import form_of, strong_convexity
from .programs import Certificate
from .representation import Report, check

__all__ = [
    "ASGDBound",
    "Calibration",
    "Certificate",
    "Decomposition",
    "LinearCalibration",
    "OsokinComparison",
    "Report",
    "asgd_bound",
    "calibration",
    "check",
    "decompose",
    "form_of",
    "linear_calibration",
    "margin_calibration",
    "osokin_comparison",
    "plots",
    "plots_convolved",
    "sample_size",
    "strong_convexity",
]
