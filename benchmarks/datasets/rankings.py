"""Ranking data: queries with graded documents."""

from __future__ import annotations

import gzip
import pathlib
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_svmlight_file

from . import root


@dataclass
class Queries:
    """Rows of features, the grade of each and the query it belongs to."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """The number of rows of each query, in the order of the rows (LightGBM's form of groups)."""
        starts = np.flatnonzero(np.r_[True, np.diff(self.groups) != 0])
        return np.diff(np.r_[starts, len(self.groups)])


def _folder(name: str) -> pathlib.Path:
    base = root()
    if base is None:
        raise FileNotFoundError("The data sets are absent: set TASKLOSS_DATA to their folder.")
    return base / "ranking" / name


def mq2008() -> list[tuple[Queries, Queries, Queries]]:
    """LETOR 4.0's MQ2008: 784 queries, 46 features scaled to [0, 1] by query, grades 0 to 2; (train, validation, test) in five folds."""
    folder = _folder("mq2008")
    parts = {}
    for name in ("S1", "S2", "S3", "S4", "S5"):
        with gzip.open(folder / f"{name}.txt.gz") as file:
            X, y, qid = load_svmlight_file(file, n_features=46, query_id=True)
        parts[name] = Queries(X.toarray(), y, qid)

    def join(names: str) -> Queries:
        chosen = [parts[name.strip()] for name in names.split(",")]
        return Queries(
            np.vstack([c.X for c in chosen]), np.hstack([c.y for c in chosen]), np.hstack([c.groups for c in chosen])
        )

    folds = []
    for line in (folder / "folds.txt").read_text().splitlines()[1:]:
        _, *sets = [field for field in line.split("\t") if field.strip()]
        train, valid, test = (join(names) for names in sets)
        folds.append((train, valid, test))
    return folds


def lightgbm_rank() -> tuple[Queries, Queries]:
    """LightGBM's own ranking example: 201 training and 50 test queries, 300 sparse features, grades 0 to 4."""
    folder = _folder("lightgbm_rank")
    out = []
    for part in ("train", "test"):
        with gzip.open(folder / f"rank.{part}.gz") as file:
            X, y = load_svmlight_file(file, n_features=301, zero_based=True)
        sizes = np.loadtxt(folder / f"rank.{part}.query", dtype=int)
        out.append(Queries(X.toarray(), y, np.repeat(np.arange(len(sizes)), sizes)))
    return out[0], out[1]
