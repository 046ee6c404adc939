"""
Pass to a person
================

An answer may be "I do not know". ``Abstain(cost)`` decides for it where answering is expected to cost more than the price of passing, and moving the
price moves the share of digits that a person has to read.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import taskloss as tl
from taskloss.plots.style import BLUE, RED, look, pyplot

X, y = load_digits(return_X_y=True)
X = np.hstack([X.reshape(-1, 8, 8).sum(1), X.reshape(-1, 8, 8).sum(2)]) / 16  # sums of rows and columns only
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
model = tl.CostSensitiveClassifier().fit(X_train, y_train)

# %%
prices = np.linspace(0.02, 0.6, 30)
passed, wrong = [], []
for price in prices:
    decided = tl.decide(model, tl.losses.Abstain(cost=price), X=X_test)
    answered = decided != -1  # what stands for "abstain" among numbers
    passed.append(1 - answered.mean())
    wrong.append(np.mean(decided[answered] != y_test[answered]) if answered.any() else 0)

with look():
    figure, ax = pyplot().subplots(figsize=(6, 3.8))
    ax.plot(prices, passed, "-", color=BLUE, label="share passed to a person")
    ax.plot(prices, wrong, "--", color=RED, label="errors among the answers")
    ax.set(xlabel="price of passing", ylim=(0, None))
    ax.legend()
