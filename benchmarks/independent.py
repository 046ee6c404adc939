"""Costs of all kinds, divergences from their definitions, and a search for pairs (u', u) that shares no code with tl.theory."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

import taskloss as tl

KINDS = (
    "uniform",
    "integer",
    "scaled",
    "dominated",
    "mixed outputs",
    "duplicated",
    "constant rows",
    "constant columns",
    "one output",
    "one label",
)


class Case(NamedTuple):
    """One problem: costs, embedding, a surrogate with its divergence and domain written out."""

    kind: str
    name: str
    costs: np.ndarray
    phi: np.ndarray
    loss: Any
    surrogate: Any
    rule: Rule


class Rule(NamedTuple):
    """D(u', u) from (u, u' - u), and the domain as rows @ u >= levels, equal @ u = sums; corners to draw from."""

    divergence: Callable[..., np.ndarray]
    rows: np.ndarray
    levels: np.ndarray
    equal: np.ndarray
    sums: np.ndarray
    corners: np.ndarray | None
    scores: bool = False  # moments of scores: the domain is a hull whose points are dependent
    law: bool = False  # rows @ u - levels is the law over the labels


# -- costs -----------------------------------------------------------------------------------------------------------


def draw_costs(rng: np.random.Generator, kind: str) -> np.ndarray:
    n, m = rng.integers(2, 5), rng.integers(2, 5)
    if kind == "one output":
        n = 1
    if kind == "one label":
        m = 1
    table = rng.uniform(0, 1, (n, m)) if rng.random() < 0.5 else rng.integers(0, 4, (n, m)).astype(float)
    if kind == "uniform":
        return rng.uniform(0, 1, (n, m))
    if kind == "integer":
        return rng.integers(0, 4, (n, m)).astype(float)
    if kind == "scaled":
        return table * 10.0 ** rng.integers(-6, 7)
    if kind == "dominated":
        return np.vstack([table, table.max(0) + rng.choice([0.0, 0.1, 1.0])])
    if kind == "mixed outputs":
        return np.vstack([table, rng.dirichlet(np.ones(n)) @ table])
    if kind == "duplicated":
        table = np.vstack([table, table[rng.integers(n)]])
        return np.c_[table, table[:, rng.integers(m)]]
    if kind == "constant rows":
        table[rng.integers(n)] = rng.uniform(0, 1)
    if kind == "constant columns":
        table[:, rng.integers(m)] = 1.0
    return table


# -- divergences, from their definitions -----------------------------------------------------------------------------


def log_terms(a: np.ndarray, move: np.ndarray) -> np.ndarray:
    """(a + move) log((a + move) / a) - move, summed: Kullback-Leibler where the moves sum to zero."""
    with np.errstate(all="ignore"):
        t = move / a
        # integral of log(1 + t x) t dx by its closed form, or by three terms of its series where that would cancel
        exact = (1 + t) * np.log1p(t) - t
        value = a * np.where(np.abs(t) < 1e-4, t * t / 2 - t**3 / 6 + t**4 / 12, exact)
        value = np.where(t <= -1, np.where(a + move < -1e-13, np.inf, a), value)
        value = np.where(a <= 0, np.inf, value)
        value = np.where((a < 1e-12) & (np.abs(move) < 1e-12), 0.0, value)  # both zero, but for rounding of a face
    return value.sum(-1)


def roots(y: np.ndarray, move: np.ndarray) -> np.ndarray:
    """Of h(q) = -2 sqrt(q(1-q)): (x - y)^2 over (sqrt(x(1-y)) + sqrt(y(1-x)))^2 sqrt(y(1-y))."""
    x = np.clip(y + move, 0, 1)
    with np.errstate(all="ignore"):
        both = (np.sqrt(x * (1 - y)) + np.sqrt(y * (1 - x))) ** 2 * np.sqrt(y * (1 - y))
        value = np.where(move == 0, 0.0, np.where(both > 0, move**2 / both, np.inf))
    return value.sum(-1)


def whole(k: int, weight: float) -> Rule:
    none = np.zeros((0, k)), np.zeros(0)
    return Rule(lambda u, d: weight / 2 * (d**2).sum(-1), *none, *none, None)


def box(k: int, low: float, divergence: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Rule:
    rows = np.vstack([np.eye(k), -np.eye(k)])
    grid = np.stack(np.meshgrid(*[[low, 1.0]] * k), -1).reshape(-1, k)
    return Rule(divergence, rows, np.r_[np.full(k, low), -np.ones(k)], np.zeros((0, k)), np.zeros(0), grid)


def cube(k: int, low: float, margin: str) -> Rule:
    width = 1 - low
    if margin == "square":
        return whole(k, 8 / width**2)
    if margin == "exponential":
        return box(k, low, lambda u, d: roots((u - low) / width, d / width))
    return box(k, low, lambda u, d: log_terms((u - low) / width, d / width) + log_terms((1 - u) / width, -d / width))


def law(phi: np.ndarray, weight: float = 1.0, square: float = 0.0) -> Rule:
    """Kullback-Leibler on the law over affinely independent points, and a squared norm."""
    inverse = np.linalg.pinv(np.vstack([phi.T, np.ones(len(phi))]))
    slope, shift = inverse[:, :-1], inverse[:, -1]
    centred = phi - phi.mean(0)
    singular = np.linalg.svd(centred)
    equal = singular[2][int((singular[1] > 1e-9 * max(singular[1].max(initial=0), 1e-300)).sum()) :]

    def divergence(u: np.ndarray, d: np.ndarray, a: np.ndarray | None = None) -> np.ndarray:
        """a: the law of u where it is known better than by its products, in which what is below 1e-15 is rounding."""
        if a is None:
            a = u @ slope.T + shift
            a = np.where(np.abs(a) < 1e-15, 0.0, a)
        return weight * log_terms(a, d @ slope.T) + square / 2 * (d**2).sum(-1)

    return Rule(divergence, slope, -shift, equal, equal @ phi[0], phi, law=True)


def listwise(k: int, cap: float) -> Rule:
    corners = np.vstack([np.zeros(k), cap * np.eye(k)])
    rows = np.vstack([np.eye(k), -np.ones(k)])
    levels = np.append(np.zeros(k), -cap)
    none = np.zeros((0, k)), np.zeros(0)
    return Rule(
        lambda u, d: log_terms(u, d) + log_terms(cap - u.sum(-1, keepdims=True), -d.sum(-1, keepdims=True)),
        rows,
        levels,
        *none,
        corners,
    )


def exponential_sum(u: np.ndarray) -> np.ndarray:
    return np.exp(3 * u).sum(-1)


def steep(k: int) -> Rule:
    none = np.zeros((0, k)), np.zeros(0)
    with np.errstate(all="ignore"):
        return Rule(lambda u, d: (np.exp(3 * u) * (np.expm1(3 * d) - 3 * d)).sum(-1), *none, *none, None)


# -- problems --------------------------------------------------------------------------------------------------------


def draw_case(rng: np.random.Generator, kind: str, which: int) -> Case:
    """A random problem with one of the surrogates that fit one of the embeddings."""
    costs = draw_costs(rng, kind)
    m = costs.shape[1]
    S = tl.surrogates
    home = ("canonical", "cube", "own", "dependent")[rng.integers(4)]
    if home == "cube" and m < 2:
        home = "canonical"
    if home == "dependent" and (m < 4 or kind in ("one label", "scaled")):
        home = "own"
    phi, embedding = np.eye(m), "canonical"
    if home == "cube":
        phi, embedding = 2.0 * np.tri(m, m - 1, -1) - 1, "cube"
    elif home == "own":
        phi = embedding = rng.normal(size=(m, max(1, m + rng.integers(-1, 2)))) * 10.0 ** rng.uniform(-1, 1)
    elif home == "dependent":
        phi = embedding = rng.normal(size=(m, m - 2))
        costs = rng.normal(size=(len(costs), m - 2)) @ phi.T + rng.uniform(0, 1, (len(costs), 1))
    k = phi.shape[1]
    menu: list[tuple[str, Any, Rule]] = [("Quadratic", S.Quadratic(), whole(k, 1.0))]
    if home == "canonical":
        menu += [
            ("Multinomial", S.Multinomial(), law(phi)),
            ("CumulativeLink", S.CumulativeLink(), law(phi)),
            ("Mixture", S.Mixture(weights=[0.5, 3.0]), law(phi, 0.5, 3.0)),
            ("Listwise", S.Listwise(), listwise(k, 1.0)),
            ("Legendre", S.Legendre(exponential_sum), steep(k)),
        ]
        menu += [(f"OneVsAll {g}", S.OneVsAll(g), cube(k, 0.0, g)) for g in ("logistic", "exponential", "square")]
    elif home == "cube":
        menu += [
            (f"AllThresholds {g}", S.AllThresholds(g), cube(k, -1.0, g)) for g in ("logistic", "exponential", "square")
        ]
        menu += [("MaxEntropy", S.MaxEntropy(), law(phi)), ("Independent", S.Independent(), cube(k, -1.0, "logistic"))]
    elif home == "own":
        menu += [
            ("MaxEntropy", S.MaxEntropy(), law(phi)),
            ("Mixture", S.Mixture(weights=[1.0, 1.0]), law(phi, 1.0, 1.0)),
        ]
    else:
        none = np.zeros((0, k)), np.zeros(0)
        menu.append(("MaxEntropy, dependent", S.MaxEntropy(), Rule(lambda u, d: np.inf, *none, *none, phi, True)))
    name, surrogate, rule = menu[which % len(menu)]
    # branch and bound, and descent on an entropy that is itself a search, take ten times as long as the others
    if rng.random() < {"exponential": 0.6, "dependent": 0.9}.get(name.split()[-1], 0.0):
        name, surrogate, rule = menu[0]
    if m == 1 and name in ("CumulativeLink", "OneVsAll exponential", "OneVsAll logistic", "OneVsAll square"):
        name, surrogate, rule = menu[0]
    loss = tl.losses.CostMatrix(costs, embedding=embedding)
    return Case(kind, name, costs, phi, loss, surrogate, rule)


def draw_eps(rng: np.random.Generator, largest: float) -> float:
    if largest <= 0:
        return 0.5
    choice = rng.integers(6)
    shares = (10.0 ** rng.uniform(-8, 0), rng.uniform(0.01, 0.99), rng.uniform(0.01, 0.99), 1.0, 1 - 1e-12, 1.01)
    return float(largest * shares[choice])


def linear(kind: str, rows: np.ndarray, constant: Any) -> dict[str, Any]:
    """rows @ x + constant >= 0 ("ineq") or = 0 ("eq"), as SLSQP takes it."""
    return {"type": kind, "fun": lambda x: rows @ x + constant, "jac": lambda x: rows}


# -- rational arithmetic ---------------------------------------------------------------------------------------------


def normalised(weights: np.ndarray) -> list[Fraction]:
    """The weights, exactly as given, over their exact sum."""
    exact = [Fraction(float(w)) for w in weights]
    return [w / sum(exact) for w in exact]


def dot(row: np.ndarray, x: list[Fraction]) -> Fraction:
    return sum((Fraction(float(c)) * t for c, t in zip(row, x, strict=True)), Fraction(0))


def exact_law(phi: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The law over the labels whose embeddings, the corners of a simplex in R^k, have the mean u, of which no weight is lost to rounding."""
    return np.array([float(w) for w in barycentric(phi, [Fraction(float(x)) for x in u])])


