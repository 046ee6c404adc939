"""Diagnoses on laws that are known: parts add up and are what they are said to be, and recalibration keeps what it foretells."""

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import taskloss as tl
from taskloss.diagnosis.intervals import loss_interval, mean_interval
from taskloss.recalibration import METHODS, from_laws, laws_of

COSTS = np.array([[0.0, 4, 2], [1, 0, 3], [1, 6, 0]])


def distorted(q, sharpness):
    return softmax(sharpness * np.log(q), axis=-1)


def labels_of(q, rng):
    return (q.cumsum(1) < rng.random((len(q), 1))).sum(1)


class World:
    """x1 is seen by the model and x2 by the reference, too; both have finitely many values, so that every mean is a sum."""

    def __init__(self):
        rng = np.random.default_rng(5)
        self.full = rng.dirichlet(np.full(3, 0.7), (30, 4))  # P(y | x1, x2)
        self.seen = self.full.mean(1)  # P(y | x1)
        self.model = distorted(self.seen, 2.5)
        z, best, own = (q @ COSTS.T for q in (self.model, self.seen, self.full))
        risk = self.seen @ COSTS.T
        self.noise = own.min(-1).mean()
        self.with_x1 = best.min(-1).mean()
        self.loss = np.take_along_axis(risk, z.argmin(1)[:, None], 1).mean()

    def draw(self, n, rng):
        a, b = rng.integers(30, size=n), rng.integers(4, size=n)
        return self.model[a], distorted(self.full[a, b], 0.6), labels_of(self.full[a, b], rng)


def interval(row, name="loss"):
    return row[name], row[f"{name}_low"], row[f"{name}_high"]


def test_parts_of_a_known_law_lie_within_their_intervals():
    """noise, refinement and miscalibration of a law with 120 cells, over seeded draws, as often as promised."""
    world, inside = World(), []
    truth = {
        "noise": world.noise,
        "refinement": world.with_x1 - world.noise,
        "miscalibration": world.loss - world.with_x1,
        "unexplained": 0.0,
    }
    assert all(value > 0.02 for name, value in truth.items() if name != "unexplained")
    assert np.isclose(sum(truth.values()), world.loss)
    for seed in range(8):
        q, reference, y = world.draw(3000, np.random.default_rng(seed))
        found = tl.diagnose(q, y=y, loss=COSTS, reference=reference)
        rows = {row["part"]: interval(row) for row in found.part_rows}
        assert rows.keys() == truth.keys()
        assert np.isclose(sum(value for value, _, _ in rows.values()), found.realised.value, atol=1e-12)
        # Each map is estimated, which the intervals do not count: a tenth of the loss for both, at this many examples.
        slack = 0.01 * world.loss
        inside.append([rows[name][1] - slack <= truth[name] <= rows[name][2] + slack for name in truth])
        assert found.gap.low > 0  # too sure
    assert (np.mean(inside, axis=0) >= 0.75).all(), np.mean(inside, axis=0)


def sets_of(p, rng):
    return (rng.random(p.shape) < p).astype(int)


def simulated(kind, n, rng):
    """Probabilities that are too sure, labels, and a loss."""
    if kind in ("hamming", "label-costs"):
        p = expit(rng.normal(size=(n, 4)))
        loss = "hamming" if kind == "hamming" else tl.losses.LabelCosts(np.tile([[0.0, 3.0], [1.0, 0.0]], (4, 1, 1)))
        return expit(2.5 * np.log(p / (1 - p)) + 0.7), sets_of(p, rng), loss
    k = 2 if kind == "two" else 4
    q = rng.dirichlet(np.full(k, 0.8), n)
    loss = {
        "two": [[0, 5], [1, 0]],
        "absolute": "absolute",
        "abstain": tl.losses.Abstain(cost=0.3),
        "costs": np.abs(np.subtract.outer(range(4), range(4))) * np.array([1.0, 3, 1, 2]),
    }[kind]
    return distorted(q, 2.2), labels_of(q, rng), loss


