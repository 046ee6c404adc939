"""Hypotheses made of another one and a table of their own."""

from __future__ import annotations

from functools import cache
from typing import Any, Self

import numpy as np

from .base import Holdout, Hypothesis, Inputs
from .places import Room


@cache
def _by_name(kind: type[Hypothesis]) -> Hypothesis:
    """What a name stands for, made once: a pass over little data asks for the node often, and nothing changes a part."""
    return kind()


class Composed(Hypothesis):
    """Any hypothesis, the node, beside a table of parameters that a child adds. What is said of features is the node's.

    node: a hypothesis or its name. A child whose inputs are more than rows says in `node_inputs` which rows the node reads.
    """

    node: Any

    @property
    def _node(self) -> Hypothesis:
        node = self.node
        if isinstance(node, Hypothesis):
            return node
        if not isinstance(node, str) or node not in Hypothesis.registry:
            return Hypothesis.resolve(node)
        return _by_name(Hypothesis.registry[node])  # type: ignore[arg-type]  # classes have a hash, if their instances have none

    def node_inputs(self, inputs: Inputs) -> Inputs:
        """What of the inputs the node reads."""
        return inputs

    @property
    def dtypes(self) -> tuple[type, ...]:
        return self._node.dtypes

    @property
    def allow_nan(self) -> bool:
        return self._node.allow_nan

    @property
    def default_alpha(self) -> Any:
        return self._node.default_alpha

    @property
    def whitened(self) -> bool:
        return self._node.whitened

    @property
    def fit_intercept(self) -> bool:  # type: ignore[override]
        return self._node.fit_intercept

    @property
    def room(self) -> Room | None:
        return self._node.room

    @property
    def makes_features(self) -> bool:
        return self._node.makes_features

    @property
    def pairwise(self) -> bool:
        return self._node.pairwise

    @property
    def trained(self) -> bool:
        return self._node.trained

    @property
    def holdout(self) -> Holdout | None:
        return self._node.holdout

    @property
    def begins(self) -> Hypothesis | None:
        node = self._node.begins
        return None if node is None else self.with_params(node=node)

    def beginning_with(self, start: Any) -> Self:
        return self.with_params(node=self._node.beginning_with(start.node))

    def reads(self, inputs: Inputs) -> Inputs:
        return self._node.reads(inputs)

    def inputs_around(self, nodes: Inputs, shape: Any) -> Inputs:
        """Inputs of which the node reads these; shape has the rest, where there is more."""
        return nodes

    def parted(self, theta: Any, entries: tuple[int, ...]) -> tuple[Any, np.ndarray]:
        """Parameters as those of the node by itself, and a table of so many entries that is joined to its scores."""
        return theta.node, theta.table

    def read(self, X: Any, estimator: Any, fitting: bool) -> Inputs:
        return self._node.read(X, estimator, fitting)

    def expanded(self) -> Self:
        node = self._node
        expanded = node.expanded()
        return self if expanded is node else self.with_params(node=expanded)

    def self_trained(self, theta: Any) -> Any:
        return self._node.self_trained(theta.node) if self.trained else None

    def check(self, estimator: str) -> None:
        self._node.check(estimator)

    def bind(self, inputs: Inputs, weights: np.ndarray | None = None) -> Self:
        return self.with_params(node=self._node.bind(self.node_inputs(inputs), weights))

    def rescaled(self, factor: float) -> Self | None:
        node = self._node.rescaled(factor)
        return None if node is None else self.with_params(node=node)

    def rank(self, inputs: Inputs) -> int:
        return self._node.rank(self.node_inputs(inputs))

    def width(self, inputs: int) -> int:
        return self._node.width(inputs)

    def work(self, inputs: Inputs) -> float:
        return self._node.work(self.node_inputs(inputs))

    def sparse(self, inputs: Inputs) -> bool:
        return self._node.sparse(self.node_inputs(inputs))
