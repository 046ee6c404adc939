"""Pictures show what was computed: the data of their artists, in one look, without a change of the user's settings."""

import inspect

import numpy as np
import pytest

import taskloss as tl
from taskloss.surrogates import Surrogate

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
pytest.importorskip("matplotlib.pyplot")
plots = tl.plots


@pytest.fixture(autouse=True)
def close():
    before = {name: matplotlib.rcParams[name] for name in matplotlib.rcParams if not name.startswith("backend")}
    yield
    changed = [name for name, value in before.items() if matplotlib.rcParams[name] != value]
    assert not changed, "a picture has changed the user's settings"
    matplotlib.pyplot.close("all")


def displays():
    return [one for name in plots.__all__ if inspect.isclass(one := getattr(plots, name)) and one is not plots.Display]


@pytest.mark.parametrize("display", displays(), ids=lambda one: one.__name__)
def test_a_display_is_made_by_classmethods_and_drawn_by_plot(display):
    assert issubclass(display, plots.Display)
    makers = [name for name in dir(display) if name.startswith("from_")]
    assert makers
    for name in makers:
        assert inspect.ismethod(getattr(display, name)), name
        assert getattr(display, name).__doc__, name
    assert "ax" in inspect.signature(display.plot).parameters


@pytest.mark.parametrize("name", sorted(Surrogate.registry))
def test_potential_link_and_loss_of_every_surrogate_are_its_own(name):
    """The loss is the divergence of the potential that is drawn, and its slope along the link is that of the moments."""
    for part in Surrogate.registry[name].examples()[:2]:
        display = plots.SurrogateDisplay.from_surrogates([part])
        left, middle, right = display.axes_[0]
        h = left.get_lines()[0].get_ydata()
        assert np.isfinite(h).all()
        assert np.isfinite(middle.get_lines()[0].get_ydata()).all()
        assert (np.diff(h, 2) >= -1e-9).all(), "the potential is convex"
        assert (np.diff(middle.get_lines()[0].get_ydata()) >= -1e-9).all(), "the link rises"
        assert len(right.get_lines()) == 2
        for line in right.get_lines():
            loss = line.get_ydata()
            assert np.nanmin(loss) >= -1e-9
            inner = loss[np.isfinite(loss)]
            assert (np.diff(inner, 2) >= -1e-9).all(), "the loss is convex"


def test_curves_of_the_multinomial_are_known():
    display = plots.SurrogateDisplay.from_surrogates(tl.surrogates.Multinomial(2), names=["softmax"])
    left, middle, right = display.axes_[0]
    q, h = left.get_lines()[0].get_data()
    np.testing.assert_allclose(h, q * np.log(q) + (1 - q) * np.log(1 - q))
    np.testing.assert_allclose(middle.get_lines()[0].get_ydata(), np.log(q / (1 - q)) / 2, atol=1e-12)
    for line, sign in zip(right.get_lines(), (1, -1), strict=True):
        s, loss = line.get_data()
        np.testing.assert_allclose(loss, np.logaddexp(0, 2 * sign * s), atol=1e-12)
    assert left.get_ylabel() == "softmax"


def test_surrogates_that_cannot_be_drawn_are_refused():
    for bad, sentence in (
        (["nothing"], "There is no surrogate named 'nothing'"),
        ([tl.surrogates.Multinomial()], "has no size"),
    ):
        with pytest.raises(ValueError, match=sentence):
            plots.SurrogateDisplay.from_surrogates(bad)
    with pytest.raises(ValueError, match="names must hold one name"):
        plots.SurrogateDisplay.from_surrogates(["quadratic"], names=[])
    with pytest.raises(ValueError, match="ax must hold 3 axes, 1 by 3, got 1"):
        plots.SurrogateDisplay.from_surrogates(["quadratic"], ax=matplotlib.pyplot.subplots()[1])


# -- decisions -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flowers():
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    return X, names[y], tl.CostSensitiveClassifier().fit(X, names[y])