@pytest.mark.parametrize("kind", ["two", "absolute", "abstain", "costs", "hamming", "label-costs"])
def test_the_recalibrated_loss_is_the_one_foretold(kind):
    """The loss of `Recalibrated` on 30,000 fresh examples, beside the interval that a diagnosis gave on 1,500 others."""

    class Given:  # a model whose inputs are its probabilities
        classes_ = np.arange(2 if kind == "two" else 4)

        def predict(self, X):
            return X.argmax(1)

        predict_proba = staticmethod(lambda X: X)

    inside, saved = 0, []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        q, y, loss = simulated(kind, 1500, rng)
        fresh, known, _ = simulated(kind, 30_000, rng)
        found = tl.diagnose(q, y=y, loss=loss)
        if kind in ("hamming", "label-costs"):
            loss = tl.losses.Loss.resolve(loss).bind(4)
            method = METHODS[found.method]()
            method.fit(laws_of(loss, loss.moments(q)), laws_of(loss, loss.phi(y)), np.full(len(y), 1 / len(y)))
            mu = from_laws(loss, method(laws_of(loss, loss.moments(fresh))))
            realised = loss(loss.decode(mu), known).mean()
        else:
            realised = -tl.Recalibrated(Given(), found.method, loss=loss).fit(q, y).score(fresh, known)
        error = 2 * loss_interval(found.losses, np.ones(len(y)), found.evidence.span).value / np.sqrt(30_000)
        inside += found.foretold.low - error <= realised <= found.foretold.high + error
        saved.append(found.realised.value - found.foretold.value)
        assert found.method != "none"
    assert inside >= 5
    assert np.mean(saved) > 0 or kind == "hamming"


# -- laws of the recalibrations ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["temperature", "vector", "isotonic", "auto"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_map_of_out_of_fold_moments_is_that_of_such_moments_given(method, weighted):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 2))
    y = np.array(["a", "b", "c"])[np.clip(np.round(X[:, 0] + rng.normal(size=300)) + 1, 0, 2).astype(int)]
    w = rng.integers(1, 4, 300).astype(float) if weighted else None
    folds = [(np.arange(300) % 3 != k, np.arange(300) % 3 == k) for k in range(3)]
    splits = [(np.flatnonzero(train), np.flatnonzero(test)) for train, test in folds]
    model = tl.CostSensitiveClassifier([[0, 1, 5], [1, 0, 1], [2, 1, 0]], alpha=1e-3)
    found = tl.Recalibrated(model, method, cv=splits).fit(X, y, w)
    out, rows = [], np.concatenate([test for _, test in splits])
    for train, test in splits:
        part = clone(model).fit(X[train], y[train], None if w is None else w[train])
        out.append(part.predict_proba(X[test]))

    class Given:  # a model whose inputs are its probabilities
        classes_ = found.classes_

        def predict(self, X):
            return self.classes_[X.argmax(1)]

        predict_proba = staticmethod(lambda X: X)

    given = tl.Recalibrated(Given(), method).fit(np.concatenate(out), y[rows], None if w is None else w[rows])
    assert found.method_ == given.method_
    p = clone(model).fit(X, y, w).predict_proba(X)
    np.testing.assert_allclose(found.predict_proba(X), given.predict_proba(p), atol=1e-9)


def test_folds_of_label_sets_and_labels_that_a_fold_lacks():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(120, 2))
    sets = [
        {"x"} | ({"y"} if a > 0 else set()) | ({"z"} if b > 0.5 else set()) for a, b in X + rng.normal(size=X.shape)
    ]
    for loss in ("hamming", tl.losses.FBeta()):
        found = tl.Recalibrated(tl.MultilabelClassifier(loss), "temperature", cv=3).fit(X, sets)
        assert found.predict_proba(X).shape == (120, 3)
    y = np.where(X[:, 0] > 0, "a", "b").astype(object)
    y[5] = "rare"
    with pytest.raises(ValueError, match="A fold's fit has seen no example of 'rare'"):
        tl.Recalibrated(tl.CostSensitiveClassifier(), cv=[(np.arange(60, 120), np.arange(60))]).fit(X, y)


