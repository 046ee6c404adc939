"""The same objective has the same minimum, whoever minimises it."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits, load_wine, make_multilabel_classification
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

import taskloss as tl


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def ordinal():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    latent = X @ np.array([1.0, -2.0, 0.5, 0.0, 1.0]) + rng.logistic(size=600)
    return X, np.digitize(latent, [-2.0, -0.5, 1.0])


def peer(C, **params):
    return LogisticRegression(C=C, tol=1e-10, max_iter=10_000, **params)


@pytest.mark.parametrize("solver", ["lbfgs", "newton"])
@pytest.mark.parametrize("form", ["dense", "csr", "float32"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_multinomial_logistic(wine, solver, form, fit_intercept):
    X, y = wine
    alpha = 0.01
    theirs = peer(1 / (len(X) * alpha), fit_intercept=fit_intercept).fit(X, y)
    given = {"dense": X, "csr": csr_matrix(X), "float32": X.astype(np.float32)}[form]
    ours = tl.TaskLossEstimator(
        hypothesis=tl.hypotheses.Linear(fit_intercept), alpha=alpha, solver=solver, tol=1e-13
    ).fit(given, y)
    tolerance = 2e-3 if form == "float32" else 1e-4
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=tolerance)
    centred = theirs.intercept_ - np.mean(theirs.intercept_)
    np.testing.assert_allclose(ours.intercept_ - ours.intercept_.mean(), centred, atol=tolerance)
    np.testing.assert_allclose(ours.predict_proba(given), theirs.predict_proba(X), atol=tolerance)
    np.testing.assert_array_equal(ours.predict(given), theirs.predict(X))


def test_weights_of_samples_and_classes(wine):
    X, y = wine
    weights = np.random.default_rng(1).uniform(0.2, 3, len(y))
    alpha = 0.02
    for class_weight in (None, "balanced", {0: 1.0, 1: 5.0, 2: 0.5}):
        theirs = peer(1 / alpha, class_weight=class_weight)
        factors = weights
        if class_weight is not None:
            from sklearn.utils.class_weight import compute_class_weight

            per_class = compute_class_weight(
                class_weight, classes=np.arange(3), y=y, sample_weight=weights if class_weight == "balanced" else None
            )
            factors = weights * per_class[y]
        theirs = peer(1 / alpha).fit(X, y, factors / factors.sum())
        ours = tl.TaskLossEstimator(alpha=alpha, class_weight=class_weight, tol=1e-13).fit(X, y, weights)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)


def test_one_vs_all_logistic(wine):
    X, y = wine
    alpha = 0.01
    theirs = OneVsRestClassifier(peer(1 / (len(X) * alpha))).fit(X, y)
    ours = tl.TaskLossEstimator(surrogate="one-vs-all", alpha=alpha, tol=1e-13).fit(X, y)
    np.testing.assert_allclose(ours.coef_, np.vstack([e.coef_ for e in theirs.estimators_]), atol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)


def test_multilabel_logistic():
    X, y = make_multilabel_classification(300, n_features=10, n_classes=6, random_state=0)
    X = StandardScaler().fit_transform(X)
    alpha = 0.01
    theirs = OneVsRestClassifier(peer(1 / (len(X) * alpha))).fit(X, y)
    ours = tl.MultilabelClassifier(alpha=alpha, tol=1e-13).fit(X, y)
    np.testing.assert_allclose(ours.coef_, np.vstack([e.coef_ for e in theirs.estimators_]), atol=1e-4)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)


def test_quadratic_is_ridge_regression_on_the_embedding(wine):
    X, y = wine
    alpha = 0.05
    theirs = Ridge(alpha=alpha * len(X)).fit(X, np.eye(3)[y])
    ours = tl.TaskLossEstimator(surrogate="quadratic", alpha=alpha).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-9)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-9)


@pytest.mark.filterwarnings(
    "ignore:.*iprint.*:DeprecationWarning", "ignore:Unknown solver options. disp"
)  # of what mord asks SciPy for
def test_all_thresholds_with_mord(ordinal):
    import mord

    X, y = ordinal
    strength = 1.0
    theirs = mord.LogisticAT(alpha=strength, max_iter=10_000).fit(X, y)
    # mord minimises the sum of losses plus alpha/2 |w|^2.
    ours = tl.OrdinalClassifier(alpha=strength / len(X), tol=1e-13).fit(X, y)

    def objective(w, thresholds):
        margins = (thresholds[None] - (X @ w)[:, None]) * np.where(y[:, None] <= np.arange(3), 1, -1)
        return np.logaddexp(0, -margins).sum() + strength / 2 * w @ w

    theirs_value = objective(theirs.coef_, theirs.theta_)
    ours_value = objective(ours.coef_[0], -ours.intercept_)
    assert ours_value <= theirs_value + 1e-9
    assert ours_value == pytest.approx(theirs_value, rel=1e-5)
    assert ours.solution_.value * len(X) == pytest.approx(ours_value, rel=1e-9)
    np.testing.assert_allclose(ours.coef_[0], theirs.coef_, atol=1e-3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_cumulative_link_with_statsmodels(ordinal, link):
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    X, y = ordinal
    theirs = OrderedModel(y, X, distr=link).fit(method="bfgs", disp=False, gtol=1e-8, maxiter=1000)
    ours = tl.OrdinalClassifier(surrogate=tl.surrogates.CumulativeLink(link), alpha=1e-10, tol=1e-14).fit(X, y)
    log_likelihood = np.log(ours.predict_proba(X)[np.arange(len(y)), y]).sum()
    assert log_likelihood == pytest.approx(theirs.llf, rel=1e-6)
    with pytest.warns(FutureWarning, match="intercept_ - coef_ @ x"):
        coef = ours.coef_[0]
    np.testing.assert_allclose(coef, theirs.params[:5], atol=1e-3)
    np.testing.assert_allclose(ours.predict_scores(X), ours.intercept_ - (X @ coef)[:, None], atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*iprint.*:DeprecationWarning", "ignore:Unknown solver options. disp")
def test_the_comparison_with_mord_can_fail(ordinal):
    import mord

    X, y = ordinal
    theirs = mord.LogisticIT(alpha=1.0, max_iter=10_000).fit(X, y)  # immediate thresholds: a different loss
    ours = tl.OrdinalClassifier(alpha=1 / len(X)).fit(X, y)
    assert np.abs(ours.coef_[0] - theirs.coef_).max() > 1e-2  # the comparison above can fail


def test_float32_and_sparse_agree_on_digits():
    X, y = load_digits(return_X_y=True)
    X = X / 16
    dense = tl.TaskLossEstimator(alpha=1e-2).fit(X, y)
    sparse = tl.TaskLossEstimator(alpha=1e-2, tol=1e-9).fit(csr_matrix(X), y)
    single = tl.TaskLossEstimator(alpha=1e-2).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(dense.coef_, sparse.coef_, atol=2e-3)
    np.testing.assert_allclose(dense.coef_, single.coef_, atol=1e-2)
    assert single.predict_scores(X.astype(np.float32)).dtype == np.float32
    assert sparse.solution_.value == pytest.approx(dense.solution_.value, rel=1e-7)
