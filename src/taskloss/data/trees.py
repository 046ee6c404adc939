"""Users' own trees, in any order of nodes, and the packed order that inference needs: parents before children."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..polytopes._forest import Forest


def read_forest(offsets: np.ndarray, parents: Any = None) -> tuple[Forest, Any]:
    """The packed shape of chains, or of trees with these parents; and the node at each packed place, an index.

    parents: one array for each tree, or one for all, with a parent's place in its own tree and -1 at the root.
    """
    if parents is None:
        return Forest.chains_at(offsets), slice(None)
    lengths, first = np.diff(offsets), offsets[:-1]
    local = _flat_parents(parents, lengths)
    tree_of = np.repeat(np.arange(len(lengths)), lengths)
    _refuse((local < -1) | (local >= lengths[tree_of]), tree_of, "names a node that the tree does not have")
    roots = np.bincount(tree_of[local < 0], minlength=len(lengths))
    _refuse(roots[tree_of] != 1, tree_of, "must have one root, marked by -1")
    above = np.where(local < 0, np.arange(len(local)), local + first[tree_of])
    depth = _depths(above, local >= 0, int(lengths.max()))
    _refuse(depth < 0, tree_of, "goes round in a circle")
    if (above[local >= 0] < np.flatnonzero(local >= 0)).all() and (local[first] < 0).all():
        return Forest(np.where(local < 0, -1, above), offsets), slice(None)
    order = np.lexsort((depth, tree_of))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return Forest(np.where(local < 0, -1, place[above])[order], offsets), order


def _depths(above: np.ndarray, inner: np.ndarray, longest: int) -> np.ndarray:
    """How far each node is from its root, by doubling the step upwards; -1 where no root is reached."""
    depth = inner.astype(np.int64)
    for _ in range(longest.bit_length()):
        depth += depth[above]
        above = above[above]
    return np.where(inner[above], -1, depth)


def _flat_parents(parents: Any, lengths: np.ndarray) -> np.ndarray:
    """Of all trees in one array."""
    rows = list(parents) if hasattr(parents, "__iter__") else [parents]
    if rows and all(np.ndim(row) == 0 for row in rows):
        flat = np.asarray(rows)
        if len(flat) != lengths.sum():
            raise ValueError(f"X has {lengths.sum()} nodes, but parents has {len(flat)}.")
    else:
        if len(rows) != len(lengths):
            raise ValueError(f"X has {len(lengths)} trees, but parents has {len(rows)}.")
        for i, (row, length) in enumerate(zip(rows, lengths, strict=True)):
            if np.shape(row) != (length,):
                raise ValueError(
                    f"Tree {i} has {length} nodes in X, but its parents have shape {np.shape(row)}: give one number for each node."
                )
        flat = np.concatenate([np.asarray(row) for row in rows])
    if flat.dtype.kind not in "iu":
        raise ValueError(f"parents must be integers, the place of each node's parent in its tree; got {flat.dtype}.")
    return flat.astype(np.int64)


def _refuse(wrong: np.ndarray, tree_of: np.ndarray, sentence: str) -> None:
    if wrong.any():
        raise ValueError(f"The parents of tree {tree_of[np.argmax(wrong)]}: the array {sentence}.")
