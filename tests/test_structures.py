"""The laws of structures, checked against the enumeration of all their vertices; each structure is a short child.

To add a structure, subclass `StructureLaws`, and give `instances`: pairs of a polytope and a loss on it, or None for a
domain that is no loss's own. The polytope gives `vertices` and the usual verbs; where it can sample or list the k best, it gives `sample(v, count,
random_state)` -> outputs and `best(v, k)` -> (scores, outputs), and the loss's `phi` embeds outputs.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from taskloss.losses import DCG, NDCG, ChainCost, ChainHamming, MatchingHamming, PrecisionAt, SequenceZeroOne
from taskloss.losses.base import Loss
from taskloss.polytopes import Chain, Tree
from taskloss.polytopes.base import Polytope
from taskloss.surrogates import MaxEntropy, RowMultinomial


def points_of(rows: np.ndarray) -> set[tuple]:
    """Rows as points, up to rounding; zero has no sign."""
    return {tuple(row) for row in np.round(rows, 12) + 0.0}


@pytest.fixture
def task(loss):
    """The loss, for the laws that are about it."""
    if loss is None:
        pytest.skip("no loss has this domain for its own")
    return loss


class StructureLaws:
    """What every structure assert_obeys. Scores are drawn at several scales, so that laws are seen near vertices too."""

    scales = (0.0, 1.0, 30.0)

    @classmethod
    def instances(cls) -> list[tuple[Polytope, Loss | None]]:
        raise NotImplementedError

    def scores(self, polytope: Polytope, seed: int = 0) -> np.ndarray:
        rng = np.random.default_rng(seed)
        return np.concatenate([scale * rng.normal(size=(4, polytope.size)) for scale in self.scales])

    def law(self, polytope: Polytope, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All vertices, and their probabilities for each row of scores."""
        points = polytope.vertices()
        logits = v @ points.T
        return points, np.exp(logits - logsumexp(logits, axis=-1, keepdims=True))

    def test_vertices_are_the_embedded_labels(self, polytope, task):
        points = points_of(polytope.vertices())
        assert points == points_of(task.phi(task.labels()))
        assert len(points) == len(polytope.vertices())  # none twice
        assert task.polytope.size == polytope.size

    def test_log_partition_and_marginals(self, polytope, loss):
        v = self.scores(polytope)
        points, law = self.law(polytope, v)
        a, mu = polytope.log_partition_and_marginals(v)
        np.testing.assert_allclose(a, logsumexp(v @ points.T, axis=-1), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(mu, law @ points, atol=1e-12)
        assert polytope.contains(mu, tol=1e-8).all()

    def test_marginals_are_the_gradient(self, polytope, loss):
        v = self.scores(polytope)[: 2 * 4]
        mu, step = polytope.marginals(v), 1e-3
        for j in range(polytope.size):
            e = step * np.eye(polytope.size)[j]
            up, up2 = polytope.log_partition(v + e), polytope.log_partition(v + 2 * e)
            down, down2 = polytope.log_partition(v - e), polytope.log_partition(v - 2 * e)
            np.testing.assert_allclose((8 * (up - down) - (up2 - down2)) / (12 * step), mu[:, j], atol=1e-9)

    def test_covariance_is_the_hessian(self, polytope, loss):
        v = self.scores(polytope)
        points, law = self.law(polytope, v)
        u = np.random.default_rng(1).normal(size=v.shape)
        along = u @ points.T
        centred = along - (law * along).sum(-1, keepdims=True)
        np.testing.assert_allclose(polytope.covariance(v)(u), (law * centred) @ points, atol=1e-10)

    def test_maximiser(self, polytope, loss):
        v = self.scores(polytope, 2)
        points = polytope.vertices()
        best = polytope.maximiser(v)
        assert points_of(best) <= points_of(points)
        np.testing.assert_allclose((best * v).sum(-1), (v @ points.T).max(-1), rtol=1e-12)

    def test_best_are_the_largest_in_order(self, polytope, loss):
        if not hasattr(polytope, "best"):
            pytest.skip("lists no k best")
        v, k = self.scores(polytope, 3), 5
        scores, outputs = polytope.best(v, k)
        ranked = -np.sort(-(v @ polytope.vertices().T), axis=-1)[:, :k]
        count = ranked.shape[1]
        np.testing.assert_allclose(scores[:, :count], ranked, rtol=1e-12, atol=1e-12)
        assert np.isneginf(scores[:, count:]).all()
        for row in range(len(v)):
            phi = loss.phi(outputs[row, :count])
            np.testing.assert_allclose(phi @ v[row], scores[row, :count], rtol=1e-12, atol=1e-12)
            assert len({tuple(p) for p in phi}) == count

    def test_samples_have_the_law_s_frequencies(self, polytope, loss):
        if not hasattr(polytope, "sample"):
            pytest.skip("draws no samples")
        v, count = self.scores(polytope, 4)[4:6], 20_000
        points, law = self.law(polytope, v)
        index = {tuple(p): i for i, p in enumerate(points)}
        draws = polytope.sample(v, count, random_state=0)
        for row in range(len(v)):
            seen = np.bincount([index[tuple(p)] for p in loss.phi(draws[:, row])], minlength=len(points))
            # Five standard deviations of a binomial, and a little for the rarest: one false alarm in a million.
            margin = 5 * np.sqrt(count * law[row] * (1 - law[row])) + 5
            assert (np.abs(seen - count * law[row]) <= margin).all()

    def test_entropy_is_the_conjugate_of_the_log_partition(self, polytope, loss):
        v = self.scores(polytope)[4:8]
        points, law = self.law(polytope, v)
        mu = law @ points
        np.testing.assert_allclose(polytope.entropy(mu), -(law * np.log(law)).sum(-1), atol=1e-10)
        np.testing.assert_allclose(polytope.marginals(-polytope.entropy_gradient(mu)), mu, atol=1e-9)
        np.testing.assert_allclose(polytope.entropy(points), 0, atol=1e-10)
        s = MaxEntropy(polytope)
        np.testing.assert_allclose(s.value(v, mu), 0, atol=1e-9)

    def test_dimension_and_bounds(self, polytope, loss):
        points = polytope.vertices()
        assert polytope.dimension == np.linalg.matrix_rank(points - points.mean(0))
        low, high = polytope.bounds()
        np.testing.assert_allclose(low, points.min(0))
        np.testing.assert_allclose(high, points.max(0))

    def test_finite_and_right_at_large_scores(self, polytope, loss):
        v = np.random.default_rng(5).choice([-1e4, 0.0, 1e4, 123.0], size=(6, polytope.size))
        points, law = self.law(polytope, v)
        a, mu = polytope.log_partition_and_marginals(v)
        np.testing.assert_allclose(a, logsumexp(v @ points.T, axis=-1), rtol=1e-13)
        np.testing.assert_allclose(mu, law @ points, atol=1e-10)

    def test_loss_is_affine_in_the_embedding(self, polytope, task):
        z, y = task.outputs(), task.labels()
        grid = np.indices((len(z), len(y)))
        affine = task.psi(z) @ task.phi(y).T + np.reshape(task.offset(z), (-1, 1))
        np.testing.assert_allclose(affine, task(z[grid[0]], y[grid[1]]), atol=1e-12)

    def test_decode_is_the_argmin_over_all_outputs(self, polytope, task):
        points = task.phi(task.labels())
        mu = np.random.default_rng(6).dirichlet(np.full(len(points), 0.3), size=200) @ points
        z = task.outputs()
        risks = mu @ task.psi(z).T + np.reshape(task.offset(z), (1, -1))
        np.testing.assert_allclose(task.bayes_risk(task.decode(mu), mu), risks.min(-1), atol=1e-12)


def pytest_generate_tests(metafunc):
    """Run every law of a child on each of its instances."""
    if metafunc.cls is not None and "polytope" in metafunc.fixturenames:
        pairs = metafunc.cls.instances()
        metafunc.parametrize(
            ("polytope", "loss"), pairs, ids=[f"{type(p).__name__}{i}" for i, (p, _) in enumerate(pairs)]
        )


def costs(n_outputs: int, n_states: int) -> dict:
    rng = np.random.default_rng(n_outputs)
    return {
        "unary": rng.uniform(size=(n_outputs, n_states)),
        "pairwise": rng.uniform(size=(n_outputs, n_outputs, n_states, n_states)),
    }


class TestChain(StructureLaws):
    @classmethod
    def instances(cls):
        order = np.array([[1, 1, 0], [1, 1, 1], [1, 0, 1]])
        return [
            (Chain(3, 1), ChainHamming(3, 1)),
            (Chain(3, 3), ChainHamming(3, 3, state_weights=[1.0, 2.0, 0.5])),
            (Chain(2, 5), ChainCost(**costs(2, 2), length=5)),
            (Chain(2, 3), ChainCost(**costs(3, 2), length=3)),
            (Chain(3, 4, order), ChainHamming(3, 4, allowed=order)),
            (Chain(3, 3, order), ChainCost(**costs(3, 3), length=3, allowed=order)),
        ]


class TestTree(StructureLaws):
    @classmethod
    def instances(cls):
        star, bush = (-1, 0, 0, 0), (-1, 0, 1, 0, 3)
        order = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]])
        return [
            (Tree(2, star), ChainHamming(2, parents=star)),
            (Tree(2, bush), ChainCost(**costs(2, 2), parents=bush)),
            (Tree(3, (-1, 0, 0), order), ChainCost(**costs(3, 3), parents=(-1, 0, 0), allowed=order)),
        ]