def test_regions_are_the_decisions_of_each_loss(flowers):
    X, y, model = flowers
    losses = {"0-1": "zero-one", "pass": tl.losses.Abstain(cost=0.2)}
    display = plots.DecisionRegionDisplay.from_estimator(model, X, losses, y=y, features=(2, 3), grid=30)
    assert display.outputs == ["setosa", "versicolor", "virginica", "abstain"]
    rng = np.random.default_rng(0)
    for (name, loss), ax in zip(losses.items(), display.axes_[0], strict=True):
        for i, j in rng.integers(0, 30, (20, 2)):
            row = np.median(X, axis=0)
            row[[2, 3]] = display.x0[j], display.x1[i]
            decided = tl.decide(model, loss, X=row[None])[0]
            assert display.outputs[display.decisions[name][i, j]] == decided
        assert ax.get_title("left") == name
    shown = np.concatenate([c.get_offsets() for c in ax.collections if len(c.get_offsets()) > 1])
    assert sorted(map(tuple, shown)) == sorted(map(tuple, X[:, [2, 3]]))
    # The areas that are filled are those of the decisions: their corners lie among the points of the grid decided so.
    legend = [text.get_text() for text in display.axes_[0, -1].get_legend().get_texts()]
    assert legend == display.outputs


def test_regions_of_a_data_frame_go_by_its_names(flowers):
    pd = pytest.importorskip("pandas")
    X, y, _ = flowers
    frame = pd.DataFrame(X, columns=["sl", "sw", "pl", "pw"])
    model = tl.CostSensitiveClassifier().fit(frame, y)
    display = plots.DecisionRegionDisplay.from_estimator(model, frame, features=("pl", "pw"), grid=5)
    assert display.features == ("pl", "pw")
    assert display.ax_.get_xlabel() == "pl"
    with pytest.raises(ValueError, match="features names 'x', which is no column of X"):
        plots.DecisionRegionDisplay.from_estimator(model, frame, features=("x", "pl"))
    with pytest.raises(ValueError, match="features must be a pair"):
        plots.DecisionRegionDisplay.from_estimator(model, frame, features=("pl",))


def test_cost_by_threshold_is_the_mean_cost_of_those_decisions():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=60).round(1)  # many ties
    y = (rng.uniform(size=60) < p).astype(int)
    w = rng.uniform(0.5, 2, 60)
    costs = np.array([[0.5, 8.0], [2.0, 0.25]])
    display = plots.ExpectedCostDisplay.from_predictions(y, p, costs, sample_weight=w)
    drawn = display.ax_.get_lines()[0].get_ydata()
    for t in (0.0, 0.05, 0.1, 0.45, 0.5, 0.95, 1.0, 1.1):
        z = (p >= t).astype(int)
        k = np.searchsorted(display.thresholds, t)
        k = min(k, len(display.cost) - 1)
        assert display.cost[k] == pytest.approx(np.average(costs[z, y], weights=w))
        promised = np.average((1 - p) * costs[z, 0] + p * costs[z, 1], weights=w)
        assert display.promised[k] == pytest.approx(promised)
    np.testing.assert_allclose(drawn[1:], display.cost)
    assert display.best == pytest.approx(1.5 / (1.5 + 7.75))
    # the probabilities promise least at the threshold of the costs
    k = np.searchsorted(display.thresholds, display.best)
    assert display.promised[k] == pytest.approx(display.promised.min())
    assert [line.get_xdata()[0] for line in display.ax_.get_lines()[2:]] == [display.best, 0.5]


def test_cost_by_threshold_from_a_model():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 2))
    y = np.array(["ham", "spam"])[(X[:, 0] + rng.normal(size=80) > 0).astype(int)]
    costs = tl.losses.CostMatrix([[0, 1], [9, 0]], labels=["ham", "spam"], outputs=["ham", "spam"])
    peer = LogisticRegression().fit(X, y)
    display = plots.ExpectedCostDisplay.from_estimator(peer, X, y, costs)
    assert display.best == 0.9
    z = np.where(peer.predict_proba(X)[:, 1] >= 0.9, "spam", "ham")
    k = np.searchsorted(display.thresholds, 0.9)
    assert display.cost[k] == pytest.approx(
        np.mean(9 * ((z == "spam") & (y == "ham")) + ((z == "ham") & (y == "spam")))
    )
    ours = tl.CostSensitiveClassifier(costs).fit(X, y)
    assert plots.ExpectedCostDisplay.from_estimator(ours, X, y).positive == "spam"
    for call, sentence in (
        (lambda: plots.ExpectedCostDisplay.from_estimator(peer, X, y), "has no loss of its own: pass costs"),
        (lambda: plots.ExpectedCostDisplay.from_predictions(y, np.zeros(80), costs), "must hold the two labels"),
        (lambda: plots.ExpectedCostDisplay.from_predictions([0], [2.0], costs), "proba must be probabilities"),
        (lambda: plots.ExpectedCostDisplay.from_predictions([0, 1], [0.1, 0.2], np.eye(2)), "ask for no threshold"),
    ):
        with pytest.raises(ValueError, match=sentence):
            call()


@pytest.mark.parametrize("surrogate", ["all-thresholds", "cumulative-link"])
@pytest.mark.parametrize("loss", [None, "squared"])
def test_thresholds_and_bands_are_what_is_decided(surrogate, loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.digitize(X @ [1, 0.5] + rng.normal(size=300), [-1, 0.2, 1])
    grades = np.array(["low", "mid", "high", "top"])
    model = tl.OrdinalClassifier(surrogate=surrogate, order=grades).fit(X, grades[y])
    display = plots.OrdinalThresholdDisplay.from_estimator(model, X, grades[y], loss=loss)
    decided = model.predict(X, loss).astype(str)
    near = np.abs(display.scores[:, None] - display.bounds).min(1) < 0.01
    band = np.clip(np.searchsorted(display.bounds, display.scores) - 1, 0, len(display.decided) - 1)
    assert (display.decided[band][~near] == decided[~near]).all()
    assert np.corrcoef(display.scores, y)[0, 1] > 0.5, "higher scores are higher grades"
    lines = [line for line in display.ax_.get_lines() if line.get_linestyle() == "--"]
    np.testing.assert_allclose([line.get_xdata()[0] for line in lines], display.thresholds)
    if loss is None:  # absolute error and logistic thresholds: decisions change where a score is zero
        np.testing.assert_allclose(display.bounds[1:-1], display.thresholds, atol=0.01)
    points = [line for line in display.ax_.get_lines() if line.get_linestyle() == "None"]
    assert [len(line.get_xdata()) for line in points] == np.bincount(y).tolist()


def test_a_model_without_one_score_has_no_thresholds_to_draw():
    X = np.random.default_rng(0).normal(size=(90, 2))
    y = np.digitize(X[:, 0], [-1, 1])
    with pytest.raises(ValueError, match="no one score for all thresholds"):
        plots.OrdinalThresholdDisplay.from_estimator(tl.OrdinalClassifier(shared=False).fit(X, y), X, y)


# -- structures ----------------------------------------------------------------------------------------------------------


def test_the_ribbon_is_the_marginals():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 3)) for n in (4, 7, 5)] * 5
    y = [(x[:, 0] > 0).astype(int) for x in X]
    tagger = tl.SequenceTagger().fit(X, y)
    words = list("abcdefg")
    display = plots.SequenceRibbonDisplay.from_estimator(tagger, X[1], words, y=y[1], width=3)
    assert display.axes_.shape == (3, 1)
    heights = np.zeros((7, 2))
    for line, ax in enumerate(display.axes_[:, 0]):
        for k, bars in enumerate(ax.containers):
            for place, bar in enumerate(bars):
                heights[3 * line + place, k] = bar.get_height()
    np.testing.assert_allclose(heights, tagger.predict_proba([X[1]])[0])
    texts = [t.get_text() for ax in display.axes_[:, 0] for t in ax.texts]
    assert texts[::2] == words
    wrong = [said for said, z, truth in zip(texts[1::2], tagger.predict([X[1]])[0], y[1], strict=True) if z != truth]
    assert all("(" in said for said in wrong)
    with pytest.raises(ValueError, match="proba must have a row for each of the 2 tokens"):
        plots.SequenceRibbonDisplay.from_predictions(heights, ["a", "b"], [0, 1])
    with pytest.raises(ValueError, match="truth must have a label for each of the 7 tokens, got 1"):
        plots.SequenceRibbonDisplay.from_predictions(heights, words, [0, 1], truth=[1])


def test_a_ranking_is_drawn_in_its_order():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 6)
    X = rng.normal(size=(120, 2))
    y = np.clip(np.round(X[:, 0] + rng.normal(size=120)), 0, 3)
    model = tl.Ranker(tl.losses.NDCG(at=3)).fit(X, y, groups=groups)
    names = [f"page {i}" for i in range(6)]
    display = plots.RankingDisplay.from_estimator(model, X[:6], y=y[:6], names=names)
    order = np.argsort(model.predict(X[:6]))
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == [names[i] for i in order]
    widths = [bar.get_width() for bar in display.ax_.containers[0]]
    np.testing.assert_allclose(widths, model.predict_moments(X[:6])[order])
    assert (np.diff(widths) <= 1e-12).all()
    np.testing.assert_allclose(display.discount, model.loss_.bind(6).weights)
    shown = next(line for line in display.ax_.get_lines() if line.get_label() == "gain that it had")
    np.testing.assert_allclose(shown.get_xdata(), model.loss_.bind(6).phi(y[:6])[order])
    assert display.score == pytest.approx(model.group_losses(X[:6], y[:6], groups[:6])[0])
    # what was earned, at the places where it stands, is the loss in the title
    assert display.score == pytest.approx(1 - display.discount @ display.truth)
    with pytest.raises(ValueError, match="ranks must be a place from 0 to 1"):
        plots.RankingDisplay.from_predictions([0.1, 0.2], ranks=[0, 0])


