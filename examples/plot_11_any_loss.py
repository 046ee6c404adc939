"""
A loss that is any function
===========================

Hours of the day: 23 is next to 0. ``KernelPredictor`` takes a function L(z, y) as it is, finds its decomposition, and predicts by kernel ridge regression.
"""

import numpy as np

import taskloss as tl
from taskloss.plots.style import BLUE, GREY, RED, look, pyplot


def apart(z, y):
    """Hours between two times on the clock."""
    gap = abs(z - y) % 24
    return min(gap, 24 - gap)


rng = np.random.default_rng(0)
X = rng.uniform(0, 2 * np.pi, size=(300, 1))
hour = (np.round(X[:, 0] / (2 * np.pi) * 24 + rng.normal(scale=2, size=300)) % 24).astype(int)
inputs = np.c_[np.cos(X), np.sin(X)]
model = tl.KernelPredictor(apart).fit(inputs, hour)

# %%
# The mean of the hours is wrong near midnight; the decision for the clock's own distance is not.
from sklearn.kernel_ridge import KernelRidge  # noqa: E402

grid = np.linspace(0, 2 * np.pi, 200)
points = np.c_[np.cos(grid), np.sin(grid)]
mean = KernelRidge(kernel="rbf", alpha=0.1).fit(inputs, hour).predict(points)
with look():
    figure, ax = pyplot().subplots(figsize=(6, 4))
    ax.plot(X[:, 0], hour, "o", color=GREY, ms=3, linestyle="none", alpha=0.5, label="examples")
    ax.plot(grid, model.predict(points), ".", color=BLUE, linestyle="none", label="decided for the clock's distance")
    ax.plot(grid, mean, "--", color=RED, label="regression on the hour")
    ax.set(xlabel="x", ylabel="hour of the day", ylim=(-1, 24), yticks=range(0, 25, 6))
    ax.legend(loc="upper left")
