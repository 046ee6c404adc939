"""
Decide for kappa
================

Quadratic weighted kappa is no mean over examples, but at its best decisions it has a loss that leads to them, and that loss can be read.
"""

import numpy as np

import taskloss as tl
from taskloss.plots.style import look, pyplot

rng = np.random.default_rng(0)
X = rng.normal(size=(1500, 3))
y = np.digitize(X[:, 0] + 1.5 * rng.normal(size=1500), [-2, -1, 1.5, 3])
kappa = tl.metrics.Kappa()
plain = tl.OrdinalClassifier().fit(X[:1000], y[:1000])
tuned = tl.TunedDecisionCV(tl.OrdinalClassifier(), kappa).fit(X[:1000], y[:1000])
print(f"kappa, decided for absolute error: {kappa(y[1000:], plain.predict(X[1000:])):.3f}")
print(f"kappa, decided for kappa:          {kappa(y[1000:], tuned.predict(X[1000:])):.3f}")

# %%
# The loss that was found: what each mistake costs, in the measure's own view.
matrix = tuned.loss_.matrix()
with look():
    figure, ax = pyplot().subplots(figsize=(4.6, 4))
    image = ax.imshow(matrix)
    figure.colorbar(image, label="cost")
    ax.set(xlabel="true grade", ylabel="decided")
