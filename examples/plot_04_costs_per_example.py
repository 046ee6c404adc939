"""
Every example has its own amount
================================

A missed fraud costs the amount of the payment; looking at a payment costs 10. The model is fitted once; the decisions weigh each example's amount.
"""

import numpy as np
import pandas as pd

import taskloss as tl
from taskloss.plots.style import BLUE, INK, RED, look, pyplot

rng = np.random.default_rng(0)
n = 4000
payments = pd.DataFrame(
    {"amount": rng.lognormal(4, 1.2, n), "hour": rng.integers(0, 24, n), "new": rng.integers(0, 2, n)}
)
logit = -4.2 + 0.25 * np.log(payments.amount) + 1.5 * payments.new + 0.6 * (payments.hour < 5)
fraud = rng.random(n) < 1 / (1 + np.exp(-logit))
features = payments.assign(amount=np.log(payments.amount))
model = tl.CostSensitiveClassifier().fit(features[:3000], fraud[:3000].astype(int))

# %%
# Costs by each example's own amount: rows are "pay" and "look", columns "honest" and "fraud".
held, truth = payments[3000:], fraud[3000:].astype(int)
costs = np.zeros((len(held), 2, 2))
costs[:, 0, 1] = held.amount
costs[:, 1] = 10.0
looked = model.predict(features[3000:], costs=costs)
likeliest = model.predict(features[3000:])
for name, decided in (("by amounts", looked), ("likeliest", likeliest), ("look at all", np.ones(len(held), int))):
    print(f"{name:12} {costs[np.arange(len(held)), decided, truth].mean():.2f} per payment")

# %%
# The more there is to lose, the smaller the probability that is worth a look.
p = model.predict_proba(features[3000:])[:, 1]
with look():
    figure, ax = pyplot().subplots(figsize=(6, 4))
    for decided, colour, mark, name in ((0, BLUE, "o", "pay"), (1, RED, "^", "look")):
        some = looked == decided
        ax.plot(held.amount[some], p[some], mark, color=colour, linestyle="none", ms=3, alpha=0.6, label=name)
    line = np.geomspace(10.5, held.amount.max(), 100)
    ax.plot(line, 10 / line, "-", color=INK, lw=1, label="10 / amount")
    ax.set(xscale="log", xlabel="amount", ylabel="probability of fraud", ylim=(0, 1))
    ax.legend()
