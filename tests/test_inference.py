"""Standard errors, tests and intervals of fits without a penalty, beside statsmodels and published output of R."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from benchmarks.datasets import root
from scipy import optimize, stats
from sklearn.pipeline import make_pipeline
from statsmodels.miscmodels.ordinal_model import OrderedModel

import taskloss as tl
from taskloss.inference import likelihood_ratio, proportional_odds

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.normal(size=(400, 3)) @ [[1, 0.5, 0], [0, 1, 0.3], [0, 0, 2]], columns=["age", "dose", "sex"])
Y = np.digitize(X.to_numpy() @ [1, -0.7, 0.2] + rng.logistic(size=400), [-1, 0.2, 1.4])
GROUPS = rng.integers(0, 40, 400)
Z = sm.add_constant(X.to_numpy(), prepend=False)


def ordinal(link="logit", **options):
    return tl.OrdinalClassifier(surrogate=tl.surrogates.CumulativeLink(link), alpha=0, tol=1e-14, **options)


def classifier():
    return tl.CostSensitiveClassifier(alpha=0, tol=1e-14)


THEIRS = {"cauchit": stats.cauchy, "loglog": stats.gumbel_r, "cloglog": stats.gumbel_l}


@pytest.mark.parametrize("link", ["logit", "probit", *THEIRS])
def test_ordinal_models_are_those_of_statsmodels(link):
    start = (
        None
        if link in ("logit", "probit")
        else OrderedModel(Y, X.to_numpy(), distr="logit").fit(method="newton", disp=0).params
    )
    distribution = THEIRS.get(link, link)
    theirs = OrderedModel(Y, X.to_numpy(), distr=distribution).fit(start, method="newton", disp=0)
    ours = ordinal(link).fit(X, Y).summary(X, Y)
    assert ours.index.tolist() == ["age", "dose", "sex", "0|1", "1|2", "2|3"]
    np.testing.assert_allclose(ours["estimate"][:4], theirs.params[:4], atol=1e-6)
    np.testing.assert_allclose(ours["standard error"][:4], theirs.bse[:4], atol=1e-6)
    np.testing.assert_allclose(ours["z"][:4], theirs.tvalues[:4], atol=1e-5)
    np.testing.assert_allclose(ours["p"][:4], theirs.pvalues[:4], atol=1e-6)
    np.testing.assert_allclose(ours[["low", "high"]][:4], theirs.conf_int()[:4], atol=1e-5)
    # theirs are increments of the thresholds: the delta method brings their covariance to the thresholds themselves
    raw = theirs.params[3:]
    np.testing.assert_allclose(ours["estimate"][3:], np.cumsum([raw[0], *np.exp(raw[1:])]), atol=1e-6)
    J = np.eye(6)
    J[3:, 3:] = np.tril(np.ones((3, 3))) * np.array([1.0, *np.exp(raw[1:])])
    np.testing.assert_allclose(ours["standard error"], np.sqrt(np.diag(J @ theirs.cov_params() @ J.T)), atol=1e-6)
    assert ours["odds ratio"].notna().tolist() == [link == "logit"] * 3 + [False] * 3


def test_unordered_labels_are_contrasts_to_the_first():
    theirs = sm.MNLogit(Y, Z).fit(disp=0, method="newton", tol=1e-12)
    ours = classifier().fit(X, Y).summary(X, Y)
    np.testing.assert_allclose(ours["estimate"], theirs.params.T.ravel(), atol=1e-6)
    np.testing.assert_allclose(ours["standard error"], theirs.bse.T.ravel(), atol=1e-6)
    assert ours.index[0] == "1: age"


@pytest.mark.parametrize("kind", ["hessian", "sandwich", "clusters"])
def test_two_labels(kind):
    y = np.where(Y > 1, "yes", "no")
    options = {"sandwich": {"cov_type": "HC0"}}.get(kind, {})
    if kind == "clusters":
        options = {
            "cov_type": "cluster",
            "cov_kwds": {"groups": GROUPS, "df_correction": False, "use_correction": False},
        }
    theirs = sm.Logit(Y > 1, Z).fit(disp=0, tol=1e-12, **options)
    asked = {"hessian": {}, "sandwich": {"covariance": "sandwich"}, "clusters": {"groups": GROUPS}}[kind]
    ours = classifier().fit(X, y).summary(X, y, **asked)
    np.testing.assert_allclose(ours["estimate"], theirs.params, atol=1e-6)
    # ours are times c / (c - 1) for c clusters, as a sample variance is
    scale = np.sqrt(40 / 39) if kind == "clusters" else 1.0
    np.testing.assert_allclose(ours["standard error"], theirs.bse * scale, atol=1e-6)


def test_a_sandwich_is_the_sum_by_hand():
    """All-thresholds, which is no likelihood: derivatives by differences."""
    model = tl.OrdinalClassifier(alpha=0, tol=1e-14).fit(X, Y)
    theta = np.concatenate([model.theta_[:3, 0], -model.theta_[3:, 0]])
    signs = 2.0 * (Y[:, None] > np.arange(3)) - 1

    def losses(t):
        return np.logaddexp(0, -signs * ((X.to_numpy() @ t[:3])[:, None] - t[3:])).sum(1)

    eye = 1e-5 * np.eye(6)
    G = np.stack([(losses(theta + e) - losses(theta - e)) / 2e-5 for e in eye], axis=1)
    eye = 1e-3 * np.eye(6)
    H = np.array(
        [
            [
                (losses(theta + a + b) - losses(theta + a - b) - losses(theta - a + b) + losses(theta - a - b)).sum()
                / 4e-6
                for a in eye
            ]
            for b in eye
        ]
    )
    cov = np.linalg.inv(H) @ G.T @ G @ np.linalg.inv(H)
    ours = model.summary(X, Y, covariance="sandwich")
    np.testing.assert_allclose(ours["estimate"], theta)
    np.testing.assert_allclose(ours["standard error"], np.sqrt(np.diag(cov)), rtol=1e-4)
    plain = ordinal().fit(X, Y).summary(X, Y, covariance="sandwich")["standard error"]
    assert (np.abs(plain / ordinal().fit(X, Y).summary(X, Y)["standard error"] - 1) < 0.3).all()


def test_weights_are_repetitions():
    times = rng.integers(1, 4, 400)
    again = np.repeat(np.arange(400), times)
    weighted = ordinal().fit(X, Y, sample_weight=times).summary(X, Y, times)
    repeated = ordinal().fit(X.iloc[again], Y[again]).summary(X.iloc[again], Y[again])
    pd.testing.assert_frame_equal(weighted, repeated, rtol=1e-6)


def test_intervals_hold_the_truth_as_often_as_they_say():
    """300 draws of an ordinal model."""
    draws, truth, inside = np.random.default_rng(1), np.array([1.0, -0.5, -1.0, 0.5]), []
    for _ in range(300):
        x = draws.normal(size=(150, 2))
        y = np.digitize(x @ truth[:2] + draws.logistic(size=150), truth[2:])
        found = tl.OrdinalClassifier(surrogate="cumulative-link", alpha=0).fit(x, y).summary(x, y)
        inside.append((found["low"] <= truth) & (truth <= found["high"]))
    assert np.abs(np.mean(inside, axis=0) - 0.95).max() < 4 * np.sqrt(0.95 * 0.05 / 300)


def test_proportional_odds():
    model = ordinal().fit(X, Y)
    brant = proportional_odds(model, X, Y)
    assert brant.index.tolist() == ["all", "age", "dose", "sex"]
    assert brant["degrees of freedom"].tolist() == [6, 2, 2, 2]
    # by hand: joint covariance of the three regressions from their influence functions under the fitted marginals
    fits = [sm.Logit(j < Y, Z).fit(disp=0, tol=1e-12) for j in range(3)]
    pi = [fit.predict(Z) for fit in fits]
    V = np.zeros((12, 12))
    for j in range(3):
        for k in range(3):
            w = pi[max(j, k)] - pi[j] * pi[k]
            V[4 * j : 4 * j + 4, 4 * k : 4 * k + 4] = fits[j].cov_params() @ (Z.T * w) @ Z @ fits[k].cov_params()
    b = np.concatenate([fit.params for fit in fits])
    D = np.zeros((2, 12))
    D[0, [1, 5]], D[1, [1, 9]] = [1, -1], [1, -1]
    gap = D @ b
    assert brant.loc["dose", "statistic"] == pytest.approx(gap @ np.linalg.solve(D @ V @ D.T, gap), rel=1e-5)


def test_the_test_of_proportional_odds_has_its_level_and_power():
    draws, p = np.random.default_rng(2), []
    for _ in range(60):
        x = draws.normal(size=(300, 2))
        y = np.digitize(x @ [1.0, -0.5] + draws.logistic(size=300), [-1.0, 0.5])
        fit = tl.OrdinalClassifier(surrogate="cumulative-link", alpha=0).fit(x, y)
        p.append(proportional_odds(fit, x, y).loc["all", "p"])
    assert np.mean(np.array(p) < 0.1) < 0.1 + 4 * np.sqrt(0.09 / 60)
    assert 0.3 < np.mean(p) < 0.7
    other = np.column_stack([x[:, 0], x[:, 1] > 0])
    spread = np.digitize(x[:, 0] + (0.3 + 2 * other[:, 1]) * draws.logistic(size=300), [-1.0, 0.5])
    fit = tl.OrdinalClassifier(surrogate="cumulative-link", alpha=0).fit(other, spread)
    assert proportional_odds(fit, other, spread).loc["all", "p"] < 0.01


def partial_by_hand(kind, nominal):
    """The maximum of the likelihood of partial odds, and its Hessian there by differences: (w shared, w nominal by threshold, thresholds)."""
    x, m = X.to_numpy(), len(nominal)
    shared = [c for c in range(3) if c not in nominal]
    cdf = {"logit": stats.logistic.cdf, "loglog": stats.gumbel_r.cdf}[kind]

    def loss(t):
        w, own, cuts = t[: 3 - m], t[3 - m : -3].reshape(m, 3), t[-3:]
        F = cdf(cuts - (x[:, shared] @ w)[:, None] - x[:, nominal] @ own)
        bounds = np.column_stack([np.zeros(400), F, np.ones(400)])
        p = bounds[np.arange(400), Y + 1] - bounds[np.arange(400), Y]
        return -np.log(p).sum() if (p > 0).all() else 1e10

    start = np.concatenate([np.zeros(3 - m + 3 * m), [-1.0, 0.2, 1.4]])
    found = optimize.minimize(loss, start, method="BFGS", options={"gtol": 1e-5}).x
    eye = 1e-4 * np.eye(len(found))
    H = [
        [(loss(found + a + b) - loss(found + a - b) - loss(found - a + b) + loss(found - a - b)) / 4e-8 for a in eye]
        for b in eye
    ]
    return found, np.array(H), loss(found)


@pytest.mark.filterwarnings("ignore:coef_ of a cumulative link")
@pytest.mark.parametrize("link", ["logit", "loglog"])
@pytest.mark.parametrize("nominal", [["dose"], [2, 0]])
def test_partial_proportional_odds_are_the_maximum_by_hand(link, nominal):
    places = sorted(X.columns.get_loc(c) if isinstance(c, str) else c for c in nominal)
    found, H, _ = partial_by_hand(link, places)
    model = ordinal(link, nominal=nominal).fit(X, Y)
    ours = model.summary(X, Y)
    np.testing.assert_allclose(ours["estimate"], found, atol=1e-4)
    np.testing.assert_allclose(ours["standard error"], np.sqrt(np.diag(np.linalg.inv(H))), rtol=1e-3)
    assert ours.index[3 - len(places)] == f"0|1: {X.columns[places[0]]}"
    shared = [c for c in range(3) if c not in places]
    assert np.ptp(model.coef_[:, shared], axis=0).max() == 0
    assert np.ptp(model.coef_[:, places], axis=0).min() > 0.01
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)
    sandwich = model.summary(X, Y, covariance="sandwich")
    assert (np.abs(sandwich["standard error"] / ours["standard error"] - 1) < 0.4).all()


@pytest.mark.filterwarnings("ignore:coef_ of a cumulative link")
def test_partial_odds_lie_between_shared_and_separate_weights():
    every = ordinal(nominal=[0, 1, 2]).fit(X, Y)
    separate = ordinal(shared=False).fit(X, Y)
    np.testing.assert_allclose(every.coef_, separate.coef_, atol=1e-5)
    np.testing.assert_allclose(ordinal(nominal=[]).fit(X, Y).coef_[0], ordinal().fit(X, Y).coef_[0], atol=1e-5)
    assert every.summary(X, Y).shape[0] == separate.summary(X, Y).shape[0] == 12
    thresholds = tl.OrdinalClassifier(nominal=["dose"]).fit(X, Y)  # all-thresholds, with a penalty
    assert thresholds.solution_.converged
    assert thresholds.coef_.shape == (3, 3)


def test_likelihood_ratios_of_nested_fits():
    small, large = ordinal().fit(X, Y), ordinal(nominal=["dose"]).fit(X, Y)
    table = likelihood_ratio(small, large, X, Y)
    theirs = OrderedModel(Y, X.to_numpy(), distr="logit").fit(method="newton", disp=0)
    assert table.loc["smaller", "log-likelihood"] == pytest.approx(theirs.llf, abs=1e-6)
    assert table.loc["smaller", "AIC"] == pytest.approx(theirs.aic, abs=1e-5)
    assert table.loc["larger", "log-likelihood"] == pytest.approx(-partial_by_hand("logit", [1])[2], abs=1e-5)
    assert table["parameters"].tolist() == [6, 8]
    statistic = 2 * table["log-likelihood"].diff()["larger"]
    assert table.loc["larger", "p"] == pytest.approx(stats.chi2.sf(statistic, 2))
    each = proportional_odds(small, X, Y, method="likelihood-ratio")
    assert each.loc["dose", "statistic"] == pytest.approx(statistic)
    assert each["degrees of freedom"].tolist() == [6, 2, 2, 2]
    few = X[["age", "sex"]]
    table = likelihood_ratio(ordinal().fit(few, Y), small, X, Y, X_smaller=few)
    assert table.loc["larger", "p"] < 1e-6


def test_the_likelihood_ratio_has_its_level():
    draws, p = np.random.default_rng(4), []
    for _ in range(40):
        x = draws.normal(size=(250, 2))
        y = np.digitize(x @ [1.0, -0.5] + draws.logistic(size=250), [-1.0, 0.5])
        fit = tl.OrdinalClassifier(surrogate="cumulative-link", alpha=0).fit(x, y)
        p.append(proportional_odds(fit, x, y, method="likelihood-ratio").loc["x0", "p"])
    assert np.mean(np.array(p) < 0.1) < 0.1 + 4 * np.sqrt(0.09 / 40)
    assert 0.3 < np.mean(p) < 0.7


def test_formulas_make_the_columns_of_R():
    frame = pd.DataFrame({"dose": [1.0, 2.0, 4.0, 3.0], "clinic": ["b", "a", "c", "a"]})
    formula = tl.Formula("dose + clinic + I(dose**2)")
    made = formula.fit_transform(frame)
    assert (
        made.columns.tolist()
        == formula.get_feature_names_out().tolist()
        == ["dose", "clinic[T.b]", "clinic[T.c]", "I(dose ** 2)"]
    )
    np.testing.assert_array_equal(formula.transform(frame.iloc[2:]), made.iloc[2:])
    np.testing.assert_array_equal(formula.transform(frame.iloc[1:2])["clinic[T.c]"], [0])
    pipeline = make_pipeline(tl.Formula("age * dose"), ordinal()).fit(X, Y)
    table = pipeline[-1].summary(pipeline[0].transform(X), Y)
    by_hand = X[["age", "dose"]].assign(both=X["age"] * X["dose"])
    np.testing.assert_allclose(table["estimate"], ordinal().fit(by_hand, Y).summary(by_hand, Y)["estimate"], atol=1e-6)
    assert table.index[2] == "age:dose"
    for bad, words in [
        ("y ~ dose", "right-hand side"),
        ("dose + nope", "does not fit X: .*nope"),
        (3, "must be a string"),
    ]:
        with pytest.raises(ValueError, match=words):
            tl.Formula(bad).fit(frame)
    with pytest.raises(ValueError, match=r"does not fit X: .*d"):
        formula.transform(frame.assign(clinic="d"))
    with pytest.raises(ValueError, match=r"does not fit X: .*null"):
        formula.fit(frame.assign(dose=[1.0, np.nan, 2.0, 3.0]))
    with pytest.raises(ValueError, match="X must be a data frame"):
        formula.fit(np.eye(3))


def as_printed(found, text):
    """Equal to numbers as they are printed: to half a unit of the last place of each, and rounding."""
    for value, word in zip(np.asarray(found), text.split(), strict=True):
        unit = float(Decimal(1).scaleb(Decimal(word).as_tuple().exponent))
        assert abs(value - float(word)) <= 0.5 * unit + 1e-7 * abs(value), f"{value} is not {word}"


def proportional_by_hand(x, codes, weights):
    """Newton's method on the likelihood of proportional odds for three labels, until steps are of the size of rounding."""
    x, codes, weights = np.asarray(x, dtype=float), np.asarray(codes), np.asarray(weights, dtype=float)
    d = x.shape[1]
    theta = np.concatenate([np.zeros(d), [-0.5, 0.5]])
    J = np.stack([np.column_stack([-x, np.tile(row, (len(x), 1))]) for row in np.eye(2)], axis=1)  # of both scores
    upper, lower = np.array([[1, 0], [0, 1], [0, 0]])[codes], np.array([[0, 0], [1, 0], [0, 1]])[codes]
    for _ in range(30):
        F = stats.logistic.cdf(J @ theta)
        f, df = F * (1 - F), F * (1 - F) * (1 - 2 * F)
        p = ((upper - lower) * F).sum(1) + (codes == 2)
        slope = (upper - lower) * f / p[:, None]
        curve = ((upper - lower) * df / p[:, None])[:, :, None] * np.eye(2) - slope[:, :, None] * slope[:, None]
        gradient = np.einsum("n,nkp,nk->p", weights, J, slope)
        step = np.linalg.solve(np.einsum("n,nkp,nkl,nlq->pq", weights, J, curve, J), gradient)
        theta = theta - step
        if np.abs(step).max() < 1e-13:
            return theta
    raise AssertionError("Newton's method did not end")


