"""Distance in a taxonomy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from .base import name_array
from .tabular import Tabular


class TreeDistance(Tabular):
    """L(z, y) = the number of edges between z and y in a tree: a confusion within a genus costs less than one across
    families.

    `tree`: a mapping from each node to its parent (roots map to None), or paths as strings ("animal/cat", split at
    `separator`) or tuples; left out, the labels of y are the paths. A label is then a full path. `labels` lists the
    nodes that are labels, by default the leaves of a mapping or every path given. `outputs` is "labels", or "nodes"
    to allow any node of the tree as an answer, which lets the predictor stop at a genus when it cannot tell the
    species.

    embedding "cube" has one sign per edge, on which side of it a node lies: the tree's Hamming embedding. A path
    graph gives Absolute's.
    """

    name = "tree-distance"
    ordered = True

    def __init__(
        self,
        tree: Any = None,
        labels: Sequence[Any] | None = None,
        outputs: str = "labels",
        separator: str = "/",
        embedding: Any = "auto",
    ):
        self.tree = tree
        self._labels = labels
        self._outputs = outputs
        self.separator = separator
        self.embedding = embedding

    aliases = {"labels": "_labels", "outputs": "_outputs"}

    @classmethod
    def examples(cls) -> list[Self]:
        paths = ["a/x", "a/y", "b/x/u", "b/x/v", "b"]
        return [cls(paths), cls(paths, outputs="nodes"), cls(paths, embedding="cube")]

    def bind(self, size: int) -> Self:
        if self.n_labels != size:
            raise ValueError(
                f"The taxonomy has {self.n_labels} labels, but y has {size} classes: list them with labels=..."
            )
        return self

    def bind_names(self, classes: np.ndarray) -> Self:
        """Take the paths from the classes of y where no tree was given, and their order where one was."""
        if self.tree is None:
            return self.with_params(tree=list(classes))
        return self if self._places(classes) is None else self.with_params(labels=classes.tolist())

    # -- the tree: nodes with their chains of ancestors --------------------------------------------------------------

    def _chains(self) -> dict[Any, tuple[Any, ...]]:
        """Each node's name and the chain of edges (named by their lower end) from the root down to it."""
        if self.tree is None:
            raise ValueError("TreeDistance needs a tree: a mapping from node to parent, or a list of paths.")
        if isinstance(self.tree, Mapping):
            return self._chains_of_parents(dict(self.tree))
        chains: dict[Any, tuple[Any, ...]] = {}
        for path in self.tree:
            steps = tuple(path.split(self.separator)) if isinstance(path, str) else tuple(path)
            for depth in range(1, len(steps) + 1):
                prefix = steps[:depth]
                node = self.separator.join(prefix) if isinstance(path, str) else prefix
                chains[node] = tuple(steps[:d] for d in range(1, depth + 1))
        return chains

    def _chains_of_parents(self, parents: dict[str, Any]) -> dict[Any, tuple[Any, ...]]:
        chains: dict[Any, tuple[Any, ...]] = {}
        for start in [*parents, *(p for p in parents.values() if p is not None)]:
            chain, node = [], start
            while node is not None:
                if node in chain:
                    raise ValueError(f"The taxonomy has a cycle through {node!r}.")
                chain.append(node)
                node = parents.get(node)
            chains[start] = tuple(reversed(chain))
        return chains

    def _label_nodes(self, chains: dict[Any, tuple[Any, ...]]) -> list[Any]:
        if self._labels is not None:
            missing = [node for node in self._labels if node not in chains]
            if missing:
                raise ValueError(f"labels names {missing[0]!r}, which is not a node of the taxonomy.")
            return list(self._labels)
        if isinstance(self.tree, Mapping):
            inner = set(self.tree.values())
            return [node for node in chains if node not in inner]
        return list(dict.fromkeys(self.tree))

    def _output_nodes(self, chains: dict[Any, tuple[Any, ...]]) -> list[Any]:
        if not (isinstance(self._outputs, str) and self._outputs in ("labels", "nodes")):
            raise ValueError(f"outputs must be 'labels' or 'nodes', got {self._outputs!r}.")
        labels = self._label_nodes(chains)
        return labels if self._outputs == "labels" else labels + [node for node in chains if node not in set(labels)]

    def _signs(self, nodes: list[Any], chains: dict[Any, tuple[Any, ...]]) -> np.ndarray:
        """One row per node, one column per edge above some label: 1 below the edge, -1 elsewhere."""
        edges = {edge: j for j, edge in enumerate(dict.fromkeys(e for chain in chains.values() for e in chain))}
        signs = -np.ones((len(nodes), len(edges)))
        for i, node in enumerate(nodes):
            signs[i, [edges[e] for e in chains[node]]] = 1
        return signs

    def _cube(self) -> np.ndarray:
        chains = self._chains()
        return self._signs(self._label_nodes(chains), chains)

    def _decomposition(self) -> tuple[np.ndarray, Any]:
        if not (isinstance(self.embedding, str) and self.embedding == "cube"):
            return super()._decomposition()
        # Two nodes are apart by the edges on which their signs differ: r/2 - <phi(z), phi(y)>/2.
        chains = self._chains()
        signs = self._signs(self._output_nodes(chains), chains)
        return -signs / 2, signs.shape[1] / 2

    def _count(self) -> int:
        return len(self._label_nodes(self._chains()))

    def matrix(self) -> np.ndarray:
        chains = self._chains()
        labels, outputs = self._label_nodes(chains), self._output_nodes(chains)
        signs_y, signs_z = self._signs(labels, chains), self._signs(outputs, chains)
        return (signs_y.shape[1] - signs_z @ signs_y.T) / 2

    def label_names(self) -> np.ndarray | None:
        return None if self.tree is None else name_array(self._label_nodes(self._chains()))

    def output_names(self, classes: np.ndarray) -> np.ndarray:
        return classes if self._outputs == "labels" else name_array(self._output_nodes(self._chains()))
