"""Laws of polytopes, against enumeration of their vertices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..polytopes.base import Polytope
from .losses import drawn
from .running import Law, close, holds, run


def inference(part: Polytope) -> None:
    """Log-partition, marginals and maximiser are those of the sum over all vertices."""
    v = 6 * drawn(part.size, rows=40)
    vertices = part.vertices()
    scores = v @ vertices.T
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - top)
    law = weights / weights.sum(-1, keepdims=True)
    close(part.log_partition(v), np.log(weights.sum(-1)) + top[:, 0], "log_partition", atol=1e-10, rtol=1e-12)
    close(part.marginals(v), law @ vertices, "marginals", atol=1e-10)
    close((part.maximiser(v) * v).sum(-1), top[:, 0], "the score of the maximiser", atol=1e-10)


def covariance(part: Polytope) -> None:
    """covariance(v) u is the derivative of the marginals along u."""
    v, u = np.random.default_rng(0).normal(size=(2, 4, part.size))
    step = 1e-5
    numeric = (part.marginals(v + step * u) - part.marginals(v - step * u)) / (2 * step)
    close(part.covariance(v)(u), numeric, "covariance(v)(u)", atol=1e-8)


def entropy(part: Polytope) -> None:
    """The entropy is minus the conjugate of the log-partition: equality at marginals, Fenchel's inequality elsewhere."""
    rng = np.random.default_rng(1)
    v = rng.normal(size=(6, part.size))
    mu = part.marginals(v)
    close(part.entropy(mu), part.log_partition(v) - (v * mu).sum(-1), "entropy at marginals", atol=1e-8)
    other = part.marginals(rng.normal(size=v.shape))
    holds(
        part.entropy(other) <= part.log_partition(v) - (v * other).sum(-1) + 1e-9,
        "entropy is above its bound A(v) - <v, mu>",
    )


def entropy_gradient(part: Polytope) -> None:
    """Minus the gradient of the entropy are scores with these marginals."""
    mu = part.marginals(np.random.default_rng(2).normal(size=(5, part.size)))
    close(part.marginals(-part.entropy_gradient(mu)), mu, "the marginals at minus entropy_gradient(mu)")


def projection(part: Polytope) -> None:
    """project finds the nearest point: it lies inside, and <u - p, w - p> <= 0 at every vertex w."""
    u = 6 * drawn(part.size, rows=40)
    p = part.project(u)
    holds(part.contains(p, tol=1e-7), "a projection is outside of the polytope")
    gaps = np.einsum("ni,nmi->nm", u - p, part.vertices()[None] - p[:, None])
    holds(gaps <= 1e-7, f"a vertex is nearer than the projection: <u - p, w - p> is {gaps.max():.3g}")


def containment(part: Polytope) -> None:
    """Means of vertices are inside, kept by the projection, and within the bounds; a far point is not inside."""
    vertices = part.vertices()
    points = np.random.default_rng(3).dirichlet(np.ones(len(vertices)), 5) @ vertices
    holds(part.contains(points, tol=1e-8), "a mean of vertices is said to be outside")
    close(part.project(points), points, "the projection of a point inside", atol=1e-8)
    low, high = part.bounds()
    holds((points >= low - 1e-9) & (points <= high + 1e-9), "a point inside is beyond bounds()")
    holds(~part.contains(np.full((1, part.size), 7.3)), "a far point is said to be inside")


def sizes(part: Polytope) -> None:
    """Dimension, size, norms and centre are those of the vertices."""
    vertices = part.vertices()
    close(part.dimension, np.linalg.matrix_rank(vertices - vertices[0]), "dimension", atol=0.0)
    close(part.size, vertices.shape[1], "size", atol=0.0)
    for order in (1, 2, np.inf):
        close(part.norm(order), np.linalg.norm(vertices, ord=order, axis=1).max(), f"norm({order})", rtol=1e-6)
    close(part.center(), vertices.mean(0), "center()", atol=1e-12)


def large_scores(part: Polytope) -> None:
    """Scores of 1e4 give finite numbers."""
    v = 1e4 * np.array([np.ones(part.size), -np.ones(part.size), np.linspace(-1, 1, part.size)])
    value, mu = part.log_partition_and_marginals(v)
    holds(np.isfinite(value), "the log-partition is not finite")
    holds(np.isfinite(mu), "marginals are not finite")


LAWS: dict[str, Law] = {
    "inference": inference,
    "covariance": covariance,
    "entropy": entropy,
    "entropy gradient": entropy_gradient,
    "projection": projection,
    "containment": containment,
    "sizes": sizes,
    "large scores": large_scores,
}


def check_polytope(polytope: Any) -> dict[str, str]:
    """Check a user-defined polytope against the laws of polytopes; arguments and results as those of `check_loss`.

    Parameters
    ----------
    polytope : a polytope with its sizes, small enough that its vertices can be listed.
    """
    return run(Polytope.resolve(polytope), LAWS)
