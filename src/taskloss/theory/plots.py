"""Where the paper's figures were: they are in `taskloss.plots`, under the same names."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    for place in ("paper", "curves", "surrogates"):
        module = importlib.import_module(f"taskloss.plots.{place}")
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
