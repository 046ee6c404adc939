"""Averaged projected stochastic gradient descent: the paper's iterates, its bound, and streams."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from benchmarks.asgd import Circle, measure
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.parts import label

import taskloss as tl
from taskloss.hypotheses import Kernel, Linear, Nystrom
from taskloss.objectives import PenalisedRisk, Rows
from taskloss.solvers import ASGD, Status
from taskloss.surrogates.base import Surrogate
from test_estimators import SETS


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = np.array(list("abc"))[(X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 2] > 0.8)]
    return X, y


def classifier(hypothesis="linear", surrogate="multinomial", **solver):
    return tl.CostSensitiveClassifier(None, surrogate, hypothesis, solver=ASGD(**solver))


# -- the step --------------------------------------------------------------------------------------------------------


def smooth_surrogates():
    found = []
    for kind in Surrogate.registry.values():
        if kind.__module__.startswith("taskloss."):
            found += [s for s in kind.examples() if s.smooth and s.size != 0]
    return [s for s in found if s.smoothness is not None]


@pytest.mark.parametrize("surrogate", smooth_surrogates(), ids=label)
def test_smoothness_bounds_the_second_derivative(surrogate):
    rng = np.random.default_rng(1)
    k = surrogate.size or 3
    v = rng.normal(size=(400, k)) * rng.choice([0.01, 1.0, 5.0], size=(400, 1))
    product = surrogate.hessian(v, np.broadcast_to(surrogate.inverse_link(np.zeros((1, k))), (400, k)))
    hessian = np.stack([product(np.broadcast_to(e, v.shape)) for e in np.eye(k)], axis=-1)
    assert np.linalg.eigvalsh(hessian)[:, -1].max() <= surrogate.smoothness * (1 + 1e-6)


@pytest.mark.parametrize(
    ("surrogate", "v", "beta"),
    [
        (tl.surrogates.Quadratic(), [0.0, 0.0], 1.0),
        (tl.surrogates.Multinomial(3), [0.0, 0.0, -50.0], 0.5),
        (tl.surrogates.MaxEntropy(tl.polytopes.Cube(2)), [0.0, 0.0], 1.0),
        (tl.surrogates.Independent("logistic", 2), [0.0, 0.0], 0.25),
        (tl.surrogates.Independent("square", 2), [0.0, 0.0], 2.0),
    ],
    ids=label,
)
def test_smoothness_is_reached(surrogate, v, beta):
    v = np.array([v])
    product = surrogate.hessian(v, np.zeros_like(v))
    hessian = np.stack([product(e[None])[0] for e in np.eye(v.shape[1])])
    assert np.linalg.eigvalsh(hessian)[-1] == pytest.approx(beta) == surrogate.smoothness


def test_step_is_the_theorems(data):
    """eta = 2 / (beta kappa^2 C^2 sqrt(n)) with C^2 = 1 + c / (kappa beta D)."""
    from taskloss.solvers.asgd import Bounds

    X, y = data
    surrogate, radius, n = tl.surrogates.Multinomial(3), 7.0, 50
    phi = np.eye(3)[np.searchsorted(list("abc"), y)]
    risk = PenalisedRisk(Linear(fit_intercept=False), X, Rows(surrogate, phi, np.ones(len(X))), 1e-3)
    bounds = Bounds(ASGD(radius, horizon=n))
    for chunk in risk.chunks(np.arange(len(X))):
        bounds.see(chunk)
    beta, kappa = surrogate.smoothness, np.linalg.norm(X, axis=1).max()
    c = np.linalg.norm(phi - surrogate.inverse_link(np.zeros((1, 3))), axis=1).max()
    factor = 1 + c / (kappa * beta * radius)
    assert bounds.step(1) == pytest.approx(2 / (beta * kappa**2 * factor * np.sqrt(n)))
    assert Bounds(ASGD(step=0.3)).step(5) == 0.3


# -- the iterates ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("surrogate", [tl.surrogates.Quadratic(), tl.surrogates.Multinomial(3)], ids=label)
@pytest.mark.parametrize("radius", [0.5, 30.0])
@pytest.mark.parametrize("batch_size", [1, 7])
def test_iterates_are_the_papers(data, surrogate, radius, batch_size):
    """Written out in function values: g - eta dS (x) k(x_i, .), scaled into the ball, averaged."""
    X, y = data
    k, phi = rbf_kernel(X, gamma=0.5), np.eye(3)[np.searchsorted(list("abc"), y)]
    eta, a, total, steps = 0.4, np.zeros((len(X), 3)), np.zeros((len(X), 3)), 0
    for start in range(0, len(X), batch_size):
        rows = np.arange(start, min(start + batch_size, len(X)))
        a[rows] -= eta * surrogate.gradient(k[rows] @ a, phi[rows]) / len(rows)
        a *= min(1.0, radius / np.sqrt(np.einsum("ik,ij,jk->", a, k, a)))
        total, steps = total + a, steps + 1
    for hypothesis in (Kernel(gamma=0.5, fit_intercept=False), Nystrom(len(X), gamma=0.5, fit_intercept=False)):
        model = classifier(hypothesis, surrogate, radius=radius, batch_size=batch_size, step=eta)
        model.partial_fit(X, y, classes=list("abc"))
        np.testing.assert_allclose(model.predict_scores(X), k @ total / steps, atol=1e-7)
        assert model.n_iter_ == steps


@pytest.mark.parametrize("surrogate", ["quadratic", "multinomial", "one-vs-all"])
@pytest.mark.parametrize("hypothesis", [Linear(fit_intercept=False), Nystrom(30, gamma=0.5, fit_intercept=False), Kernel(gamma=0.5, fit_intercept=False)], ids=label)  # fmt: skip
def test_fit_is_a_stream_in_random_order(data, surrogate, hypothesis):
    X, y = data
    order = np.random.RandomState(3).permutation(len(X))
    fit = classifier(hypothesis, surrogate, random_state=3).fit(X, y)
    stream = classifier(hypothesis.bind(X) if isinstance(hypothesis, Linear) else hypothesis, surrogate, horizon=len(X))
    if type(hypothesis) is Nystrom:  # the same centres, which a stream takes from its first rows
        fit, stream = (classifier(Nystrom(len(X), gamma=0.5, fit_intercept=False), surrogate, **s) for s in ({"random_state": 3}, {"horizon": len(X)}))  # fmt: skip
        fit.fit(X, y)
    stream.partial_fit(X[order], y[order], classes=list("abc"))
    assert fit.solution_.status is Status.PASSED
    np.testing.assert_allclose(fit.predict_scores(X), stream.predict_scores(X), atol=1e-7)


@pytest.mark.parametrize("hypothesis", ["linear", Kernel(gamma=0.5), Linear(fit_intercept=False)], ids=label)
def test_pieces_make_the_whole(data, hypothesis):
    X, y = data
    whole = classifier(hypothesis, step=0.1).partial_fit(X, y, classes=list("abc"))
    pieces = classifier(hypothesis, step=0.1)
    for rows in np.split(np.arange(len(X)), [1, 10, 50, 51]):
        pieces.partial_fit(X[rows], y[rows], classes=list("abc"))
    np.testing.assert_allclose(pieces.predict_scores(X), whole.predict_scores(X), atol=1e-10)
    again = pickle.loads(pickle.dumps(pieces)).partial_fit(X, y)
    np.testing.assert_allclose(again.predict_scores(X), pieces.partial_fit(X, y).predict_scores(X))


def test_average_stays_in_the_ball(data):
    X, y = data
    for hypothesis in (Linear(), Nystrom(20)):
        model = classifier(hypothesis, radius=0.3, step=5.0).fit(X, y)
        assert np.linalg.norm(model.theta_) <= 0.3 + 1e-12


def test_many_projections_do_not_underflow():
    """The expansion's scale factor shrinks at every step here; coefficients stay finite and right."""
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(1500, 2)), np.arange(1500) % 2
    options = {"radius": 1e-3, "step": 10.0}
    a = classifier(Kernel(gamma=0.5, fit_intercept=False), **options).partial_fit(X, y, classes=[0, 1])
    assert np.isfinite(a.theta_).all()
    b = classifier(Nystrom(1500, gamma=0.5, fit_intercept=False), **options).partial_fit(X, y, classes=[0, 1])
    np.testing.assert_allclose(1e3 * a.predict_scores(X), 1e3 * b.predict_scores(X), atol=1e-5)


