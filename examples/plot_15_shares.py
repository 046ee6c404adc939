"""
When the shares of the labels change
====================================

A model that was fitted where one in two is ill decides badly where one in twenty is. Saying so takes no new fit, and the new shares can be estimated from unlabelled examples.
"""

import numpy as np

import taskloss as tl
from taskloss.plots.style import COLOURS, HATCHES, look, pyplot

rng = np.random.default_rng(0)


def draw(n, share):
    y = (rng.random(n) < share).astype(int)
    return rng.normal(size=(n, 2)) + 1.2 * y[:, None], y


X, y = draw(1000, 0.5)
costs = np.array([[0, 4], [1, 0]])
model = tl.CostSensitiveClassifier(costs).fit(X, y)
X_new, y_new = draw(3000, 0.05)

# %%
# The model's probabilities on the new examples, and on labelled ones of the fit's kind.
X_held, y_held = draw(500, 0.5)
estimate = tl.estimate_prior(model.predict_proba(X_new), model.predict_proba(X_held), y_held)
decisions = {
    "as fitted": model.predict(X_new),
    "shares\nestimated": model.predict(X_new, class_prior=estimate),
    "shares\nknown": model.predict(X_new, class_prior=[0.95, 0.05]),
}
with look():
    figure, ax = pyplot().subplots(figsize=(5.4, 3.6))
    for i, (name, z) in enumerate(decisions.items()):
        bar = ax.bar(name, costs[z, y_new].mean(), color=COLOURS[i], hatch=HATCHES[i], edgecolor="white", width=0.6)
        ax.bar_label(bar, fmt="%.3f")
    ax.set_ylabel("mean cost of a decision")