def test_recalibrations_are_what_they_say():
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(3), 4000)[:, None]
    seen, w = np.eye(3)[labels_of(distorted(q[:, 0], 0.5), rng)][:, None], np.full(4000, 1 / 4000)
    temperature = METHODS["temperature"]().fit(q, seen, w)
    grid = np.linspace(0.3, 0.8, 501)
    risks = [-(w @ (np.log(distorted(q, a)) * seen).sum((1, 2))) for a in grid]
    assert abs(temperature.sharpness_ - grid[np.argmin(risks)]) <= 1e-3
    vector = METHODS["vector"]().fit(q, seen, w)
    base = vector.powers_.copy()

    def risk(powers):
        vector.powers_ = powers
        away = ((powers - 1) ** 2).sum() + (vector.shifts_**2).sum()
        return -(w @ (np.log(vector(q)) * seen).sum((1, 2))) + 5e-4 * away

    least = risk(base)
    for step in np.eye(3) * 1e-2:
        assert risk(base + step) > least
        assert risk(base - step) > least
    two = q[:, :, :2] / q[:, :, :2].sum(-1, keepdims=True)
    seen = np.eye(2)[labels_of(two[:, 0], rng)][:, None]
    own = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(two[:, 0, 1], seen[:, 0, 1])
    assert np.allclose(METHODS["isotonic"]().fit(two, seen, w)(two)[:, 0, 1], own.predict(two[:, 0, 1]))


@pytest.mark.parametrize(
    "loss",
    [tl.losses.ZeroOne(4), tl.losses.Absolute(4, "cube"), tl.losses.Hamming(3), tl.losses.FBeta(3, max_size=2)],
    ids=repr,
)
def test_moments_and_laws_are_two_forms_of_one_thing(loss):
    rng = np.random.default_rng(1)
    vertices = loss.phi(loss.labels())
    mu = rng.dirichlet(np.ones(len(vertices)), 50) @ vertices
    q = laws_of(loss, mu)
    assert np.allclose(q.sum(-1), 1)
    assert np.allclose(from_laws(loss, q), mu)
    for name, kind in METHODS.items():
        seen = laws_of(loss, vertices[rng.integers(len(vertices), size=50)])
        out = kind().fit(q, seen, np.full(50, 0.02))(q)
        assert out.min() >= 0, name
        assert np.allclose(out.sum(-1), 1), name


# -- intervals ---------------------------------------------------------------------------------------------------------


def test_intervals_of_zero_one_losses_are_wilsons():
    from statsmodels.stats.proportion import proportion_confint

    for wrong in (0, 3, 57, 100):
        losses = np.arange(100) < wrong
        assert np.allclose(
            loss_interval(losses * 1.0, np.ones(100), (0.0, 1.0))[1:], proportion_confint(wrong, 100, method="wilson")
        )


def test_intervals_cover_a_rare_and_large_loss():
    """A loss of 50 once in 200 examples, on 400 draws of 300: as often as promised, but for the error of 400 draws."""
    rng = np.random.default_rng(0)
    losses = np.where(rng.random((400, 300)) < 1 / 200, 50.0, rng.random((400, 300)))
    truth = 50 / 200 + 0.995 / 2
    covered = np.mean([truth in loss_interval(row, np.ones(300), (0.0, 50.0)) for row in losses])
    assert covered >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 400)


def test_weights_are_repetitions():
    rng = np.random.default_rng(2)
    q, y, loss = simulated("costs", 60, rng)
    w = rng.integers(1, 4, 60)
    weighed = tl.diagnose(q, y=y, loss=loss, sample_weight=w)
    repeated = tl.diagnose(np.repeat(q, w, axis=0), y=np.repeat(y, w), loss=loss)
    assert np.isclose(weighed.realised.value, repeated.realised.value)
    assert np.isclose(weighed.gap.value, repeated.gap.value)
    for one, other in zip(weighed.baseline_rows, repeated.baseline_rows, strict=True):
        assert np.isclose(one["more"], other["more"])
    assert np.isclose(mean_interval(np.arange(60.0), w * 1.0).value, np.repeat(np.arange(60), w).mean())


