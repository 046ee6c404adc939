"""Where the figure of convolved surrogates was: it is in `taskloss.plots`."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    from ..plots import convolved

    return getattr(convolved, name)
