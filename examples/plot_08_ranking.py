"""
A ranking and what it expects
=============================

Items are sorted by their expected normalised gain, which is what NDCG's best order depends on.
"""

import numpy as np

import taskloss as tl

rng = np.random.default_rng(0)
groups = np.repeat(np.arange(150), 9)
X = rng.normal(size=(len(groups), 4))
y = np.clip(np.round(X @ [1.2, 0.8, 0.3, 0] + rng.normal(size=len(X))), 0, 4)
train = groups < 140
model = tl.Ranker(tl.losses.NDCG(at=5)).fit(X[train], y[train], groups=groups[train])
print(f"NDCG@5 on new groups: {1 + model.score(X[~train], y[~train], groups[~train]):.3f}")

# %%
# One new group: the gain that each item is expected to have, and the one that it had.
first = groups == 141
tl.plots.RankingDisplay.from_estimator(model, X[first], y=y[first], names=[f"page {c}" for c in "ABCDEFGHI"])