# -- tables ------------------------------------------------------------------------------------------------------------


def test_bins_add_up_and_margins_are_brute_force():
    rng = np.random.default_rng(3)
    q, y, loss = simulated("costs", 700, rng)
    found = tl.diagnose(q, y=y, loss=loss, bins=7)
    table = found.reliability
    assert len(table) == 7
    assert np.isclose(table["share"].sum(), 1)
    assert np.isclose((table["share"] * table["realised"]).sum(), found.realised.value)
    assert np.isclose((table["share"] * table["expected"]).sum(), found.expected)
    assert (table["expected"].diff()[1:] > 0).all()
    risks = np.sort(q @ np.asarray(loss).T, axis=1)
    assert np.allclose(found.margin_values, risks[:, 1] - risks[:, 0])
    assert np.isclose((found.margins["share"] * found.margins["saved"]).sum(), interval(found.part_rows[1])[0])
    assert found.mistakes["loss"].iloc[0] == found.losses.max()
    assert np.isclose(found.baselines["realised"][2], min(np.asarray(loss)[:, y].mean(1)))
    prices = rng.random((700, 4))
    priced = tl.diagnose(q, y=y, loss=loss, costs=prices)
    risks = np.sort(q @ np.asarray(loss).T + prices, axis=1)
    assert np.allclose(priced.margin_values, risks[:, 1] - risks[:, 0])
    assert "no one calibration function" in str(priced.guarantee)


def test_the_picture_shows_the_table():
    pytest.importorskip("matplotlib").use("agg")
    q, y, loss = simulated("absolute", 500, np.random.default_rng(4))
    found = tl.diagnose(q, y=y, loss=loss, bins=6)
    for display in (found.plot(), tl.plots.LossReliabilityDisplay.from_predictions(y, q, loss, bins=6)):
        points = [c for c in display.ax_.containers if hasattr(c, "lines")]
        drawn = np.concatenate([np.column_stack(c.lines[0].get_data()) for c in points])
        table = found.reliability[["expected", "realised"]].to_numpy()
        assert np.allclose(drawn[np.argsort(drawn[:, 0])], table)
        tl.plots.style.pyplot().close(display.figure_)


def test_the_guarantee_bounds_what_miscalibration_costs():
    world = World()
    q, _, y = world.draw(4000, np.random.default_rng(0))
    found = tl.diagnose(q, y=y, loss=COSTS).guarantee
    excess = (world.seen * np.log(world.seen / world.model)).sum(1).mean()  # the divergence of the log-loss
    assert excess in found.excess
    assert found.bound >= world.loss - world.with_x1
    assert f"{found.bound:.4g}" in str(found)


# -- every model -------------------------------------------------------------------------------------------------------

