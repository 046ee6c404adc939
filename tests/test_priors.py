"""Shares of labels that differ between the fit and its use."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import taskloss as tl

MEANS = np.array([[0.0, 0.0], [1.6, 0.5], [0.2, 1.9]])
COSTS = tl.losses.CostMatrix([[0, 8, 3], [1, 0, 2], [1, 4, 0], [0.7, 0.7, 0.7]])


def draw(rng, n, prior, spread=1.0):
    """Examples of Gaussian classes with these shares."""
    y = rng.choice(len(prior), n, p=prior)
    return rng.normal(MEANS[y], spread), y


def law(X, prior, sharpness=1.0):
    """The true probabilities at these shares, by Bayes' formula."""
    logits = np.stack([stats.multivariate_normal(mean).logpdf(X) for mean in MEANS[: len(prior)]], axis=-1) * sharpness
    joint = np.exp(logits - logits.max(1, keepdims=True)) * prior
    return joint / joint.sum(1, keepdims=True)


def ordinal(costs):
    return tl.OrdinalClassifier(costs, order=["a", "b", "c"])


def test_reweighed_probabilities_are_those_of_the_other_shares():
    rng = np.random.default_rng(0)
    train, use = np.array([0.3, 0.3, 0.4]), np.array([0.9, 0.02, 0.08])
    X, _ = draw(rng, 50, train)
    np.testing.assert_allclose(tl.reweigh(law(X, train), use, train), law(X, use), atol=1e-12)
    named = tl.reweigh(law(X, train), {"c": 0.08, "a": 0.9, "b": 0.02}, train, labels=["a", "b", "c"])
    np.testing.assert_allclose(named, law(X, use), atol=1e-12)


@pytest.mark.parametrize("make", [tl.CostSensitiveClassifier, ordinal, tl.DecodedClassifier])
def test_decisions_are_those_of_the_reweighed_law(make):
    rng = np.random.default_rng(1)
    X, codes = draw(rng, 300, [0.3, 0.3, 0.4])
    y = np.array(["a", "b", "c"])[codes]
    model = make(LogisticRegression() if make is tl.DecodedClassifier else COSTS).fit(X, y)
    if make is tl.DecodedClassifier:
        model.set_params(loss=COSTS).fit(X, y)
    np.testing.assert_allclose(model.class_prior_, np.bincount(codes) / 300)
    use = {"a": 0.9, "b": 0.02, "c": 0.08}
    q = model.predict_proba(X) * [0.9, 0.02, 0.08] / model.class_prior_
    risks = q / q.sum(1, keepdims=True) @ COSTS.matrix().T
    np.testing.assert_array_equal(model.predict(X, class_prior=use), model.outputs_[risks.argmin(1)])
    np.testing.assert_allclose(model.expected_loss(X, class_prior=use), risks.min(1), atol=1e-9)
    found = tl.decide(
        model.predict_proba(X), COSTS, labels=["a", "b", "c"], class_prior=use, train_prior=model.class_prior_
    )
    np.testing.assert_array_equal(found, model.predict(X, class_prior=use))
    piped = make_pipeline(
        StandardScaler(), make(COSTS) if make is not tl.DecodedClassifier else tl.CostSensitiveClassifier(COSTS)
    )
    piped.fit(X, y)
    assert (tl.expected_loss(piped, X=X, class_prior=use) < tl.expected_loss(piped, X=X)).mean() > 0.5
    np.testing.assert_array_equal(piped.predict(X, class_prior=model.class_prior_), piped.predict(X))


def test_weights_are_part_of_the_shares_that_were_fitted():
    rng = np.random.default_rng(2)
    X, y = draw(rng, 300, [0.7, 0.2, 0.1])
    model = tl.CostSensitiveClassifier(class_weight="balanced").fit(X, y)
    np.testing.assert_allclose(model.class_prior_, 1 / 3)
    weights = rng.random(300)
    model = tl.CostSensitiveClassifier().fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.class_prior_, np.bincount(y, weights) / weights.sum())


