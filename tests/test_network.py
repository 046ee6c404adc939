"""Networks as hypotheses: a linear module is `Linear`, and what training promises holds for every task."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.tasks import TASKS, every_task, rows, sequences
from tests.test_estimators import MEDIAN, SETS
from tests.test_objectives import build, problems
from torch import nn

import taskloss as tl
from taskloss import model_files
from taskloss.hypotheses import Linear, Torch
from taskloss.objectives import Options, PenalisedRisk
from taskloss.solvers import LBFGS
from taskloss.testing.hypotheses import somewhere
from taskloss.torch import OrderedThresholds, training

ALL = 10**6  # a batch of all examples


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """These networks are too small to share."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def linear(n_inputs, n_scores):
    return nn.Linear(n_inputs, n_scores, dtype=torch.float64)


def ordered(n_inputs, n_scores):
    return OrderedThresholds(n_inputs, n_scores + 1, rising=True)


def network(**params):
    return Torch(**{"max_epochs": 8, "lr": 0.01, "batch_size": 64, "module__hidden": (32,), **params})


@pytest.fixture(scope="module")
def data():
    return rows(0)


# -- the objective -----------------------------------------------------------------------------------------------------


@every_task
def test_a_linear_module_is_linear(task):
    """Newton-like steps on all examples end at the least penalised risk of `Linear`: the same objective, weights and penalty."""
    estimator, make = TASKS[task]
    estimator = clone(estimator).set_params(alpha=0.02)
    train = make(0)
    exact = clone(estimator).fit(*train)
    hypothesis = Torch(linear, "lbfgs", lr=1.0, max_epochs=12, batch_size=ALL, optimizer__line_search_fn="strong_wolfe")
    assert exact.solution_.converged
    found = clone(estimator).set_params(hypothesis=hypothesis).fit(*train)
    assert found.solution_.value == pytest.approx(exact.solution_.value, rel=2e-4)
    assert found.solution_.value >= exact.solution_.value - 1e-7
    assert found.score(*train) == pytest.approx(exact.score(*train), abs=0.03)


linear_problems = {name: p for name, p in problems.items() if p[2] == Linear()}


@pytest.mark.parametrize("name", linear_problems)
def test_a_step_goes_along_the_gradient_of_the_penalised_risk(name):
    """For every layout and surrogate: through a linear module the objective's own gradient comes out, sparse rows included."""
    hypothesis, inputs, risk = build(linear_problems[name])
    objective = PenalisedRisk(hypothesis, inputs, risk, 0.05)
    theta = objective.unflatten(somewhere(objective, np.random.default_rng(0)))
    expected = objective.unflatten(objective.value_and_gradient(objective.flatten(theta))[1])
    step = Torch(linear, "sgd", lr=1.0, batch_size=ALL, fit_intercept=False)
    run = training.Training(step, inputs, risk, Options(0.05, LBFGS()))
    training.load(run.module, {"weight": theta[:-1].T, "bias": theta[-1]})
    run._step(np.arange(risk.n_examples))
    after = training.arrays(run.module)
    np.testing.assert_allclose(theta[:-1] - after["weight"].T, expected[:-1], atol=1e-9)
    np.testing.assert_allclose(theta[-1] - after["bias"], expected[-1], atol=1e-9)


@pytest.mark.parametrize("task", ["costs", "shared thresholds", "listwise", "matching", "sequence"])
def test_gradients_of_batches_average_to_that_of_the_whole(task):
    """One epoch of tiny steps moves the parameters along minus the gradient of the penalised risk, weights included."""
    estimator, make = TASKS[task]
    moves = {}
    for size in (7, ALL):
        hypothesis = Torch(linear, "sgd", lr=1e-6, max_epochs=1, batch_size=size)
        model = clone(estimator).set_params(hypothesis=hypothesis, alpha=0.5).fit(*make(0))
        node = getattr(model.theta_, "node", model.theta_)
        first = training.build(hypothesis, node.n_inputs, len(node.start), torch.device("cpu")).state_dict()
        batches = 1 if size == ALL else _batches(make(0), size)
        moves[size] = np.concatenate([(node.state[k] - first[k].numpy()).ravel() / batches for k in first])
    np.testing.assert_allclose(moves[7], moves[ALL], rtol=0.15, atol=0.05 * np.abs(moves[ALL]).max())