rng = np.random.default_rng(0)
X = rng.normal(size=(240, 3))
CODES = np.digitize(X[:, 0] + rng.normal(size=240), [-1, 0, 1])
NAMES = np.array(list("abcd"))[CODES]
SETS = (X @ rng.normal(size=(3, 3)) + rng.normal(size=(240, 3)) > 0).astype(int)
SEQUENCES, TAGS = [list(np.split(a, 40)) for a in (X, NAMES)]
PAIRS = [rng.normal(size=(3, 3, 2)) for _ in range(20)]
MATCHINGS = [rng.permutation(3) for _ in PAIRS]
GROUPS = np.repeat(np.arange(24), 10)
TREES = tl.Packed(X, 6 * np.arange(41), np.tile([-1, 0, 0, 1, 1, 2], 40))
MODELS = {
    "labels": (tl.CostSensitiveClassifier(), X, NAMES, {}),
    "ordinal": (tl.OrdinalClassifier("squared"), X, CODES, {}),
    "abstain": (tl.CostSensitiveClassifier(tl.losses.Abstain(cost=0.3)), X, NAMES, {}),
    "least squares": (tl.TaskLossEstimator(surrogate="quadratic"), X, NAMES, {}),
    "ties": (tl.TaskLossEstimator(surrogate="convolutional-fenchel-young"), X, NAMES, {}),
    "sets": (tl.MultilabelClassifier(), X, SETS, {}),
    "F": (tl.MultilabelClassifier("f-beta"), X, SETS, {}),
    "theirs": (LogisticRegression(), X, NAMES, {}),
    "decoded": (tl.DecodedClassifier(LogisticRegression(), "absolute"), X, NAMES, {}),
    "kernel": (tl.KernelPredictor("absolute"), X, CODES, {}),
    "objects": (tl.KernelPredictor(lambda z, y: float(z != y)), X, list(NAMES), {}),
    "ranker": (tl.Ranker(), X, CODES, {"groups": GROUPS}),
    "tagger": (tl.SequenceTagger(), SEQUENCES, TAGS, {}),
    "trees": (tl.TreeTagger(), TREES, NAMES, {}),
    "matcher": (tl.Matcher(), PAIRS, MATCHINGS, {}),
    "tuned": (tl.TunedDecisionCV(tl.CostSensitiveClassifier(), "balanced-accuracy", cv=2), X, NAMES, {}),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore")
def test_every_model_is_diagnosed(name):
    """The loss is minus the score, what was expected is expected_loss, and the parts add up."""
    model, inputs, y, params = MODELS[name]
    model.fit(inputs, y, **params)
    found = tl.diagnose(model, inputs, y, **params)
    own = hasattr(model, "expected_loss")
    score = -model.score(inputs, y, **params) if own else 1 - model.score(inputs, y)
    if name != "tuned":  # which is scored by its measure
        assert np.isclose(found.realised.value, score)
    if own:
        assert np.isclose(found.expected, model.expected_loss(inputs, **params).mean())
    assert found.realised.low <= found.realised.value <= found.realised.high
    if found.part_rows:
        assert np.isclose(sum(row["loss"] for row in found.part_rows), found.realised.value)
        assert found.method in METHODS
    else:
        assert name in ("objects", "ranker", "tagger", "trees", "matcher")
    assert str(found.realised) in str(found)
    page = found.to_html()
    assert "<svg" in page
    assert "<svg" in found._repr_html_()
    assert not [word for word in ("src=", "@import", "url(", "http:") if word in page]


def test_models_are_found_inside_others():
    bare = tl.CostSensitiveClassifier(COSTS[:, [0, 1, 2, 2]] + 0.5 * (np.arange(3)[:, None] != [0, 1, 2, 2]))
    search = GridSearchCV(make_pipeline(StandardScaler(), bare), {"costsensitiveclassifier__alpha": [1e-3]}, cv=2)
    search.fit(X, NAMES)
    direct = tl.diagnose(search.best_estimator_[-1], search.best_estimator_[0].transform(X), NAMES)
    for model in (search, search.best_estimator_, FrozenEstimator(search.best_estimator_)):
        assert str(tl.diagnose(model, X, NAMES)) == str(direct)
    recalibrated = tl.Recalibrated(search, "vector").fit(X, NAMES)
    z = recalibrated.predict(X, costs=lambda X: np.zeros((len(X), 3)))
    assert (z == recalibrated.predict(X)).all()
    assert recalibrated.predict_proba(X).shape == (240, 4)
    assert recalibrated.n_features_in_ == 3
    assert tl.diagnose(recalibrated, X, NAMES).evidence.name == "Recalibrated"


def test_names_come_from_the_data():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("xyz"), index=[f"row {i}" for i in range(240)])
    model = LogisticRegression().fit(frame, NAMES)
    proba = pd.DataFrame(model.predict_proba(frame), columns=model.classes_)
    found = tl.diagnose(model, frame, NAMES, "absolute")
    assert found.mistakes["example"].str.startswith("row").all()
    assert np.isclose(tl.diagnose(proba, y=NAMES, loss="absolute").realised.value, found.realised.value)
    assert np.isclose(
        tl.diagnose(proba.to_numpy(), y=NAMES, loss="absolute", labels=list("abcd")).realised.value,
        found.realised.value,
    )


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_probabilities_come_with_labels_alone():
    """diagnose(probabilities, y), for label sets by the Hamming loss unless another is named."""
    proba = tl.CostSensitiveClassifier().fit(X, CODES).predict_proba(X)
    assert tl.diagnose(proba, CODES).summary() == tl.diagnose(proba, y=CODES).summary()
    model = tl.MultilabelClassifier().fit(X, SETS)
    loss = tl.diagnose(model.predict_proba(X), SETS).realised.value
    assert loss == pytest.approx(-model.score(X, SETS))


