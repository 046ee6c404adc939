"""
A network and its loss
======================

``taskloss.torch.TaskLoss`` takes cross-entropy's place in a training loop, and ``predict`` decides for the loss.
"""

import numpy as np
import torch
from torch import nn

from taskloss.plots.style import BLUE, look, pyplot
from taskloss.torch import TaskLoss

rng = np.random.default_rng(0)
torch.manual_seed(0)
torch.set_num_threads(1)
X = torch.tensor(rng.normal(size=(800, 2)), dtype=torch.float32)
y = torch.tensor(((X[:, 0] ** 2 + X[:, 1] ** 2).numpy() + 0.5 * rng.normal(size=800) > 2).astype(int))

loss = TaskLoss([[0, 6], [1, 0]])  # a miss costs six
net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, loss.size))
optimiser = torch.optim.Adam(net.parameters(), lr=0.02)
path = []
for _ in range(120):
    optimiser.zero_grad()
    value = loss(net(X[:600]), y[:600])
    value.backward()
    optimiser.step()
    path.append(value.item())

# %%
with torch.no_grad():
    scores = net(X[600:])
cost = np.array([[0, 6], [1, 0]])
by_cost = cost[loss.predict(scores).numpy(), y[600:].numpy()].mean()
argmax = cost[loss.predict(scores, "zero-one").numpy(), y[600:].numpy()].mean()
print(f"mean cost, decided for it: {by_cost:.3f}; by argmax: {argmax:.3f}")

with look():
    figure, ax = pyplot().subplots(figsize=(6, 3.4))
    ax.plot(path, "-", color=BLUE)
    ax.set(xlabel="step", ylabel="surrogate")
