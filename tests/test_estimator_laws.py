"""What scikit-learn asks of an estimator, as laws over all of ours, each on inputs of its own."""

import copy

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from tests.fitted import CASES, GROUPS, answers, count, fitted, same, take, with_rows

import taskloss as tl
from taskloss.estimators.tagging import Tagger

every_case = pytest.mark.parametrize("name", CASES)
PREDICTIONS = ("predict", "predict_moments", "predict_proba", "predict_scores", "expected_loss")
DRAWN = {  # the order of the examples is part of these fits
    "averaged": "one pass in an order that is drawn",
    "nystrom": "its centres are drawn from the rows",
    "tuned": "its folds follow the order of the rows",
}
in_any_order = pytest.mark.parametrize("name", [name for name in CASES if name not in DRAWN])


def assert_close(a, b, atol=1e-5):
    """Numbers up to the tolerance of a fit, everything else as it is."""
    if isinstance(a, np.ndarray) and a.dtype.kind == "f":
        np.testing.assert_allclose(a, b, atol=atol)
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for p, q in zip(a, b, strict=True):
            assert_close(p, q, atol)
    else:
        np.testing.assert_array_equal(a, b)


def numbers(name, model):
    """Estimated moments and losses; decisions may turn on the last digit."""
    return [getattr(model, method)(CASES[name][2]) for method in methods(name)]


def methods(name):
    """Moments are in the order of labels, which for a loss that is only a function is that in which they were seen."""
    return ("expected_loss",) if name == "kernel, function" else ("predict_moments", "expected_loss")


def tight(name):
    """The case's estimator, fitted to a tolerance at which two ways to the same minimum agree."""
    estimator = clone(CASES[name][0])
    if isinstance(estimator, tl.KernelPredictor):
        return estimator.set_params(alpha=0.1)  # leaving one of two equal examples out leaves the other
    return estimator.set_params(tol=1e-14) if hasattr(estimator, "tol") else estimator


# -- hyperparameters ---------------------------------------------------------------------------------------------------


@every_case
def test_hyperparameters_go_round(name):
    estimator = CASES[name][0]
    parameters = estimator.get_params(deep=False)
    again = type(estimator)(**parameters)
    for key, value in again.get_params(deep=False).items():
        assert value is parameters[key], "a constructor keeps what it is given"
    changed = clone(estimator).set_params(**{key: parameters[key] for key in parameters})
    assert all(changed.get_params(deep=False)[key] is parameters[key] for key in parameters)
    with pytest.raises(ValueError, match="no_such_thing"):
        clone(estimator).set_params(no_such_thing=1)


@every_case
def test_a_clone_is_not_fitted(name):
    fresh = clone(fitted(name))
    assert not [attribute for attribute in vars(fresh) if attribute.endswith("_") and not attribute.startswith("_")]
    inputs, data = CASES[name][2], CASES[name][1]
    for method in PREDICTIONS:
        if hasattr(type(fresh), method):
            with pytest.raises(NotFittedError):
                getattr(fresh, method)(inputs)
    with pytest.raises(NotFittedError):
        fresh.score(*data)


@every_case
def test_a_fit_returns_itself_and_changes_neither_inputs_nor_hyperparameters(name):
    estimator, data, _ = CASES[name]
    model = clone(estimator)
    parameters, given = copy.deepcopy(model.get_params(deep=True)), copy.deepcopy(data)
    assert model.fit(*given) is model
    after = model.get_params(deep=True)
    assert parameters.keys() == after.keys()
    for key, value in parameters.items():
        assert repr(after[key]) == repr(value), key
    for a, b in zip(given, data, strict=True):
        if isinstance(a, pd.DataFrame):
            pd.testing.assert_frame_equal(a, b)
        elif sparse.issparse(a):
            assert (a != b).nnz == 0
        elif isinstance(a, tl.Packed):
            assert same([a.rows, a.offsets, a.parents], [b.rows, b.offsets, b.parents])
        else:
            assert same(a, b)


@every_case
def test_hyperparameters_set_after_a_fit_wait_for_the_next(name):
    model = copy.deepcopy(fitted(name))
    before = answers(name, model)
    alpha = next(name for name in ("alpha", "cv", "method") if hasattr(model, name))
    model.set_params(**{alpha: 7})
    assert same(answers(name, model), before)


# -- examples ----------------------------------------------------------------------------------------------------------


@every_case
def test_a_second_fit_is_the_first(name):
    estimator, data, _ = CASES[name]
    model = clone(estimator).fit(*data)
    assert same(answers(name, model.fit(*data)), answers(name, fitted(name)))


@in_any_order
def test_the_order_of_examples_does_not_matter(name):
    order = np.random.default_rng(1).permutation(count(CASES[name][1][0]))
    model = tight(name).fit(*(take(part, order) for part in CASES[name][1]))
    assert_close(numbers(name, model), numbers(name, tight(name).fit(*CASES[name][1])))


