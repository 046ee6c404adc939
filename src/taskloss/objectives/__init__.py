"""The waist: the risk as a function of scores, and that function of a hypothesis's parameters."""

from .forests import Forests
from .groups import Batch, Groups
from .left_out import leaves_out
from .minimise import Monitor, Options, Path, minimise, objective
from .penalised import PenalisedRisk
from .rows import Rows
from .scores import ScoreRisk

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
    "leaves_out",
    "minimise",
    "objective",
]
