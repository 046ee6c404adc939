"""Averaged stochastic gradient descent beside its theorem, on a problem in a Hilbert space whose optimum is known.

Inputs are uniform on a circle, the kernel has the Fourier series a_0 + 2 sum_j a_j cos(2 pi j (x - x')), and two labels
have P(y_j = 1 | x) = (1 + mu_j(x)) / 2 with mu = tanh(s g), g smooth. The scores that minimise the surrogate risk are
s g for the logistic link and mu itself for the identity: their norms are the theorem's D.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import taskloss as tl
from benchmarks.common import RESULTS, write_table
from taskloss.hypotheses import Linear
from taskloss.solvers import ASGD

MODES = 60
SIZES = (100, 300, 1_000, 3_000, 10_000)
REPEATS = 20
SHARPNESS = {"noisy": 1.0, "near-deterministic": 4.0}
GRID = np.arange(4096) / 4096


class Circle:
    """The kernel's feature map, and the optimum of either link with its norm."""

    def __init__(self, sharpness: float, decay: float = 4.0):
        j = np.arange(1, MODES + 1)
        self.a = np.concatenate([[1.0], np.repeat(j**-decay, 2)])  # constant, then cosine and sine of each mode
        self.kappa = float(np.sqrt(1 + 2 * (j**-decay).sum()))
        g = np.stack([np.cos(2 * np.pi * GRID), np.sin(2 * np.pi * GRID)], axis=1)
        self.scores = {"logistic": sharpness * g, "quadratic": np.tanh(sharpness * g)}
        self.mu = self.scores["quadratic"]

    def features(self, x: np.ndarray) -> np.ndarray:
        return np.sqrt(self.a) * fourier(x)

    def norm(self, link: str) -> float:
        """The norm of the optimum: Fourier coefficients over the kernel's eigenvalues."""
        coefficients = fourier(GRID).T @ self.scores[link] / len(GRID)
        return float(np.sqrt((coefficients**2 / self.a[:, None]).sum()))

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        place = rng.integers(len(GRID), size=n)
        return self.features(GRID[place]), (rng.uniform(-1, 1, size=(n, 2)) < self.mu[place]).astype(int)


def fourier(x: np.ndarray) -> np.ndarray:
    """An orthonormal basis on the circle: 1, sqrt(2) cos(2 pi j x), sqrt(2) sin(2 pi j x)."""
    angle = 2 * np.pi * np.outer(x, np.arange(1, MODES + 1))
    waves = np.sqrt(2) * np.stack([np.cos(angle), np.sin(angle)], axis=2).reshape(len(x), -1)
    return np.column_stack([np.ones(len(x)), waves])


def surrogate(link: str) -> Any:
    return tl.surrogates.Quadratic() if link == "quadratic" else tl.surrogates.MaxEntropy(tl.polytopes.Cube(2))


def theorem(link: str, n: int, radius: float, kappa: float) -> tuple[float, tuple[float, float]]:
    """The constant step, and the bounds on the surrogate's and on the task's excess risk."""
    bound = tl.theory.asgd_bound(tl.losses.Hamming(2), surrogate(link), n=n, radius=radius, kappa=kappa)
    return bound.step, (bound.surrogate_excess, bound.excess_risk)


def excess(model: Any, problem: Circle) -> tuple[float, float]:
    """Surrogate and task excess risk, exact but for the grid on which inputs are drawn."""
    loss, v = model.loss_, model.predict_scores(problem.features(GRID))
    surrogate_excess = model.surrogate_.value(v, problem.mu).mean()
    chosen, best = loss.decode(model.surrogate_.inverse_link(v)), loss.decode(problem.mu)
    task = loss.bayes_risk(chosen, problem.mu) - loss.bayes_risk(best, problem.mu)
    return float(surrogate_excess), float(task.mean())


def measure(noise: str, link: str, n: int, repeats: int = REPEATS) -> tuple[np.ndarray, tuple[float, float], float]:
    """Excess risks, one row per repeat; their bounds; and the radius, which is the optimum's norm."""
    problem = Circle(SHARPNESS[noise])
    radius = problem.norm(link)
    step, limits = theorem(link, n, radius, problem.kappa)
    found = []
    for seed in range(repeats):
        X, y = problem.draw(n, np.random.default_rng([seed, n]))
        solver = ASGD(radius, step=step, random_state=seed)
        model = tl.MultilabelClassifier("hamming", surrogate(link), Linear(fit_intercept=False), solver=solver)
        found.append(excess(model.fit(X, y), problem))
    return np.array(found), limits, radius


def main() -> None:
    rows, curves = [], {}
    for noise in SHARPNESS:
        for link in ("logistic", "quadratic"):
            for n in SIZES:
                risks, limit, radius = measure(noise, link, n)
                mean, spread = risks.mean(0), risks.std(0, ddof=1) / np.sqrt(len(risks))
                below = "yes" if (mean + 2 * spread <= limit).all() else "NO"
                rows.append([noise, link, radius, n, mean[0], spread[0], limit[0], mean[1], spread[1], limit[1], below])
                curves.setdefault((noise, link), []).append((n, *mean, *limit))
                print(rows[-1], flush=True)
    norms = ", ".join(
        f"{s:g}: {Circle(s).norm('logistic'):.2f} and {Circle(s).norm('quadratic'):.2f}"
        for s in (0.25, 0.5, 1, 2, 4, 8)
    )
    header = [
        "conditionals",
        "link",
        "D",
        "n",
        "surrogate excess",
        "s.e.",
        "bound",
        "task excess",
        "s.e.",
        "bound",
        "below",
    ]
    note = (
        f"Mean over {REPEATS} seeded repeats, Hamming loss on two labels, one pass, the theorem's constant step, D the norm "
        f"of the optimum. Norms of the optimum by sharpness s of the conditionals, logistic and identity link: {norms}. "
        "The plot is asgd.png."
    )
    write_table("asgd", "Averaged stochastic gradient descent and its bound", header, rows, note=note)
    plot(curves)


def plot(curves: dict) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(9, 7), sharex=True)
    for column, noise in enumerate(SHARPNESS):
        for link, colour in (("logistic", "tab:blue"), ("quadratic", "tab:orange")):
            n, surrogate_excess, task, surrogate_bound, task_bound = np.array(curves[noise, link]).T
            for axis, value, bound in zip(
                axes[:, column], (surrogate_excess, task), (surrogate_bound, task_bound), strict=True
            ):
                axis.loglog(n, value, "o-", color=colour, label=link)
                axis.loglog(n, bound, "--", color=colour, label=f"{link}, bound")
        axes[0, column].set_title(f"{noise} conditionals")
        axes[1, column].set_xlabel("examples n")
    axes[0, 0].set_ylabel("surrogate excess risk")
    axes[1, 0].set_ylabel("Hamming excess risk")
    axes[0, 0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(RESULTS / "asgd.png", dpi=110)


if __name__ == "__main__":
    main()