@in_any_order
def test_weights_are_repetitions(name):
    """In a fit and in a score; a group is repeated as a whole."""
    rng, data = np.random.default_rng(2), CASES[name][1]
    ranked = len(data) == 3
    times = rng.integers(0, 3, 6)[GROUPS] if ranked else rng.integers(0, 3, count(CASES[name][1][0]))
    times[: count(CASES[name][1][0]) // 3] = 1
    if ranked:
        rows = np.concatenate([np.flatnonzero(times > r) for r in range(2)])
        copies = np.concatenate([np.full((times > r).sum(), r) for r in range(2)])
        repeated = (*(take(part, rows) for part in data[:2]), data[2][rows] + 100 * copies)
    else:
        repeated = tuple(take(part, np.repeat(np.arange(count(CASES[name][1][0])), times)) for part in data)
    weighted = tight(name).fit(*data, sample_weight=times.astype(float))
    assert_close(numbers(name, weighted), numbers(name, tight(name).fit(*repeated)))
    assert weighted.score(*data, sample_weight=times.astype(float)) == pytest.approx(weighted.score(*repeated))


@every_case
def test_examples_are_predicted_one_by_one(name):
    inputs, model = CASES[name][2], fitted(name)
    together = model.predict(inputs)
    for i in (0, count(CASES[name][1][0]) - 1):
        if isinstance(model, tl.Ranker):  # a group is one example
            rows = np.flatnonzero(GROUPS[i] == GROUPS)
            np.testing.assert_array_equal(model.predict(inputs[rows]), model.predict(inputs, groups=GROUPS)[rows])
        else:
            rows = slice(*inputs.offsets[[i, i + 1]]) if isinstance(inputs, tl.Packed) else None
            assert_close(take(together, [i]) if rows is None else together[rows], model.predict(take(inputs, [i])))


@every_case
@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning"
)  # with one example, or one label, the minimum may be at infinity
def test_a_fit_to_one_example_works_or_says_what_is_missing(name):
    model, data = tight(name), tuple(take(part, [0]) for part in CASES[name][1])
    sets_or_structures = isinstance(model, tl.MultilabelClassifier | tl.Ranker | tl.Matcher | Tagger)
    if sets_or_structures or name == "taxonomy":  # whose loss names labels that the example does not have
        model.fit(*data).predict(take(CASES[name][2], [0]))
    else:
        with pytest.raises(ValueError, match=r"two (examples|classes)"):
            model.fit(*data)


# -- forms -------------------------------------------------------------------------------------------------------------


def forms(inputs):
    """The same inputs in other forms, by name."""
    if isinstance(inputs, tl.Packed):
        return {"sparse": with_rows(inputs, sparse.csr_matrix), "frame": with_rows(inputs, pd.DataFrame)}
    if isinstance(inputs, list):
        if not isinstance(inputs[0], np.ndarray):
            return {"tuple": tuple(inputs)}
        frames = [pd.DataFrame(x, columns=["p", "q", "r"]) for x in inputs]
        return {"tuple": tuple(inputs), "lists": [x.tolist() for x in inputs], "frames": frames}
    if sparse.issparse(inputs):
        return {"array": inputs.toarray(), "by columns": inputs.tocsc(), "sparse array": sparse.csr_array(inputs)}
    array = np.asarray(inputs)
    if array.ndim == 4:
        return {"list": list(array), "nested lists": array.tolist(), "column by column": np.asfortranarray(array)}
    columns = getattr(inputs, "columns", None)
    frame = pd.DataFrame(array, columns=["p", "q", "r"] if columns is None else columns, index=range(9, 9 + len(array)))
    if columns is not None:
        return {"other index": frame}
    return {"list": array.tolist(), "frame": frame, "column by column": np.asfortranarray(array)}


@every_case
def test_the_form_of_inputs_does_not_matter(name):
    estimator, (X, *rest), inputs = CASES[name]
    for form, other in forms(X).items():
        if name.startswith("recalibrated") and "frame" in form:
            continue  # the model inside was fitted to arrays, and warns
        model = clone(estimator).fit(other, *rest)
        found = [getattr(model, m)(forms(inputs)[form]) for m in methods(name)]
        assert_close(found, numbers(name, fitted(name)), 1e-9)


@every_case
def test_single_precision_is_near(name):
    estimator, (X, *rest), _ = CASES[name]
    if name == "tagger of mappings":
        pytest.skip("mappings have no precision")
    single = with_rows(X, lambda x: x.astype(np.float32))
    model = clone(estimator).fit(single, *rest)
    assert model.predict_moments(single) is not None
    if not isinstance(model, tl.DecodedClassifier | tl.KernelPredictor):  # trees and the least risk of many may jump
        assert_close(numbers(name, model), numbers(name, fitted(name)), 2e-2)


@every_case
def test_another_number_of_features_is_refused(name):
    inputs, model = CASES[name][2], fitted(name)
    if name == "tagger of mappings":
        pytest.skip("features that no fit has seen count for nothing")
    narrow = with_rows(
        inputs, lambda x: x.iloc[:, :2] if hasattr(x, "iloc") else x[..., :1] if x.ndim == 4 else x[:, :2]
    )
    for method in ("predict", "predict_moments", "expected_loss"):
        with pytest.raises(ValueError, match="feature"):
            getattr(model, method)(narrow)


def test_checks_of_scikit_learn_that_do_not_apply_are_not_run():
    """Tags say so for estimators on structures, whose laws are above, and for what needs a model that was fitted before."""
    from sklearn.utils.estimator_checks import estimator_checks_generator

    promises = (
        tl.RiskController(tl.TaskLossEstimator()),
        tl.Recalibrated(tl.TaskLossEstimator()),
    )  # of models fitted before
    for estimator in (tl.Ranker(), tl.Matcher(), tl.SequenceTagger(), tl.TreeTagger(), *promises):
        with pytest.warns(Warning, match="SKIP|Can't test"):
            run = {check.func.__name__ for _, check in estimator_checks_generator(estimator)}
        assert run <= {"check_estimator_cloneable"}
