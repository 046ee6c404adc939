"""Which max-margin losses are consistent when: verdicts that carry their proof."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..losses.base import Loss

KINDS = ("max-margin", "restricted", "max-min")
_LARGEST = 5  # labels up to which all cells of the surrogate's least risk are listed


@dataclass(frozen=True)
class MaxMarginReport:
    """The answer of `check_max_margin`: a verdict and what proves it.

    Attributes
    ----------
    verdict : "consistent", "inconsistent" or "undecided".
    reason : the proof in a sentence.
    decoding : the decoding for which the verdict "consistent" holds: "argmax" of the scores, "tightened argmax"
        (`tightened`), or "some" where only its existence is proved.
    tree : edges (z, z', length) of the tree whose distance the loss is, where that is the proof.
    v : for "inconsistent", one score that is best for every law in `laws`, though each output is wrong for one of them.
        For a tree with a fork, a score that is best for `laws[0]` and whose argmax is wrong: why "argmax" is not enough.
    laws : laws over the labels, as rows.
    couplings : for each law the weights of the pieces (see `pieces`) that prove the score's risk to be the least.
    pieces : (y, a, b), one row each: S(v, y) is the largest b + <a, v>.
    matrix : the loss, matrix[z, y].
    cells : how many linear functions the least risk is the minimum of, where all were listed.
    """

    verdict: str
    reason: str
    decoding: str
    matrix: np.ndarray = field(repr=False)
    pieces: tuple[np.ndarray, np.ndarray, np.ndarray] = field(repr=False)
    tree: list[tuple[int, int, float]] | None = None
    v: np.ndarray | None = None
    laws: np.ndarray | None = None
    couplings: np.ndarray | None = field(default=None, repr=False)
    cells: int | None = None

    @property
    def consistent(self) -> bool:
        return self.verdict == "consistent"

    def __bool__(self) -> bool:
        return self.consistent

    def surrogate(self, v: Any) -> np.ndarray:
        """S(v, y) for scores v as rows, one column per label."""
        return _values(self.pieces, np.atleast_2d(np.asarray(v, dtype=float)), self.matrix.shape[1])

    def gap(self, argmax: bool = False) -> float:
        """How wrong the counterexample makes every decoding, or only the argmax: positive is a proof of inconsistency.

        All of it is plain arithmetic. The weights Q of a coupling are not negative, sum to the law on each label's pieces and satisfy sum Q a = 0, so
        that for every score v' sum_y q_y S(v', y) >= sum Q (b + <a, v'>) = <Q, b>: no score has less risk than <Q, b>,
        which v attains. The gap is the least over outputs, or over the argmax of v, of the largest excess loss under
        these laws.
        """
        if self.v is None or self.laws is None or self.couplings is None:
            raise ValueError(f"The verdict {self.verdict!r} has no counterexample.")
        y, a, b = self.pieces
        scale = max(1.0, float(np.abs(self.matrix).max()), float(np.abs(self.v).max()))
        sums = np.stack([np.bincount(y, q, self.matrix.shape[1]) for q in self.couplings])
        risk = self.laws @ self.surrogate(self.v)[0]
        flaw = max(
            float(-self.couplings.min()),
            float(np.abs(sums - self.laws).max()),
            float(np.abs(self.couplings @ a).max()),
            float(np.abs(self.couplings @ b - risk).max()) / scale,
        )
        if flaw > 1e-7:
            raise ArithmeticError(f"The counterexample does not hold: its conditions are off by {flaw:.2g}.")
        risks = self.laws @ self.matrix.T
        worst = (risks - risks.min(1, keepdims=True)).max(0)
        return float(worst[self.v >= self.v.max() - 1e-9 * scale].min() if argmax else worst.min())


def check_max_margin(loss: Any, kind: str = "max-margin", tol: float = 1e-9) -> MaxMarginReport:
    """Whether a max-margin loss is consistent with a task loss, with a proof for either answer.

    Consistent: some decoding is optimal at every minimiser of the surrogate risk, for every law over the labels.

    Parameters
    ----------
    loss : a loss whose outputs and labels can be listed, in which each label has one best output, its own.
    kind : "max-margin", S(v, y) = max_z L(z, y) + v_z - v_y, the structured hinge (Crammer and Singer's for 0-1 loss);
        "restricted", S(v, y) = max L_y q + <v, q> - v_y over the laws q for which y is optimal; "max-min", the largest
        of min_z L_z q + <v, q> - v_y over all laws q.
    tol : the relative tolerance of equalities.

    Returns
    -------
    MaxMarginReport

    Notes
    -----
    The least risk H(q) = min_v sum_y q_y S(v, y) is concave and piecewise linear, and S is consistent with L under some
    decoding if and only if on each cell where H is linear one output is optimal throughout. Three proofs follow.

    *Tree.* If L is the distance of a tree whose nodes are all outputs, then max-margin is consistent: H(q) is twice the
    least expected loss, as all mass can be coupled with itself through a median. That is the theorem of Nowak-Vila, Rudi
    and Bach. The four-point condition is not enough: 0-1 loss on three labels is a tree distance between leaves, and
    without the centre among the outputs max-margin fails. On a path the argmax of v is optimal. At a fork it need not
    be: a fork m that never occurs has no reason to raise its score. Then `tightened` scores are needed.

    *Counterexample.* A score that is best for several laws which no output serves, checked by `MaxMarginReport.gap`.

    *Cells.* Up to five labels, all cells are listed by Benson's outer approximation: the lower envelope of the linear
    functions found so far is compared with H at its vertices until they agree, and then they agree everywhere.

    References
    ----------
    Nowak-Vila, Rudi and Bach, "On the consistency of max-margin losses" (2022; 2021 as "Max-margin is dead, long live
    max-margin!"). Finocchiaro, Frongillo and Waggoner, "An embedding framework for consistent polyhedral surrogates"
    (2019). Benson, "An outer approximation algorithm for generating all efficient extreme points" (1998).

    Examples
    --------
    >>> import taskloss as tl
    >>> tl.theory.check_max_margin(tl.losses.Absolute(5)).verdict
    'consistent'
    >>> report = tl.theory.check_max_margin(tl.losses.ZeroOne(3))
    >>> report.verdict, report.gap() > 0
    ('inconsistent', True)
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}.")
    resolved = Loss.resolve(loss)
    matrix = np.asarray(resolved.matrix(), dtype=float)
    truth = _truth(matrix, resolved)
    scale = max(float(np.abs(matrix).max()), 1e-300)
    if kind != "max-margin" and matrix.shape[1] > _LARGEST + 1:
        raise ValueError(f"The {kind} loss is listed for at most {_LARGEST + 1} labels, got {matrix.shape[1]}.")
    engine = _Cells(matrix / scale, truth, kind, tol)
    # scores and pieces carry the units of the loss, laws and couplings none
    pieces = engine.y, engine.a, engine.b * scale
    if kind == "max-margin":
        tree = _tree(matrix, truth, tol * scale)
        if tree is not None:
            return _tree_report(matrix, pieces, truth, tree, engine, scale)
    found = engine.counterexample()
    if found is not None:
        v, laws, couplings = found
        reason = "one score is best for several laws, and no output is optimal for all of them"
        return MaxMarginReport("inconsistent", reason, "none", matrix, pieces, None, v * scale, laws, couplings)
    if not engine.complete:
        reason = "no tree distance, and no counterexample found among laws on few labels"
        return MaxMarginReport("undecided", reason, "none", matrix, pieces)
    reason = "on each cell where the least risk is linear, one output is optimal throughout"
    return MaxMarginReport("consistent", reason, "some", matrix, pieces, cells=len(engine.scores))


def tightened(loss: Any, v: Any) -> np.ndarray:
    """The largest scores with the same maxima: w_z = min_y (g(y) - L(z, y)), g(y) = max_z L(z, y) + v_z.

    They have no larger max-margin loss, label by label, and for tree distances their argmax is optimal wherever v is a
    minimiser. Rows of scores, one column per output.

    >>> import numpy as np, taskloss as tl
    >>> star = tl.losses.TreeDistance({"a": "m", "b": "m", "c": "m", "m": None}, outputs="nodes")
    >>> tl.theory.tightened(star, [[0.0, 0.0, 0.0, -9.0]])  # best for a, b, c alike: the centre is the median
    array([[0., 0., 0., 1.]])
    """
    matrix = np.asarray(Loss.resolve(loss).matrix(), dtype=float)
    scores = np.atleast_2d(np.asarray(v, dtype=float))
    if scores.shape[1] != len(matrix):
        raise ValueError(f"The scores need one column per output, {len(matrix)}, got shape {scores.shape}.")
    g = (matrix + scores[:, :, None]).max(1)
    return (g[:, None, :] - matrix).min(2)


def _truth(matrix: np.ndarray, loss: Loss) -> np.ndarray:
    """Each label's own output, the only one that is best for it."""
    best = matrix == matrix.min(0)
    own = best.argmax(0)
    if (best.sum(0) != 1).any() or len(set(own.tolist())) < len(own):
        raise ValueError(
            f"A max-margin loss needs one best output for each label, and no two labels with the same; {loss!r} has not."
        )
    return own


# -- trees -----------------------------------------------------------------------------------------------------------


def _tree(matrix: np.ndarray, truth: np.ndarray, tol: float) -> list[tuple[int, int, float]] | None:
    """The tree on the outputs whose distance the loss is, or None: its minimum spanning tree, with paths checked."""
    # the path from z on to z' ends at a leaf; if all leaves are labels, the distance is this largest difference
    distance = np.abs(matrix[:, None] - matrix[None]).max(-1)
    if np.abs(distance[:, truth] - matrix).max() > tol:
        return None
    count = len(distance)
    path, inside, edges = np.zeros_like(distance), [0], []
    while len(inside) < count:
        outside = [z for z in range(count) if z not in inside]
        near = distance[np.ix_(inside, outside)]
        i, j = np.unravel_index(near.argmin(), near.shape)
        a, b, length = inside[i], outside[j], float(near[i, j])
        path[b, inside] = path[inside, b] = path[a, inside] + length
        inside.append(b)
        edges.append((a, b, length))
    return edges if np.abs(path - distance).max() <= tol * count else None


def _tree_report(
    matrix: np.ndarray,
    pieces: tuple[np.ndarray, np.ndarray, np.ndarray],
    truth: np.ndarray,
    tree: list[tuple[int, int, float]],
    engine: _Cells,
    scale: float,
) -> MaxMarginReport:
    distance = np.abs(matrix[:, None] - matrix[None]).max(-1)
    for fork in range(len(distance)):
        # labels beyond three edges of the fork: the nearest in each direction
        near = [b if a == fork else a for a, b, _ in tree if fork in (a, b)]
        ways = [
            [y for y, z in enumerate(truth) if np.isclose(distance[fork, z], distance[fork, n] + distance[n, z])]
            for n in near
        ]
        ways = [sorted(way, key=lambda y: distance[fork, truth[y]]) for way in ways if way]
        if len(ways) >= 3:
            break
    else:
        reason = f"the distance along a path of {len(matrix)} outputs: medians are optimal, and argmax finds one"
        return MaxMarginReport("consistent", reason, "argmax", matrix, pieces, tree)
    law = np.zeros(matrix.shape[1])
    law[[way[0] for way in ways[:3]]] = 1 / 3
    v = -distance[fork]
    v[fork] = v.min() - 1.0  # no label asks for the fork's own score
    coupling = engine.coupling(v / scale, law)
    reason = f"the distance of a tree of {len(matrix)} outputs; at forks that never occur argmax needs tightened scores"
    return MaxMarginReport("consistent", reason, "tightened argmax", matrix, pieces, tree, v, law[None], coupling[None])


# -- polyhedral surrogates -------------------------------------------------------------------------------------------


def _values(pieces: tuple[np.ndarray, np.ndarray, np.ndarray], v: np.ndarray, labels: int) -> np.ndarray:
    y, a, b = pieces
    heights = v @ a.T + b
    return np.stack([heights[:, y == label].max(1) for label in range(labels)], axis=-1)


def _region(matrix: np.ndarray, z: int) -> np.ndarray:
    """The vertices of the laws for which output z is optimal: k - 1 of the inequalities hold with equality."""
    k = matrix.shape[1]
    rows = np.vstack([np.delete(matrix, z, 0) - matrix[z], np.eye(k)])  # rows @ q >= 0
    found = []
    for active in itertools.combinations(range(len(rows)), k - 1):
        system = np.vstack([rows[list(active)], np.ones(k)])
        if abs(np.linalg.det(system)) > 1e-9:
            q = np.linalg.solve(system, np.eye(k)[-1])
            if (rows @ q >= -1e-9).all():
                found.append(np.maximum(q, 0.0))
    return np.unique(np.round(found, 12), axis=0) if found else np.zeros((0, k))


class _Cells:
    """S(v, y) = max over its pieces of b + <a, v>, and the cells on which its least risk is linear."""

    def __init__(self, matrix: np.ndarray, truth: np.ndarray, kind: str, tol: float):
        self.matrix, self.k, self.tol = matrix, matrix.shape[1], max(tol, 1e-9)
        outputs = np.eye(len(matrix))
        rows: list[tuple[int, np.ndarray, float]] = []
        if kind != "max-margin":
            regions = [_region(matrix, z) for z in range(len(matrix))]
            lift = outputs[truth]  # laws over labels as laws over outputs
        for y, own in enumerate(truth):
            if kind == "max-margin":
                rows += [(y, outputs[z] - outputs[own], matrix[z, y]) for z in range(len(matrix))]
            else:
                chosen = [own] if kind == "restricted" else range(len(matrix))
                rows += [(y, q @ lift - outputs[own], float(matrix[z] @ q)) for z in chosen for q in regions[z]]
        self.y = np.array([row[0] for row in rows])
        self.a = np.array([row[1] for row in rows])
        self.b = np.array([row[2] for row in rows])
        self.scores: list[np.ndarray] = []
        self.complete = False

    def best(self, q: np.ndarray) -> tuple[np.ndarray, float]:
        """A vertex of argmin_v s(v, q), and the least risk."""
        from scipy.optimize import linprog

        size = self.a.shape[1]
        rows = np.c_[self.a, -np.eye(self.k)[self.y]]
        bounds = [(0, 0)] + [(-1e3, 1e3)] * (size - 1) + [(None, None)] * self.k  # adding a constant changes nothing
        found = linprog(np.r_[np.zeros(size), q], A_ub=rows, b_ub=-self.b, bounds=bounds, method="highs-ds")
        if found.status != 0:
            raise ArithmeticError(f"The linear program of the least risk failed: {found.message}")
        return found.x[:size], float(found.fun)

    def values(self, v: np.ndarray) -> np.ndarray:
        return _values((self.y, self.a, self.b), v[None], self.k)[0]

    def _tight(self, v: np.ndarray) -> np.ndarray:
        return self.a @ v + self.b >= self.values(v)[self.y] - 1e-7

    def coupling(self, v: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Weights of the tight pieces that prove v to be best for q."""
        found = self._programme(v, np.zeros(self.k), q)
        if found is None:
            raise ArithmeticError("The score is not best for this law.")
        return found

    def _programme(self, v: np.ndarray, reward: np.ndarray, q: np.ndarray | None = None) -> np.ndarray | None:
        """The coupling of the largest <reward, q> among the laws for which v is best, or for one law."""
        from scipy.optimize import linprog

        tight = np.flatnonzero(self._tight(v))
        sums = np.eye(self.k)[self.y[tight]].T
        equal = np.vstack([self.a[tight].T, np.ones(len(tight)) if q is None else sums])
        level = np.r_[np.zeros(self.a.shape[1]), [1.0] if q is None else q]
        found = linprog(-(reward @ sums), A_eq=equal, b_eq=level, method="highs-ds")
        if found.status != 0:
            return None
        out = np.zeros(len(self.y))
        out[tight] = np.maximum(found.x, 0.0)
        return out

    def _law(self, coupling: np.ndarray) -> np.ndarray:
        return np.bincount(self.y, coupling, self.k)

    def counterexample(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """(v, laws, couplings), or None; then `complete` says whether every cell was looked at."""
        for q in self._first_laws():
            found = self._try(*self.best(q)[:1], q)
            if found is not None:
                return found
        if self.k > _LARGEST:
            return None
        seen: set[bytes] = set()
        for _ in range(200):
            fresh = [q for q in self._vertices() if q[0].round(7).tobytes() not in seen]
            grown = False
            for q, height in fresh:
                seen.add(q.round(7).tobytes())
                v, least = self.best(q)
                if least < height - 1e-8:
                    grown = True
                    found = self._try(v, q)
                    if found is not None:
                        return found
            if not grown:
                self.complete = True
                return None
        return None

    def _first_laws(self) -> list[np.ndarray]:
        """Uniform laws on few labels, and generic ones."""
        sizes = range(1, min(self.k, 4) + 1)
        subsets = [s for size in sizes for s in itertools.combinations(range(self.k), size)][:60]
        rng = np.random.default_rng(0)
        uniform = [np.bincount(s, minlength=self.k) / len(s) for s in subsets]
        return [*rng.dirichlet(np.ones(self.k), 20), *uniform]

    def _try(self, v: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Keep v's cell, unless the laws for which v is best prove that no output serves them all."""
        values = self.values(v)
        if any(np.allclose(values, self.values(other), atol=1e-9) for other in self.scores):
            return None
        first = self._programme(v, np.zeros(self.k), q)
        if first is None:
            return None
        risks = self.matrix @ q
        couplings = [first]
        for z in np.flatnonzero(risks <= risks.min() + 1e-7):
            gains = []
            for other in range(len(self.matrix)):
                if other != z:
                    coupling = self._programme(v, self.matrix[z] - self.matrix[other])
                    if coupling is not None:
                        gains.append(((self.matrix[z] - self.matrix[other]) @ self._law(coupling), coupling))
            worst = max(gains, key=lambda gain: gain[0])
            if worst[0] <= 1e-6:
                self.scores.append(v)
                return None
            couplings.append(worst[1])
        laws = np.stack([self._law(c) for c in couplings])
        return v, laws / laws.sum(1, keepdims=True), np.stack(couplings) / laws.sum(1, keepdims=True)

    def _vertices(self) -> list[tuple[np.ndarray, float]]:
        """The vertices (q, height) of the region below the linear functions found so far."""
        from scipy.spatial import HalfspaceIntersection

        k = self.k
        lines = np.array([self.values(v) for v in self.scores])
        # coordinates (q_1 .. q_(k-1), height); q_k is the rest
        below = np.c_[-(lines[:, :-1] - lines[:, -1:]), np.ones(len(lines)), -lines[:, -1]]
        positive = np.c_[-np.eye(k - 1), np.zeros((k - 1, 2))]
        rest = np.r_[np.ones(k - 1), 0.0, -1.0]
        floor = np.r_[np.zeros(k - 1), -1.0, -1.0]
        inside = np.r_[np.full(k - 1, 1 / k), -0.5]
        points = HalfspaceIntersection(np.vstack([below, positive, rest, floor]), inside).intersections
        points = points[points[:, -1] > -0.5]
        laws = np.maximum(np.c_[points[:, :-1], 1 - points[:, :-1].sum(1)], 0.0)
        return list(zip(laws / laws.sum(1, keepdims=True), points[:, -1].tolist(), strict=True))