def test_zero_weights_are_absent_examples(data):
    X, y = data
    weights = (np.arange(len(X)) % 3 > 0).astype(float)
    kept = weights > 0
    a = classifier(Linear(), step=0.2).fit(X, y, sample_weight=weights)
    b = classifier(Linear(), step=0.2).fit(X[kept], y[kept])
    np.testing.assert_allclose(a.predict_scores(X), b.predict_scores(X), atol=0.05)
    assert a.n_iter_ == b.n_iter_ == kept.sum()


# -- the theorem -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["noisy", "near-deterministic"])
@pytest.mark.parametrize("link", ["logistic", "quadratic"])
def test_excess_risk_lies_below_the_bound(noise, link):
    risks, limits, _ = measure(noise, link, 300)
    assert len(risks) >= 20
    mean, spread = risks.mean(0), risks.std(0, ddof=1) / np.sqrt(len(risks))
    assert (mean + 2 * spread < limits).all()
    assert (risks > -1e-9).all()


def test_identity_link_pays_for_near_deterministic_conditionals():
    ratios = [Circle(s).norm("quadratic") / Circle(s).norm("logistic") for s in (0.5, 1.0, 2.0, 4.0)]
    assert ratios[0] < 1 < ratios[2] < ratios[3]


def test_learns_what_lbfgs_learns():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(4000, 5))
    y = (X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=4000) > 0).astype(int)
    best = tl.CostSensitiveClassifier().fit(X, y).score(X, y)
    for hypothesis in ("linear", Nystrom(100)):
        model = tl.CostSensitiveClassifier(hypothesis=hypothesis, solver="asgd").fit(X, y)
        assert model.score(X, y) > best - 0.02


