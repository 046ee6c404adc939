"""Fits whose products run on a device are the fits of the host. The CPU's own tensors stand in for a GPU's, which are tried where there is one."""

import copy
import pickle

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from tests.tasks import TASKS, every_task
from tests.test_objectives import build, problems

import taskloss as tl
from taskloss import model_files
from taskloss.hypotheses import Linear, Nystrom, Structured, Thresholds
from taskloss.hypotheses.places import HOST, Room, place_of
from taskloss.objectives import PenalisedRisk
from taskloss.parallel import Executor
from taskloss.testing.hypotheses import somewhere
from taskloss.torch.device import Device

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"))]
every_device = pytest.mark.parametrize("device", DEVICES)
ALPHA = 0.05


def node_of(hypothesis):
    return hypothesis._node if isinstance(hypothesis, Thresholds | Structured) else hypothesis


def moved(hypothesis, device):
    """The same hypothesis, bound as it is, with its products on a device."""
    there = copy.deepcopy(hypothesis)
    node = node_of(there)
    node.device = device
    if isinstance(node, Nystrom):
        node.gram_.device = device
    return there


with_device = {name: p for name, p in problems.items() if type(node_of(p[2])) in (Linear, Nystrom)}


@every_device
@pytest.mark.parametrize("held", [True, False], ids=["held", "streamed"])
@pytest.mark.parametrize("name", with_device)
def test_values_gradients_and_hessians_are_those_of_the_host(name, device, held, monkeypatch):
    """For every layout and surrogate, with features that stay on the device and with blocks of rows that go there in every pass."""
    hypothesis, inputs, risk = build(with_device[name])
    plain = PenalisedRisk(hypothesis, inputs, risk, ALPHA)
    theta = somewhere(plain, np.random.default_rng(5))
    value, gradient = plain.value_and_gradient(theta)
    product = plain.hessian(theta)(theta)
    monkeypatch.setattr(Device, "room", Room(1 << 20, 1 << 30) if held else Room(64, 0))
    for executor in (None, Executor(3, compiled=True)):
        there = PenalisedRisk(moved(hypothesis, device), inputs, risk, ALPHA, executor)
        found = there.value_and_gradient(theta)
        np.testing.assert_allclose(found[0], value, rtol=1e-9)
        np.testing.assert_allclose(found[1], gradient, atol=1e-8)
        np.testing.assert_allclose(there.hessian(theta)(theta), product, atol=1e-8)
        if there.separable:
            some = np.arange(theta.shape[1])[::-2]
            part = there.columns(some).value_and_gradient(np.ascontiguousarray(theta[:, some]))
            np.testing.assert_allclose(part[0], value[some], rtol=1e-9)
            np.testing.assert_allclose(part[1], gradient[:, some], atol=1e-8)
        again = PenalisedRisk(moved(hypothesis, device), inputs, build(with_device[name])[2], ALPHA, executor)
        np.testing.assert_array_equal(again.value_and_gradient(theta)[1], found[1])  # the same bits in every run


@every_device
@pytest.mark.parametrize("form", [sparse.csr_matrix, np.asarray], ids=["sparse", "dense"])
def test_principal_directions_are_those_of_the_host(form, device):
    """Of rows too wide for their second moments."""
    rng = np.random.default_rng(0)
    X = form(rng.normal(size=(60, 3)) @ rng.normal(size=(3, 300)) + 0.1 * rng.normal(size=(60, 300)))
    weights = rng.dirichlet(np.ones(60))
    here, there = (Linear(device=d).moments(X, weights) for d in (None, device))
    np.testing.assert_allclose(there.mean, here.mean, atol=1e-8)
    np.testing.assert_allclose(there.second.rest, here.second.rest, atol=1e-8)
    np.testing.assert_allclose(there.second.values, here.second.values, rtol=1e-6)
    assert here.second.values[-3:].min() > 10 * here.second.rest.max()


