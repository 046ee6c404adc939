"""The paper's theory, computed: decompositions, the phi-calibration check, calibration functions, bounds, figures."""

from . import plots, plots_convolved
from .calibration import Calibration, calibration
from .candidates import Candidate
from .certificate import Certificate
from .closed import margin_calibration
from .compare import Comparison, compare
from .convolved import LinearCalibration, linear_calibration
from .costs import Cost, pass_cost
from .decomposition import Decomposition, decompose
from .distances import DecisionDistances, crf_bound, decision_distances, excess_bound
from .learning import ASGDBound, LearningBound, asgd_bound, sample_size
from .maxmargin import MaxMarginReport, check_max_margin, tightened
from .noise import MarginDistribution, margin_distribution
from .osokin import OsokinComparison, osokin_comparison
from .problem import form_of, strong_convexity
from .rates import ExponentialBound, RegularisedBound, exponential_bound, regularised_bound
from .representation import Report, check

__all__ = [
    "ASGDBound",
    "Calibration",
    "Candidate",
    "Certificate",
    "Comparison",
    "Cost",
    "DecisionDistances",
    "Decomposition",
    "ExponentialBound",
    "LearningBound",
    "LinearCalibration",
    "MarginDistribution",
    "MaxMarginReport",
    "OsokinComparison",
    "RegularisedBound",
    "Report",
    "asgd_bound",
    "calibration",
    "check",
    "check_max_margin",
    "compare",
    "crf_bound",
    "decision_distances",
    "decompose",
    "excess_bound",
    "exponential_bound",
    "form_of",
    "linear_calibration",
    "margin_calibration",
    "margin_distribution",
    "osokin_comparison",
    "pass_cost",
    "plots",
    "plots_convolved",
    "regularised_bound",
    "sample_size",
    "strong_convexity",
    "tightened",
]