def _batches(train, size):
    examples = len(set(train[2].tolist())) if len(train) == 3 else len(train[0])
    return -(-examples // size)


@pytest.mark.parametrize("estimator", [tl.TaskLossEstimator(), tl.OrdinalClassifier()], ids=repr)
def test_weights_of_samples_and_classes(data, estimator):
    X, y = data
    full = Torch(linear, "lbfgs", lr=1.0, max_epochs=6, batch_size=ALL, optimizer__line_search_fn="strong_wolfe")
    model = clone(estimator).set_params(hypothesis=full)
    twice = np.where(np.arange(len(y)) % 3 == 0, 2, 1)
    weighed = clone(model).fit(X, y, sample_weight=twice)
    repeated = clone(model).fit(np.repeat(X, twice, axis=0), np.repeat(y, twice))
    np.testing.assert_allclose(weighed.predict_scores(X), repeated.predict_scores(X), atol=1e-3)
    classes = clone(model).set_params(class_weight={1: 3.0}).fit(X, y)
    by_hand = clone(model).fit(X, y, sample_weight=np.where(y == 1, 3.0, 1.0))
    np.testing.assert_array_equal(classes.predict_scores(X), by_hand.predict_scores(X))
    assert np.abs(classes.predict_scores(X) - clone(model).fit(X, y).predict_scores(X)).max() > 0.1
    gone = np.where(np.arange(len(y)) < 150, 1.0, 0.0)  # examples without weight are no examples
    some = clone(model).fit(X[:150], y[:150])
    np.testing.assert_allclose(clone(model).fit(X, y, sample_weight=gone).predict_scores(X), some.predict_scores(X))


# -- every task --------------------------------------------------------------------------------------------------------


@every_task
def test_the_risk_falls_and_so_does_the_task_loss(task):
    estimator, make = TASKS[task]
    train, test = make(0), make(1)
    model = clone(estimator).set_params(hypothesis=network(max_epochs=1)).fit(*train)
    more = clone(estimator).set_params(hypothesis=network(max_epochs=30)).fit(*train)
    assert more.solution_.value < 0.8 * model.solution_.value
    assert more.score(*train) > model.score(*train)
    if task not in ("matching", "abstain"):  # the others have products of features, which no linear score sees
        assert more.score(*test) > clone(estimator).fit(*train).score(*test)
    assert more.n_iter_ == 30
    assert "all epochs" in more.solution_.status.value


@every_task
def test_early_stopping_keeps_the_parameters_with_the_least_task_loss(task):
    estimator, make = TASKS[task]
    train, held = make(0), make(1)
    model = clone(estimator).set_params(hypothesis=network(max_epochs=12, early_stopping=3, lr=0.03))
    model.fit(*train, validation=held)
    curve = model.validation_curve_
    assert model.n_iter_ == np.argmin(curve)
    assert len(curve) == min(model.n_iter_ + 3, 12) + 1
    assert -model.score(*held) == pytest.approx(curve.min(), abs=1e-9)
    part = clone(estimator).set_params(hypothesis=network(early_stopping=3, validation_fraction=0.3)).fit(*train)
    assert part.n_iter_ == np.argmin(part.validation_curve_)


def test_trees_of_nodes():
    from tests.fitted import TAGS, TREES

    model = tl.TreeTagger(hypothesis=network(max_epochs=60, lr=0.03)).fit(TREES, TAGS)
    assert model.score(TREES, TAGS) > tl.TreeTagger().fit(TREES, TAGS).score(TREES, TAGS)


def test_a_network_with_ordered_thresholds_of_its_own(data):
    X, y = data
    estimator = tl.OrdinalClassifier(surrogate="cumulative-link", shared=False)
    model = clone(estimator).set_params(hypothesis=Torch(ordered, lr=0.05, max_epochs=30))
    assert (np.diff(model.fit(X, y).predict_scores(X), axis=1) > 0).all()
    assert model.score(X, y) == pytest.approx(clone(estimator).fit(X, y).score(X, y), abs=0.05)


# -- seeds, interrupts, checkpoints ------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_bits_and_leaves_torchs_own_alone(data):
    X, y = data
    dropping = network(module__dropout=0.3)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = tl.TaskLossEstimator(hypothesis=dropping).fit(X, y)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(7)
    np.testing.assert_array_equal(
        first.predict_scores(X), tl.TaskLossEstimator(hypothesis=dropping).fit(X, y).predict_scores(X)
    )
    other = tl.TaskLossEstimator(hypothesis=dropping.with_params(random_state=1)).fit(X, y)
    assert np.abs(other.predict_scores(X) - first.predict_scores(X)).max() > 0.01
    np.testing.assert_array_equal(first.predict_scores(X), first.predict_scores(X))  # no dropout in predictions


def stop_at(monkeypatch, step):
    """An interrupt in the so-many-th step of what follows."""
    whole, calls = training.Training._step, []

    def stop(self, examples):
        calls.append(1)
        if len(calls) == step:
            raise KeyboardInterrupt
        whole(self, examples)

    monkeypatch.setattr(training.Training, "_step", stop)


@pytest.mark.parametrize("early_stopping", [None, 20])
@pytest.mark.parametrize("estimator", [tl.TaskLossEstimator(), tl.OrdinalClassifier()], ids=repr)
def test_a_checkpoint_survives_an_interrupt(data, monkeypatch, tmp_path, estimator, early_stopping):
    X, y = data
    params = {"module__dropout": 0.1, "early_stopping": early_stopping, "validation_fraction": 0.2}
    whole = clone(estimator).set_params(hypothesis=network(**params)).fit(X, y)
    path = tmp_path / "network.pt"
    model = clone(estimator).set_params(hypothesis=network(checkpoint=path, **params))
    stop_at(monkeypatch, 22)  # in the middle of an epoch, which is done again
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    monkeypatch.undo()
    stop_at(monkeypatch, 26)  # fewer steps than in all epochs: it does not begin anew
    model.fit(X, y)
    monkeypatch.undo()
    # thresholds are fitted to a tolerance, from where the last fit ended
    exact = {"rtol": 0, "atol": 2e-3 if isinstance(estimator, tl.OrdinalClassifier) else 0}
    np.testing.assert_allclose(model.predict_scores(X), whole.predict_scores(X), **exact)
    np.testing.assert_allclose(model.validation_curve_, whole.validation_curve_, atol=1e-3)
    stop_at(monkeypatch, 1)
    np.testing.assert_allclose(model.fit(X, y).predict_scores(X), whole.predict_scores(X), **exact)  # nothing is left
    monkeypatch.undo()
    with pytest.raises(ValueError, match="of a fit to other data or with other settings: delete it"):
        model.fit(X + 1, y)
    with pytest.raises(ValueError, match="of a fit to other data"):
        clone(model).set_params(hypothesis__lr=0.5).fit(X, y)
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="no file of this network: delete it"):
        model.fit(X, y)


