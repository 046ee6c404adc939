"""Real data sets for the benchmarks and the optional tests; nothing here is bundled.

They are looked for in the folder named by TASKLOSS_DATA, or in ../shared/data beside the checkout.
"""

from __future__ import annotations

import os
import pathlib


def place() -> pathlib.Path:
    """The folder in which data sets are looked for."""
    return pathlib.Path(os.environ.get("TASKLOSS_DATA", pathlib.Path(__file__).parents[3] / "shared" / "data"))


def root() -> pathlib.Path | None:
    """The folder of the data sets, or None where it is absent."""
    folder = place()
    return folder if folder.is_dir() else None