class TestGains(StructureLaws):
    @classmethod
    def instances(cls):
        own = NDCG(lambda y: y**2, lambda i: 1 / (1.0 + i), empty=0.4, n_items=4)
        losses = [NDCG(n_items=1), NDCG(n_items=3), NDCG("linear", at=2, empty=1.0, n_items=3), own]
        return [(loss.polytope, loss) for loss in losses]


class TestPrecisionAt(StructureLaws):
    @classmethod
    def instances(cls):
        return [(loss.polytope, loss) for loss in (PrecisionAt(2, n_items=4), PrecisionAt(3, n_items=2))]


class TestDCG(StructureLaws):
    @classmethod
    def instances(cls):
        own = DCG(lambda y: y**2, lambda i: 1 / (1.0 + i), top=3.0, n_items=4)
        return [(loss.polytope, loss) for loss in (DCG(n_items=3), DCG("linear", at=2, n_items=3), own)]


class TestSequenceZeroOne(StructureLaws):
    @classmethod
    def instances(cls):
        losses = [*SequenceZeroOne.examples(), SequenceZeroOne(2, 3, allowed=[[1, 1], [0, 1]])]
        return [(loss.polytope, loss) for loss in losses]


class TestRowMultinomial(StructureLaws):
    """The domain of row softmax holds more than the matchings."""

    @classmethod
    def instances(cls):
        losses = (MatchingHamming(3), MatchingHamming(2, 3, outliers=True))
        return [(RowMultinomial().bind(loss.polytope).domain, None) for loss in losses]
