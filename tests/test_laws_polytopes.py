"""Laws that every polytope obeys, against enumeration of its vertices."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays
from tests.parts import every_polytope

from taskloss.polytopes import Cube, Hull, Product, Simplex

scores = st.floats(-6, 6, width=64)


def batch(part, rows=3):
    return arrays(float, (rows, part.size), elements=scores)


def inside(part, rng, rows=5):
    """Random points inside a polytope."""
    vertices = part.vertices()
    return rng.dirichlet(np.ones(len(vertices)), rows) @ vertices


@every_polytope
@given(data=st.data())
def test_inference_equals_enumeration(part, data):
    v = data.draw(batch(part))
    vertices = part.vertices()
    weights = np.exp(v @ vertices.T)
    law = weights / weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(part.log_partition(v), np.log(weights.sum(-1)), atol=1e-10)
    np.testing.assert_allclose(part.marginals(v), law @ vertices, atol=1e-10)
    np.testing.assert_allclose((part.maximiser(v) * v).sum(-1), (v @ vertices.T).max(-1), atol=1e-10)


@every_polytope
def test_covariance_is_the_derivative_of_marginals(part):
    rng = np.random.default_rng(0)
    v, u = rng.normal(size=(2, 4, part.size))
    step = 1e-5
    numeric = (part.marginals(v + step * u) - part.marginals(v - step * u)) / (2 * step)
    np.testing.assert_allclose(part.covariance(v)(u), numeric, atol=1e-8)


@every_polytope
def test_entropy_is_minus_the_conjugate_of_the_log_partition(part):
    rng = np.random.default_rng(1)
    v = rng.normal(size=(6, part.size))
    mu = part.marginals(v)
    # Fenchel's equality holds at mu = grad A(v), and his inequality elsewhere.
    np.testing.assert_allclose(part.entropy(mu), part.log_partition(v) - (v * mu).sum(-1), atol=1e-8)
    other = part.marginals(rng.normal(size=v.shape))
    assert (part.entropy(other) <= part.log_partition(v) - (v * other).sum(-1) + 1e-9).all()


@every_polytope
def test_entropy_gradient_inverts_the_marginals(part):
    rng = np.random.default_rng(2)
    mu = part.marginals(rng.normal(size=(5, part.size)))
    np.testing.assert_allclose(part.marginals(-part.entropy_gradient(mu)), mu, atol=1e-9)


@every_polytope
@given(data=st.data())
def test_projection_is_the_nearest_point(part, data):
    u = data.draw(batch(part))
    p = part.project(u)
    assert part.contains(p, tol=1e-7).all()
    # The variational inequality <u - p, w - p> <= 0 at every vertex w says that p is nearest.
    gaps = np.einsum("ni,nmi->nm", u - p, part.vertices()[None] - p[:, None])
    assert gaps.max() <= 1e-7


@every_polytope
def test_points_inside_are_contained_and_kept(part):
    points = inside(part, np.random.default_rng(3))
    assert part.contains(points, tol=1e-8).all()
    np.testing.assert_allclose(part.project(points), points, atol=1e-8)
    low, high = part.bounds()
    assert (points >= low - 1e-9).all()
    assert (points <= high + 1e-9).all()
    assert not part.contains(np.full((1, part.size), 7.3)).any()


@every_polytope
def test_dimension_and_norms_match_the_vertices(part):
    vertices = part.vertices()
    assert part.dimension == np.linalg.matrix_rank(vertices - vertices[0])
    assert part.size == vertices.shape[1]
    for order in (1, 2, np.inf):
        assert part.norm(order) == pytest.approx(np.linalg.norm(vertices, ord=order, axis=1).max())
    np.testing.assert_allclose(part.center(), vertices.mean(0), atol=1e-12)


@every_polytope
def test_large_scores_stay_finite(part):
    v = 1e4 * np.array([np.ones(part.size), -np.ones(part.size), np.linspace(-1, 1, part.size)])
    value, mu = part.log_partition_and_marginals(v)
    assert np.isfinite(value).all()
    assert np.isfinite(mu).all()


def test_inclusion():
    assert Cube(3, low=0).includes(Simplex(3))
    assert not Simplex(3).includes(Cube(3, low=0))
    assert Cube(3).includes(Hull(2.0 * np.tri(4, 3, -1) - 1))
    assert not Cube(3).includes(Simplex(4))
    assert Product([Cube(2, low=0), Cube(2, low=0)]).includes(Product([Simplex(2), Simplex(2)]))
    assert not Simplex(60).includes(Cube(60))


def test_too_many_vertices_are_refused():
    with pytest.raises(ValueError, match="too many to list"):
        Cube(40).vertices()


def test_weights_of_a_hull_need_independent_points():
    square = Hull([[0, 0], [1, 0], [0, 1], [1, 1]])
    with pytest.raises(ValueError, match="affinely dependent"):
        square.weights(np.zeros((1, 2)))
