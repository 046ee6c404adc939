"""The waist: the risk as a function of scores, and that function of a hypothesis's parameters."""

from .forests import Forests
from .groups import Batch, Groups
from .minimise import Monitor, Options, minimise, objective
from .penalised import PenalisedRisk
from .rows import Rows
from .scores import ScoreRisk

__all__ = [
    "Batch",
    "Forests",
    "Groups",
    "Monitor",
    "Options",
    "PenalisedRisk",
    "Rows",
    "ScoreRisk",
    "minimise",
    "objective",
]
