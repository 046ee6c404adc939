"""
Name the cost of a mistake
==========================

A missed malignancy costs twenty times a needless biopsy. Cross-entropy and the likeliest label do not know that; one line says it.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import taskloss as tl

X, y = load_breast_cancer(return_X_y=True)
y = np.array(["malignant", "benign"])[y]
X_train, X_test, y_train, y_test = train_test_split(X[:, :10], y, test_size=0.5, random_state=0)

# %%
# ``costs[z, y]``: deciding "benign" (first row) where the truth is "malignant" (second column) costs 20.
costs = tl.losses.CostMatrix([[0, 20], [1, 0]], labels=["benign", "malignant"], outputs=["benign", "malignant"])
model = make_pipeline(StandardScaler(), tl.CostSensitiveClassifier(costs)).fit(X_train, y_train)

names = np.array(["benign", "malignant"])


def mean_cost(decided):
    return costs(np.searchsorted(names, decided), np.searchsorted(names, y_test)).mean()


print(f"decided for the costs: {mean_cost(model.predict(X_test)):.3f}")
print(f"likeliest label:       {mean_cost(tl.decide(model, 'zero-one', X=X_test)):.3f}")

# %%
# What a threshold on the probability of "malignant" costs, in fact and as the probabilities promise. The costs ask for 1/21, far below argmax's 1/2.
tl.plots.ExpectedCostDisplay.from_estimator(model, X_test, y_test, costs)
