"""
Grades and their thresholds
===========================

The progression of diabetes in six grades. All thresholds share one score; absolute error decides for the median of the fitted law, squared error for the
mean, and the decisions change elsewhere.
"""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

import taskloss as tl

X, progression = load_diabetes(return_X_y=True)
X = StandardScaler().fit_transform(X)
grade = np.digitize(progression, np.quantile(progression, np.arange(1, 6) / 6))
model = tl.OrdinalClassifier().fit(X, grade)
print(
    f"absolute error: {-model.score(X, grade):.3f}, of the likeliest grade: {np.abs(model.predict(X, 'zero-one') - grade).mean():.3f}"
)

# %%
# For absolute error, decisions change at the thresholds.
tl.plots.OrdinalThresholdDisplay.from_estimator(model, X, grade)

# %%
# Where an error's square counts, the extreme grades are decided for less often.
tl.plots.OrdinalThresholdDisplay.from_estimator(model, X, grade, loss="squared")