def test_bad_input_gets_one_sentence(tmp_path):
    proba = np.full((40, 2), 0.5)
    y = np.arange(40) % 2
    model = tl.CostSensitiveClassifier().fit(X, NAMES)
    ranker = tl.Ranker().fit(X, CODES, groups=GROUPS)
    tagger = tl.SequenceTagger().fit(SEQUENCES, TAGS)
    found = tl.diagnose(proba, y=y)
    page = tmp_path / "page.html"
    found.to_html(page)
    for call, sentence in (
        (lambda: tl.diagnose(proba), "y is missing"),
        (lambda: tl.diagnose(model, X), "y is missing"),
        (lambda: tl.diagnose(model, y=NAMES), "pass X="),
        (lambda: tl.diagnose(proba, y=y[:-1]), "model and y have different lengths: 40 and 39"),
        (lambda: tl.diagnose(model, X, NAMES[:-1]), "X and y have different lengths: 240 and 239"),
        (lambda: tl.diagnose(proba[:5], y=y[:5]), "y has 5 examples, too few"),
        (lambda: tl.diagnose(proba, y=["a"] * 40), "pass labels="),
        (lambda: tl.diagnose(proba, y=y + 1), "Unknown label 2"),
        (lambda: tl.diagnose(model, X, ["e"] * 240), "Unknown label 'e'"),
        (lambda: tl.diagnose(proba * 2, y=y), "model must be probabilities|must sum to one"),
        (lambda: tl.diagnose(proba, y=y, groups=y), "groups=... is for a fitted model"),
        (lambda: tl.diagnose(model, X, NAMES, groups=GROUPS), "takes no groups=..."),
        (lambda: tl.diagnose(ranker, X, CODES, groups=GROUPS, parents=1), "Ranker takes no parents=..."),
        (lambda: tl.diagnose(ranker, X, CODES), "Ranker needs groups"),
        (lambda: tl.diagnose(ranker, X, CODES, groups=GROUPS, costs=X), "Ranker takes no costs"),
        (lambda: tl.diagnose(tagger, SEQUENCES, TAGS, reference=tagger), "reference is compared by moments of labels"),
        (lambda: tl.diagnose(proba, y=y, reference=proba[:-1]), "reference has 39 rows"),
        (lambda: tl.diagnose(proba, y=y, bins=0), "bins must be a whole number"),
        (lambda: tl.diagnose(proba, y=y, sample_weight=-y), "sample_weight"),
        (lambda: tl.Recalibrated().fit(X, NAMES), "Recalibrated needs a fitted estimator, got None"),
        (lambda: tl.Recalibrated(model, "platt").fit(X, NAMES), "method must be 'auto' or one of"),
        (lambda: tl.Recalibrated(model).fit(X, NAMES[:-1]), "different lengths: 240 and 239"),
        (lambda: tl.Recalibrated(ranker).fit(X, CODES), "has moments of structures"),
        (lambda: tl.Recalibrated(model).fit(X, ["e"] * 240), "Unknown label 'e'"),
        (lambda: tl.Recalibrated(model).predict(X), "not fitted"),
        (lambda: found.to_html(3), "path must be a path"),
        (lambda: found.to_html(page), "is there already: choose another, or pass overwrite=True"),
        (lambda: found.to_html(tmp_path / "none" / "page.html"), "is in a folder that is not there"),
        (lambda: found.to_html(title=3), "title must be a string"),
    ):
        with pytest.raises((ValueError, TypeError, OSError), match=sentence) as refused:
            call()
        assert len(str(refused.value).strip().split("\n")) == 1
    found.to_html(page, overwrite=True, title="<b>")
    assert "&lt;b&gt;" in page.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="X"):
        tl.diagnose(model, X * np.nan, NAMES)