def test_an_interrupt_keeps_the_parameters_so_far(data, monkeypatch):
    X, y = data
    model = tl.OrdinalClassifier(hypothesis=network(), warm_start=True)
    stop_at(monkeypatch, 16)
    with pytest.raises(KeyboardInterrupt, match="Interrupted"):
        model.fit(X, y)
    monkeypatch.undo()
    whole = tl.OrdinalClassifier(hypothesis=network(max_epochs=3)).fit(X, y)
    np.testing.assert_allclose(model.predict_scores(X), whole.predict_scores(X), atol=1e-6)
    assert model.fit(X, y).n_iter_ == 8  # and it goes on from there
    assert model.solution_.value < whole.solution_.value


def test_a_warm_start_goes_on(data):
    X, y = data
    steps = network(optimizer="sgd", lr=0.05)  # without memory of earlier steps
    whole = tl.TaskLossEstimator(hypothesis=steps).fit(X, y)
    model = tl.TaskLossEstimator(hypothesis=steps.with_params(max_epochs=3), warm_start=True).fit(X, y)
    model.set_params(hypothesis__max_epochs=8).fit(X, y)
    np.testing.assert_allclose(model.predict_scores(X), whole.predict_scores(X), atol=1e-6)
    with pytest.raises(ValueError, match="max_epochs=2 is less than the 8 epochs"):
        model.set_params(hypothesis__max_epochs=2).fit(X, y)
    other = np.minimum(y, 2)  # fewer labels: nothing to go on from
    fresh = clone(model).set_params(warm_start=False).fit(X, other)
    np.testing.assert_array_equal(model.fit(X, other).predict_scores(X), fresh.predict_scores(X))


def test_progress_is_shown(data, capsys):
    tl.TaskLossEstimator(hypothesis=network(max_epochs=2), verbose=True).fit(*data)
    assert "epochs" in capsys.readouterr().err


