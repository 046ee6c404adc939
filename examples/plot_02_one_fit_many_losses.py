"""
One fit, many losses
====================

A fit estimates the moments of the label, which every loss on those labels needs. Another loss is another decision, not another fit.
"""

from sklearn.datasets import load_iris

import taskloss as tl

X, y = load_iris(return_X_y=True, as_frame=True)
X = X[["sepal length (cm)", "sepal width (cm)"]]
y = y.map(dict(enumerate(["setosa", "versicolor", "virginica"])))
model = tl.CostSensitiveClassifier().fit(X, y)

# %%
# The likeliest species; "abstain" where it is less than 80 % sure; and a table in which calling a *virginica* something else is dear.
losses = {
    "0-1": "zero-one",
    "pass at 0.2": tl.losses.Abstain(cost=0.2),
    "virginica missed: 8": [[0, 1, 8], [1, 0, 8], [1, 1, 0]],
}
tl.plots.DecisionRegionDisplay.from_estimator(model, X, losses, y=y)
