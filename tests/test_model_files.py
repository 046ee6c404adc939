"""Files of models: safe to load, and clear about what they are."""

import pickle

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from tests.fitted import CASES, CODES, X, answers, fitted, same

import taskloss as tl
from taskloss import cli
from taskloss.model_files import FORMAT, load, save

skops = pytest.importorskip("skops.io")


class Stranger:
    """A type of somebody else."""


@pytest.fixture
def model():
    return tl.KernelPredictor("absolute").fit(X, CODES)


@pytest.mark.parametrize("name", ["kernel hypothesis", "nystrom", "kernel thresholds", "kernel tagger"])
def test_a_stored_kernel_model_has_no_eigenvectors(name):
    """They are n x n: what is stored grows with n as the centres do."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model, data = {
        "kernel hypothesis": (tl.CostSensitiveClassifier(hypothesis="kernel"), (X, y)),
        "nystrom": (tl.CostSensitiveClassifier(hypothesis=tl.hypotheses.Nystrom(n_centres=200)), (X, y)),
        "kernel thresholds": (tl.OrdinalClassifier(hypothesis="kernel"), (X, y)),
        "kernel tagger": (
            tl.SequenceTagger(hypothesis="kernel"),
            (list(X.reshape(30, 10, 2)), list(y.reshape(30, 10))),
        ),
    }[name]
    model.fit(*data)
    stored = pickle.dumps(model)
    assert len(stored) < 300 * 8 * 20
    again = pickle.loads(stored)
    assert same(again.predict(data[0]), model.predict(data[0]))
    assert same(again.predict_moments(data[0]), model.predict_moments(data[0]))
    again.fit(*data)  # a fit makes them anew
    assert same(again.predict_moments(data[0]), model.predict_moments(data[0]))


def test_a_model_comes_back(model, tmp_path):
    save(model, tmp_path / "model.skops")
    again = load(tmp_path / "model.skops")
    assert again.predict_moments(X).tobytes() == model.predict_moments(X).tobytes()


def test_types_that_nobody_vouched_for_are_named(model, tmp_path):
    model.note = Stranger()
    save(model, tmp_path / "model.skops")
    with pytest.raises(ValueError, match=rf"nobody has vouched for: .*{__name__}.Stranger.*pass trusted="):
        load(tmp_path / "model.skops")


def test_functions_of_the_package_are_not_trusted_unasked(model, tmp_path):
    model.note = cli.main
    save(model, tmp_path / "model.skops")
    with pytest.raises(ValueError, match=r"taskloss\.cli\.main"):
        load(tmp_path / "model.skops")


@pytest.mark.parametrize(("found", "version"), [(None, None), (FORMAT + 1, "9.9")])
def test_another_format_gets_one_sentence(model, found, version, tmp_path):
    state = model.__getstate__()
    for key, value in (("_taskloss_format", found), ("_taskloss_version", version)):
        if value is None:
            del state[key]
        else:
            state[key] = value
    with pytest.raises(
        ValueError, match=f"was stored by taskloss .* in format {found}, and taskloss .* reads format {FORMAT}: fit it"
    ):
        tl.KernelPredictor().__setstate__(state)


def test_the_format_is_no_attribute_of_a_model(model):
    again = pickle.loads(pickle.dumps(model))
    assert sorted(vars(again)) == sorted(vars(model))
    assert clone(again).get_params() == clone(model).get_params()


FOREIGN = {"decoded": ["sklearn.tree._tree.Tree"], "kernel, function": ["tests.fitted.difference"]}


@pytest.mark.parametrize("name", CASES)
def test_every_fitted_estimator_comes_back_bit_by_bit_from_a_safe_file(name, tmp_path):
    """Only types of this package need no word of trust, and no function but the user's own is in the file."""
    model = fitted(name)
    save(model, tmp_path / "model.skops")
    again = load(tmp_path / "model.skops", trusted=FOREIGN.get(name, ()))
    assert same(answers(name, model), answers(name, again))
    if hasattr(model, "solution_"):
        assert again.solution_.status is model.solution_.status


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
@pytest.mark.parametrize("estimator", [tl.CostSensitiveClassifier, tl.OrdinalClassifier], ids=lambda e: e.__name__)
def test_trees_come_back_from_a_safe_file(estimator, library, tmp_path):
    pytest.importorskip(library)
    trees = tl.hypotheses.Boosting(library, n_estimators=3, n_jobs=1)
    model = estimator(hypothesis=trees).fit(X, CODES)
    save(model, tmp_path / "model.skops")
    again = load(tmp_path / "model.skops")  # the library's own text is stored, and no type of the library's
    assert same(again.predict_moments(X), model.predict_moments(X))
    assert again.n_estimators_ == 3


def test_a_loss_of_ones_own_is_known_by_its_name_in_other_processes():
    """In workers that start anew, and by the scores of a search in them."""

    class Twice(tl.losses.Tabular):
        name = "twice"

        def matrix(self):
            return 2.0 * (1 - __import__("numpy").eye(self.n_labels))

    try:
        model = tl.CostSensitiveClassifier("twice")
        scores = Parallel(n_jobs=2)(delayed(lambda m: m.fit(X, CODES).score(X, CODES))(clone(model)) for _ in range(2))
        assert scores == [model.fit(X, CODES).score(X, CODES)] * 2
        search = GridSearchCV(clone(model), {"alpha": [1e-3, 1e-1]}, cv=2, n_jobs=2, error_score="raise").fit(X, CODES)
        assert search.best_score_ < 0
    finally:
        del tl.losses.Loss.registry["twice"]
