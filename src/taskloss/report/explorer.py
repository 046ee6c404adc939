"""The cost explorer of a page: stored moments, and costs that are edited there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..diagnosis.diagnosis import Diagnosis


def explorer(found: Diagnosis) -> str:
    """The section, or nothing where there are no moments of labels."""
    return ""