# -- modules, inputs, files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_mixed_precision_is_near(data, precision):
    X, y = data
    full = tl.TaskLossEstimator(hypothesis=network()).fit(X, y)
    mixed = tl.TaskLossEstimator(hypothesis=network(precision=precision)).fit(X, y)
    assert mixed.solution_.value == pytest.approx(full.solution_.value, rel=0.02)
    assert 0 < np.abs(mixed.predict_scores(X) - full.predict_scores(X)).max() < 0.3
    assert mixed.theta_.state["0.weight"].dtype == np.float32


def test_modules_of_ones_own(data):
    X, y = data
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 4))
    before = {name: t.clone() for name, t in made.state_dict().items()}
    model = tl.TaskLossEstimator(hypothesis=Torch(made, lr=0.02, max_epochs=10)).fit(X, y)
    assert all(torch.equal(before[name], t) for name, t in made.state_dict().items())  # a fit takes a copy
    assert model.score(X, y) > -0.5
    np.testing.assert_allclose(model.predict_scores(X[:1]), model.predict_scores(X)[:1], atol=1e-5)  # by running means
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_scores(X), model.predict_scores(X))
    copied = clone(model).fit(X, y)
    np.testing.assert_array_equal(copied.predict_scores(X), model.predict_scores(X))


def test_layers_that_work_in_place_leave_the_inputs_alone(data):
    X, y = data[0].astype(np.float32), data[1]
    kept = X.copy()
    made = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(5, 4))
    tl.TaskLossEstimator(hypothesis=Torch(made, max_epochs=1)).fit(X, y).predict(X)
    np.testing.assert_array_equal(X, kept)


def test_sparse_rows_and_single_precision(data):
    X, y = data
    X = np.where(np.abs(X) > 0.3, X, 0.0)
    dense = tl.TaskLossEstimator(hypothesis=network()).fit(X, y)
    thin = tl.TaskLossEstimator(hypothesis=network()).fit(csr_matrix(X), y)
    np.testing.assert_array_equal(thin.predict_scores(csr_matrix(X)), dense.predict_scores(X))
    single = tl.TaskLossEstimator(hypothesis=network()).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.predict_scores(X), dense.predict_scores(X), atol=1e-4)


@pytest.mark.parametrize("estimator", [tl.TaskLossEstimator(), tl.OrdinalClassifier()], ids=repr)
def test_files_hold_arrays_by_name(data, estimator, tmp_path):
    X, y = data
    model = clone(estimator).set_params(hypothesis=network(checkpoint=None)).fit(X, y)
    model_files.save(model, tmp_path / "model.skops")
    again = model_files.load(tmp_path / "model.skops")  # nobody has to vouch for anything
    np.testing.assert_array_equal(again.predict_scores(X), model.predict_scores(X))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_scores(X), model.predict_scores(X))
    assert again.hypothesis_ == model.hypothesis_
    own = tl.TaskLossEstimator(hypothesis=Torch(nn.Linear, max_epochs=1)).fit(X, y)
    model_files.save(own, tmp_path / "own.skops")
    with pytest.raises(ValueError, match="nobody has vouched for: torch"):
        model_files.load(tmp_path / "own.skops")
    known = model_files.load(tmp_path / "own.skops", trusted=["torch.nn.modules.linear.Linear"])
    np.testing.assert_array_equal(known.predict_scores(X), own.predict_scores(X))


def test_a_model_of_a_device_that_is_not_here_predicts_on_the_cpu(data):
    X, y = data
    model = tl.TaskLossEstimator(hypothesis=network()).fit(X, y)
    there = pickle.loads(pickle.dumps(model))
    there.hypothesis_.device = "xpu" if not torch.xpu.is_available() else "mps"
    np.testing.assert_array_equal(there.predict_scores(X), model.predict_scores(X))


def test_parameters_are_parameters(data):
    X, y = data
    hypothesis = network()
    copy = clone(hypothesis)
    assert copy == hypothesis
    assert copy is not hypothesis
    copy.set_params(module__hidden=(4,), optimizer__weight_decay=0.1, lr=0.5)
    assert (copy.params["module__hidden"], copy.params["optimizer__weight_decay"], copy.lr) == ((4,), 0.1, 0.5)
    assert hypothesis.params == {"module__hidden": (32,)}
    search = GridSearchCV(tl.TaskLossEstimator(hypothesis=network(max_epochs=20)), {"hypothesis__lr": [1e-6, 0.02]}, cv=2)  # fmt: skip
    assert search.fit(X, y).best_params_ == {"hypothesis__lr": 0.02}
    with pytest.raises(AttributeError, match=r"theta_\.state"):
        _ = search.best_estimator_.coef_
    with pytest.raises(AttributeError, match="watches no held-out task loss"):
        _ = tl.TaskLossEstimator().fit(X, y).validation_curve_


