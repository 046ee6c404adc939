"""
The set of greatest expected F
==============================

Judged by the F-measure of each example, the best set is not the set of labels that are likelier than not: where nothing is likely, naming the likeliest few still pays.
"""

import numpy as np

import taskloss as tl
from taskloss.plots.style import COLOURS, HATCHES, look, pyplot

rng = np.random.default_rng(0)
X = rng.normal(size=(900, 5))
scores = X @ rng.normal(size=(5, 6)) - 1.2 + rng.logistic(size=(900, 6))
y = (scores > 0).astype(int)  # six labels, each on one example in three
X_train, X_test, y_train, y_test = X[:600], X[600:], y[:600], y[600:]


def f1(z, y):
    both = z.sum(1) + y.sum(1)
    return np.where(both > 0, 2 * (z * y).sum(1) / np.maximum(both, 1), 1).mean()


hamming = tl.MultilabelClassifier().fit(X_train, y_train)
fbeta = tl.MultilabelClassifier(tl.losses.FBeta()).fit(X_train, y_train)
found = {
    "Hamming's\ndecision": hamming.predict(X_test),
    "expected F's\ndecision": fbeta.predict(X_test),
}

# %%
with look():
    figure, axes = pyplot().subplots(1, 2, figsize=(7, 3.4))
    for ax, title, measure in (
        (axes[0], "mean F of an example", f1),
        (axes[1], "wrong labels, share", lambda z, y: np.mean(z != y)),
    ):
        for i, (name, decided) in enumerate(found.items()):
            bar = ax.bar(
                name, measure(decided, y_test), color=COLOURS[i], hatch=HATCHES[i], edgecolor="white", width=0.6
            )
            ax.bar_label(bar, fmt="%.3f")
        ax.set_title(title)
