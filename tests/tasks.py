"""Every task with data of its own, whose scores are no linear functions of the features, for laws over learners."""

import numpy as np
import pytest

import taskloss as tl


def sequences(n, seed):
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        states = [int(rng.integers(3))]
        for _ in range(int(rng.integers(2, 8))):
            states.append(states[-1] if rng.random() < 0.7 else int(rng.integers(3)))
        rows = rng.normal(size=(len(states), 3))
        rows[:, 0] += np.sign(rows[:, 1]) * 2 * (np.array(states) == 1)
        rows[:, 2] += 2 * (np.array(states) == 2)
        X.append(rows)
        y.append(np.array(states))
    return X, y


def matchings(n, seed):
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        k = int(rng.integers(2, 5))
        a, p = rng.normal(size=(k, 3)), rng.permutation(k)
        b = np.empty_like(a)
        b[p] = a + np.array([0.6, 0.8, 2.0]) * rng.normal(size=(k, 3))
        X.append((a, b))
        y.append(p)
    return X, y


def queries(n, seed):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n), rng.integers(3, 9, n))
    X = rng.normal(size=(len(groups), 4))
    return X, np.clip(np.round(X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=len(X))), 0, 4), groups


def rows(seed, n=300):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, np.digitize(X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.normal(size=n), [-1.0, 0.0, 1.0])


def sets(seed):
    X, y = rows(seed)
    return X, np.column_stack([y > 0, y > 1, (y % 2 == 0)]).astype(int)


COSTS = np.abs(np.subtract.outer(np.arange(4), np.arange(4))) ** 1.5
TASKS = {
    "zero-one": (tl.TaskLossEstimator(), rows),
    "costs": (tl.CostSensitiveClassifier(COSTS), rows),
    "abstain": (tl.CostSensitiveClassifier(tl.losses.Abstain(cost=0.3)), rows),
    "one-vs-all": (tl.TaskLossEstimator(surrogate="one-vs-all"), rows),
    "shared thresholds": (tl.OrdinalClassifier(), rows),
    "cumulative link": (tl.OrdinalClassifier(surrogate="cumulative-link"), rows),
    "own thresholds": (tl.OrdinalClassifier(shared=False), rows),
    "sets": (tl.MultilabelClassifier(), sets),
    "F1": (tl.MultilabelClassifier("f-beta"), sets),
    "listwise": (tl.Ranker(), lambda seed: queries(60, seed)),
    "gains": (tl.Ranker(surrogate="quadratic"), lambda seed: queries(60, seed)),
    "matching": (tl.Matcher(), lambda seed: matchings(60, seed)),
    "sequence": (tl.SequenceTagger(), lambda seed: sequences(50, seed)),
    "whole sequence": (tl.SequenceTagger("sequence-zero-one"), lambda seed: sequences(50, seed)),
}
every_task = pytest.mark.parametrize("task", TASKS)
