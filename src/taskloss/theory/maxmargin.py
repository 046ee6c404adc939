"""Consistency of max-margin losses: verdicts with their proofs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._arguments import explained
from .._checks import check_flag, check_number, real_array
from ..losses.base import Loss
from .polyhedral import LARGEST, Cells, values_of

KINDS = ("max-margin", "restricted", "max-min")


@dataclass(frozen=True)
class MaxMarginReport:
    """The result of `check_max_margin`: a verdict and its proof.

    Attributes
    ----------
    verdict : "consistent", "inconsistent" or "undecided".
    reason : the proof in a sentence.
    decoding : the decoding for which the verdict "consistent" holds: "argmax" of the scores, "tightened argmax"
        (`tightened`), or "some" where only its existence is proved.
    tree : edges (z, z', length) of the tree whose distance the loss is, where that is the proof.
    v : for "inconsistent", a score that minimises the risk of every law in `laws`, though no output is optimal for all
        of them. For a tree with a fork, a minimiser for `laws[0]` whose argmax is not optimal, so that "argmax" does
        not suffice.
    laws : laws over the labels, as rows.
    couplings : for each law the weights of the pieces (see `pieces`) that certify v as a minimiser.
    pieces : (y, a, b), one row each: S(v, y) is the largest b + <a, v>.
    matrix : the loss, matrix[z, y].
    cells : the number of cells on which the least risk is linear, where all were listed.
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
        return values_of(self.pieces, _scores(v, self.matrix), self.matrix.shape[1])

    def gap(self, argmax: bool = False) -> float:
        """The excess loss that the counterexample forces on every decoding, or on the argmax; if positive, a proof.

        The weights Q of a coupling are not negative, sum to the law on each label's pieces and satisfy sum Q a = 0, so
        that for every score v' sum_y q_y S(v', y) >= sum Q (b + <a, v'>) = <Q, b>: no score has risk below <Q, b>,
        which v attains. The gap is the least over outputs, or over the argmax of v, of the largest excess loss under
        these laws.
        """
        check_flag("argmax", argmax)
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


@explained
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
    least expected loss, as q can be coupled with itself through a median. That is the theorem of Nowak-Vila, Rudi
    and Bach. The four-point condition is not enough: 0-1 loss on three labels is a tree distance between leaves, and
    without the centre among the outputs max-margin fails. On a path the argmax of v is optimal. At a fork it need not
    be: nothing raises the score of a fork m that is never a label. Then `tightened` scores are needed.

    *Counterexample.* A score that minimises the risk of several laws with no common optimal output, checked by
    `MaxMarginReport.gap`.

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
    check_number("tol", tol, above=0)
    if tol > 1e-3:
        raise ValueError(f"tol must be at most 0.001, or costs that differ count as equal, got {tol!r}.")
    matrix = np.asarray(resolved.matrix(), dtype=float)
    truth = _truth(matrix, resolved)
    scale = max(float(np.abs(matrix).max()), 1e-300)
    if kind != "max-margin" and matrix.shape[1] > LARGEST + 1:
        raise ValueError(f"The {kind} loss is listed for at most {LARGEST + 1} labels, got {matrix.shape[1]}.")
    engine = Cells(matrix / scale, truth, kind, tol)
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


@explained
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
    scores = _scores(v, matrix)
    g = (matrix + scores[:, :, None]).max(1)
    return (g[:, None, :] - matrix).min(2)


def _scores(v: Any, matrix: np.ndarray) -> np.ndarray:
    scores = np.atleast_2d(real_array("v", v))
    if scores.ndim != 2 or scores.shape[1] != len(matrix):
        raise ValueError(f"v, the scores, must have one column per output, {len(matrix)}, got shape {scores.shape}.")
    if not np.isfinite(scores).all():
        raise ValueError("v contains NaN or infinite values.")
    return scores


def _truth(matrix: np.ndarray, loss: Loss) -> np.ndarray:
    """Each label's unique best output."""
    best = matrix == matrix.min(0)
    own = best.argmax(0)
    if (best.sum(0) != 1).any() or len(set(own.tolist())) < len(own):
        raise ValueError(
            f"A max-margin loss needs one best output for each label, and no two labels with the same; {loss!r} has not."
        )
    return own


# -- trees -----------------------------------------------------------------------------------------------------------


def _tree(matrix: np.ndarray, truth: np.ndarray, tol: float) -> list[tuple[int, int, float]] | None:
    """The tree on the outputs whose distance is the loss, or None: the minimum spanning tree, if its paths agree."""
    # a path through z and z' extends to a leaf; if all leaves are labels, the distance is this largest difference
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
    engine: Cells,
    scale: float,
) -> MaxMarginReport:
    distance = np.abs(matrix[:, None] - matrix[None]).max(-1)
    for fork in range(len(distance)):
        # for each edge of the fork, the labels beyond it, nearest first
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
    v[fork] = v.min() - 1.0  # no label is the fork, so that lowering its score costs nothing
    coupling = engine.coupling(v / scale, law)
    reason = f"the distance of a tree of {len(matrix)} outputs; at forks that never occur argmax needs tightened scores"
    return MaxMarginReport("consistent", reason, "tightened argmax", matrix, pieces, tree, v, law[None], coupling[None])