@pytest.mark.skipif(root() is None, reason="the data sets are absent")
def test_housing_as_published():
    """polr(Sat ~ Infl + Type + Cont, weights = Freq, data = housing), as MASS prints it."""
    data = pd.read_csv(root() / "ordinal" / "mass_housing" / "mass_housing.csv")
    data["Sat"] = pd.Categorical(data["Sat"], ["Low", "Medium", "High"], ordered=True)
    x = pd.get_dummies(data[["Infl", "Type", "Cont"]]).astype(float)
    x = x[["Infl_Medium", "Infl_High", "Type_Apartment", "Type_Atrium", "Type_Terrace", "Cont_High"]]
    model = ordinal(order=["Low", "Medium", "High"]).fit(x, data["Sat"], sample_weight=data["Freq"])
    found = model.summary(x, data["Sat"], data["Freq"])
    np.testing.assert_allclose(
        found["estimate"], proportional_by_hand(x, data["Sat"].cat.codes, data["Freq"]), atol=1e-7
    )
    # the maximum has -0.572350002 where -0.5724 is printed: right, and a fit that stops a little sooner prints -0.5723
    as_printed(found["estimate"], "0.5664 1.2888 -0.5724 -0.3662 -1.0910 0.3603 -0.4961 0.6907")
    as_printed(found["standard error"], "0.10465 0.12716 0.11924 0.15517 0.15149 0.09554 0.1248 0.1255")
    as_printed(found["z"], "5.412 10.136 -4.800 -2.360 -7.202 3.771 -3.9739 5.5049")
    assert 2 * data["Freq"].sum() * model.solution_.value == pytest.approx(3479.149, abs=1e-3)


