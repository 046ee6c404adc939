"""Which pairs (z, z') are the same by symmetry, so that one program answers for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..polytopes.cube import Cube
from ..polytopes.product import Product
from ..polytopes.simplex import Simplex
from .problem import Problem


def orbits(problem: Problem) -> np.ndarray:
    """A representative for each ordered pair: entry [z, z'] is the flat index of the pair that stands for it.

    Candidates are signed permutations of the coordinates of u (neighbours swapped, the order reversed, rows and
    columns of a grid swapped, a sign turned); each is kept only if it maps M's vertices, D's potential and the set of
    outputs onto themselves, so that what is merged is equal and not just alike.
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
    """(permutation, signs): u -> signs * u[permutation], of a kind that leaves D and its potential alone."""
    k = problem.psi.shape[1]
    plain, identity = np.ones(k), np.arange(k)
    domain = problem.surrogate.domain
    if not _permutable(problem):
        return
    blocks = _blocks(domain)
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
    even = domain is None or (isinstance(domain, Cube) and domain.low == -1.0)
    if even and np.allclose(low, -high):
        for j in range(k):
            signs = plain.copy()
            signs[j] = -1
            yield identity, signs
        yield identity[::-1].copy(), -plain


def _permutable(problem: Problem) -> bool:
    """Whether h is known not to change when coordinates are permuted as the candidates do."""
    domain, form = problem.surrogate.domain, problem.form
    if not (form.exact or problem.surrogate.separable):
        return False
    return domain is None or isinstance(domain, Simplex | Cube) or _blocks(domain) is not None


def _blocks(domain: Any) -> tuple[int, int] | None:
    if isinstance(domain, Product) and all(f == domain.factors[0] for f in domain.factors):
        return len(domain.factors), domain.factors[0].size
    return None


def _outputs(problem: Problem, permutation: np.ndarray, signs: np.ndarray) -> np.ndarray | None:
    """The permutation of the outputs that the move induces; None where it is no symmetry."""
    if _match(problem.vertices, signs * problem.vertices[:, permutation]) is None:
        return None
    rows = np.c_[problem.psi, problem.offset]
    return _match(rows, np.c_[signs * problem.psi[:, permutation], problem.offset])


def _match(rows: np.ndarray, moved: np.ndarray) -> np.ndarray | None:
    """move with rows[move[i]] = moved[i], where the two are the same set of rows."""
    rows, moved = np.round(rows, 10) + 0.0, np.round(moved, 10) + 0.0
    mine, theirs = np.lexsort(rows.T), np.lexsort(moved.T)
    if not np.array_equal(rows[mine], moved[theirs]):
        return None
    move = np.empty(len(rows), dtype=np.int64)
    move[theirs] = mine
    return move
