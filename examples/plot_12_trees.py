"""
Trees that know the loss
========================

LightGBM grows the trees, the surrogate says towards what, and the held-out task loss says when to stop. Missing values and categories are inputs like others.
"""

import numpy as np

import taskloss as tl
from taskloss.plots.style import BLUE, GREEN, look, pyplot

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(1500, 4))
grade = np.digitize(np.sin(2 * X[:, 0]) + X[:, 1] * (X[:, 2] > 0) + 0.4 * rng.normal(size=1500), [-1, 0, 1])
X[rng.random(X.shape) < 0.05] = np.nan
trees = tl.hypotheses.Boosting(n_estimators=200, early_stopping=25, num_leaves=7, n_jobs=1)
model = tl.OrdinalClassifier(hypothesis=trees).fit(X[:1000], grade[:1000])
print(f"absolute error on new examples: {-model.score(X[1000:], grade[1000:]):.3f}, rounds kept: {model.n_estimators_}")

# %%
# The held-out absolute error after each round, and the round that was kept.
with look():
    figure, ax = pyplot().subplots(figsize=(6, 3.8))
    curve = model.validation_curve_
    ax.plot(np.arange(len(curve)), curve, "-", color=BLUE, label="held-out absolute error")
    ax.axvline(model.n_estimators_, color=GREEN, linestyle="--", label="kept")
    ax.set(xlabel="round of boosting")
    ax.legend()
