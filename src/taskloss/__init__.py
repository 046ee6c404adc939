"""Train on a smooth convex surrogate, predict for the discrete loss you are judged by, and know what that guarantees.

>>> import taskloss as tl
>>> model = tl.CostSensitiveClassifier(costs=[[0, 5], [1, 0]])
"""

from . import hypotheses, losses, margins, polytopes, solvers, streams, surrogates, theory
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
)
from .sequences import Packed

__version__ = "0.1.0"

__all__ = [
    "ConsistencyWarning",
    "CostSensitiveClassifier",
    "DecodedClassifier",
    "KernelPredictor",
    "Matcher",
    "MultilabelClassifier",
    "OrdinalClassifier",
    "Packed",
    "Ranker",
    "SequenceTagger",
    "TaskLossEstimator",
    "hypotheses",
    "losses",
    "margins",
    "polytopes",
    "solvers",
    "streams",
    "surrogates",
    "theory",
]