# -- streams ---------------------------------------------------------------------------------------------------------


def test_files_are_read_as_arrays(tmp_path, data):
    X, y = data
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    with open(tmp_path / "all.csv", "w") as file:
        file.write("label,u,v,w\n")
        file.writelines(f"{label},{','.join(map(repr, map(float, row)))}\n" for label, row in zip(y, X, strict=True))
    whole = classifier(step=0.1).partial_fit(X, y, classes=list("abc"))
    for batches in (
        tl.streams.from_arrays(X, y, 32),
        tl.streams.from_arrays(tmp_path / "X.npy", str(tmp_path / "y.npy"), 32),
        tl.streams.from_csv(tmp_path / "all.csv", "label", 32),
        tl.streams.from_csv(tmp_path / "all.csv", 0, 7),
    ):
        model = classifier(step=0.1).fit_stream(batches, classes=list("abc"))
        np.testing.assert_allclose(model.predict_scores(X), whole.predict_scores(X), atol=1e-12)


def test_every_face_streams(data):
    X = data[0]
    ring = np.digitize(np.hypot(*X[:, :2].T), [0.8, 1.3, 1.9])
    sets = np.stack([ring > 1, X[:, 0] > 0], axis=1).astype(int)
    words = [{w for w, on in zip(["far", "east"], row, strict=True) if on} for row in sets]
    faces = [
        (tl.TaskLossEstimator("zero-one"), ring, range(4)),
        (tl.CostSensitiveClassifier(tl.losses.Abstain(cost=0.3)), ring, range(4)),
        (tl.OrdinalClassifier(order=[0, 1, 2, 3]), ring, None),
        (tl.OrdinalClassifier(shared=False), ring, range(4)),
        (tl.MultilabelClassifier(), sets, None),
        (tl.MultilabelClassifier(), words, ["east", "far"]),
    ]
    for face, y, classes in faces:
        for hypothesis in ("linear", "nystrom", "kernel"):
            model = type(face)(**{**face.get_params(deep=False), "hypothesis": hypothesis})
            model.fit_stream([(X[:60], y[:60]), (X[60:], y[60:], np.ones(60))], classes=classes)
            assert np.isfinite(model.score(X, y))
            assert model._stream.state.seen == len(X)