@every_device
@every_task
@pytest.mark.parametrize("hypothesis", [Linear(), Nystrom(20)], ids=["linear", "nystrom"])
def test_fits_are_equal_in_risk(task, hypothesis, device):
    estimator, make = TASKS[task]
    if hypothesis.name == "nystrom" and task in ("matching", "whole sequence", "F1", "gains"):
        pytest.skip("other tasks of the same layout stand for it")
    train = make(0)
    # small data in memory would take Newton's steps on the Hessian's matrix, and choose a penalty by leaving out each example
    estimator = clone(estimator).set_params(tol=1e-6, solver="lbfgs", alpha=1e-3)
    here = clone(estimator).set_params(hypothesis=hypothesis).fit(*train)
    there = clone(estimator).set_params(hypothesis=hypothesis.with_params(device=device)).fit(*train)
    assert there.solution_.value == pytest.approx(here.solution_.value, rel=1e-6)
    assert there.score(*train) == pytest.approx(here.score(*train), abs=1e-3)


@every_device
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "polynomial"])
@pytest.mark.parametrize("centres", ["uniform", "leverage"])
def test_coordinates_are_those_of_the_host(device, kernel, centres):
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(80, 3)), rng.uniform(0.5, 2, 80)
    here = Nystrom(15, kernel, centres=centres).bind(X, weights)
    there = Nystrom(15, kernel, centres=centres, device=device).bind(X, weights)
    np.testing.assert_allclose(there.moments_, here.moments_, rtol=1e-6, atol=1e-12)
    signs = np.sign((here.basis_ * there.basis_).sum(axis=0))  # eigenvectors are known up to their signs
    some = here.moments_ > 1e-6 * here.moments_[0]
    np.testing.assert_allclose((there.coordinates(X) * signs)[:, some], here.coordinates(X)[:, some], atol=1e-5)
    if kernel == "rbf":
        np.testing.assert_allclose(there.gram_(X), here.gram_(X), rtol=1e-12)


@every_device
@pytest.mark.parametrize("hypothesis", [Linear(), Nystrom(20)], ids=["linear", "nystrom"])
def test_files_and_machines_without_the_device(device, hypothesis, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] > 0).astype(int)
    model = tl.TaskLossEstimator(hypothesis=hypothesis.with_params(device=device)).fit(X, y)
    scores = model.predict_scores(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_scores(X), scores)
    pytest.importorskip("skops")
    model_files.save(model, tmp_path / "model.skops")
    again = model_files.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict_scores(X), scores)
    monkeypatch.setattr("taskloss.hypotheses.places._places", {})
    for part in (again.hypothesis_, getattr(again.hypothesis_, "gram_", None)):
        if part is not None:
            part.device = "xpu:7"
    assert place_of("xpu:7") is HOST
    np.testing.assert_allclose(again.predict_scores(X), scores, atol=1e-9)


def test_a_device_that_is_not_here_is_said_at_the_fit():
    X, y = np.eye(4), [0, 1, 0, 1]
    for hypothesis in (Linear(device="gpu"), Nystrom(3, device="gpu")):
        with pytest.raises(ValueError, match="no device 'gpu' here: use device='cpu'"):
            tl.TaskLossEstimator(hypothesis=hypothesis).fit(X, y)


def test_rows_that_may_not_be_written_are_read():
    X = np.random.default_rng(0).normal(size=(50, 3))
    y = (X[:, 0] > 0).astype(int)
    fixed = X.copy()
    fixed.flags.writeable = False
    for hypothesis in (Linear(device="cpu"), Nystrom(5, device="cpu")):
        models = [tl.TaskLossEstimator(hypothesis=hypothesis).fit(rows, y) for rows in (X, fixed)]
        np.testing.assert_array_equal(*(m.predict_moments(rows) for m, rows in zip(models, (X, fixed), strict=True)))


def test_sparse_rows_stay_sparse():
    X = sparse.random(30, 50, 0.1, "csr", random_state=0)
    rows = Device("cpu").rows(X)
    assert rows.rows.layout == torch.sparse_csr
    w, v = np.random.default_rng(0).normal(size=(50, 4)), np.random.default_rng(1).normal(size=(30, 4))
    np.testing.assert_allclose(rows @ w, X @ w)
    np.testing.assert_allclose(rows.T @ v, X.T @ v)
    single = Device("cpu").rows(X.astype(np.float32))
    assert (single @ w).dtype == np.float32
