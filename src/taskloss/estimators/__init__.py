"""The scikit-learn faces: they put the parts together and hold what was fitted."""

from .base import ConsistencyWarning
from .decoded import DecodedClassifier
from .faces import CostSensitiveClassifier, MultilabelClassifier, OrdinalClassifier
from .general import TaskLossEstimator
from .kernel import KernelPredictor
from .matching import Matcher
from .ranking import Ranker
from .sequence import SequenceTagger, TreeTagger

__all__ = [
    "ConsistencyWarning",
    "CostSensitiveClassifier",
    "DecodedClassifier",
    "KernelPredictor",
    "Matcher",
    "MultilabelClassifier",
    "OrdinalClassifier",
    "Ranker",
    "SequenceTagger",
    "TaskLossEstimator",
    "TreeTagger",
]