@pytest.mark.skipif(root() is None, reason="the data sets are absent")
def test_wine_as_published():
    """clm(rating ~ temp + contact, data = wine), as the vignette of R's ordinal prints it."""
    data = pd.read_csv(root() / "ordinal" / "r_wine" / "r_wine.csv")
    x = pd.DataFrame({"tempwarm": (data["temp"] == "warm") * 1.0, "contactyes": (data["contact"] == "yes") * 1.0})
    model = ordinal().fit(x, data["rating"])
    found = model.summary(x, data["rating"])
    as_printed(found["estimate"], "2.5031 1.5278 -1.3444 1.2508 3.4669 5.0064")
    as_printed(found["standard error"], "0.5287 0.4766 0.5171 0.4379 0.5978 0.7309")
    as_printed(found["z"], "4.735 3.205 -2.600 2.857 5.800 6.850")
    as_printed(found["p"][:2], "2.19e-06 0.00135")
    assert -72 * model.solution_.value == pytest.approx(-86.49, abs=5e-3)
    # clm(rating ~ temp, nominal = ~ contact), whose nominal effects are those on thresholds; and anova of the two
    partial = ordinal(nominal=["contactyes"]).fit(x, data["rating"])
    found = partial.summary(x, data["rating"])
    contact, cuts = "1.6151 1.5116 1.6748 1.0506", "-1.3230 1.2464 3.5500 4.6602"
    as_printed(found["estimate"], f"2.519 {contact} {cuts}")
    as_printed(found["standard error"], "0.535 1.1618 0.5906 0.6488 0.8965 0.5623 0.4748 0.6560 0.8604")
    ratio = likelihood_ratio(model, partial, x, data["rating"]).loc["larger"]
    np.testing.assert_allclose(ratio, [9, -86.209, 190.42, 0.5667, 3, 0.904], atol=5e-3)
    each = proportional_odds(model, x, data["rating"], method="likelihood-ratio")
    assert each["p"].isna().tolist() == [True, True, False]  # temp separates the lowest rating, as R warns