def test_thresholds_share_one_function_in_a_growing_sum(data):
    """With the linear kernel that is the linear hypothesis, projections and all."""
    X, y = data
    for radius in (0.5, 10.0):
        solver = ASGD(radius=radius, batch_size=3)
        linear, kernel = (
            tl.OrdinalClassifier(order=list("abc"), hypothesis=h, solver=solver).fit_stream(
                [(X[:50], y[:50]), (X[50:], y[50:])]
            )
            for h in ("linear", Kernel("linear"))
        )
        np.testing.assert_allclose(kernel.predict_scores(X), linear.predict_scores(X), atol=1e-10)
    fitted = tl.OrdinalClassifier(hypothesis="kernel", order=list("abc")).partial_fit(X, y)
    assert fitted.predict_scores(X).shape == (120, 2)


def test_an_interrupt_within_the_kernel_leaves_points_and_coefficients_together(data):
    X, y = data
    calls = []

    def kernel(A, B):
        calls.append(len(B))
        if len(calls) == 6:
            raise KeyboardInterrupt
        return A @ B.T

    batches = [(X[i : i + 20], y[i : i + 20]) for i in range(0, 120, 20)]
    model = classifier(Kernel(kernel), step=0.1)
    with pytest.raises(KeyboardInterrupt):
        model.fit_stream(batches, classes=list("abc"))
    seen = model._stream.state.seen
    assert 0 < seen < 120
    assert model.solution_.status is Status.INTERRUPTED
    assert not model.solution_.converged
    reference = classifier(Kernel("linear"), step=0.1).partial_fit(X[:seen], y[:seen], classes=list("abc"))
    np.testing.assert_allclose(model.predict_scores(X), reference.predict_scores(X), atol=1e-12)
    np.testing.assert_allclose(
        model.partial_fit(X[seen:], y[seen:]).predict_scores(X),
        reference.partial_fit(X[seen:], y[seen:]).predict_scores(X),
        atol=1e-12,
    )


@pytest.mark.parametrize("hypothesis", [Kernel(gamma=0.5), Kernel("polynomial", gamma=0.5, degree=2)], ids=label)
def test_batches_may_be_empty_dense_and_sparse(data, hypothesis):
    X, y = data
    whole = classifier(hypothesis, step=0.1).partial_fit(X, y, classes=list("abc"))
    for first, second in ((np.asarray, csr_matrix), (csr_matrix, np.asarray)):
        batches = [(X[:0], y[:0]), (first(X[:60]), y[:60]), (X[:0], y[:0]), (second(X[60:]), y[60:])]
        model = classifier(hypothesis, step=0.1).fit_stream(batches, classes=list("abc"))
        np.testing.assert_allclose(model.predict_scores(X), whole.predict_scores(X), atol=1e-10)


def test_sets_and_signs_are_streamed(data):
    X = data[0]
    signs = np.where(X[:, :2] > 0, 1, -1)
    first = (signs < 0).all(1)
    rows = np.concatenate([np.flatnonzero(first), np.flatnonzero(~first)])
    model = tl.MultilabelClassifier().fit_stream(tl.streams.from_arrays(X[rows], signs[rows], 8))
    assert set(np.unique(model.predict(X))) == {-1, 1}
    sets = [{name for name, x in zip("ab", row, strict=True) if x > 0} for row in signs]
    streamed = tl.MultilabelClassifier().fit_stream(tl.streams.from_arrays(X, sets, 50), classes=["a", "b"])
    whole = tl.MultilabelClassifier().partial_fit(X, sets, classes=["a", "b"])
    assert streamed.predict(X[:3]) == whole.predict(X[:3])


