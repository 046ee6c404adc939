"""Orbits of pairs (z, z') under symmetries of the problem: one program per orbit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..surrogates.form import Form
from .problem import Problem


def orbits(problem: Problem) -> np.ndarray:
    """A representative of each ordered pair's orbit: entry [z, z'] is its flat index.

    Candidates are signed permutations of the coordinates of u (neighbours swapped, the order reversed, rows and
    columns of a grid swapped, a sign flipped); each is used only if it maps M's vertices, D's form and the set of
    outputs onto themselves, so that merged pairs have equal programs.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    n = len(problem.psi)
    ids = np.arange(n * n).reshape(n, n)
    generators = [move for move in (_outputs(problem, *c) for c in _candidates(problem)) if move is not None]
    if not generators:
        return ids
    targets = np.concatenate([ids[np.ix_(move, move)].ravel() for move in generators])
    sources = np.tile(ids.ravel(), len(generators))
    graph = coo_matrix((np.ones(len(sources)), (sources, targets)), shape=(n * n, n * n))
    component = connected_components(graph, directed=False)[1]
    first = np.full(component.max() + 1, n * n)
    np.minimum.at(first, component, ids.ravel())
    return first[component].reshape(n, n)


def _candidates(problem: Problem) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(permutation, signs) of the maps u -> signs * u[permutation]; none where the form is only a minorant of D_h."""
    k = problem.psi.shape[1]
    plain, identity = np.ones(k), np.arange(k)
    if not (problem.form.exact or problem.hellinger):
        return
    blocks = _grid(problem.form)
    if blocks is None:
        yield identity[::-1].copy(), plain
        for j in range(k - 1):
            swapped = identity.copy()
            swapped[[j, j + 1]] = j + 1, j
            yield swapped, plain
    else:
        grid = identity.reshape(blocks)
        for axis in (0, 1):
            for j in range(grid.shape[axis] - 1):
                order = np.arange(grid.shape[axis])
                order[[j, j + 1]] = j + 1, j
                yield np.take(grid, order, axis=axis).ravel(), plain
    low, high = problem.polytope.bounds()
    if np.allclose(low, -high):
        for j in range(k):
            signs = plain.copy()
            signs[j] = -1
            yield identity, signs
        yield identity[::-1].copy(), -plain


def _grid(form: Form) -> tuple[int, int] | None:
    """Rows and columns of a table, where D's equations say that each of several rows sums to a constant."""
    count, k = form.equal.shape
    if count < 2 or k % count or not np.array_equal(form.equal, np.kron(np.eye(count), np.ones(k // count))):
        return None
    return count, k // count


def _keeps(form: Form, permutation: np.ndarray, signs: np.ndarray) -> bool:
    """Whether the map leaves D and its divergence invariant: it permutes terms and equations."""
    for rows, levels in ((form.slope, form.shift), (form.equal, form.level)):
        # u -> P u maps a row r to r P; P' is the inverse of P, and of the same kind
        moved = np.zeros_like(rows)
        moved[:, permutation] = rows * signs
        if len(rows) and _match(np.c_[rows, levels], np.c_[moved, levels]) is None:
            return False
    return True


def _outputs(problem: Problem, permutation: np.ndarray, signs: np.ndarray) -> np.ndarray | None:
    """The permutation of the outputs that the map induces; None where it is no symmetry."""
    if not _keeps(problem.form, permutation, signs):
        return None
    if _match(problem.vertices, signs * problem.vertices[:, permutation]) is None:
        return None
    rows = np.c_[problem.psi, problem.offset]
    return _match(rows, np.c_[signs * problem.psi[:, permutation], problem.offset])


def _match(rows: np.ndarray, moved: np.ndarray) -> np.ndarray | None:
    """The permutation `move` with rows[move[i]] = moved[i]; None where the two are not the same set of rows."""
    unit = np.maximum(np.abs(rows).max(0, initial=0.0), 1e-300).max()
    rows, moved = np.round(rows / unit, 10) + 0.0, np.round(moved / unit, 10) + 0.0
    mine, theirs = np.lexsort(rows.T), np.lexsort(moved.T)
    if not np.array_equal(rows[mine], moved[theirs]):
        return None
    move = np.empty(len(rows), dtype=np.int64)
    move[theirs] = mine
    return move