class Double(nn.Sequential):
    """The checks ask for the same numbers to 1e-7, whatever rows come together."""

    def __init__(self, n_inputs, n_scores):
        super().__init__(*training.perceptron(n_inputs, n_scores, (16,)).double())


SMALL = Torch(Double, max_epochs=40, lr=0.03, batch_size=ALL)


def exceptions(estimator):
    return (MEDIAN if isinstance(estimator, tl.OrdinalClassifier) else {}) | (
        SETS if isinstance(estimator, tl.MultilabelClassifier) else {}
    )  # fmt: skip


@parametrize_with_checks(
    [tl.TaskLossEstimator(hypothesis=SMALL), tl.OrdinalClassifier(hypothesis=SMALL), tl.MultilabelClassifier(hypothesis=SMALL)],
    expected_failed_checks=exceptions,
)  # fmt: skip
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# -- bad input ---------------------------------------------------------------------------------------------------------

X, y = rows(0, 60)


def fitted(face=tl.TaskLossEstimator, X=X, y=y, face_params=None, **params):
    return face(hypothesis=Torch(**{"max_epochs": 2, **params}), **(face_params or {})).fit(X, y)


BAD = {
    "device": (lambda: fitted(device="gpu"), "no device 'gpu' here: use device='cpu'"),
    "optimizer": (lambda: fitted(optimizer="newton"), "torch.optim has no optimizer 'newton'"),
    "rate": (lambda: fitted(lr=0), "lr must be a finite number above zero, got 0"),
    "epochs": (lambda: fitted(max_epochs=0), "max_epochs must be a whole number of at least one"),
    "batch": (lambda: fitted(batch_size=2.5), "batch_size must be a whole number"),
    "patience": (lambda: fitted(early_stopping=0), "early_stopping must be a number of epochs"),
    "share": (lambda: fitted(validation_fraction=1.5), "pass validation="),
    "precision": (lambda: fitted(precision="half"), "precision must be None, 'bfloat16' or 'float16', got 'half'"),
    "closure": (lambda: fitted(precision="float16", optimizer="lbfgs"), "LBFGS does not take: use another optimizer"),
    "checkpoint": (lambda: fitted(checkpoint=3), "checkpoint must be a path or None, got 3"),
    "seed": (lambda: fitted(random_state=-1), "random_state must be"),
    "parameter": (lambda: fitted(hidden=(3,)), "no parameter 'hidden': those of the module .* begin with module__"),
    "module": (lambda: fitted(module="mlp"), "module must be a class or a function"),
    "no module": (lambda: fitted(module=lambda d, k: 3), "must return a torch.nn.Module .* got int"),
    "made": (lambda: fitted(module=nn.Linear(5, 4), module__bias=False), "module__bias has nothing to act on"),
    "width": (lambda: fitted(module=nn.Linear(5, 3)), r"must return 4 scores for each row here, got shape \(60, 3\)"),
    "empty": (lambda: fitted(module=lambda d, k: nn.Identity()), "has no parameters that could be trained"),
    "diverged": (lambda: fitted(optimizer="sgd", lr=1e30, max_epochs=5), "diverged in epoch|not finite in epoch"),
    "crossing": (lambda: fitted(tl.OrdinalClassifier, lr=1.0, max_epochs=20, face_params={"surrogate": "cumulative-link", "shared": False}), "needs shared=True"),
    "NaN": (lambda: fitted(X=np.where(X > 2, np.nan, X)), "NaN"),
    "edges": (lambda: tl.SequenceTagger(hypothesis=network(), transition_features="all").fit(*sequences(5, 0)), "leave out transition_features"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_sentence(case):
    work, sentence = BAD[case]
    with pytest.raises(ValueError, match=sentence):
        work()


def test_without_pytorch_the_extra_is_named():
    code = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import numpy as np, taskloss as tl
for hypothesis in (tl.hypotheses.Torch(), tl.hypotheses.Linear(device="cuda"), tl.hypotheses.Nystrom(device="cuda")):
    try:
        tl.TaskLossEstimator(hypothesis=hypothesis).fit(np.eye(4), [0, 1, 0, 1])
    except ImportError as error:
        print(error)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.count('pip install "taskloss[torch]"') == 3
