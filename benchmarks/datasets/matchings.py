"""Graph matching data: pairs of images with the same points marked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import root


@dataclass
class Pairs:
    """Pairs (A, B) of node features, and the row of B that each row of A matches (-1: none)."""

    X: list[tuple[np.ndarray, np.ndarray]]
    y: list[np.ndarray]

    def take(self, index: np.ndarray) -> Pairs:
        return Pairs([self.X[i] for i in index], [self.y[i] for i in index])

    def __len__(self) -> int:
        return len(self.X)


def _arrays(name: str) -> dict[str, np.ndarray]:
    base = root()
    if base is None:
        raise FileNotFoundError("The data sets are absent: set TASKLOSS_DATA to their folder.")
    with np.load(base / "graph_matching" / name / f"{name}.npz") as file:
        return dict(file)


def _shuffled(a: np.ndarray, b: np.ndarray, matched: int, rng: np.random.Generator) -> tuple[tuple, np.ndarray]:
    """The two node sets in random orders, so that no solver gains by keeping ties in place."""
    rows, columns = rng.permutation(len(a)), rng.permutation(len(b))
    place = np.argsort(columns)
    y = np.where(rows < matched, place[np.minimum(rows, len(b) - 1)], -1)
    return (a[rows], b[columns]), y


def _pairs(nodes: np.ndarray, which: list[tuple[int, int]], seed: int = 0) -> Pairs:
    rng = np.random.default_rng(seed)
    found = [_shuffled(nodes[i], nodes[j], nodes.shape[1], rng) for i, j in which]
    return Pairs([x for x, _ in found], [y for _, y in found])


def cmu_house(gap: int) -> tuple[Pairs, Pairs, Pairs]:
    """The CMU house: all pairs of frames that are `gap` apart, 30 points with 60 shape-context counts each.

    (train, validation, test): of the pairs in the order of the sequence, every first, second and third of three, as is
    customary (a third each; Caetano and others 2009).
    """
    nodes = _arrays("cmu_house")["shape_context"].astype(float)
    if gap == 0:  # a frame against itself in another order, which plain assignment also solves
        which = [(i, i) for i in range(len(nodes))]
    else:
        which = [(i, i + gap) for i in range(len(nodes) - gap)]
    pairs = _pairs(nodes, which)
    index = np.arange(len(pairs))
    first, second, third = (pairs.take(index[k::3]) for k in range(3))
    return first, second, third


def willow_duck(seed: int, pairs: int = 150) -> tuple[Pairs, Pairs]:
    """Willow ducks: 50 images, 10 points, SIFT descriptors; 20 random images train and 30 test, 150 pairs of each (or `pairs`, where there are so many)."""
    nodes = np.sqrt(_arrays("willow_duck")["sift"].astype(float))  # Hellinger's distance, as is usual for SIFT
    rng = np.random.default_rng(seed)
    images = rng.permutation(len(nodes))

    def some(chosen: np.ndarray) -> Pairs:
        every = [(int(i), int(j)) for k, i in enumerate(chosen) for j in chosen[:k]]
        return _pairs(nodes, [every[k] for k in rng.permutation(len(every))[:pairs]], seed)

    return some(images[:20]), some(images[20:])


def photographs(name: str, seed: int, outliers: bool) -> tuple[Pairs, Pairs]:
    """cars (30 pairs) or motorbikes (20): inliers, and if asked outliers on both sides; half of the pairs to train.

    The files have no appearance of the points, so that nodes get their position (centred, in standard deviations), the
    orientation of their edge and a shape context of the points around them.
    """
    arrays = _arrays(name)
    keys = sorted(key.removesuffix("_n_inliers") for key in arrays if key.endswith("_n_inliers"))
    rng = np.random.default_rng(seed)
    found = []
    for key in keys:
        count = int(arrays[f"{key}_n_inliers"])
        tables = [arrays[f"{key}_features{side}"].astype(float) for side in (1, 2)]
        a, b = (_nodes(table if outliers else table[:count]) for table in tables)
        found.append(_shuffled(a, b, count, rng))
    pairs = Pairs([x for x, _ in found], [y for _, y in found])
    order = rng.permutation(len(pairs))
    return pairs.take(order[: len(order) // 2]), pairs.take(order[len(order) // 2 :])


def _nodes(table: np.ndarray) -> np.ndarray:
    points = table[:, :2] - table[:, :2].mean(0)
    points /= np.sqrt((points**2).mean())
    return np.hstack([points, table[:, 2:4], np.sqrt(shape_context(points))])


def shape_context(points: np.ndarray, radii: int = 5, angles: int = 12) -> np.ndarray:
    """The share of other points in log-polar bins around each point (Belongie and others 2002)."""
    offset = points[None] - points[:, None]
    distance = np.hypot(offset[..., 0], offset[..., 1])
    distance /= distance.mean()
    ring = np.digitize(distance, np.geomspace(0.125, 2.0, radii + 1)[1:-1])
    sector = np.floor((np.arctan2(offset[..., 1], offset[..., 0]) / (2 * np.pi) % 1) * angles).astype(int) % angles
    code = ring * angles + sector
    np.fill_diagonal(code, -1)
    counts = (code[..., None] == np.arange(radii * angles)).sum(1)
    return counts / max(len(points) - 1, 1)
