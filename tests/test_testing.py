"""Planted bugs: each breaks a part in one way, and the checks of taskloss.testing name the law."""

import numpy as np
import pytest

import taskloss as tl
from taskloss.testing import BrokenLawError, check_hypothesis, check_loss, check_polytope, check_surrogate


@pytest.fixture(autouse=True)
def no_new_names(monkeypatch):
    for kind in (tl.losses.Loss, tl.polytopes.Polytope, tl.surrogates.Surrogate, tl.hypotheses.Hypothesis):
        monkeypatch.setattr(kind, "registry", dict(kind.registry))


# -- losses ------------------------------------------------------------------------------------------------------------


class FirstOutput(tl.losses.Absolute):
    def decode(self, mu, costs=None):
        return np.zeros(len(mu), dtype=int)


class Turned(tl.losses.CostMatrix):
    """psi by columns in the place of rows."""

    def psi(self, z):
        return self.matrix().T[z]


class NoConstant(tl.losses.ZeroOne):
    @property
    def constant(self):
        return 0.0


class Sloppy(tl.losses.Hamming):
    """Decides at a third in the place of zero."""

    def decode(self, mu, costs=None):
        return (np.asarray(mu) > 1 / 3).astype(int)


class Narrow(tl.losses.Hamming):
    """The embedding is {0, 1}, the polytope [-1, 1]."""

    def phi(self, y, dtype=float):
        return np.asarray(y).astype(dtype)


class Optimist(tl.losses.Absolute):
    def worst(self, z, costs=None):
        return self.matrix().min(1)[z]


class FreePrices(tl.losses.Hamming):
    def price(self, z, costs):
        return np.zeros(len(z))


class Crashing(tl.losses.Absolute):
    def bayes_risk(self, z, mu):
        raise KeyError("mu")


LOSSES = {
    "decoding": FirstOutput(4),
    "decomposition": Turned([[0, 1, 4], [5, 0, 1], [2, 2, 0]]),
    "expected loss": NoConstant(3),
    "decoding of sets": Sloppy(3),
    "hull": Narrow(3),
    "largest": Optimist(4),
    "costs": FreePrices(3),
    "expected loss, by an error": Crashing(3),
}


def law_of(name):
    return name.split(",")[0].split(" of ")[0]


@pytest.mark.parametrize("name", LOSSES)
def test_bugs_in_losses_are_caught(name):
    with pytest.raises(BrokenLawError, match=f"- [^(]*{law_of(name)}") as broken:
        check_loss(LOSSES[name])
    assert law_of(name) in broken.value.broken


# -- polytopes ---------------------------------------------------------------------------------------------------------


class Unstable(tl.polytopes.Simplex):
    """The log-partition without the maximum taken off."""

    def log_partition_and_marginals(self, v):
        with np.errstate(over="ignore", invalid="ignore"):
            weights = np.exp(v)
            return np.log(weights.sum(-1)), weights / weights.sum(-1, keepdims=True)


class Halved(tl.polytopes.Simplex):
    def marginals(self, v):
        return super().marginals(v / 2)


class Clipping(tl.polytopes.Simplex):
    """Clipping and rescaling is no projection."""

    def project(self, u):
        p = np.clip(u, 1e-12, None)
        return p / p.sum(-1, keepdims=True)


class Diagonal(tl.polytopes.Simplex):
    """The covariance without its second term."""

    def covariance(self, v):
        mu = self.marginals(v)
        return lambda u: mu * u


class Flat(tl.polytopes.Simplex):
    @property
    def dimension(self):
        return self.size


class Worst(tl.polytopes.Simplex):
    def maximiser(self, v):
        return super().maximiser(-v)


class Open(tl.polytopes.Simplex):
    def contains(self, mu, tol=1e-9):
        return np.ones(len(mu), dtype=bool)


class Bits(tl.polytopes.Simplex):
    """Entropy in bits."""

    def entropy(self, mu):
        return super().entropy(mu) / np.log(2)


POLYTOPES = {
    "large scores": Unstable(3),
    "inference": Halved(3),
    "projection": Clipping(3),
    "covariance": Diagonal(3),
    "sizes": Flat(3),
    "inference of the best": Worst(3),
    "containment": Open(3),
    "entropy": Bits(3),
}


@pytest.mark.parametrize("name", POLYTOPES)
def test_bugs_in_polytopes_are_caught(name):
    with pytest.raises(BrokenLawError) as broken:
        check_polytope(POLYTOPES[name])
    assert law_of(name) in broken.value.broken


# -- surrogates --------------------------------------------------------------------------------------------------------


class Cubic(tl.surrogates.Surrogate):
    """The surrogate of the page on parts: right."""

    def potential(self, mu):
        return (mu**4 / 4 + mu**2 / 2).sum(-1)

    def link(self, mu):
        return mu**3 + mu

    def inverse_link(self, v):
        return 2 / 3**0.5 * np.sinh(np.arcsinh(1.5 * 3**0.5 * v) / 3)