def test_files_keep_one_type_of_label(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("u,label\n1,1\n2,2\n\n3,a\n4,1.5\n\n")
    with pytest.raises(
        ValueError, match=r"lines 5 to 6: the labels are not all of type int, as 'a' shows: pass labels=float, or"
    ):
        list(tl.streams.from_csv(path, size=2))
    batches = list(tl.streams.from_csv(path, size=2, labels=str))
    assert [y.tolist() for _, y in batches] == [["1", "2"], ["a", "1.5"]]
    path.write_text("u,label\n1,1\n2,2\n4,1.5\n")
    assert [y.tolist() for _, y in tl.streams.from_csv(path, size=2, labels=float)] == [[1.0, 2.0], [1.5]]


def test_a_stream_that_stops_leaves_a_model(data, capsys):
    X, y = data
    half = classifier(step=0.1).partial_fit(X[:60], y[:60], classes=list("abc"))

    def broken(error):
        yield X[:60], y[:60]
        raise error

    model = classifier(step=0.1)
    with pytest.raises(OSError, match="the disk is gone"):
        model.fit_stream(broken(OSError("the disk is gone")), classes=list("abc"))
    np.testing.assert_array_equal(model.predict(X), half.predict(X))
    model.partial_fit(X[60:], y[60:])  # and goes on where it stopped
    assert model._stream.state.seen == len(X)

    model = classifier(step=0.1).set_params(verbose=True)
    with pytest.raises(KeyboardInterrupt):
        model.fit_stream(broken(KeyboardInterrupt()), classes=list("abc"), n_samples=120)
    assert model.solution_.status is Status.INTERRUPTED
    np.testing.assert_array_equal(model.predict(X), half.predict(X))
    assert "60 of 120 examples" in capsys.readouterr().err

    with pytest.warns(ConvergenceWarning, match="ended after 60 of the 120 examples that n_samples announced"):
        model = classifier(step=0.1).fit_stream([(X[:60], y[:60])], classes=list("abc"), n_samples=120)
    np.testing.assert_array_equal(model.predict(X), half.predict(X))


def test_interrupted_fit_keeps_the_average(data, monkeypatch):
    X, y = data
    chunks = PenalisedRisk.chunks

    def some(self, order):
        yield from chunks(self, order[:40])
        raise KeyboardInterrupt

    monkeypatch.setattr(PenalisedRisk, "chunks", some)
    model = classifier()
    with pytest.raises(KeyboardInterrupt) as stop:
        model.fit(X, y)
    assert stop.value.solution.iterations == 40
    assert not hasattr(model, "theta_")  # as it was before
    with pytest.raises(KeyboardInterrupt):
        model.set_params(warm_start=True).fit(X, y)
    assert model.n_iter_ == 40
    assert model.predict(X).shape == (120,)


def test_partial_fit_after_a_fit_knows_the_labels(data):
    X, y = data
    model = tl.CostSensitiveClassifier(solver=ASGD(step=0.1)).fit(X, y).partial_fit(X[:5], y[:5])
    anew = tl.CostSensitiveClassifier(solver=ASGD(step=0.1)).partial_fit(X[:5], y[:5], classes=list("abc"))
    np.testing.assert_array_equal(model.predict_scores(X), anew.predict_scores(X))


def test_parameters_given_out_do_not_change_with_later_batches(data):
    X, y = data
    model = classifier(step=0.1).partial_fit(X, y, classes=list("abc"))
    given, before = model.theta_, model.theta_.copy()
    assert not np.array_equal(model.partial_fit(X, y).theta_, before)
    np.testing.assert_array_equal(given, before)


ORDER = "one pass of single examples depends on their order and number"


@parametrize_with_checks(
    [
        tl.CostSensitiveClassifier(solver=ASGD(batch_size=4)),
        tl.MultilabelClassifier(hypothesis=Nystrom(), solver="asgd"),
    ],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": ORDER,
        "check_sample_weight_equivalence_on_sparse_data": ORDER,
        **(SETS if isinstance(estimator, tl.MultilabelClassifier) else {}),
    },
    xfail_strict=True,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_fit_starts_anew_after_a_stream(data):
    X, y = data
    model = classifier(step=0.1).partial_fit(X, y, classes=list("abc")).fit(X, y)
    assert model._stream is None
    np.testing.assert_array_equal(model.predict_scores(X), classifier(step=0.1).fit(X, y).predict_scores(X))


# -- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solver", "sentence"),
    [
        ({"radius": 0.0}, "radius must be a finite number above zero"),
        ({"radius": np.inf}, "radius must be a finite number above zero"),
        ({"batch_size": 0}, "must be a whole number of at least one"),
        ({"horizon": 0}, "must be a whole number of at least one"),
        ({"step": -1.0}, "step must be a finite number above zero"),
    ],
)
def test_bad_solvers_get_one_sentence(data, solver, sentence):
    with pytest.raises(ValueError, match=sentence):
        classifier(**solver).partial_fit(*data, classes=list("abc"))