def separated(kind):
    x = np.linspace(-1, 1, 60)[:, None] + np.zeros((60, 2))
    x[:, 1] = rng.normal(size=60)
    y = {
        "two": x[:, 0] > 0,
        "three": np.digitize(x[:, 0], [-0.3, 0.3]),
        "nearly": (x[:, 0] > 0) | (x[:, 0] == x[29, 0]),
    }[kind]
    return x, y


BAD = {
    "two": (lambda: classifier().fit(*separated("two")), "The features separate the labels"),
    "quasi": (lambda: classifier().fit(*separated("nearly")), "The features separate the labels"),
    "three": (lambda: classifier().fit(*separated("three")), "The features separate the labels"),
    "ordinal": (lambda: ordinal().fit(*separated("three")), "The features separate the labels"),
    "all thresholds": (lambda: tl.OrdinalClassifier(alpha=0).fit(*separated("three")), "The features separate"),
    "penalised": (
        lambda: tl.OrdinalClassifier(surrogate="cumulative-link").fit(X, Y).summary(X, Y),
        "fit with alpha=0",
    ),
    "kernel": (
        lambda: tl.CostSensitiveClassifier(hypothesis="kernel").fit(X, Y).summary(X, Y),
        "no coefficients of the columns",
    ),
    "no likelihood": (
        lambda: tl.OrdinalClassifier(alpha=0).fit(X, Y).summary(X, Y),
        "is no likelihood.*sandwich.*cumulative-link",
    ),
    "kind": (
        lambda: ordinal().fit(X, Y).summary(X, Y, covariance="robust"),
        "covariance must be 'hessian' or 'sandwich'",
    ),
    "level": (lambda: ordinal().fit(X, Y).summary(X, Y, level=95), "level must lie between 0 and 1, got 95"),
    "constant": (
        lambda: (lambda W: ordinal().fit(W, Y).summary(W, Y))(X.assign(none=0.0)),
        "The Hessian is singular: none is not determined",
    ),
    "other data": (lambda: ordinal().fit(X, Y).summary(X, Y[::-1]), "not at its minimum on these data"),
    "lengths": (lambda: ordinal().fit(X, Y).summary(X, Y[:-1]), "different lengths: 400 and 399"),
    "one cluster": (lambda: ordinal().fit(X, Y).summary(X, Y, groups=np.zeros(400)), "at least two of them"),
    "clusters": (
        lambda: ordinal().fit(X, Y).summary(X, Y, groups=np.zeros(4)),
        "one value for each of the 400 examples, got 4",
    ),
    "singular": (
        lambda: (lambda W: ordinal().fit(W, Y).summary(W, Y))(X.assign(twice=2 * X["dose"])),
        "The Hessian is singular: dose, twice are not determined",
    ),
    "no such column": (
        lambda: ordinal(nominal=["weight"]).fit(X, Y),
        "nominal has the name 'weight', but those of X are",
    ),
    "no such place": (lambda: ordinal(nominal=[3]).fit(X, Y), "nominal has the column 3, but X has 3"),
    "twice": (lambda: ordinal(nominal=[1, "dose"]).fit(X, Y), "nominal has a column twice"),
    "no list": (lambda: ordinal(nominal="dose").fit(X, Y), "nominal must be a list of columns"),
    "no thresholds": (
        lambda: tl.OrdinalClassifier(surrogate="multinomial", nominal=[0]).fit(X, Y),
        "nominal names columns whose",
    ),
    "kernel and nominal": (
        lambda: tl.OrdinalClassifier(hypothesis="kernel", nominal=[0]).fit(X, Y),
        "nominal names columns whose",
    ),
    "not nested": (
        lambda: likelihood_ratio(ordinal(nominal=[0]).fit(X, Y), ordinal().fit(X, Y), X, Y),
        "smaller must be nested in larger: it has 8 parameters",
    ),
    "links differ": (
        lambda: likelihood_ratio(ordinal("probit").fit(X, Y), ordinal(nominal=[0]).fit(X, Y), X, Y),
        "smaller must be nested in larger",
    ),
    "no likelihoods": (
        lambda: (lambda m: likelihood_ratio(m, m, X, Y))(tl.OrdinalClassifier(alpha=0, tol=1e-12).fit(X, Y)),
        "smaller was fitted by .*no likelihood",
    ),
    "method": (lambda: proportional_odds(ordinal().fit(X, Y), X, Y, method="score"), "method must be 'brant' or"),
    "odds": (lambda: proportional_odds(ordinal("probit").fit(X, Y), X, Y), "those of the cumulative logit"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of a singular fit
def test_bad_input_gets_a_sentence(name):
    call, sentence = BAD[name]
    with pytest.raises(ValueError, match=sentence):
        call()
