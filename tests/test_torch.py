"""The same lines serve torch: values, gradients and inference equal NumPy's, and autograd agrees."""

import numpy as np
import pytest
from tests.parts import every_margin, every_polytope, every_surrogate
from tests.test_laws_surrogates import moments, scores

from taskloss.surrogates import Legendre

torch = pytest.importorskip("torch")


def both(array):
    return array, torch.asarray(array)


@every_surrogate
def test_surrogates(part):
    if isinstance(part, Legendre):
        pytest.skip("built from a NumPy function")
    rng = np.random.default_rng(0)
    (v, tv), (phi, tphi) = both(scores(part, rng)), both(moments(part, rng))
    value, gradient = part.value_and_gradient(v, phi)
    leaf = tv.clone().requires_grad_()
    tvalue, tgradient = part.value_and_gradient(leaf, tphi)
    np.testing.assert_allclose(tvalue.detach().numpy(), value, atol=1e-10)
    np.testing.assert_allclose(tgradient.detach().numpy(), gradient, atol=1e-10)
    tvalue.sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), gradient, atol=1e-8)
    np.testing.assert_allclose(part.inverse_link(tv).numpy(), part.inverse_link(v), atol=1e-10)
    np.testing.assert_allclose(part.link(tphi).numpy(), part.link(phi), atol=1e-8)
    if part.smooth:
        np.testing.assert_allclose(part.hessian(tv, tphi)(tv).numpy(), part.hessian(v, phi)(v), atol=1e-8)


@every_polytope
def test_polytopes(part):
    v, tv = both(np.random.default_rng(1).normal(size=(4, part.size)))
    for method in ("log_partition", "marginals", "maximiser"):
        np.testing.assert_allclose(getattr(part, method)(tv).numpy(), getattr(part, method)(v), atol=1e-12)
    np.testing.assert_allclose(part.covariance(tv)(tv).numpy(), part.covariance(v)(v), atol=1e-12)
    np.testing.assert_allclose(part.project(tv).numpy(), part.project(v), atol=1e-12)
    np.testing.assert_allclose(part.entropy(part.marginals(tv)).numpy(), part.entropy(part.marginals(v)), atol=1e-12)


@every_margin
def test_margins(part):
    v, tv = both(np.linspace(-3.3, 3.3, 20))
    for method in ("value", "derivative", "inverse_link", *(["second_derivative"] if part.smooth else [])):
        np.testing.assert_allclose(getattr(part, method)(tv).numpy(), getattr(part, method)(v), atol=1e-12)
