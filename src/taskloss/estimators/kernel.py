"""Kernel ridge regression for any loss on any outputs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, _num_samples, check_is_fitted, validate_data

from .._checks import check_hyperparameters, real_array
from ..data.weights import example_weights
from ..hypotheses.base import row_blocks
from ..hypotheses.gram import gram, spectrum
from ..losses.base import Loss
from ..model_files import Portable
from ..solvers.base import Progress
from .base import check_lengths, keep, resolve_loss
from .weighing import Embedded, Listed, as_rows, like_rows

_GRID = 19  # strengths of penalty that are compared where none is given
_BLOCK = 1 << 24  # kernel values that are held at one time when predicting


class KernelPredictor(Portable, BaseEstimator):
    """f(x) = argmin_z sum_i a_i(x) L(z, y_i): the quadratic surrogate by kernel ridge regression, for any loss.

    The weights a(x) are those with which kernel ridge regression would average any numbers in the place of the y_i,
    so that L is only ever evaluated, never decomposed: outputs may be strings, sets, rankings, or points on a sphere.
    For a loss with an embedding it equals ridge regression on phi(y), decoded. With the intercept the weights sum to
    one.

    Parameters
    ----------
    loss : a callable L(z, y) that returns a number, a loss of this library or its name, or a matrix of costs. For losses
        on rankings, matchings and sequences y has one row per example: the relevance of each item, the column of each
        row, or the labels of a sequence, all of one length.
    kernel, gamma, degree, coef0, kernel_params, fit_intercept : as in `hypotheses.Kernel`. With a callable kernel the
        inputs may be any objects: k(A, B) takes two sequences of them.
    alpha : strength of the penalty, above zero (scikit-learn's KernelRidge calls n alpha so), or "loo": the one of
        `alphas` whose leave-one-out risk, of the task loss itself, is least. The whole path costs one
        eigendecomposition.
    alphas : the strengths to compare; None is a grid over nine decades, in units of the mean of k(x, x).
    candidates : the outputs to choose from; None is the distinct y_i, or for a loss of this library all its outputs
        (for sequence 0-1 loss, where these are too many to list, the distinct y_i).
    decoder : a callable (weights, labels) -> z that minimises sum_j weights[j] L(z, labels[j]) in its own way, over the
        distinct labels seen; it takes the place of the candidates.
    refine : a callable (z, objective) -> z that improves the best candidate in a continuous space of outputs, where
        objective(z) is the weighted loss. Leave-one-out risk is that of the candidates, before refinement.
    vectorised : the callable loss takes sequences Z and Y and returns all len(Z) x len(Y) losses.
    verbose : show progress.

    Attributes
    ----------
    alpha_, alphas_, loo_risks_ : the strength in use, those compared, and their leave-one-out risks.
    labels_, classes_ : the labels in the order of the loss's columns; where the loss is a callable, the distinct ones seen.
    """

    def __init__(
        self,
        loss: Any = "zero-one",
        kernel: Any = "rbf",
        *,
        alpha: Any = "loo",
        alphas: Any = None,
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict | None = None,
        fit_intercept: bool = True,
        candidates: Sequence | None = None,
        decoder: Callable | None = None,
        refine: Callable | None = None,
        vectorised: bool = False,
        verbose: bool = False,
    ):
        keep(self, locals())

    # -- fitting -----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to X and y, one output of any type per row; leave-one-out risk is weighed as the examples are."""
        fresh = copy.copy(self)  # a fit that fails must not change what an earlier one learned
        fresh._fit(X, y, sample_weight)
        self.__dict__.update(fresh.__dict__)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        alphas = self._check_alphas()
        X = self._inputs(X, fitting=True)
        n = len(X) if not hasattr(X, "shape") else X.shape[0]
        if y is None:
            raise ValueError("This estimator requires y to be passed, but the target y is None.")
        if _num_samples(y) != n:
            raise ValueError(f"X and y have different lengths: {n} and {_num_samples(y)}.")
        if n < 2:
            raise ValueError(f"At least two examples are needed, got n_samples = {n}.")
        task = self._task(self.loss, y)
        self.gram_ = gram(self.kernel, X, self.gamma, self.degree, self.coef0, self.kernel_params)
        k = np.array(self.gram_(X), dtype=float)
        scale = float(np.trace(k)) / n
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        self._weights = weights * (n / weights.sum())
        self._values, self._vectors, self._mean = spectrum(k, self.fit_intercept, self._weights)
        self._y, self._fitted = y, task
        self.alphas_ = alphas if alphas is not None else np.logspace(-8, 1, _GRID) * max(scale, 1e-300)
        self.loo_risks_ = self._path(task) if alphas is None or len(alphas) > 1 else np.full(1, np.nan)
        best = np.flatnonzero(self.loo_risks_ <= np.nanmin(self.loo_risks_)) if len(self.alphas_) > 1 else [0]
        self.alpha_ = float(self.alphas_[best[-1]])  # of equal risks the strongest penalty
        self._targets = self._solve(task.targets, self.alpha_)
        return self

    def _check_alphas(self) -> np.ndarray | None:
        check_hyperparameters(self)
        given = self.alphas if isinstance(self.alpha, str) else [self.alpha]
        if isinstance(self.alpha, str) and self.alpha != "loo":
            raise ValueError(f"alpha must be a number above zero or 'loo', got {self.alpha!r}.")
        if given is None:
            return None
        alphas = np.sort(real_array("alpha", given).ravel())
        if not len(alphas) or not (np.isfinite(alphas).all() and alphas[0] > 0):
            raise ValueError(
                f"alpha must be finite and above zero, got {np.asarray(given).tolist()}: without a penalty the weights only "
                "repeat the training outputs."
            )
        return alphas

    def _inputs(self, X: Any, fitting: bool) -> Any:
        if callable(self.kernel):
            if hasattr(X, "shape"):
                return X
            return as_rows(X)
        return validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=fitting)

    def _task(self, loss: Any, y: Any) -> Embedded | Listed:
        if callable(loss) and not isinstance(loss, Loss | type):
            return Listed(loss, y, self.candidates, self.decoder, self.vectorised, self._progress("loss"))
        task = Embedded(resolve_loss(loss), y)
        if self.candidates is None and self.decoder is None and task.decodes:
            return task
        return Listed(task.table, y, self.candidates, self.decoder, True, self._progress("loss"))

    def _progress(self, what: str) -> Progress | None:
        return Progress(f"{type(self).__name__} {what}", 1.0) if self.verbose else None

    # -- the path: with R = U (S + n alpha)^-1 U' and D the roots of the weights, residuals are n alpha D^-1 R D y, and
    # without example i they are D^-1 R D y / R_ii

    def _solve(self, targets: np.ndarray, alpha: float) -> np.ndarray:
        """Coefficients on the kernel's centres, and in the last row the intercepts."""
        n, root = len(targets), np.sqrt(self._weights)[:, None]
        c = root * (self._vectors @ ((self._vectors.T @ (root * targets)) / (self._values + n * alpha)[:, None]))
        mean = self._weights @ targets / n
        intercept = mean - self._mean @ c if self.fit_intercept else np.zeros(c.shape[1])
        return np.vstack([c, intercept])

    def _path(self, task: Embedded | Listed) -> np.ndarray:
        """The leave-one-out risk of the task loss at each strength."""
        progress = self._progress("path")
        shrunk = 1 / (self._values[:, None] + len(self._values) * self.alphas_)
        diagonals = np.vstack([self._vectors[rows] ** 2 @ shrunk for rows in row_blocks(self._vectors, 512)])  # of R
        root = np.sqrt(self._weights)[:, None]
        rotated = self._vectors.T @ (root * task.targets)
        inverse = 1 / np.where(root > 0, root, 1.0)  # without a weight, an example's own residual does not count
        risks = []
        for i in range(len(self.alphas_)):
            residuals = self._vectors @ (rotated * shrunk[:, [i]])
            mu = task.targets - inverse * residuals / diagonals[:, [i]]
            risks.append(float(self._weights @ task.losses(mu)) / len(mu))
            if progress is not None:
                progress.count(i + 1, len(self.alphas_), f"strengths, risk {risks[-1]:.4g}")
        if progress is not None:
            progress.close("The least leave-one-out risk decides.")
        return np.array(risks)

    # -- predicting --------------------------------------------------------------------------------------------------

    def predict_weights(self, X: Any, alpha: float | None = None) -> np.ndarray:
        """a_i(x), one row per example and one column per training point."""
        check_is_fitted(self)
        return self._average(X, np.eye(len(self._weights)), alpha)

    def predict_moments(self, X: Any, alpha: float | None = None) -> np.ndarray:
        """mu(x) = sum_i a_i(x) phi(y_i); for a callable loss phi indicates the distinct labels."""
        check_is_fitted(self)
        return self._average(X, self._fitted.targets, alpha)

    def predict(self, X: Any, loss: Any = None, alpha: float | None = None, costs: Any = None) -> Any:
        """The outputs of least weighted loss.

        loss: another loss on the same outputs; the weights are the same. alpha: another strength of the penalty, from
        the same eigendecomposition. costs: costs that differ per example, an array (n, Z, Y) in the place of the losses
        of Z outputs against Y labels, or (n, Z), a price added to each output.
        """
        task, mu = self._weigh(X, loss, alpha, costs)
        z = task.outputs(task.decode(mu, costs))
        if self.refine is None:
            return z
        return like_rows([self.refine(one, task.objective(row)) for one, row in zip(z, mu, strict=True)], z)

    def expected_loss(self, X: Any, loss: Any = None, costs: Any = None) -> np.ndarray:
        """The weighted loss of each prediction, an estimate of its expectation; weights of both signs may take it below zero."""
        task, mu = self._weigh(X, loss, None, costs)
        if self.refine is None:
            return task.expected(task.decode(mu, costs), mu, costs)
        z = self.predict(X, loss)
        return np.array([task.objective(row)(one) for one, row in zip(z, mu, strict=True)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Minus the mean task loss; higher is better."""
        z = self.predict(X)
        check_lengths(len(z), y)
        losses = self._fitted.pairwise(z, y)
        return -float(np.average(losses, weights=example_weights(sample_weight, len(losses))))

    def _weigh(self, X: Any, loss: Any, alpha: float | None, costs: Any) -> tuple[Embedded | Listed, np.ndarray]:
        """What is to be decided, and the moments to decide it by."""
        check_is_fitted(self)
        if costs is not None and (self.refine is not None or self.decoder is not None):
            raise ValueError("costs are for outputs that can be listed: leave out refine and decoder, or the costs.")
        task = self._fitted if loss is None else self._task(loss, self._y)
        return task, self._average(X, task.targets, alpha)

    def _average(self, X: Any, targets: np.ndarray, alpha: float | None) -> np.ndarray:
        check_is_fitted(self)
        if alpha is not None and not alpha > 0:
            raise ValueError(f"alpha must be finite and above zero, got {alpha!r}.")
        same = alpha is None and targets is self._fitted.targets
        c = self._targets if same else self._solve(targets, self.alpha_ if alpha is None else alpha)
        X = self._inputs(X, fitting=False)
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        step = max(1, _BLOCK // self.gram_.size)
        parts = [self.gram_(X[i : i + step]) @ c[:-1] + c[-1] for i in range(0, n, step)]
        return np.concatenate(parts) if parts else np.zeros((0, c.shape[1]))

    @property
    def labels_(self) -> Any:
        check_is_fitted(self)
        return self._fitted.labels

    @property
    def classes_(self) -> Any:
        return self.labels_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_targets")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags
