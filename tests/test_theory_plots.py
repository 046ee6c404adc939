"""The figures run, and show what was computed."""

import sys

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")

from taskloss.losses import Absolute, CostMatrix, Hamming, ZeroOne  # noqa: E402
from taskloss.surrogates import AllThresholds, CumulativeLink, Multinomial, OneVsAll, Surrogate  # noqa: E402
from taskloss.theory import calibration, plots  # noqa: E402


@pytest.fixture(autouse=True)
def close():
    yield
    matplotlib.pyplot.close("all")


def lines(ax):
    return {line.get_label(): line.get_data() for line in ax.get_lines()}


def test_calibration_plot_shows_the_curves():
    zeta = calibration(CostMatrix(np.random.default_rng(0).uniform(0, 1, (3, 3))), Multinomial())
    found = lines(zeta.plot(points=7))
    eps, values = found[r"$\zeta_h$ exact"]
    np.testing.assert_allclose(values, zeta(eps))
    np.testing.assert_allclose(found[r"envelope $\zeta^{**}$"][1], zeta.envelope(eps))
    assert (found["lower bound, improved"][1] <= values + 1e-9).all()
    assert (found["upper bound, segment in M"][1] >= values - 1e-9).all()


def test_intervals_are_shown_as_such():
    zeta = calibration(ZeroOne(3), OneVsAll("exponential"))
    zeta._cache = {e: calibration(ZeroOne(3), OneVsAll("exponential")).numeric(e) for e in (0.5, 1.0)}
    ax = zeta.plot(points=3)
    assert "certified interval" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_consistency_figure():
    found = lines(plots.consistency_figure(points=21).axes[0])
    eps, hinge = found["multiclass hinge: not consistent"]
    assert (hinge[eps <= 0.5] < 1e-9).all()
    assert (hinge[eps > 0.55] > 1e-3).all()
    for name, surrogate in (
        ("one-vs-all square: fast, consistent", OneVsAll("square")),
        ("multinomial: slow, consistent", Multinomial()),
    ):
        np.testing.assert_allclose(found[name][1], calibration(ZeroOne(3), surrogate)(eps))
        assert (found[name][1][1:] > 0).all()


def test_thresholds_figure():
    found = lines(plots.thresholds_figure(4, points=9).axes[0])
    eps, upper = found["all thresholds, exact"]
    np.testing.assert_allclose(upper, calibration(Absolute(4), AllThresholds())(eps))
    np.testing.assert_allclose(found["cumulative link, exact"][1], calibration(Absolute(4), CumulativeLink())(eps))
    assert (found["cumulative link, the paper's bound"][1] <= found["cumulative link, exact"][1] + 1e-12).all()


def test_sets_are_where_they_should_be():
    """Areas of the drawn sets, from the excess that was drawn: the white band of the square is eps wide per side."""
    from taskloss.theory.problem import Problem

    eps = 0.1
    assert plots.hamming_figure(eps, resolution=101).axes[0].collections
    problem = Problem(Hamming(2), "auto")
    axis = np.linspace(-1, 1, 201)
    excess = problem.excess(3, np.stack(np.meshgrid(axis, axis), axis=-1))
    assert np.mean(excess <= 1e-12) == pytest.approx(0.25, abs=0.01)
    assert np.mean((excess > 1e-12) & (excess < eps)) == pytest.approx(0.25 * (2 * 0.2 + 0.5 * 0.04), abs=0.01)
    assert plots.zero_one_figure(0.15).axes[0].collections


def test_partition_and_map():
    fig = plots.partition_figure()
    assert [t.get_text() for t in fig.axes[0].texts if "H_0" in t.get_text()] == [f"$H_0({z})$" for z in (1, 2, 3)]
    fig = plots.map_figure()
    words = " ".join(t.get_text() for t in fig.axes[0].texts)
    assert "decoded as 2" in words
    assert "MAP is 1" in words
    with pytest.raises(ValueError, match="three labels"):
        plots.partition_figure(ZeroOne(4))


def test_the_method_takes_scores_to_moments_to_outputs():
    """Marks of one output lie, on the right, where the moments of the scores on the left are, in that output's set."""
    loss = CostMatrix(np.random.default_rng(0).uniform(0, 1, (3, 3)) * (1 - np.eye(3)))
    left, right = plots.method_figure(loss, resolution=40).axes
    for z, (score, place) in enumerate(zip(left.get_lines()[:3], right.get_lines()[-3:], strict=True)):
        v = np.column_stack([*score.get_data(), np.zeros(len(score.get_xdata()))])
        mu = Multinomial(3).inverse_link(v)
        assert (loss.decode(mu) == z).all()
        np.testing.assert_allclose(np.column_stack(place.get_data()), mu @ plots.CORNERS[[0, 2, 1]])


def test_surrogates_figure_has_a_row_for_every_margin_and_link():
    names = [name for name, _, _ in plots.two_label_surrogates()]
    assert len(names) >= 13
    fig = plots.surrogates_figure(names[:3])
    assert len(fig.axes) == 9
    q, h = fig.axes[3].get_lines()[0].get_data()
    np.testing.assert_allclose(h, q * np.log(q) + (1 - q) * np.log(1 - q))
    with pytest.raises(ValueError, match="choose from"):
        plots.surrogates_figure(["nothing"])


def test_registered_two_label_surrogates_fit_their_labels():
    for _, surrogate, phi in plots.two_label_surrogates():
        assert isinstance(surrogate, Surrogate)
        assert surrogate.link((phi[0] + phi[1]) / 2 * np.ones((1, 1))).shape[0] == 1


def test_missing_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"taskloss\[plot\]"):
        plots.consistency_figure()
