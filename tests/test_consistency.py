"""Fisher consistency, seen: with known conditionals and growing n the risk falls to the Bayes risk, and argmax's does not."""

import numpy as np
import pytest
from tests.parts import label

import taskloss as tl

# Four inputs, one-hot, each with a law over four labels in which the most likely label is not the best answer.
LAWS = np.array([[0.4, 0.0, 0.28, 0.32], [0.3, 0.3, 0.0, 0.4], [0.1, 0.35, 0.15, 0.4], [0.45, 0.15, 0.2, 0.2]])
COSTS = np.array(
    [[0.0, 3.0, 9.0, 9.0], [1.0, 0.0, 2.0, 4.0], [2.0, 1.0, 0.0, 1.0], [6.0, 5.0, 2.0, 0.0], [1.5, 1.5, 1.5, 1.5]]
)

PAIRS = [
    (tl.losses.CostMatrix(COSTS), "multinomial"),
    (tl.losses.CostMatrix(COSTS), "one-vs-all"),
    (tl.losses.CostMatrix(COSTS), tl.surrogates.OneVsAll("exponential")),
    (tl.losses.CostMatrix(COSTS), "quadratic"),
    (tl.losses.Absolute(4), "all-thresholds"),
    (tl.losses.Absolute(4), "cumulative-link"),
    (tl.losses.Squared(4), "all-thresholds"),
    (tl.losses.Abstain(4, 0.55), "multinomial"),
    (tl.losses.ZeroOne(4), "multinomial"),
]


def sample(n, rng):
    x = rng.integers(0, 4, n)
    y = np.array([rng.choice(4, p=LAWS[i]) for i in x])
    return np.eye(4)[x], y


def risk(loss, z):
    """The true mean loss of answering z[i] at input i."""
    return np.mean([LAWS[i] @ loss.bind(4).matrix()[z[i]] for i in range(4)])


@pytest.mark.parametrize(("loss", "surrogate"), PAIRS, ids=label)
def test_risk_falls_to_the_bayes_risk(loss, surrogate):
    rng = np.random.default_rng(0)
    bayes = risk(loss, [(loss.bind(4).matrix() @ law).argmin() for law in LAWS])
    excess = []
    for n in (100, 30_000):
        X, y = sample(n, rng)
        model = tl.TaskLossEstimator(loss, surrogate, alpha=1e-6, tol=1e-6).fit(X, y)
        z = loss.bind(4).decode(model._loss_for(None).probabilities(model.predict_moments(np.eye(4))))
        excess.append(risk(loss, z) - bayes)
    assert excess[1] == pytest.approx(0, abs=1e-9)
    argmax = risk(loss, LAWS.argmax(1))
    if not isinstance(loss, tl.losses.ZeroOne):
        assert argmax - bayes > 0.02
