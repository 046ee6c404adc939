"""
Mistakes in a taxonomy
======================

Taking a 3 for a 5 is less wrong than taking it for a 1, where round, curved and straight digits are branches of a tree. A decision may stop at a branch: "some curved
digit" is nearer to the truth than the wrong leaf.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import taskloss as tl
from taskloss.plots.style import look, pyplot

images, digit = load_digits(return_X_y=True)
X = np.hstack([images.reshape(-1, 8, 8).sum(1), images.reshape(-1, 8, 8).sum(2)]) / 16
shapes = {"round": "0689", "curved": "235", "straight": "147"}
path = {d: f"{shape}/{d}" for shape, ds in shapes.items() for d in ds}
y = np.array([path[str(d)] for d in digit])
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

loss = tl.losses.TreeDistance(sorted(path.values()), outputs="nodes")
model = tl.CostSensitiveClassifier(loss).fit(X_train, y_train)
decided = model.predict(X_test)
print(f"tree distance: {-model.score(X_test, y_test):.3f}")
print("decided for a branch:", int(np.sum(["/" not in str(z) for z in decided])), "of", len(decided))

# %%
# Outputs (rows) by true digits (columns): inner nodes are decided for where a digit is hard to read.
rows, columns = sorted(set(map(str, decided))), sorted(path.values())
table = np.array([[np.sum((decided == z) & (y_test == t)) for t in columns] for z in rows])
with look():
    figure, ax = pyplot().subplots(figsize=(6, 5))
    ax.imshow(np.log1p(table), aspect="auto")
    for i, j in zip(*np.nonzero(table), strict=True):
        ax.text(j, i, table[i, j], ha="center", va="center", fontsize=8, color="white" if table[i, j] < 8 else "black")
    ax.set_xticks(range(len(columns)), columns, rotation=60, ha="right")
    ax.set_yticks(range(len(rows)), rows)
    ax.set(xlabel="truth", ylabel="decided")
