"""The waist: the risk as a function of scores, and that function of a hypothesis's parameters."""

from .forests import Forests
from .minimise import Monitor, Options, Path, minimise, objective
from .penalised import PenalisedRisk
from .scores import Batch, Groups, Rows, ScoreRisk

__all__ = [
    "Batch",
    "Forests",
    "Groups",
    "Monitor",
    "Options",
    "Path",
    "PenalisedRisk",
    "Rows",
    "ScoreRisk",
    "minimise",
    "objective",
]
