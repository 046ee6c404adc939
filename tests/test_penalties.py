"""alpha="auto": the penalty of least held-out task loss, for every estimator that has one."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

import taskloss as tl
from taskloss.hypotheses import Boosting, Kernel, Linear, Nystrom, Thresholds
from taskloss.objectives import Path, Rows, leaves_out, objective
from taskloss.solvers import ASGD, LBFGS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 6))
Y = np.digitize(X[:, 0] + 0.7 * RNG.normal(size=240), [-1, 0, 1])
SETS = (X @ RNG.normal(size=(6, 4)) + RNG.normal(size=(240, 4)) > 0.5).astype(int)
GROUPS = np.repeat(np.arange(30), 8)
SEQUENCES = [RNG.normal(size=(n, 4)) for n in RNG.integers(1, 6, 60)]
TAGS = [np.argmax(x[:, :3] + RNG.gumbel(size=(len(x), 3)), 1).tolist() for x in SEQUENCES]
PAIRS = [(RNG.normal(size=(4, 2)), None) for _ in range(30)]
PAIRS = [(a, a[::-1] + 0.3 * RNG.normal(size=(4, 2))) for a, _ in PAIRS]
CASES = {
    "classifier": (tl.CostSensitiveClassifier, (X, Y), {}),
    "ordinal": (tl.OrdinalClassifier, (X, Y), {}),
    "sets": (tl.MultilabelClassifier, (X, SETS), {}),
    "F": (lambda **p: tl.MultilabelClassifier("f-beta", **p), (X, SETS), {}),
    "kernel": (lambda **p: tl.CostSensitiveClassifier(hypothesis="kernel", **p), (X, Y), {}),
    "nystrom": (lambda **p: tl.OrdinalClassifier(hypothesis=Nystrom(40), **p), (X, Y), {}),
    "quadratic": (lambda **p: tl.CostSensitiveClassifier(surrogate="quadratic", **p), (X, Y), {}),
    "ranker": (tl.Ranker, (X, Y), {"groups": GROUPS}),
    "matcher": (tl.Matcher, (PAIRS, [[3, 2, 1, 0]] * 30), {}),
    "tagger": (tl.SequenceTagger, (SEQUENCES, TAGS), {}),
    "tagger with a kernel": (lambda **p: tl.SequenceTagger(hypothesis=Nystrom(20), **p), (SEQUENCES, TAGS), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_every_estimator_chooses_its_penalty(name):
    make, data, more = CASES[name]
    chosen = make(alpha="auto").fit(*data, **more)
    assert chosen.alpha == "auto"
    assert len(chosen.alphas_) == len(chosen.path_scores_) >= 3
    assert (np.diff(chosen.alphas_) < 0).all()
    assert chosen.alpha_ == chosen.alphas_[np.argmax(chosen.path_scores_)]
    given = make(alpha=chosen.alpha_).fit(*data, **more)
    np.testing.assert_array_equal(np.asarray(given.theta_), np.asarray(chosen.theta_))
    assert given.alpha_ == chosen.alpha_
    assert np.isnan(given.path_scores_).all()


def test_a_quadratic_risk_is_judged_by_leaving_each_example_out():
    """The path's scores are those of as many fits, each without one example."""
    x, y = X[:25], Y[:25]
    model = tl.CostSensitiveClassifier(surrogate="quadratic", alpha="loo", tol=1e-12).fit(x, y)
    for i in (0, len(model.alphas_) // 2):
        losses = []
        for out in range(25):
            # Under the same weights: a fit to 24 examples has 25/24 of the penalty for each.
            rest = np.delete(np.arange(25), out)
            one = tl.TaskLossEstimator("zero-one", "quadratic", alpha=model.alphas_[i] * 25 / 24, tol=1e-12).fit(
                x[rest], y[rest]
            )
            if len(one.classes_) < len(model.classes_):
                pytest.skip("a label has one example only")
            losses.append(one.predict(x[out : out + 1])[0] != y[out])
        assert -np.mean(losses) == pytest.approx(model.path_scores_[i])


def test_folds_are_fits_to_the_other_examples(monkeypatch):
    """One strength on the path equals, fold by fold, a fit at that strength to what the fold leaves, where the path is as exact."""
    from taskloss.estimators import base
    from taskloss.estimators.penalties import _folds

    monkeypatch.setattr(base, "_PATH_TOL", 1e-9)
    x, y = X[:120], Y[:120]  # fewer than five examples for each of 28 parameters
    model = tl.CostSensitiveClassifier(alpha="auto", tol=1e-9).fit(x, y)
    folds, i = _folds(120, y), len(model.alphas_) // 2
    wrong = 0
    for f in range(3):
        # The same penalty beside two thirds of the examples: half as much again for their mean.
        one = tl.CostSensitiveClassifier(alpha=1.5 * model.alphas_[i], tol=1e-9).fit(x[folds != f], y[folds != f])
        wrong += (one.predict(x[folds == f]) != y[folds == f]).sum()
    assert -wrong / 120 == pytest.approx(model.path_scores_[i])


LEVELS = np.digitize(X[:, 0], [-1, 0, 1])
CUMULATED = (LEVELS[:, None] > np.arange(3)).astype(np.int8)
LEFT_OUT = {
    "multinomial": (tl.surrogates.Multinomial(4), np.eye(4, dtype=np.int8)[Y], Linear()),
    "without intercepts": (tl.surrogates.Multinomial(4), np.eye(4, dtype=np.int8)[Y], Linear(fit_intercept=False)),
    "label sets": (tl.surrogates.Independent("logistic", 4), SETS.astype(np.int8), Linear()),
    "ordered, one direction": (tl.surrogates.AllThresholds("logistic", 4), CUMULATED, Thresholds()),
    "cumulative": (tl.surrogates.CumulativeLink("logit", 4), np.eye(4, dtype=np.int8)[LEVELS], Thresholds()),
    "quadratic": (tl.surrogates.Quadratic(), SETS.astype(float), Linear()),
}


@pytest.mark.parametrize("alpha", [1.0, 1e-2])
@pytest.mark.parametrize("name", LEFT_OUT)
def test_scores_left_out_are_those_of_fits_without_each_example(name, alpha):
    """To a tenth of what leaving an example out changes; to a hundredth, for a quadratic risk, from wherever the step starts."""
    surrogate, targets, hypothesis = LEFT_OUT[name]
    weights = RNG.uniform(0.5, 2.0, 240)
    risk = Rows(surrogate, targets, weights)
    hypothesis = hypothesis.bind(X, np.ones(240))
    path, rows = Path(hypothesis, X, risk, LBFGS(1e-12)), np.arange(0, 240, 24)
    assert leaves_out(path.problem)
    found, theta = path.left_out(alpha, rows), path.theta
    exact = []
    for i in rows:
        rest = np.delete(np.arange(240), i)
        one = Path(hypothesis, X[rest], risk.take(rest), LBFGS(1e-12)).at(alpha)
        exact.append(hypothesis.predict(one, X[i : i + 1])[0])
    change = np.abs(exact - hypothesis.predict(theta, X[rows])).max()
    assert np.abs(found - exact).max() < 0.1 * change
    if name == "quadratic":
        np.testing.assert_allclose(found, exact, atol=1e-2 * change)
        early = Path(hypothesis, X, risk, LBFGS(1e-12, max_iter=1))
        np.testing.assert_allclose(early.left_out(alpha, rows), exact, atol=1e-2 * change)


def test_the_path_chooses_as_leaving_each_example_out_does():
    """The same losses as refits without each example, but for a few whose decision is close."""
    x, y = X[:60, :2], (X[:60, 0] + RNG.normal(size=60) > 0).astype(int)
    model = tl.CostSensitiveClassifier(alpha="auto", tol=1e-9).fit(x, y)
    for alpha, score in zip(model.alphas_[:4], model.path_scores_[:4], strict=True):
        wrong = 0
        for i in range(60):
            rest = np.delete(np.arange(60), i)
            one = tl.CostSensitiveClassifier(alpha=alpha * 60 / 59, tol=1e-9).fit(x[rest], y[rest])
            wrong += int(one.predict(x[i : i + 1])[0] != y[i])
        assert abs(wrong + 60 * score) <= 2


@pytest.mark.parametrize("hypothesis", [Linear(), Kernel(), Nystrom(30)], ids=repr)
def test_a_path_is_as_many_fits(hypothesis):
    phi = np.eye(4, dtype=np.int8)[Y]
    risk = Rows(tl.surrogates.Multinomial(4), phi, np.full(240, 1 / 240))
    hypothesis = hypothesis.bind(X, np.ones(240))
    path = Path(hypothesis, X, risk, LBFGS(1e-10))
    for alpha in (1.0, 1e-2, 1e-4):
        value, _ = (f := objective(hypothesis, X, risk, alpha)).value_and_gradient(f.flatten(path.at(alpha)))
        start = LBFGS(1e-10).minimise(f, f.flatten(f.start), None)
        assert value.sum() == pytest.approx(start.value, rel=1e-8)


def test_it_is_as_good_as_a_grid_search():
    """Sixty features without meaning, where too weak a penalty costs; judged on many new examples."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3150, 66))
    y = np.digitize(x[:, 0] + 0.7 * rng.normal(size=3150), [-1, 0, 1])
    train, new = slice(0, 150), slice(150, None)
    grid = {"alpha": [10.0, 1.0, 0.1, 1e-2, 1e-4]}
    search = GridSearchCV(tl.OrdinalClassifier(tol=1e-4), grid, cv=3).fit(x[train], y[train])
    chosen = tl.OrdinalClassifier(alpha="auto", tol=1e-4).fit(x[train], y[train])
    weak = tl.OrdinalClassifier(alpha=1e-5, tol=1e-4).fit(x[train], y[train])
    assert chosen.score(x[new], y[new]) > search.score(x[new], y[new]) - 0.05
    better = 3000 * (chosen.score(x[new], y[new]) - weak.score(x[new], y[new]))
    assert round(better) >= 150  # what fits run to the end differ by


def test_kernels_do_not_underfit():
    x = RNG.uniform(-3, 3, size=(400, 2))
    y = (np.sin(3 * x[:, 0]) * np.sin(3 * x[:, 1]) > 0).astype(int)
    fixed = tl.CostSensitiveClassifier(hypothesis="kernel", alpha=1e-3).fit(x[:300], y[:300])
    chosen = tl.CostSensitiveClassifier(hypothesis="kernel", alpha="auto").fit(x[:300], y[:300])
    assert chosen.score(x[300:], y[300:]) > fixed.score(x[300:], y[300:]) + 0.05


@pytest.mark.parametrize("kind", [Kernel, Nystrom], ids=lambda k: k.__name__)
def test_kernels_choose_their_bandwidth(kind):
    """Stripes for which the default kernel is too wide."""
    x = RNG.uniform(-3, 3, size=(500, 2))
    y = (np.sin(5 * x[:, 0]) > 0).astype(int)
    plain, wide = (
        tl.CostSensitiveClassifier(hypothesis=kind(gamma=g), alpha="auto", tol=1e-4).fit(x[:400], y[:400])
        for g in ("scale", "auto")
    )
    assert wide.hypothesis_.gram_.gamma > plain.hypothesis_.gram_.gamma
    assert wide.score(x[400:], y[400:]) > plain.score(x[400:], y[400:])
    assert wide.path_scores_.max() > plain.path_scores_.max()


def test_weights_count_in_what_is_held_out():
    weights = np.where(Y == 0, 0.0, 1.0)
    a = tl.CostSensitiveClassifier(alpha="auto").fit(X, Y, weights)
    assert len(np.unique(a.predict(X))) == 3


def test_an_interrupt_while_choosing_leaves_the_earlier_model(monkeypatch):
    from taskloss.objectives import PenalisedRisk

    model = tl.OrdinalClassifier(alpha="auto", warm_start=True).fit(X, Y)
    theta, alpha, calls = model.theta_, model.alpha_, 0
    evaluate = PenalisedRisk.value_and_gradient

    def stopped(self, theta):
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return evaluate(self, theta)

    monkeypatch.setattr(PenalisedRisk, "value_and_gradient", stopped)
    with pytest.raises(KeyboardInterrupt, match="while the penalty was chosen"):
        model.fit(X[:100], Y[:100])
    assert model.theta_ is theta
    assert model.alpha_ == alpha


SENTENCES = {
    "word": (lambda: tl.OrdinalClassifier(alpha="best").fit(X, Y), "alpha must be a finite number above zero"),
    "trees": (
        lambda: tl.OrdinalClassifier(hypothesis=Boosting(n_estimators=2), alpha="auto").fit(X, Y),
        "has other means: give alpha a number",
    ),
    "averaging": (lambda: tl.OrdinalClassifier(solver=ASGD(radius=1), alpha="auto").fit(X, Y), "ASGD has other means"),
    "one group": (lambda: tl.Ranker(alpha="auto").fit(X, Y, groups=np.zeros(240)), "there is one only"),
    "objective": (lambda: tl.SequenceTagger(alpha="auto").objective(SEQUENCES, TAGS), "is chosen by a fit"),
    "missing labels": (
        lambda: tl.SequenceTagger(alpha="auto").fit(SEQUENCES, [[None, *row[1:]] for row in TAGS]),
        "some labels are missing: give alpha a number",
    ),
    "bandwidth alone": (
        lambda: tl.OrdinalClassifier(hypothesis=Kernel(gamma="auto"), alpha=1.0).fit(X, Y),
        "chosen together with the penalty",
    ),
    "bandwidth of the predictor": (lambda: tl.KernelPredictor(gamma="auto").fit(X, Y), "does not choose gamma"),
    "predictor": (lambda: tl.KernelPredictor(alpha="best").fit(X, Y), "a number above zero or 'auto'"),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_bad_input_gets_a_sentence(name):
    work, sentence = SENTENCES[name]
    with pytest.raises(ValueError, match=sentence):
        work()
