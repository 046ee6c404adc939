"""Polyhedral surrogates: the cells on which their least risk is linear, and counterexamples to consistency."""

from __future__ import annotations

import itertools

import numpy as np

from .linear import linear_program

LARGEST = 5  # labels up to which all cells are listed


def values_of(pieces: tuple[np.ndarray, np.ndarray, np.ndarray], v: np.ndarray, labels: int) -> np.ndarray:
    y, a, b = pieces
    heights = v @ a.T + b
    return np.stack([heights[:, y == label].max(1) for label in range(labels)], axis=-1)


def region(matrix: np.ndarray, z: int) -> np.ndarray:
    """The vertices of the polytope of laws for which output z is optimal: k - 1 inequalities are active at each."""
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


class Cells:
    """S(v, y) = max over its pieces of b + <a, v>, and the cells on which its least risk is linear."""

    def __init__(self, matrix: np.ndarray, truth: np.ndarray, kind: str, tol: float):
        self.matrix, self.k, self.tol = matrix, matrix.shape[1], max(tol, 1e-9)
        outputs = np.eye(len(matrix))
        rows: list[tuple[int, np.ndarray, float]] = []
        if kind != "max-margin":
            regions = [region(matrix, z) for z in range(len(matrix))]
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
        size = self.a.shape[1]
        rows = np.c_[self.a, -np.eye(self.k)[self.y]]
        bounds = (
            [(0, 0)] + [(-1e3, 1e3)] * (size - 1) + [(None, None)] * self.k
        )  # S is invariant to a constant added to all scores
        found = linear_program(np.r_[np.zeros(size), q], A_ub=rows, b_ub=-self.b, bounds=bounds)
        if found.status != 0:
            raise ArithmeticError(f"The linear program of the least risk failed: {found.message}")
        return found.x[:size], float(found.fun)

    def values(self, v: np.ndarray) -> np.ndarray:
        return values_of((self.y, self.a, self.b), v[None], self.k)[0]

    def _tight(self, v: np.ndarray) -> np.ndarray:
        return self.a @ v + self.b >= self.values(v)[self.y] - 1e-7

    def coupling(self, v: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Weights of the tight pieces that certify v as a minimiser for q."""
        found = self._program(v, np.zeros(self.k), q)
        if found is None:
            raise ArithmeticError("The score does not minimise the risk of this law.")
        return found

    def _program(self, v: np.ndarray, reward: np.ndarray, q: np.ndarray | None = None) -> np.ndarray | None:
        """The coupling that maximises <reward, q> over the laws q whose risk v minimises, or for the given q."""
        tight = np.flatnonzero(self._tight(v))
        sums = np.eye(self.k)[self.y[tight]].T
        equal = np.vstack([self.a[tight].T, np.ones(len(tight)) if q is None else sums])
        level = np.r_[np.zeros(self.a.shape[1]), [1.0] if q is None else q]
        found = linear_program(-(reward @ sums), A_eq=equal, b_eq=level)
        if found.status != 0:
            return None
        out = np.zeros(len(self.y))
        out[tight] = np.maximum(found.x, 0.0)
        return out

    def _law(self, coupling: np.ndarray) -> np.ndarray:
        return np.bincount(self.y, coupling, self.k)

    def counterexample(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """(v, laws, couplings), or None; then `complete` says whether every cell was checked."""
        for q in self._first_laws():
            found = self._try(*self.best(q)[:1], q)
            if found is not None:
                return found
        if self.k > LARGEST:
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
        """Uniform laws on few labels, and random ones."""
        sizes = range(1, min(self.k, 4) + 1)
        subsets = [s for size in sizes for s in itertools.combinations(range(self.k), size)][:60]
        rng = np.random.default_rng(0)
        uniform = [np.bincount(s, minlength=self.k) / len(s) for s in subsets]
        return [*rng.dirichlet(np.ones(self.k), 20), *uniform]

    def _try(self, v: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """A counterexample, if the laws whose risk v minimises have no common optimal output; else v's cell is recorded."""
        values = self.values(v)
        if any(np.allclose(values, self.values(other), atol=1e-9) for other in self.scores):
            return None
        first = self._program(v, np.zeros(self.k), q)
        if first is None:
            return None
        risks = self.matrix @ q
        couplings = [first]
        for z in np.flatnonzero(risks <= risks.min() + 1e-7):
            gains = []
            for other in range(len(self.matrix)):
                if other != z:
                    coupling = self._program(v, self.matrix[z] - self.matrix[other])
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
        """The vertices (q, height) of the hypograph of the minimum of the linear functions found so far."""
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