class WrongLink(Cubic):
    def link(self, mu):
        return mu**3 + 2 * mu


class WrongPotential(Cubic):
    """The gradient of h is not the link."""

    def potential(self, mu):
        return (mu**4 / 4 + mu**2).sum(-1)


class WrongGradient(Cubic):
    def value_and_gradient(self, v, phi):
        value, gradient = super().value_and_gradient(v, phi)
        return value, 1.01 * gradient

    def gradient(self, v, phi):
        return self.value_and_gradient(v, phi)[1]


class WrongHessian(tl.surrogates.Multinomial):
    def hessian(self, v, phi):
        return lambda u: u


class Doubled(tl.surrogates.Multinomial):
    """Declared to have the same h at all labels, and has not."""

    constant_on_vertices = True

    def potential(self, mu):
        return super().potential(mu) + mu @ np.arange(self.size)


class DoubleOnly(tl.surrogates.Multinomial):
    def risk_and_gradient(self, v, phi):
        value, gradient = super().risk_and_gradient(v, phi)
        return value.astype(float), gradient.astype(float)


class Overflowing(tl.surrogates.Multinomial):
    def value_and_gradient(self, v, phi):
        weights = np.exp(v)
        law = weights / weights.sum(-1, keepdims=True)
        return np.log(weights.sum(-1)) - (v * phi).sum(-1) + self.potential(phi), law - phi


SURROGATES = {
    "links": WrongLink(),
    "gradient of another potential": WrongPotential(),
    "gradient": WrongGradient(),
    "hessian": WrongHessian(3),
    "constancy": Doubled(3),
    "single precision": DoubleOnly(3),
    "large scores": Overflowing(3),
}


@pytest.mark.parametrize("name", SURROGATES)
def test_bugs_in_surrogates_are_caught(name):
    with pytest.raises(BrokenLawError) as broken:
        check_surrogate(SURROGATES[name])
    assert law_of(name) in broken.value.broken


# -- hypotheses --------------------------------------------------------------------------------------------------------


class Squares(tl.hypotheses.Linear):
    """The hypothesis of the page on parts: right."""

    def width(self, inputs):
        return 2 * inputs

    @property
    def makes_features(self):
        return True

    def features(self, inputs, executor=None):
        return np.hstack([inputs, inputs**2])

    coordinates = features

    def moments(self, inputs, weights, executor=None):
        return super().moments(self.features(inputs), weights)


class Centred(Squares):
    """Features that depend on which rows come together."""

    def features(self, inputs, executor=None):
        centred = inputs - inputs.mean(0)
        return np.hstack([centred, centred**2])

    coordinates = features


class WrongPullback(tl.hypotheses.Linear):
    def pullback(self, *args, **kwargs):
        out = super().pullback(*args, **kwargs)
        return 1.1 * out if isinstance(out, np.ndarray) else out


class WrongPiece(tl.hypotheses.Linear):
    def piece(self, inputs, rows):
        return inputs[rows][::-1]


HYPOTHESES = {"rows": Centred(), "derivatives": WrongPullback(), "parts": WrongPiece()}


@pytest.mark.parametrize("name", HYPOTHESES)
def test_bugs_in_hypotheses_are_caught(name):
    with pytest.raises(BrokenLawError) as broken:
        check_hypothesis(HYPOTHESES[name])
    assert law_of(name) in broken.value.broken


# -- right ones --------------------------------------------------------------------------------------------------------


def test_right_parts_of_ones_own_pass():
    assert set(check_loss(tl.losses.CostMatrix([[0, 3], [1, 0], [0.5, 0.5]])).values()) == {"holds"}
    assert "does not apply" in check_surrogate(Cubic())["constancy"]
    assert set(check_polytope(tl.polytopes.Cube(2)).values()) == {"holds"}
    assert set(check_hypothesis(Squares()).values()) == {"holds"}
    assert all("trained as a whole" in said for said in check_hypothesis(tl.hypotheses.Boosting()).values())


def test_a_report_says_what_was_found():
    with pytest.raises(BrokenLawError) as broken:
        check_loss(FirstOutput(4))
    text = str(broken.value)
    assert "FirstOutput(n_classes=4) breaks" in text
    assert "decode finds the least of <psi(z), mu> + c(z)" in text
    assert "and should be" in text
    with pytest.raises(BrokenLawError, match="KeyError"):
        check_loss(Crashing(3))
    with pytest.raises(ValueError, match="at least nine rows"):
        check_hypothesis(tl.hypotheses.Linear(), np.zeros((3, 2)))


def test_what_stops_all_laws_alike_is_said_once():
    with pytest.raises(
        BrokenLawError, match=r"- decomposition, expected loss, .*: ValueError: ZeroOne\(\) does not know"
    ) as broken:
        check_loss(tl.losses.ZeroOne)
    assert str(broken.value).count("does not know its number of labels yet") == 1
