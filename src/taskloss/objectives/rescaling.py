"""Scores of chains and trees rescaled by a few numbers, which are fitted by likelihood to labelled examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from ..hypotheses.structured import NodeEdgeScores
from ..parallel import Executor
from .forests import Forests

_PENALTY = 1e-3  # on |(a - 1, c - 1, b)|^2 / 2, which keeps the map finite where few examples speak
_FACTORS = np.exp([-5.0, 5.0])  # held-out examples that are all right would have no end
_PARTS = 5  # among which examples are cross-fitted
METHODS = ("none", "temperature", "vector")


@dataclass(frozen=True, eq=False)
class Rescaling:
    """v -> (a v_nodes + b, c v_edges): a factor for the scores of nodes, an offset for each state, and a factor for the scores of edges.

    The law stays that of a chain or tree, p(y)^a where a = c and b = 0. As it stands, the identity.
    """

    nodes: float = 1.0
    edges: float = 1.0
    offset: np.ndarray | float = 0.0

    def __call__(self, v: NodeEdgeScores) -> NodeEdgeScores:
        return NodeEdgeScores(v.nodes * self.nodes + self.offset, v.edges * self.edges)


class Scored(NamedTuple):
    """Labelled examples with their scores, before anything is forbidden; the places of their states among all, and how many these are."""

    risk: Forests
    scores: NodeEdgeScores
    states: np.ndarray
    n_states: int

    def take(self, examples: slice | np.ndarray) -> Scored:
        return self._replace(risk=self.risk.take(examples), scores=self.risk.view(self.scores, examples))

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The risk of rescaled scores as a function of theta = (a, c, b)."""
        nodes, edges = self.scores.nodes, self.scores.edges
        executor = Executor.for_work(self.risk.work, self.risk.n_examples)
        v = Rescaling(theta[0], theta[1], theta[2:][self.states])(self.scores)
        value, d = self.risk.risk_and_gradient(v, executor=executor)
        gradient = np.zeros(len(theta))
        gradient[:2] = np.vdot(d.nodes, nodes), np.vdot(d.edges, edges)
        gradient[2:][self.states] = d.nodes.sum(0)
        return float(value[0]), gradient


def split(scored: Scored) -> list[Scored]:
    """The examples in a few parts, each of consecutive ones, which are often alike."""
    n = scored.risk.n_examples
    count = min(_PARTS, n)
    return [scored.take(slice(i * n // count, (i + 1) * n // count)) for i in range(count)]


def rescale(method: str, parts: Sequence[Scored]) -> Rescaling:
    """The map of least log-loss -log p(labelling) on all parts; the scores may be those of several models, one for each part.

    "temperature": a = c, b = 0. "vector": all of them, penalised by 1e-3 (|(a, c) - 1|^2 + |b|^2) / 2. Either is a convex
    problem, as log p is concave in the scores and these are linear in (a, c, b).
    """
    theta = _fit(method, parts)
    return Rescaling(float(theta[0]), float(theta[1]), theta[2:] if method == "vector" else 0.0)


def choose(parts: Sequence[Scored]) -> str:
    """The method of least log-loss, each part scored by the map that the others give."""
    return min(METHODS, key=lambda method: cross_fitted(method, parts))


def cross_fitted(method: str, parts: Sequence[Scored]) -> float:
    """The log-loss of rescaled scores, each part rescaled by the map that the others give."""
    start, total = _fit(method, parts), 0.0
    for i, part in enumerate(parts):
        theta = _fit(method, [*parts[:i], *parts[i + 1 :]], start)
        total += part.value_and_gradient(theta)[0]
    return total


def _fit(method: str, parts: Sequence[Scored], start: np.ndarray | None = None) -> np.ndarray:
    """(a, c, b) of least risk, that of the identity where no example counts."""
    one = np.concatenate([np.ones(2), np.zeros(parts[0].n_states)])
    total = sum(part.risk.weights.sum() for part in parts)
    if method == "none" or not total > 0:
        return one
    shared = method == "temperature"
    free = np.repeat([1.0, 0.0], [2, len(one) - 2])[:, None] if shared else np.eye(len(one))  # a column for each number
    penalty = 0.0 if shared else _PENALTY

    def value(step: np.ndarray) -> tuple[float, np.ndarray]:
        found = [part.value_and_gradient(one + free @ step) for part in parts]
        risk, gradient = (sum(values) / total for values in zip(*found, strict=True))
        return risk + penalty * step @ step / 2, free.T @ gradient + penalty * step

    begin = np.zeros(free.shape[1]) if start is None else free.T @ (start - one) / free.sum(0)
    bounds = [_FACTORS - 1] * (1 if shared else 2) + [(-np.inf, np.inf)] * (0 if shared else len(one) - 2)
    found = minimize(value, begin, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-11, "gtol": 1e-7})
    return one + free @ found.x
