"""The paper's theory, computed: decompositions, the phi-calibration check, calibration functions, bounds, figures."""

from . import plots
from .calibration import Calibration, calibration
from .certificate import Certificate
from .closed import margin_calibration
from .decomposition import Decomposition, decompose
from .learning import ASGDBound, OsokinComparison, asgd_bound, osokin_comparison, sample_size
from .problem import form_of, strong_convexity
from .representation import Report, check

__all__ = [
    "ASGDBound",
    "Calibration",
    "Certificate",
    "Decomposition",
    "OsokinComparison",
    "Report",
    "asgd_bound",
    "calibration",
    "check",
    "decompose",
    "form_of",
    "margin_calibration",
    "osokin_comparison",
    "plots",
    "sample_size",
    "strong_convexity",
]
