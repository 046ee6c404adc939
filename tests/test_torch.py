"""The same lines serve torch: values, gradients and inference equal NumPy's, and autograd agrees."""

import numpy as np
import pytest
from tests.parts import every_margin, every_polytope, every_surrogate
from tests.test_laws_surrogates import moments, scores

from taskloss.surrogates import Legendre

torch = pytest.importorskip("torch")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
every_device = pytest.mark.parametrize("device", DEVICES)


def both(array, device):
    return array, torch.asarray(array, device=device)


@every_device
@every_surrogate
def test_surrogates(part, device):
    if isinstance(part, Legendre):
        pytest.skip("built from a NumPy function")
    rng = np.random.default_rng(0)
    (v, tv), (phi, tphi) = both(scores(part, rng), device), both(moments(part, rng), device)
    value, gradient = part.value_and_gradient(v, phi)
    leaf = tv.clone().requires_grad_()
    tvalue, tgradient = part.value_and_gradient(leaf, tphi)
    np.testing.assert_allclose(tvalue.detach().cpu().numpy(), value, atol=1e-10)
    np.testing.assert_allclose(tgradient.detach().cpu().numpy(), gradient, atol=1e-10)
    tvalue.sum().backward()
    np.testing.assert_allclose(leaf.grad.cpu().numpy(), gradient, atol=1e-8)
    np.testing.assert_allclose(part.inverse_link(tv).cpu().numpy(), part.inverse_link(v), atol=1e-10)
    np.testing.assert_allclose(part.link(tphi).cpu().numpy(), part.link(phi), atol=1e-8)
    if part.smooth:
        np.testing.assert_allclose(part.hessian(tv, tphi)(tv).cpu().numpy(), part.hessian(v, phi)(v), atol=1e-8)


@every_device
@every_polytope
def test_polytopes(part, device):
    v, tv = both(np.random.default_rng(1).normal(size=(4, part.size)), device)
    for method in ("log_partition", "marginals", "maximiser"):
        np.testing.assert_allclose(getattr(part, method)(tv).cpu().numpy(), getattr(part, method)(v), atol=1e-12)
    np.testing.assert_allclose(part.covariance(tv)(tv).cpu().numpy(), part.covariance(v)(v), atol=1e-12)
    np.testing.assert_allclose(part.project(tv).cpu().numpy(), part.project(v), atol=1e-12)
    np.testing.assert_allclose(
        part.entropy(part.marginals(tv)).cpu().numpy(), part.entropy(part.marginals(v)), atol=1e-12
    )


@every_device
@every_margin
def test_margins(part, device):
    v, tv = both(np.linspace(-3.3, 3.3, 20), device)
    for method in ("value", "derivative", "inverse_link", *(["second_derivative"] if part.smooth else [])):
        np.testing.assert_allclose(getattr(part, method)(tv).cpu().numpy(), getattr(part, method)(v), atol=1e-12)
