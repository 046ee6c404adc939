"""Where the task loss of a model comes from: its parts, with intervals, tables, pictures and a page."""

from .diagnosis import Diagnosis, diagnose
from .guarantee import Guarantee
from .intervals import Interval

__all__ = ["Diagnosis", "Guarantee", "Interval", "diagnose"]
