"""Train on a smooth convex surrogate, predict for the discrete loss you are judged by, and know what that guarantees.

>>> import taskloss as tl
>>> model = tl.CostSensitiveClassifier(costs=[[0, 5], [1, 0]])
"""

from typing import TYPE_CHECKING, Any

import sklearn  # noqa: F401  first: imported from within the files below, it takes CPython 3.11 a tenth of a second longer

from . import (
    distributed,
    hypotheses,
    losses,
    margins,
    metrics,
    model_files,
    polytopes,
    progress,
    solvers,
    streams,
    surrogates,
)
from .control import RiskController
from .data.costs import example_costs
from .data.sequences import Packed
from .decisions import decide, expected_loss
from .diagnosis import Diagnosis, diagnose
from .estimators import (
    ConsistencyWarning,
    CostSensitiveClassifier,
    DecodedClassifier,
    KernelPredictor,
    Matcher,
    MultilabelClassifier,
    OrdinalClassifier,
    Ranker,
    SequenceTagger,
    TaskLossEstimator,
    TreeTagger,
)
from .estimators.recalibrated import Recalibrated
from .estimators.tuned import TunedDecisionCV
from .formulas import Formula
from .monitoring import LossMonitor
from .priors import estimate_prior, reweigh

if TYPE_CHECKING:
    from . import plots, theory

__version__ = "0.1.0"

__all__ = [
    "ConsistencyWarning",
    "CostSensitiveClassifier",
    "DecodedClassifier",
    "Diagnosis",
    "Formula",
    "KernelPredictor",
    "LossMonitor",
    "Matcher",
    "MultilabelClassifier",
    "OrdinalClassifier",
    "Packed",
    "Ranker",
    "Recalibrated",
    "RiskController",
    "SequenceTagger",
    "TaskLossEstimator",
    "TreeTagger",
    "TunedDecisionCV",
    "decide",
    "diagnose",
    "distributed",
    "estimate_prior",
    "example_costs",
    "expected_loss",
    "hypotheses",
    "losses",
    "margins",
    "metrics",
    "model_files",
    "plots",
    "polytopes",
    "progress",
    "reweigh",
    "solvers",
    "streams",
    "surrogates",
    "theory",
]


def __getattr__(name: str) -> Any:
    """`tl.theory` and `tl.plots`, imported when first asked for: predictions do without them; and `tl.sequences`, an old name."""
    if name in ("theory", "plots", "sequences"):
        import importlib

        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
