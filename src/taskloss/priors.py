"""Label shift: probabilities reweighed to other shares of the labels, and shares estimated from unlabelled examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from ._checks import check_level, check_names, real_array
from .data.labels import _column, _unique, codes_of
from .data.laws import read_laws
from .losses.base import name_array

__all__ = ["PriorEstimate", "estimate_prior", "reweigh"]

_FEWEST = 10  # reference examples needed of each label
_BINS = 10  # of the score in the test of label shift
_REFUTED = 1e-3  # level of the tests that refuse: the rate at which true label shifts are refused
_ROUNDS = 1000  # of expectation maximisation
_ROUNDING = 1e-8  # mean probabilities that differ by less are the same


class PriorEstimate(NamedTuple):
    """Estimated shares of labels, each with an interval: `labels`, `prior`, `low`, `high`. Can be passed as class_prior."""

    labels: np.ndarray
    prior: np.ndarray
    low: np.ndarray
    high: np.ndarray


def reweigh(proba: Any, class_prior: Any, train_prior: Any, labels: Any = None) -> np.ndarray:
    """Probabilities of labels, reweighed from the shares of the labels in the fit to others.

    Parameters
    ----------
    proba : array (n, labels).
    class_prior : the shares of the labels at prediction: numbers in the order of the columns, a mapping from
        label to share, or what `estimate_prior` returns.
    train_prior : the shares in the fit; after undersampling to 50:50, one half each.
    labels : the labels in the order of the columns; None is 0, 1, ...

    Returns
    -------
    array (n, labels): q'(y | x) proportional to q(y | x) class_prior(y) / train_prior(y).

    Notes
    -----
    Exact under label shift, where the law of x given y is the same at fit and prediction: then p'(y | x) is p(x | y)
    p'(y) / p'(x), and p(x | y) is q(y | x) p(x) / p(y).

    References
    ----------
    Saerens, Latinne and Decaestecker, Adjusting the outputs of a classifier to new a priori probabilities, 2002.

    Examples
    --------
    >>> import taskloss as tl
    >>> tl.reweigh([[0.5, 0.5]], class_prior=[0.9, 0.1], train_prior=[0.5, 0.5]).round(3).tolist()
    [[0.9, 0.1]]
    """
    q = real_array("proba", proba, "probabilities")
    if not q.ndim:
        raise ValueError(f"proba must have one column for each label, got {proba!r}.")
    if labels is not None:
        check_names("labels", labels)
    names = np.arange(q.shape[-1]) if labels is None else name_array(labels)
    if len(names) != q.shape[-1]:
        raise ValueError(f"labels names {len(names)} labels, but proba has {q.shape[-1]} columns.")
    what = "columns of proba" if labels is None else "labels"
    prior, trained = (
        read_prior(*given, names, what) for given in (("class_prior", class_prior), ("train_prior", train_prior))
    )
    ratio = prior / trained
    q = np.clip(q, 0.0, None) * ratio
    total = q.sum(-1, keepdims=True)
    return np.where(total > 0, q / np.where(total > 0, total, 1.0), 1 / q.shape[-1])


def read_prior(name: str, prior: Any, labels: np.ndarray, what: str = "labels") -> np.ndarray:
    """Shares in the order of the labels; ValueError where they are not positive or do not sum to one."""
    known = labels.tolist()
    if isinstance(prior, PriorEstimate):
        prior = dict(zip(prior.labels.tolist(), prior.prior.tolist(), strict=True))
    if isinstance(prior, Mapping):
        if set(prior) != set(known):
            raise ValueError(f"{name} must have a share for each of the {what} {known}, got {list(prior)}.")
        prior = [prior[label] for label in known]
    shares = real_array(name, prior, "shares of the labels")
    if shares.shape != (len(known),):
        raise ValueError(f"{name} must have a share for each of the {len(known)} {what}, got shape {shares.shape}.")
    if not (shares > 0).all():
        label = known[int(np.argmin(shares > 0))]
        raise ValueError(
            f"{name} gives the label {label!r} the share {shares.min()}: every share must be above zero; give labels that "
            "hardly occur a small one."
        )
    if abs(shares.sum() - 1) > 1e-3:
        raise ValueError(f"{name} must sum to one, got {shares.tolist()}, which sum to {shares.sum():.6g}.")
    return shares / shares.sum()


def estimate_prior(
    proba: Any,
    proba_ref: Any,
    y_ref: Any,
    *,
    method: str = "em",
    train_prior: Any = None,
    labels: Any = None,
    level: float = 0.95,
) -> PriorEstimate:
    """The shares of the labels among unlabelled examples, with intervals; refused where the estimate is not reliable.

    Parameters
    ----------
    proba : array (n, labels), a classifier's probabilities on the unlabelled examples.
    proba_ref, y_ref : its probabilities on held-out labelled examples, and their labels. Their shares may differ; the
        law of x given y must be that of the unlabelled examples.
    method : "confusion" corrects mean probabilities by those of each label in the reference, valid for any classifier;
        "em" does so after reweighing them to the maximum of the likelihood, which has less variance where they are
        calibrated, and is refused where they are not.
    train_prior : the shares in the fit, for "em"; None is those of y_ref.
    labels : the labels in the order of the columns; None is the sorted ones of y_ref.
    level : the confidence level of each interval.

    Returns
    -------
    PriorEstimate

    Raises
    ------
    ValueError
        where the estimate is not reliable: too few reference examples of a label, probabilities that do not separate
        the labels, examples that no shares of the labels explain (no label shift), and with "em" a maximum outside of
        the reference's 99.9 % interval, which shows that the probabilities are not calibrated.

    Notes
    -----
    With f(x) any function of the probabilities, A[:, y] the mean of f among reference examples of y, and m its mean
    among the unlabelled ones, label shift implies m = A pi. f is the probabilities themselves ("confusion") or, with
    "em", those reweighed to the maximum of the likelihood, which is efficient where they are calibrated. The interval
    comes from the variances of m and of A, so that it holds whether or not the probabilities are calibrated: for two
    labels all pi for which m - A pi is within its errors (Fieller's interval), for more the delta method. The test of
    label shift compares the distribution of the score of the rarest label in ten bins.

    References
    ----------
    Saerens et al. 2002 (EM); Lipton, Wang and Smola, Detecting and correcting for label shift with black box predictors, 2018.
    """
    if not (isinstance(method, str) and method in ("em", "confusion")):
        raise ValueError(f"method must be 'em' or 'confusion', got {method!r}.")
    check_level("level", level)
    q, r, codes, names = _read(proba, proba_ref, y_ref, labels)
    if method == "confusion":
        found, low, high = _interval(q, r, codes, level)
        _check_shift(q, r, codes, found)
        return PriorEstimate(names, found, low, high)
    counts = np.bincount(codes)
    trained = counts / counts.sum() if train_prior is None else read_prior("train_prior", train_prior, names)
    maximum = _maximum(q / trained)
    safe = np.maximum(maximum, 1e-9)
    f, g = (reweigh(law, safe / safe.sum(), trained) for law in (q, r))
    found, low, high = _interval(f, g, codes, level)
    _check_shift(q, r, codes, found)
    _check_calibrated(maximum, *_interval(f, g, codes, 1 - _REFUTED)[1:], names)
    return PriorEstimate(names, found, low, high)


def _read(proba: Any, proba_ref: Any, y_ref: Any, labels: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Both laws, the codes of the reference's labels, and the labels; or one sentence on what does not fit together."""
    q, r, y = read_laws("proba", proba), read_laws("proba_ref", proba_ref), _column(y_ref, "y_ref")
    if labels is not None:
        check_names("labels", labels)
    names = _unique(y, "y_ref") if labels is None else name_array(labels)
    if q.shape[1] != len(names) or r.shape[1] != len(names) or len(r) != len(y):
        raise ValueError(
            f"proba and proba_ref must have a column for each of the {len(names)} labels, and proba_ref a row for each of the {len(y)} "
            f"labels of y_ref; got shapes {q.shape} and {r.shape}."
        )
    if len(q) < 2:
        raise ValueError(f"proba must have at least two rows, to tell shares from, got {len(q)}.")
    codes = codes_of(y, names, "label", "y_ref")
    counts = np.bincount(codes, minlength=len(names))
    if counts.min() < _FEWEST:
        label = names.tolist()[int(np.argmin(counts))]
        raise ValueError(
            f"y_ref has {counts.min()} examples of the label {label!r}: at least {_FEWEST} of each label are needed."
        )
    return q, r, codes, names


def _check_calibrated(maximum: np.ndarray, least: np.ndarray, most: np.ndarray, names: np.ndarray) -> None:
    """ValueError where the maximum of the likelihood lies outside of what the reference allows."""
    outside = (maximum < least) | (maximum > most)
    if outside.any():
        j = int(np.argmax(outside))
        raise ValueError(
            f"The maximum of the likelihood of proba gives the label {names.tolist()[j]!r} the share {maximum[j]:.4g}, and proba_ref with y_ref allows shares from "
            f"{least[j]:.4g} to {most[j]:.4g}: the probabilities are not calibrated. Calibrate them, pass the train_prior of the fit, or "
            "use method='confusion'."
        )


def _maximum(ratios: np.ndarray) -> np.ndarray:
    """argmax of mean_i log <pi, ratios_i> over the simplex, by expectation maximisation; concave in pi."""
    pi = np.full(ratios.shape[1], 1 / ratios.shape[1])
    for _ in range(_ROUNDS):
        weights = ratios * pi
        new = (weights / weights.sum(1, keepdims=True)).mean(0)
        done = np.abs(new - pi).max() < 1e-10
        pi = new
        if done:
            break
    return pi


def _interval(
    f: np.ndarray, g: np.ndarray, codes: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """pi with m = A pi, and its interval from the variances of m and A."""
    k = f.shape[1]
    parts = [g[codes == y] for y in range(k)]
    A = np.stack([part.mean(0) for part in parts], axis=1)
    spread = [np.cov(part.T) / len(part) for part in parts]
    m, spread_m = f.mean(0), np.cov(f.T) / len(f)
    quantile = stats.norm.ppf((1 + level) / 2)
    refused = ValueError(
        "proba and proba_ref do not tell the labels of y_ref apart well enough to estimate their shares: use a better "
        "classifier, or more reference examples."
    )
    if k == 2:
        # |d(p)| <= z s(p) with d(p) = (m - a0) - p (a1 - a0) and s(p)^2 = s_m + (1 - p)^2 s_0 + p^2 s_1: a quadratic in p.
        gap, slope = m[1] - A[1, 0], A[1, 1] - A[1, 0]
        s_m, s_0, s_1 = spread_m[1, 1], spread[0][1, 1], spread[1][1, 1]
        z2 = quantile**2
        a, b, c = slope**2 - z2 * (s_0 + s_1), -2 * gap * slope + 2 * z2 * s_0, gap**2 - z2 * (s_m + s_0)
        disc = b * b - 4 * a * c
        if a <= _ROUNDING**2 or disc < 0:  # Fieller's set is unbounded: all shares, or all but an interval
            raise refused
        ends = np.clip((-b + np.array([-1, 1]) * np.sqrt(disc)) / (2 * a), 0, 1)
        share = float(np.clip(gap / slope, 0, 1))
        return np.array([1 - share, share]), np.array([1 - ends[1], ends[0]]), np.array([1 - ends[0], ends[1]])
    square = np.vstack([A[:-1], np.ones(k)])  # the last equation follows from the others; the shares sum to one
    values = np.linalg.svd(A, compute_uv=False)
    if values[-1] < max(_ROUNDING, 5 * np.sqrt(max(np.trace(s) for s in spread))):
        raise refused
    inverse = np.linalg.inv(square)[:, :-1]
    pi = np.linalg.solve(square, np.append(m[:-1], 1.0))
    cov = spread_m + sum(p * p * s for p, s in zip(pi, spread, strict=True))
    half = quantile * np.sqrt(np.diag(inverse @ cov[:-1, :-1] @ inverse.T))
    low, high = np.clip(pi - half, 0, 1), np.clip(pi + half, 0, 1)
    pi = np.clip(pi, 0, None)
    return pi / pi.sum(), low, high


def _check_shift(q: np.ndarray, r: np.ndarray, codes: np.ndarray, pi: np.ndarray) -> None:
    """ValueError where a chi-square test on bins of the rarest label's score rejects label shift."""
    j = int(np.argmin(pi))
    edges = np.unique(np.quantile(q[:, j], np.linspace(0, 1, _BINS + 1)[1:-1]))

    def histogram(values: np.ndarray) -> np.ndarray:
        return np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1) / len(values)

    laws = np.stack([histogram(r[codes == y, j]) for y in range(len(pi))])
    counts = np.bincount(codes)
    expected, found = pi @ laws, histogram(q[:, j])
    mean = np.clip((expected + found) / 2, 1e-12, None)
    variance = mean / len(q) + (pi**2 / counts) @ np.clip(laws, 0, None)
    used = variance > 0
    value = (((found - expected) ** 2)[used] / variance[used]).sum()
    freedom = int(used.sum()) - len(pi)
    if freedom > 0 and stats.chi2.sf(value, freedom) < _REFUTED:
        raise ValueError(
            "No shares of the labels explain proba: given the label of y_ref its examples differ from those of proba_ref, so that more than the "
            "shares has shifted. Label some of them."
        )