def test_an_undersampled_fit_with_the_true_shares_is_the_whole_fit():
    """As estimates of the same coefficients: logistic regression differs in the intercept only."""
    rng = np.random.default_rng(3)
    X, y = draw(rng, 60_000, [0.97, 0.03])
    half = np.concatenate([np.flatnonzero(y == 1), rng.choice(np.flatnonzero(y == 0), (y == 1).sum(), replace=False)])
    costs = [[0, 30], [1, 0]]
    whole = tl.CostSensitiveClassifier(costs, alpha=1e-6).fit(X, y)
    part = tl.CostSensitiveClassifier(costs, alpha=1e-6).fit(X[half], y[half])
    T, t = draw(rng, 40_000, [0.97, 0.03])
    paid = [
        np.array([[0, 30], [1, 0]])[z, t].mean()
        for z in (whole.predict(T), part.predict(T, class_prior=[0.97, 0.03]), part.predict(T))
    ]
    assert paid[1] < 1.03 * paid[0]
    assert paid[2] > 1.3 * paid[0]


@pytest.mark.parametrize("method", ["em", "confusion"])
@pytest.mark.parametrize("k", [2, 3])
def test_intervals_hold_the_truth_as_often_as_they_say(method, k):
    """Over 1,000 shifts in all; refusals of true label shifts are rare."""
    rng = np.random.default_rng(4)
    train = np.full(k, 1 / k)
    inside, refused, rounds = [], 0, 250
    for _ in range(rounds):
        truth = rng.dirichlet(np.ones(k)) * 0.9 + 0.1 / k
        X, _ = draw(rng, 1500, truth)
        R, y = draw(rng, 600, train)
        try:
            found = tl.estimate_prior(law(X, train), law(R, train), y, method=method, train_prior=train)
        except ValueError:
            refused += 1
            continue
        inside.append((found.low <= truth) & (truth <= found.high))
    assert refused <= 0.04 * rounds
    rate = np.mean(inside)
    assert abs(rate - 0.95) < 4 * np.sqrt(0.95 * 0.05 / rounds)


def test_the_estimate_recovers_small_shares_or_refuses():
    """Scores that are far too sharp, as after undersampling: EM's maximum is wrong and refused, the confusion matrix is right."""
    rng = np.random.default_rng(5)
    train, truth = np.array([0.5, 0.5]), np.array([0.978, 0.022])
    (X, _), (R, y) = draw(rng, 20_000, truth), draw(rng, 2000, train)
    sharp = [law(Z, train, sharpness=3.0) for Z in (X, R)]
    with pytest.raises(ValueError, match="probabilities are not calibrated"):
        tl.estimate_prior(*sharp, y, train_prior=train)
    found = tl.estimate_prior(*sharp, y, method="confusion")
    assert found.low[1] <= 0.022 <= found.high[1]
    right = tl.estimate_prior(law(X, train), law(R, train), y)
    assert right.low[1] <= 0.022 <= right.high[1]
    model = tl.CostSensitiveClassifier([[0, 30], [1, 0]]).fit(R, y)
    np.testing.assert_array_equal(
        model.predict(X, class_prior=right),
        model.predict(X, class_prior=dict(zip(right.labels, right.prior, strict=True))),
    )


def estimate(n=1000, shares=(0.5, 0.5), spread=1.0, blind=False, ref=400, **options):
    rng = np.random.default_rng(6)
    train = np.array([0.5, 0.5])
    (X, _), (R, y) = draw(rng, n, shares, spread), draw(rng, ref, train)
    if blind:
        X, R = rng.normal(size=X.shape), rng.normal(size=R.shape)
    return tl.estimate_prior(law(X, train), law(R, train), y, **options)


def constant(share, method, labels=2):
    rest = (1 - share) / (labels - 1)
    q = np.tile([share, *[rest] * (labels - 1)], (1000, 1))
    return tl.estimate_prior(q, q, np.arange(1000) % 7 % labels, method=method)


def fit(**options):
    X, y = draw(np.random.default_rng(7), 60, [0.5, 0.5])
    return tl.CostSensitiveClassifier().fit(X, y).predict(X, **options)


