"""Classification, ordinal, multilabel and hierarchical data sets, each with the splits it is judged on.

Where the files bring their own split (or folds), that one is used; elsewhere ten seeded ones, a quarter for testing.
"""

from __future__ import annotations

import csv
import gzip
import io
import pathlib
import tarfile
import xml.etree.ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, StratifiedShuffleSplit

from . import root

N_SPLITS = 10
Split = tuple[np.ndarray, np.ndarray]


@dataclass
class Dataset:
    """name, X (dense or CSR), y (labels, or rows of 0 and 1), splits as (train, test) indices, and what else the task has.

    extras: "costs" (matrix[z, y]), "tree" (the paths of all labels), "labels" (names of y's columns), "groups".
    """

    name: str
    X: Any
    y: np.ndarray
    splits: list[Split]
    extras: dict[str, Any] = field(default_factory=dict)
    official: bool = False


def names(folder: str) -> list[str]:
    """The data sets of a folder ("ordinal", "multilabel", ...), or none where the data are absent."""
    base = root()
    return [] if base is None else sorted(p.name for p in (base / folder).iterdir() if p.is_dir())


def load(folder: str, name: str, **options: Any) -> Dataset:
    """One data set by folder and name."""
    return {
        "cost_sensitive": cost_sensitive,
        "hierarchical": hierarchical,
        "multiclass": multiclass,
        "multilabel": multilabel,
        "ordinal": ordinal,
    }[folder](name, **options)


# -- tasks ---------------------------------------------------------------------------------------------------------


def cost_sensitive(name: str) -> Dataset:
    """german: 24 numeric features and the 5:1 costs of its authors. bankmarketing: its authors state no costs."""
    folder = _folder("cost_sensitive", name)
    if name == "german":
        table = np.loadtxt(folder / "german.data-numeric")
        X, y = table[:, :-1], np.where(table[:, -1] == 1, "good", "bad")
        actual_predicted = np.loadtxt(folder / "cost_matrix.csv", delimiter=",")  # good, bad
        # Sorted labels are (bad, good); the file has rows actual and columns predicted, we the other way round.
        costs = actual_predicted.T[::-1, ::-1]
        return Dataset(name, X, y, _seeded(y), {"costs": costs})
    columns = _columns(_text(folder / "bankmarketing.csv.gz"), ";")
    y = columns.pop("y")
    return Dataset(name, _features(columns), y, _seeded(y))


def hierarchical(name: str) -> Dataset:
    """Labels in a forest of classes.

    Where every row has one path (diatoms, imclef07a; the latter spells out its ancestors), y is the deepest class as a
    path such as "6/2/0", which may be an inner node, and extras["tree"] lists all labels. Rows of enron_corr and
    cellcycle_FUN lie on several paths at once: no distance between two nodes judges them, so that y has one 0/1 column
    per class, closed under ancestors, named in extras["labels"]. Missing values are the column's mean (cellcycle_FUN).
    """
    folder = _folder("hierarchical", name)
    files = sorted(folder.glob("*.arff.gz"))
    train = [f for f in files if "test" not in f.name.lower()]
    test = [f for f in files if "test" in f.name.lower()]
    parts = [_arff(_text(f)) for f in train + test]
    attributes = parts[0][0]
    rows = [row for _, part in parts for row in part]
    n_train = sum(len(part) for _, part in parts[: len(train)])
    X = np.array([[np.nan if v == "?" else float(v) for v in row[:-1]] for row in rows])
    X = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    paths = [_deepest(row[-1].split("@")) for row in rows]
    splits = [_first(n_train, len(rows))]
    if all(len(p) == 1 for p in paths):
        y = np.array([p[0] for p in paths])
        return Dataset(name, X, y, splits, {"tree": np.unique(y).tolist()}, official=True)
    nodes = sorted({node for _, kind in attributes[-1:] for path in kind for node in _ancestors(path)})
    place = {node: j for j, node in enumerate(nodes)}
    y = np.zeros((len(rows), len(nodes)), dtype=np.int64)
    for i, row_paths in enumerate(paths):
        y[i, [place[node] for path in row_paths for node in _ancestors(path)]] = 1
    return Dataset(name, X, y, splits, {"labels": nodes}, official=True)


