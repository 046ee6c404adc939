"""What L-BFGS remembers gives the direction of BFGS's own matrix."""

import numpy as np
import pytest

from taskloss.parallel import Executor
from taskloss.solvers import pairs as module
from taskloss.solvers.pairs import Pairs


def bfgs(pairs, guess):
    """The inverse Hessian after these updates of a first guess, as a matrix."""
    h = guess
    for s, y in pairs:
        if s @ y > 0:
            v = np.eye(len(s)) - np.outer(y, s) / (s @ y)
            h = v.T @ h @ v + np.outer(s, s) / (s @ y)
    return h


class Walk:
    """Steps on independent quadratics, one in each column, whose gradients a search would see."""

    def __init__(self, shape, seed=0):
        self.rng = np.random.default_rng(seed)
        p, b = self.shape = shape
        root = self.rng.normal(size=(b, p, p)) / np.sqrt(p)
        self.hessians = root @ root.swapaxes(1, 2) + np.eye(p)
        self.gradient = self.rng.normal(size=shape)
        self.past: list[tuple[np.ndarray, np.ndarray]] = []

    def step(self, pairs, idle=None):
        """A random step, remembered; the columns `idle` stay where they are."""
        s = self.rng.normal(size=self.shape)
        if idle is not None:
            s[:, idle] = 0.0
        y = np.einsum("bij,jb->ib", self.hessians, s)
        self.gradient = self.gradient + y
        self.past.append((s, y))
        pairs.add(s, y, np.einsum("pb,pb->b", s, y))

    def expected(self, last, diagonal, columns):
        return np.column_stack(
            [
                -bfgs([(s[:, j], y[:, j]) for s, y in self.past[-last:]], np.diag(diagonal)) @ self.gradient[:, j]
                for j in columns
            ]
        )


@pytest.mark.parametrize("shape", [(7, 1), (130, 1), (9, 3), (5, 70)], ids=str)
@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
def test_directions_are_those_of_bfgs(shape, compiled, monkeypatch):
    """Also after the oldest pairs were forgotten, where some columns stood still, and among some columns alone."""
    if compiled:
        monkeypatch.setattr(module.Executor, "for_work", lambda work: Executor(2, compiled=True))
    tolerance = 1e-4 if compiled else 1e-9  # compiled passes read single precision
    pairs, walk, diagonal = Pairs(shape, 5), Walk(shape), np.linspace(0.5, 2.0, shape[0])

    def agree(columns=slice(None)):
        every = np.arange(shape[1])[columns]
        found = pairs.direction(walk.gradient[:, every], lambda q: diagonal[:, None] * q)
        expected = walk.expected(5, diagonal, every)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())

    for i in range(12):
        walk.step(pairs, idle=0 if i == 7 and shape[1] > 1 else None)
        agree()
    if shape[1] > 1:
        some = np.arange(0, shape[1], 2)
        pairs, whole = pairs.keep(some), walk.hessians
        walk.hessians = whole[some]
        walk.gradient, walk.shape = walk.gradient[:, some], (shape[0], len(some))
        walk.past = [(s[:, some], y[:, some]) for s, y in walk.past]
        shape = walk.shape
        for _ in range(3):
            walk.step(pairs)
            agree()


def test_a_point_may_be_asked_twice():
    """As when its gradient is told anew, more exactly: nothing was learned in between."""
    rng = np.random.default_rng(1)
    pairs, hessian, g = Pairs((6, 1), 4), np.diag(np.linspace(1, 3, 6)), rng.normal(size=(6, 1))
    for _ in range(6):
        s = rng.normal(size=(6, 1))
        pairs.add(s, hessian @ s, (s * (hessian @ s)).sum(0))
        g = g + hessian @ s
        once = pairs.direction(g, lambda q: q)
        np.testing.assert_array_equal(pairs.direction(g, lambda q: q), once)
        np.testing.assert_allclose(pairs.direction(g + 1e-9, lambda q: q), once, atol=1e-7)


def test_without_steps_the_guess_alone_counts():
    g = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(Pairs((3, 2), 4).direction(g, lambda q: 2 * q), -2 * g)


def test_large_points_remember_fewer_steps(monkeypatch):
    monkeypatch.setattr(module, "_NUMBERS", 1)
    assert Pairs((1000, 3), 80).most == module._FEWEST
    assert Pairs((1000, 3), 2).most == 2