def test_bad_streams_get_one_sentence(tmp_path, data):
    X, y = data
    with pytest.raises(ValueError, match="must be a whole number of at least one"):
        classifier(batch_size=0).fit(X, y)
    with pytest.raises(ValueError, match="must be a whole number of at least one"):
        classifier(batch_size=0).fit_stream([(X, y)], classes=list("abc"), n_samples=120)
    for read in (lambda: tl.streams.from_arrays(X, y, 0), lambda: tl.streams.from_csv(tmp_path / "any.csv", size=0)):
        with pytest.raises(ValueError, match="size must be a whole number of at least one, got 0"):
            next(read())
    abc = list("abc")

    def refuses(sentence, model, *args, **kwargs):
        method = model.fit_stream if "batches" in kwargs else model.partial_fit
        with pytest.raises(ValueError, match=sentence):
            method(*args, **kwargs)

    refuses("The first call needs classes=", classifier(), X, y)
    refuses("Unknown label 'c'", classifier(), X, y, classes=["a", "b"])
    refuses("X and y have different lengths: 120 and 119", classifier(), X, y[:-1], classes=abc)
    refuses("batches hold no rows", classifier(), batches=iter([]), classes=abc)
    refuses("batches must be tuples", classifier(), batches=[X], classes=abc)
    assert not hasattr(tl.CostSensitiveClassifier(solver="newton"), "fit_stream")
    with pytest.raises(AttributeError, match="has no attribute 'partial_fit'") as error:
        tl.CostSensitiveClassifier(solver="lbfgs").partial_fit(X, y, classes=abc)
    assert "Streams are fitted by ASGD, not by 'lbfgs': leave solver='auto'" in str(error.value.__cause__)
    refuses("class_weight needs all labels", classifier().set_params(class_weight="balanced"), X, y, classes=abc)
    refuses("cannot use a precomputed kernel", classifier(Kernel("precomputed")), X, y, classes=abc)
    link = tl.OrdinalClassifier(surrogate="cumulative-link", solver="asgd", order=list("abc"))
    refuses("is finite for ordered scores only", link, X, y, classes=abc)
    with pytest.raises(ValueError, match="is finite for ordered scores only"):
        link.fit(X, y)
    boosting = tl.surrogates.OneVsAll("exponential")
    refuses("no Lipschitz constant, from which asgd takes its step", classifier(surrogate=boosting), X, y, classes=abc)
    assert classifier(surrogate=boosting, step=0.1).fit(X, y).n_iter_ == 120
    with pytest.raises(ValueError, match="2 features, but CostSensitiveClassifier is expecting 3"):
        classifier().partial_fit(X, y, classes=abc).partial_fit(X[:, :2], y)
    with pytest.raises(ValueError, match="X and y have different lengths"):
        next(tl.streams.from_arrays(X, y[:-1]))
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n3,x\n")
    with pytest.raises(ValueError, match="has no column named 'z'"):
        next(tl.streams.from_csv(tmp_path / "bad.csv", "z"))
    with pytest.raises(ValueError, match="lines 2 to 3: every column but the label's must hold numbers"):
        next(tl.streams.from_csv(tmp_path / "bad.csv", "a"))