def multiclass(name: str) -> Dataset:
    """letter (the customary first 16,000 rows train), vowel and optdigits (official split), and the seeded others.

    vowel's speakers are left out of the features, since those of its test set are new; their sex stays.
    """
    folder = _folder("multiclass", name)
    if name == "optdigits":
        train, test = (
            np.loadtxt(io.StringIO(_text(folder / f"optdigits.{part}.gz")), delimiter=",") for part in ("tra", "tes")
        )
        table = np.vstack([train, test])
        return Dataset(name, table[:, :-1], table[:, -1].astype(int), [_first(len(train), len(table))], official=True)
    file = next(folder.glob("*.gz"))
    if ".arff" in file.name:
        attributes, rows = _arff(_text(file))
        columns = dict(zip([a for a, _ in attributes], np.array(rows).T, strict=True))
    else:
        columns = _columns(_text(file))
    y = columns.pop(list(columns)[-1])
    if name == "vowel":
        part = columns.pop("Train or Test")
        columns.pop("Speaker Number")
        split = (np.flatnonzero(part == "Train"), np.flatnonzero(part == "Test"))
        return Dataset(name, _features(columns), y, [split], official=True)
    if name == "letter":
        return Dataset(name, _features(columns), y, [_first(16000, len(y))], official=True)
    return Dataset(name, _features(columns), y, _seeded(y))


def multilabel(name: str) -> Dataset:
    """MULAN's sets: the labels are the attributes that the xml file names. Sparse ARFF becomes CSR."""
    folder = _folder("multilabel", name)
    tree = xml.etree.ElementTree.parse(folder / f"{name}.xml")
    labels = [node.attrib["name"] for node in tree.iter() if node.tag.endswith("label")]
    files = [folder / f"{name}-{part}.arff.gz" for part in ("train", "test")]
    files = files if files[0].exists() else [folder / f"{name}.arff.gz"]
    parts = [_arff(_text(f)) for f in files]
    attributes, rows = parts[0][0], [row for _, part in parts for row in part]
    is_label = np.isin([a for a, _ in attributes], labels)
    order = [a for a, _ in attributes if a in set(labels)]
    if isinstance(rows[0], dict):
        table = _csr(rows, len(attributes))
        X, y = table[:, ~is_label], table[:, is_label].toarray().astype(np.int64)
    else:
        columns = {(i, a): values for i, ((a, _), values) in enumerate(zip(attributes, np.array(rows).T, strict=True))}
        y = np.stack([columns[key] for key, label in zip(columns, is_label, strict=True) if label], 1).astype(np.int64)
        kept = {key: columns[key] for key, label in zip(columns, is_label, strict=True) if not label}
        nominal = [(i, a) for i, (a, kind) in enumerate(attributes) if kind is not None and len(kind) > 2]
        X = _features(kept, nominal)
    extras = {"labels": order}
    if len(parts) == 2:
        return Dataset(name, X, y, [_first(len(parts[0][1]), len(rows))], extras, official=True)
    splits = list(ShuffleSplit(N_SPLITS, test_size=0.25, random_state=0).split(X))
    return Dataset(name, X, y, splits, extras)


