"""Scores of chains and trees rescaled by a few numbers, which are fitted by likelihood to labelled examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from ..hypotheses.structured import NodeEdgeScores
from ..parallel import Executor
from .forests import Forests

_PENALTY = 1e-3  # on |(a - 1, c - 1, b)|^2 / 2, which keeps the map finite where few examples speak
_FACTORS = (np.exp(-5.0), np.exp(5.0))
_PARTS = 5  # among which examples are cross-fitted


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
    """Labelled examples with their scores, before a surrogate's limits, and the places of their states among those of all parts."""

    risk: Forests
    scores: NodeEdgeScores
    states: np.ndarray

    def take(self, examples: np.ndarray) -> Scored:
        return Scored(self.risk.take(examples), self.risk.view(self.scores, examples), self.states)

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


def split(scored: Scored, random_state: int = 0) -> list[Scored]:
    """The examples in a few parts, drawn at random."""
    n = scored.risk.n_examples
    order = np.random.default_rng(random_state).permutation(n)
    return [scored.take(np.sort(order[start::_PARTS])) for start in range(min(_PARTS, n))]


def rescale(method: str, parts: Sequence[Scored]) -> Rescaling:
    """The map of least log-loss -log p(labelling) on all parts; the scores may be those of several models, one for each part.

    "temperature": a = c, b = 0. "vector": all of them, penalised by 1e-3 (|(a, c) - 1|^2 + |b|^2) / 2. Either is a convex
    problem, as log p is concave in the scores and these are linear in (a, c, b).
    """
    return _as_map(method, _fit(method, parts))


def choose(parts: Sequence[Scored]) -> str:
    """The method of least log-loss, each part scored by the map that the others give."""
    return min(METHODS, key=lambda method: cross_fitted(method, parts))


def cross_fitted(method: str, parts: Sequence[Scored]) -> float:
    """The log-loss of rescaled scores, each part rescaled by the map that the others give."""
    start, total = _fit(method, parts), 0.0
    for part in parts:
        rest = [other for other in parts if other is not part]
        theta = _fit(method, rest, start) if sum(other.risk.weights.sum() for other in rest) > 0 else _full(parts)
        total += part.value_and_gradient(theta)[0]
    return total


def _full(parts: Sequence[Scored]) -> np.ndarray:
    """(a, c, b) of the identity."""
    return np.concatenate([np.ones(2), np.zeros(1 + max(int(part.states.max()) for part in parts))])


def _none(size: int) -> np.ndarray:
    return np.zeros((size, 0))


def _temperature(size: int) -> np.ndarray:
    return (np.arange(size) < 2).astype(float)[:, None]


# What is free of (a, c, b): its departure from the identity is a column space, a column for each number that is fitted.
METHODS: dict[str, Callable[[int], np.ndarray]] = {"none": _none, "temperature": _temperature, "vector": np.eye}


def _as_map(method: str, theta: np.ndarray) -> Rescaling:
    a, c, b = float(theta[0]), float(theta[1]), theta[2:]
    return Rescaling(a, c, b if method == "vector" else 0.0)


def _fit(method: str, parts: Sequence[Scored], start: np.ndarray | None = None) -> np.ndarray:
    """(a, c, b) of least risk."""
    one = _full(parts)
    free = METHODS[method](len(one))
    if not free.shape[1]:
        return one
    total = sum(part.risk.weights.sum() for part in parts)
    penalty = _PENALTY if method == "vector" else 0.0

    def value(step: np.ndarray) -> tuple[float, np.ndarray]:
        theta = one + free @ step
        found = [part.value_and_gradient(theta) for part in parts]
        risk, gradient = (sum(values) / total for values in zip(*found, strict=True))
        return risk + penalty * step @ step / 2, free.T @ gradient + penalty * step

    factors = [(low - 1, high - 1) for low, high in [_FACTORS] * min(2, free.shape[1])]
    bounds = factors + [(None, None)] * (free.shape[1] - len(factors))
    begin = np.zeros(free.shape[1]) if start is None else np.linalg.lstsq(free, start - one, rcond=None)[0]
    found = minimize(value, begin, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-13, "gtol": 1e-7})
    return one + free @ found.x