HALF = [0.5, 0.5]
BAD = {
    "zero": (
        lambda: fit(class_prior=[1.0, 0.0]),
        r"class_prior gives the label 1 the share 0.0: every share must be above zero",
    ),
    "zero at the fit": (
        lambda: fit(class_prior=HALF, train_prior=[0, 1]),
        "train_prior gives the label 0 the share 0.0",
    ),
    "sum": (lambda: fit(class_prior=[0.5, 0.6]), "class_prior must sum to one"),
    "count": (lambda: fit(class_prior=[0.2, 0.3, 0.5]), "a share for each of the 2 labels"),
    "names": (lambda: fit(class_prior={0: 0.5, 2: 0.5}), r"a share for each of the labels \[0, 1\], got \[0, 2\]"),
    "text": (lambda: fit(class_prior="half"), "class_prior must be shares of the labels"),
    "alone": (lambda: fit(train_prior=HALF), "give class_prior"),
    "nothing seen": (
        lambda: tl.decide(LogisticRegression().fit([[0], [1]], [0, 1]), X=[[0.0]], class_prior=HALF),
        "has seen no labels at its fit: pass train_prior",
    ),
    "one of two": (lambda: tl.decide([HALF], class_prior=HALF), "give both class_prior and train_prior"),
    "sets": (
        lambda: tl.MultilabelClassifier().fit(np.eye(2), np.eye(2, dtype=int)).predict(np.eye(2), class_prior=HALF),
        "one label per example",
    ),
    "method": (lambda: estimate(method="mle"), "method must be 'em' or 'confusion'"),
    "shapes": (lambda: tl.estimate_prior([HALF], [HALF], [0, 1]), "a row for each of the 2 labels of y_ref"),
    "one row": (lambda: tl.estimate_prior([HALF], [HALF] * 2, [0, 1]), "proba must have at least two rows"),
    "scores": (lambda: tl.estimate_prior([[3.0, 1.0]], [HALF], [0]), "proba must be probabilities, from 0 to 1"),
    "no reference": (lambda: tl.estimate_prior([HALF], [HALF], 1), "y_ref must be a list of labels"),
    "another label": (lambda: estimate(labels=[0, 2]), "Unknown label 1 in y_ref"),
    "level": (lambda: estimate(level=1.5), "level must lie between 0 and 1"),
    "number": (lambda: tl.reweigh(0.5, HALF, HALF), "proba must have one column for each label"),
    "columns": (lambda: tl.reweigh([[0.2, 0.3, 0.5]], HALF, HALF), "a share for each of the 3 columns of proba"),
    "names of columns": (lambda: tl.reweigh([HALF], HALF, HALF, ["a"]), "labels names 1 labels, but proba has 2"),
    "few": (lambda: estimate(ref=12), "at least 10 of each label are needed"),
    "blind": (lambda: estimate(blind=True), "proba and proba_ref do not tell the labels of y_ref apart"),
    "nothing but roundings": (lambda: constant(0.7, "confusion"), "do not tell the labels of y_ref apart"),
    "nothing but roundings, a third": (lambda: constant(1 / 3, "confusion"), "do not tell the labels of y_ref apart"),
    "nothing but roundings, em": (lambda: constant(1 / 3, "em"), "do not tell the labels of y_ref apart"),
    "nothing but roundings, three": (lambda: constant(0.7, "confusion", 3), "do not tell the labels of y_ref apart"),
    "another shift": (
        lambda: estimate(n=5000, spread=2.5, method="confusion"),
        "No shares of the labels explain proba: given the label of y_ref",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_a_sentence(name):
    call, sentence = BAD[name]
    with pytest.raises(ValueError, match=sentence):
        call()


def test_expit_of_the_log_odds():
    """For two labels reweighing adds the change of the log odds of the shares."""
    q = np.linspace(0.01, 0.99, 9)
    found = tl.reweigh(np.column_stack([1 - q, q]), [0.9, 0.1], HALF)[:, 1]
    np.testing.assert_allclose(found, expit(np.log(q / (1 - q)) + np.log(0.1 / 0.9)))