def ordinal(name: str, bins: int = 10, ties: bool = False) -> Dataset:
    """Ordered labels 0, 1, ...; nominal features as indicators.

    Regression sets in `bins` (5 or 10) bins of equal count; with `ties`, equal targets share a bin and the counts
    differ. Sets that come as holdouts keep their splits (the first ten). mass_housing counts people: one row each.
    r_soup: respondents stay whole in a split, and are no feature. r_wine: the continuous `response` that the rating
    was cut from is no feature.
    """
    folder = _folder("ordinal", name)
    archives = list(folder.glob("*.tar.gz"))
    if archives:
        return _holdouts(name, archives[0])
    file = next(folder.glob("*.csv*"))
    columns = _columns(_text(file), ";" if name.startswith("wine") else ",")
    columns.pop("rownames", None)
    if name == "mass_housing":
        counts = columns.pop("Freq").astype(int)
        columns = {key: np.repeat(values, counts) for key, values in columns.items()}
        y = _codes(columns.pop("Sat"), ["Low", "Medium", "High"])
        return Dataset(name, _features(columns), y, _seeded(y))
    if name == "r_soup":
        y = columns.pop("SURENESS").astype(int) - 1
        groups = columns.pop("RESP").astype(int)
        splits = list(GroupShuffleSplit(N_SPLITS, test_size=0.25, random_state=0).split(y, y, groups))
        return Dataset(name, _features(columns, ["PRODID", "DAY"]), y, splits, {"groups": groups})
    if name == "r_wine":
        y = columns.pop("rating").astype(int) - 1
        del columns["response"], columns["bottle"]
        return Dataset(name, _features(columns, ["judge"]), y, _seeded(y))
    if "y5" in columns:
        y = columns[f"y{bins}{'_ties' if ties else ''}"].astype(int)
        for key in ("target", "y5", "y10", "y5_ties", "y10_ties"):
            del columns[key]
        y = np.unique(y, return_inverse=True)[1]  # with ties, a bin may be empty
        X = _features(columns, ["origin"] if name == "autompg" else [])
        return Dataset(f"{name}-{bins}{'-ties' if ties else ''}", X, y, _seeded(y))
    y = columns.pop("y").astype(int)
    return Dataset(name, _features(columns), y, _seeded(y))


def binned(name: str) -> bool:
    """Whether an ordinal set is a regression set cut into bins."""
    files = list(_folder("ordinal", name).glob("*.csv.gz"))
    return bool(files) and "y10" in _text(files[0]).split("\n", 1)[0].split(",")


# -- splits --------------------------------------------------------------------------------------------------------


def _first(n_train: int, n: int) -> Split:
    return np.arange(n_train), np.arange(n_train, n)


def _seeded(y: np.ndarray) -> list[Split]:
    """Stratified, but for classes too small to be on both sides."""
    values, counts = np.unique(y, return_counts=True)
    common = values[np.argmax(counts)]
    strata = np.where(np.isin(y, values[counts < 2]), common, y)
    return list(StratifiedShuffleSplit(N_SPLITS, test_size=0.25, random_state=0).split(y, strata))


def _holdouts(name: str, archive: pathlib.Path) -> Dataset:
    """Train and test files, one pair per split, that are all cuts of one table."""
    with tarfile.open(archive) as tar:
        files = {m.name: tar.extractfile(m) for m in tar.getmembers() if m.isfile()}
        tables = {key: _numbers(file.read().decode()) for key, file in files.items() if file is not None}

    def number(key: str) -> int:
        return int(key.removesuffix(".csv").replace("_", ".").rsplit(".", 1)[1])

    trains = sorted((k for k in tables if "train_" in k), key=number)[:N_SPLITS]
    base: np.ndarray | None = None
    splits = []
    for key in trains:
        train, test = tables[key], tables[key.replace("train_", "test_")]
        both = np.vstack([train, test])
        base = both if base is None else base
        # Equal rows may stand in for each other, so that sorting both tables matches them.
        place, order = np.lexsort(base.T), np.lexsort(both.T)
        if not np.array_equal(base[place], both[order]):
            raise ValueError(f"{archive.name}: {key} and its test file are not a cut of the same table as the first.")
        index = np.empty(len(both), dtype=int)
        index[order] = place
        splits.append((index[: len(train)], index[len(train) :]))
    assert base is not None
    y = base[:, -1].astype(int) - 1
    return Dataset(name, base[:, :-1], y, splits, official=True)


