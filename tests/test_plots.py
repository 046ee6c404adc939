"""Pictures show what was computed: the data of their artists, in one look, without a change of the user's settings."""

import inspect

import numpy as np
import pytest

import taskloss as tl
from taskloss.surrogates import Surrogate

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
plots = tl.plots


@pytest.fixture(autouse=True)
def close():
    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before, "a picture has changed the user's settings"
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
    with pytest.raises(ValueError, match="ax must hold 1 rows of 3 axes, got 1"):
        plots.SurrogateDisplay.from_surrogates(["quadratic"], axes=matplotlib.pyplot.subplots()[1])