def barycentric(corners: np.ndarray, x: list[Fraction]) -> list[Fraction]:
    """The weights, of sum one, with which x is the mean of k + 1 corners in R^k: Gauss-Jordan elimination."""
    rows = [[Fraction(float(c)) for c in column] + [t] for column, t in zip(corners.T, x, strict=True)]
    rows.append([Fraction(1)] * (len(corners) + 1))
    for i in range(len(rows)):
        pivot = max(range(i, len(rows)), key=lambda j: abs(rows[j][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for j in range(len(rows)):
            if j != i:
                rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [row[-1] for row in rows]


# -- the search ------------------------------------------------------------------------------------------------------


class Search:
    """Pairs (u', u) in which the output that u picks is at least eps behind at u', with as small a divergence as can be."""

    def __init__(self, case: Case, eps: float, rng: np.random.Generator, strict: bool = False):
        self.case, self.eps, self.rng, self.rule = case, eps, rng, case.rule
        # Where an output is optimal on a face of D only, rounding off it turns an infinity into a number: then pairs count
        # that are feasible in rational arithmetic.
        self.strict = strict
        # the loss's own psi: off M's affine hull it is a choice, and H_0(z) is what that choice makes it
        outputs = np.arange(len(case.costs))
        self.psi = case.loss.psi(outputs)
        self.offset = np.broadcast_to(case.loss.offset(outputs), (len(outputs),))
        if not np.allclose(
            self.psi @ case.phi.T + self.offset[:, None], case.costs, rtol=1e-9, atol=1e-9 * np.abs(case.costs).max()
        ):
            raise AssertionError("psi and phi do not give the costs")
        self.unit = float(np.ptp(case.costs, axis=0).max()) or 1.0
        self.best, self.pair = np.inf, None

    def note(self, z: int, q: np.ndarray, u: np.ndarray, move: np.ndarray) -> None:
        """Keep a pair if it is feasible, to rounding, and better than what is known."""
        costs = self.case.costs
        lag = float(costs[z] @ q - (costs @ q).min())
        risks = u @ (self.psi - self.psi[z]).T + (self.offset - self.offset[z])
        slack = 1e-15 * self.unit * max(1.0, np.abs(u).max() / (np.abs(self.case.phi).max() or 1.0))
        size = max(1.0, np.abs(u).max())
        inside = (self.rule.rows @ u - self.rule.levels).min(initial=0.0) >= -1e-15 * size
        # a local search keeps to D's affine hull only as far as its own tolerance, and off it weights are those of another point
        inside &= np.abs(self.rule.equal @ u - self.rule.sums).max(initial=0.0) <= 1e-12 * size
        if (
            lag < self.eps - slack
            or risks.min() < -slack
            or not inside
            or np.abs(u).max() > 1e6 * (np.abs(self.case.phi).max() or 1.0)
        ):
            return
        value = float(self.rule.divergence(u, move))
        if np.isfinite(value) and value < self.best and (not self.strict or self.exactly(z, q, u)):
            self.best, self.pair = value, (z, q, u)

    def exactly(self, z: int, q: np.ndarray, u: np.ndarray) -> bool:
        """Whether the pair is feasible in rational arithmetic, with the doubles given taken at their word.

        Where D is a set of laws, so is the estimate: the nearest law to its weights, by which all risks are sums of costs.
        Where the labels' embeddings are the corners of a simplex in R^k, risks are such sums with the estimate's barycentric
        coordinates, without the rounding of psi.
        """
        truth = normalised(q)
        if self.rule.law:
            estimate = normalised(np.maximum(self.rule.rows @ u - self.rule.levels, 0.0))
            risks = [dot(row, estimate) for row in self.case.costs]
            inside = all(p > 0 for p, t in zip(estimate, truth, strict=True) if t > 0)
        else:
            estimate = [Fraction(float(x)) for x in u]
            if len(self.case.phi) == len(u) + 1:
                weights = barycentric(self.case.phi, estimate)
                risks = [dot(row, weights) for row in self.case.costs]
            else:
                risks = [dot(row, estimate) + Fraction(float(c)) for row, c in zip(self.psi, self.offset, strict=True)]
            levels = zip(self.rule.rows, self.rule.levels, strict=True)
            inside = all(dot(row, estimate) >= Fraction(float(level)) for row, level in levels)
        behind = [dot(row, truth) for row in self.case.costs]
        return inside and risks[z] == min(risks) and behind[z] - min(behind) >= Fraction(self.eps)

    def random_pairs(self, count: int = 160) -> None:
        case, rng, m = self.case, self.rng, len(self.case.phi)
        q = np.vstack([rng.dirichlet(np.full(m, a), count // 2) for a in (0.3, 1.5)] + [np.eye(m)])
        u = self.estimates(count, q)
        picks = (u @ self.psi.T + self.offset).argmin(1)
        risks = q @ case.costs.T
        behind = risks - risks.min(1, keepdims=True)
        for z in np.unique(picks):
            wrong = q[behind[:, z] >= self.eps]
            right = u[picks == z]
            if len(wrong) and len(right):
                truth = wrong @ case.phi
                with np.errstate(all="ignore"):
                    table = self.rule.divergence(right[None], truth[:, None] - right[None])
                i, j = np.unravel_index(np.nanargmin(np.where(np.isnan(table), np.inf, table)), table.shape)
                self.note(int(z), wrong[i], right[j], truth[i] - right[j])

    def estimates(self, count: int, q: np.ndarray) -> np.ndarray:
        rng, corners, phi = self.rng, self.rule.corners, self.case.phi
        if corners is not None:
            laws = np.vstack([rng.dirichlet(np.full(len(corners), a), count // 2) for a in (0.2, 1.0)])
            return (1 - 1e-6) * laws @ corners + 1e-6 * corners.mean(0)
        spread = np.abs(phi - phi.mean(0)).max() or 1.0
        far = rng.normal(size=(count, phi.shape[1])) * spread * 10.0 ** rng.uniform(-2, 2, (count, 1))
        return q[rng.integers(len(q), size=count)] @ phi + far

    def vertices(self) -> None:
        """Every label against every corner and, on the whole space, rays to infinity."""
        phi = self.case.phi
        if self.rule.corners is not None:
            centre = self.rule.corners.mean(0)
            targets = [c + t * (centre - c) for c in self.rule.corners for t in (1e-9, 1e-3)]
        else:
            ways = np.vstack([self.psi - row for row in self.psi] + [np.eye(phi.shape[1])])
            ways = ways[np.abs(ways).max(1) > 0]
            ways = ways / np.linalg.norm(ways, axis=1, keepdims=True)
            size = np.abs(phi).max() or 1.0
            targets = [
                point + s * t * size * way for point in phi for way in ways for t in (0.1, 1, 10, 1e3) for s in (-1, 1)
            ]
        behind = self.case.costs - self.case.costs.min(0)
        picks = (np.array(targets) @ self.psi.T + self.offset).argmin(1)
        for z, u in zip(picks.tolist(), targets, strict=True):
            for y in np.flatnonzero(behind[z] >= self.eps * (1 - 1e-12)):
                with np.errstate(all="ignore"):
                    self.note(z, np.eye(len(phi))[y], u, phi[y] - u)

    def local(self) -> None:
        """SLSQP in the law q of the truth and w with u = u' - eta w, eta the size of the step, from a random start."""
        case, rule, rng, phi = self.case, self.rule, self.rng, self.case.phi
        m, k = phi.shape
        n = len(case.costs)
        z, other = rng.integers(n), rng.integers(n)
        gains = case.costs[z] - case.costs[other]
        if gains.max() < self.eps:
            return
        d = self.psi[z] - self.psi[other]
        eta = self.eps / max(np.linalg.norm(d), 1e-300)
        spread = np.abs(phi - phi.mean(0)).max() or 1.0
        if rng.random() < 0.5 or not np.isfinite(eta):
            eta = spread
        eta = min(eta, spread)
        rows = self.psi - self.psi[z]
        lengths = np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
        base = np.r_[rng.dirichlet(np.ones(m)), rng.normal(size=k)]
        if self.pair is not None and self.pair[0] == z and rng.random() < 0.5:
            base = np.r_[self.pair[1], (self.pair[1] @ phi - self.pair[2]) / eta]
        scale = float(rule.divergence(phi.mean(0), eta * np.ones(k) / np.sqrt(k))) if not rule.scores else 1.0
        scale = scale if np.isfinite(scale) and scale > 0 else 1.0

        def parts(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            move = eta * x[m:]
            return x[:m] @ phi - move, move

        def value(x: np.ndarray) -> float:
            u, move = parts(x)
            out = float(rule.divergence(u, move)) / scale
            return out if np.isfinite(out) else 1e12

        level = self.offset - self.offset[z]
        # all constraints are linear in x = (q, w): u = [phi', -eta I] x
        to_u, size = np.hstack([phi.T, -eta * np.eye(k)]), np.abs(gains).max()
        constraints = [
            linear("ineq", np.r_[gains / size, np.zeros(k)][None], -self.eps / size),
            linear("ineq", rows @ to_u / lengths[:, None] / eta, level / lengths / eta),
            linear("eq", np.r_[np.ones(m), np.zeros(k)][None], -1.0),
            linear("ineq", rule.rows @ to_u, -rule.levels),
            linear("eq", np.hstack([np.zeros((len(rule.equal), m)), rule.equal]), 0.0),
        ]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = minimize(
                value,
                base,
                method="SLSQP",
                bounds=[(0, 1)] * m + [(None, None)] * k,
                constraints=[constraint for constraint in constraints if len(constraint["jac"](base))],
                options={"maxiter": 80},
            )
            if not np.isfinite(found.x).all():
                return
            self.finish(int(z), int(other), found.x, eta)

    def finish(self, z: int, other: int, x: np.ndarray, eta: float) -> None:
        """Mend what SLSQP leaves off: towards the label that tells the pair apart, and onto the rows that u violates.

        A pair that has to be feasible in rational arithmetic goes a little beyond.
        """
        hair = 1e-9 if self.strict else 0.0
        phi, m = self.case.phi, len(self.case.phi)
        q = np.maximum(x[:m], 0)
        q = q / q.sum()
        gains = self.case.costs[z] - self.case.costs[other]
        top = int(gains.argmax())
        wanted = min((1 + hair) * self.eps, float(gains[top]))
        if gains @ q < wanted < gains[top]:
            step = min(1.0, (wanted - gains @ q) / (gains[top] - gains @ q))
            q = q + step * (np.eye(m)[top] - q)
        u = q @ phi - eta * x[m:]
        rows = np.vstack([self.psi - self.psi[z], self.rule.rows])
        levels = np.r_[self.offset[z] - self.offset, self.rule.levels]
        norms = np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
        levels = levels + hair * eta * np.where(norms > 1e-300, norms, 0.0)
        for _ in range(6):
            slack = (rows @ u - levels) / norms
            bad = slack < 0
            if not bad.any():
                break
            active = np.vstack([rows[bad] / norms[bad, None], self.rule.equal])
            goal = np.r_[levels[bad] / norms[bad], self.rule.sums]
            u = u + np.linalg.lstsq(active, goal - active @ u, rcond=1e-12)[0]
        self.note(z, q, u, q @ phi - u)

    def by_scores(self, count: int = 3000) -> None:
        """Where the hull's points are dependent: laws q and scores v, with KL(q | p_v) an upper bound on D_h."""
        phi, rng = self.case.phi, self.rng
        v = rng.normal(size=(count, phi.shape[1])) * 10.0 ** rng.uniform(-1, 1, (count, 1))
        s = v @ phi.T
        p = np.exp(s - s.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        share = rng.uniform(0, 1, (count, 1)) ** 3
        q = (1 - share) * p + share * rng.dirichlet(np.full(len(phi), 0.3), count)
        z = (p @ self.case.costs.T).argmin(1)
        risks = q @ self.case.costs.T
        lag = risks[np.arange(count), z] - risks.min(1)
        price = log_terms(p, q - p)
        ok = lag >= self.eps
        if ok.any():
            i = int(np.where(ok, price, np.inf).argmin())
            if price[i] < self.best:
                self.best, self.pair = float(price[i]), (int(z[i]), q[i], p[i] @ phi)