# -- files ---------------------------------------------------------------------------------------------------------


def _folder(task: str, name: str) -> pathlib.Path:
    base = root()
    if base is None:
        raise FileNotFoundError("The data sets are absent: set TASKLOSS_DATA to their folder.")
    return base / task / name


def _text(file: pathlib.Path) -> str:
    data = file.read_bytes()
    return (gzip.decompress(data) if file.suffix == ".gz" else data).decode("utf-8", errors="replace")


def _numbers(text: str) -> np.ndarray:
    return np.loadtxt(io.StringIO(text.replace(",", " ")))


def _columns(text: str, separator: str = ",") -> dict[str, np.ndarray]:
    rows = [row for row in csv.reader(io.StringIO(text), delimiter=separator) if row]
    return dict(zip(rows[0], np.array(rows[1:]).T, strict=True))


def _features(columns: dict[Any, np.ndarray], nominal: Sequence[Any] = ()) -> np.ndarray:
    """Numbers as they are; words, and columns said to be nominal, as one indicator per value (two values: one)."""
    out = []
    for key, values in columns.items():
        numbers = None if key in nominal else _floats(values)
        if numbers is not None:
            out.append(numbers[:, None])
            continue
        levels = np.unique(values)
        out.append((values[:, None] == (levels[1:] if len(levels) == 2 else levels)).astype(float))
    return np.hstack(out)


def _floats(values: np.ndarray) -> np.ndarray | None:
    try:
        return values.astype(float)
    except ValueError:
        return None


def _codes(values: np.ndarray, order: list[str]) -> np.ndarray:
    return np.array([order.index(v) for v in values])


def _arff(text: str) -> tuple[list[tuple[str, list[str] | None]], list[Any]]:
    """Attributes (name, and the values of nominal and hierarchical ones), and rows: lists, or {column: value} if sparse."""
    attributes: list[tuple[str, list[str] | None]] = []
    lines: Iterator[str] = (line.strip() for line in text.splitlines())
    for line in lines:
        word = line.split(None, 1)[0].lower() if line else ""
        if word == "@data":
            break
        if word == "@attribute":
            attributes.append(_attribute(line.split(None, 1)[1]))
    body = [line for line in lines if line and not line.startswith("%") and line != "\x1a"]
    if body[0].startswith("{"):
        return attributes, [dict(_pairs(line.strip("{} "))) for line in body]
    return attributes, [[v.strip() for v in line.split(",")] for line in body]


def _attribute(text: str) -> tuple[str, list[str] | None]:
    if text[0] in "'\"":
        name, kind = text[1:].split(text[0], 1)
    else:
        name, kind = text.split(None, 1)
    kind = kind.strip()
    if kind.startswith("{"):
        return name, [v.strip() for v in kind.strip("{} ").split(",")]
    if kind.lower().startswith("hierarchical"):
        return name, kind.split(None, 1)[1].split(",")
    return name, None


def _pairs(text: str) -> Iterator[tuple[int, float]]:
    for item in text.split(","):
        if item.strip():
            column, value = item.split()
            yield int(column), float(value)


def _csr(rows: list[dict[int, float]], width: int) -> sparse.csr_matrix:
    indptr = np.cumsum([0, *(len(row) for row in rows)])
    indices = np.array([j for row in rows for j in row])
    values = np.array([v for row in rows for v in row.values()])
    return sparse.csr_matrix((values, indices, indptr), shape=(len(rows), width))


def _ancestors(path: str) -> list[str]:
    """The path's classes from the top down to itself."""
    steps = path.split("/")
    return ["/".join(steps[:depth]) for depth in range(1, len(steps) + 1)]


def _deepest(paths: list[str]) -> list[str]:
    """The paths that are not on the way to another."""
    above = {node for path in paths for node in _ancestors(path)[:-1]}
    return [path for path in paths if path not in above]