def test_a_matching_is_its_lines():
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(12):
        a, order = rng.normal(size=(5, 2)), rng.permutation(5)
        b = np.empty_like(a)
        b[order] = a + 0.6 * rng.normal(size=a.shape)
        X.append((a, b))
        y.append(order)
    model = tl.Matcher().fit(X, y)
    image = np.zeros((8, 10))
    display = plots.MatchingDisplay.from_estimator(model, X[0], *X[0], y=y[0], images=(image, image))
    found, proba = model.predict(X[:1])[0], model.predict_moments(X[:1])[0]
    lines = display.ax_.get_lines()
    assert len(lines) == 5
    for i, line in enumerate(lines):
        ends = np.column_stack(line.get_data())
        np.testing.assert_allclose(ends, [X[0][0][i], X[0][1][found[i]] + [10.5, 0]])
        assert (line.get_linestyle() == "-") == (found[i] == y[0][i])
    order = np.argsort([proba[i, found[i]] for i in range(5)])
    assert (np.diff([lines[i].get_linewidth() for i in order]) >= 0).all(), "surer matches are stronger lines"
    assert display.wrong == (found != y[0]).sum()
    assert len(display.ax_.images) == 2
    free = plots.MatchingDisplay.from_predictions(*X[0], [0, -1, 1, -1, 2], edges=([(0, 1)], [(1, 2), (2, 3)]))
    assert len(free.ax_.get_lines()) == 3 + 3
    assert free.wrong is None
    with pytest.raises(ValueError, match="matching must hold, for each of the 5 nodes on the left"):
        plots.MatchingDisplay.from_predictions(*X[0], [9, 0, 1, 2, 3])
    with pytest.raises(ValueError, match="left must have two coordinates"):
        plots.MatchingDisplay.from_predictions(np.zeros((3, 3)), X[0][1], [0, 1, 2])


def test_a_calibration_function_is_drawn_between_its_bounds():
    zeta = tl.theory.calibration(tl.losses.Absolute(3), "all-thresholds")
    display = plots.CalibrationFunctionDisplay.from_loss(tl.losses.Absolute(3), "all-thresholds", points=5)
    line = next(line for line in display.ax_.get_lines() if line.get_label() == r"$\zeta_h$ exact")
    np.testing.assert_allclose(line.get_ydata(), zeta(line.get_xdata()))


# -- the look ------------------------------------------------------------------------------------------------------------


def test_colours_are_told_apart_without_colour_and_by_the_colour_blind():
    """Lines that share a picture differ in dashes and markers as well; tints bear dark text, and their colours differ in lightness."""
    from matplotlib.colors import to_rgb

    from taskloss.plots import style

    drawn = [style.series(i) for i in range(12)]
    assert len({(str(one["linestyle"]), one["marker"]) for one in drawn}) == 12
    light = np.array([np.dot([0.2126, 0.7152, 0.0722], np.array(to_rgb(c)) ** 2.2) for c in style.TINTS])
    dark = np.dot([0.2126, 0.7152, 0.0722], np.array(to_rgb(style.INK)) ** 2.2)
    assert ((light + 0.05) / (dark + 0.05) > 7).all(), "text on tints has the contrast of WCAG's AAA"
    # Okabe and Ito's colours stay apart in the matrices of Machado et al. for full protanopia and deuteranopia.
    protan = [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    deutan = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    rgb = np.array([to_rgb(c) for c in style.COLOURS])
    for seen in (rgb, rgb @ np.transpose(protan), rgb @ np.transpose(deutan)):
        gaps = np.linalg.norm(seen[:, None] - seen[None], axis=-1)[np.triu_indices(len(seen), 1)]
        assert gaps.min() > 0.15


def test_a_display_draws_again_where_it_is_told():
    display = plots.CalibrationFunctionDisplay.from_loss(tl.losses.ZeroOne(2), "multinomial", points=3)
    first = display.figure_
    ax = matplotlib.pyplot.subplots()[1]
    assert display.plot(ax) is display
    assert display.ax_ is ax
    assert display.figure_ is ax.figure is not first
