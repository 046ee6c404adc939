"""
Matching two pictures
=====================

Corners of a shape, seen again turned and out of order. Each pair of corners has features; their weights are learned, and the matching is the assignment on the probabilities of single matches.
"""

import numpy as np

import taskloss as tl

rng = np.random.default_rng(0)


def pair(m=9):
    """Points with a descriptor each, and the same ones after a small turn, shuffled, with noisy descriptors."""
    angle = rng.normal(scale=0.25)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    left = rng.uniform(-1, 1, size=(m, 2))
    right = left @ turn.T + 0.05 * rng.normal(size=(m, 2))
    look = rng.normal(size=(m, 4))
    seen = look + rng.normal(size=(m, 4)) * [0.5, 1, 3, 6]
    order = rng.permutation(m)
    back = np.argsort(order)
    return (np.c_[left, look], np.c_[right, seen][back]), order


train = [pair() for _ in range(80)]
model = tl.Matcher().fit([x for x, _ in train], [z for _, z in train])
(a, b), truth = pair()
edges = [(i, int(j)) for i in range(len(a)) for j in np.argsort(((a[:, :2] - a[i, :2]) ** 2).sum(1))[1:3]]
same = [(int(truth[i]), int(truth[j])) for i, j in edges]

# %%
# Lines are as strong as the match is probable; wrong ones would be red and dashed.
tl.plots.MatchingDisplay.from_estimator(model, (a, b), a[:, :2], b[:, :2], y=truth, edges=(edges, same))

# %%
# On pictures: the same matching, with coordinates in pixels.
height, width = 90, 120


def draw(points):
    """Dark spots at the corners on a grey ramp, and where they are in pixels."""
    place = (points[:, :2] + 1.6) / 3.2 * [width, height]
    rows, columns = np.mgrid[:height, :width]
    image = 0.6 + 0.3 * columns / width
    for x, y in place:
        image = image - 0.5 * np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / 12)
    return image, place


(one, at), (two, to) = draw(a), draw(b)
tl.plots.MatchingDisplay.from_estimator(model, (a, b), at, to, y=truth, images=(one, two))
