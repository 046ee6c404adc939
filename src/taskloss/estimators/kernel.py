"""Kernel ridge regression for any loss on any outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._arguments import check_hyperparameters
from .._checks import check_lengths, real_array
from ..data.weights import example_weights
from ..hypotheses.kernel import Kernel
from ..losses.base import object_rows
from ..model_files import Portable
from ..objectives import Rows, objective
from ..progress import Progress, follow
from ..solvers.base import RidgeForm
from ..solvers.closed import ClosedForm, left_out
from ..surrogates.quadratic import Quadratic
from .base import COSTS, check_features, keep, keep_found, read_features
from .lazily import refuse_collections
from .showing import Shown
from .weighing import Weighing

_GRID = 19  # strengths of penalty that are compared where none is given


class KernelPredictor(Shown, Portable, BaseEstimator):
    """f(x) = argmin_z sum_i a_i(x) L(z, y_i): the quadratic surrogate by kernel ridge regression, for any loss.

    The weights a(x) are those with which kernel ridge regression would average any numbers in the place of the y_i,
    so that L is only ever evaluated, never decomposed: outputs may be strings, sets, rankings, or points on a sphere.
    For a loss with an embedding it equals ridge regression on phi(y), decoded. With the intercept the weights sum to
    one.

    A pickle holds the training inputs, outputs and coefficients, but no n x n matrix: another alpha, or another loss,
    makes the eigendecomposition anew there.

    Parameters
    ----------
    loss : a callable L(z, y) that returns a number, a loss of this library or its name, or a matrix of costs. For losses
        on rankings, matchings and sequences y has one row per example: the relevance of each item, the column of each
        row, or the labels of a sequence, all of one length.
    kernel, gamma, degree, coef0, kernel_params, fit_intercept : as in `hypotheses.Kernel`. With a callable kernel the
        inputs may be any objects: k(A, B) takes two sequences of them.
    alpha : strength of the penalty, above zero (scikit-learn's KernelRidge calls n alpha so), or "auto" (also "loo"): the one of
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
    alpha_, alphas_, loo_risks_, path_scores_ : the strength in use, those compared, their leave-one-out risks, and minus these.
    labels_, classes_ : the labels in the order of the loss's columns; where the loss is a callable, the distinct ones seen.
    """

    def __init__(
        self,
        loss: Any = "zero-one",
        kernel: Any = "rbf",
        *,
        alpha: Any = "auto",
        alphas: Any = None,
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        fit_intercept: bool = True,
        candidates: Sequence[Any] | None = None,
        decoder: Callable[..., Any] | None = None,
        refine: Callable[..., Any] | None = None,
        vectorised: bool = False,
        verbose: bool = False,
    ):
        keep(self, locals())

    # -- fitting -----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to X and y, one output of any type per row; leave-one-out risk is weighed as the examples are."""
        refuse_collections(self, X, y)
        alphas = self._check_alphas()
        X, features = self._read(X)
        n = X.shape[0]
        check_lengths(n, y)
        if n < 2:
            raise ValueError(f"At least two examples are needed, got n_samples = {n}.")
        weights = example_weights(sample_weight, n)
        task = self._weighing(self.loss, y)
        if task.loss.constant_by_output and not self.fit_intercept:
            raise ValueError(
                f"Without an intercept the weights do not sum to one, and {task.loss!r} has a constant for each output: use fit_intercept=True."
            )
        hypothesis = self._hypothesis().bind(X, weights)
        if alphas is None:
            alphas = np.logspace(-8, 1, _GRID) * hypothesis.scale_
        form = _ridge(hypothesis, X, task.targets, weights)
        risks = self._path(task, form, alphas) if len(alphas) > 1 else np.full(1, np.nan)
        best = np.flatnonzero(risks <= np.nanmin(risks)) if len(alphas) > 1 else [0]
        alpha = float(alphas[best[-1]])  # of equal risks the strongest penalty
        coefficients, expanded = hypothesis.expand(form.minimiser(alpha)), hypothesis.expanded()
        keep_found(self, features)
        self.alphas_, self.loo_risks_, self.path_scores_, self.alpha_ = alphas, risks, -risks, alpha
        self._X, self._y, self._weights, self._fitted = X, y, weights, task
        self._bound, self._expanded, self._coefficients = hypothesis, expanded, coefficients
        return self

    def _check_alphas(self) -> np.ndarray | None:
        check_hyperparameters(self)
        if isinstance(self.gamma, str) and self.gamma == "auto":
            raise ValueError("KernelPredictor does not choose gamma: give it a number or 'scale', or search over it.")
        name, given = ("alphas", self.alphas) if isinstance(self.alpha, str) else ("alpha", [self.alpha])
        if isinstance(self.alpha, str) and self.alpha not in ("auto", "loo"):
            raise ValueError(f"alpha must be a number above zero or 'auto', got {self.alpha!r}.")
        if given is None:
            return None
        alphas = np.sort(real_array(name, given).ravel())
        if not len(alphas) or not (np.isfinite(alphas).all() and alphas[0] > 0):
            raise ValueError(
                f"{name} must be finite and above zero, got {np.asarray(given).tolist()}: without a penalty the weights only "
                "repeat the training outputs."
            )
        return alphas

    def _read(self, X: Any) -> tuple[Any, dict[str, Any]]:
        """The inputs of a fit, and what the estimator is to know of their features; with a callable kernel any objects."""
        if callable(self.kernel):
            return X if hasattr(X, "shape") else object_rows(X), {}
        return check_features(self, X, self._hypothesis())

    def _hypothesis(self) -> Kernel:
        return Kernel(self.kernel, self.gamma, self.degree, self.coef0, self.kernel_params, self.fit_intercept)

    def _weighing(self, loss: Any, y: Any) -> Weighing:
        progress = self._progress("loss")
        return Weighing(loss, y, self.candidates, self.decoder, self.refine, self.vectorised, progress)

    def _progress(self, what: str) -> Progress | None:
        return follow(f"{type(self).__name__} {what}", 1.0, self.verbose)

    def _path(self, task: Weighing, form: RidgeForm, alphas: np.ndarray) -> np.ndarray:
        """The leave-one-out risk of the task loss at each strength."""
        progress = self._progress("path")
        risks = []
        for mu in left_out(form, alphas):
            risks.append(float(form.weights @ task.left_out_losses(mu)))
            if progress is not None:
                progress.count(len(risks), len(alphas), f"strengths, risk {risks[-1]:.4g}")
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

    __metadata_request__predict: ClassVar = COSTS
    __metadata_request__score: ClassVar = COSTS

    def predict(self, X: Any, loss: Any = None, alpha: float | None = None, costs: Any = None) -> Any:
        """The outputs of least weighted loss.

        loss: another loss on the same outputs; the weights are the same. alpha: another strength of the penalty, from
        the same eigendecomposition. costs: costs that differ per example, an array (n, Z, Y) in the place of the losses
        of Z outputs against Y labels, or (n, Z), a price added to each output.
        """
        task, mu = self._weigh(X, loss, alpha, costs)
        return task.decide(mu, costs)

    def expected_loss(self, X: Any, loss: Any = None, costs: Any = None) -> np.ndarray:
        """The weighted loss of each prediction, an estimate of its expectation; weights of both signs may take it below zero."""
        task, mu = self._weigh(X, loss, None, costs)
        return task.expected(mu, costs)

    def score(self, X: Any, y: Any, sample_weight: Any = None, costs: Any = None) -> float:
        """Minus the mean task loss; higher is better. costs: as in `predict`; decisions are made for them, and judged by them."""
        z = self.predict(X, costs=costs)
        check_lengths(len(z), y)
        losses = self._fitted.losses(z, y, costs)
        return -float(np.average(losses, weights=example_weights(sample_weight, len(losses))))

    def _weigh(self, X: Any, loss: Any, alpha: float | None, costs: Any) -> tuple[Weighing, np.ndarray]:
        """What is to be decided, and the moments to decide it by."""
        check_is_fitted(self)
        if costs is not None and (self.refine is not None or self.decoder is not None):
            raise ValueError("costs are for outputs that can be listed: leave out refine and decoder, or the costs.")
        task = self._fitted if loss is None else self._weighing(loss, self._y)
        return task, self._average(X, task.targets, alpha)

    def _average(self, X: Any, targets: np.ndarray, alpha: float | None) -> np.ndarray:
        """The targets averaged by the weights at X."""
        if alpha is not None and not 0 < alpha < np.inf:
            raise ValueError(f"alpha must be finite and above zero, got {alpha!r}.")
        if callable(self.kernel):
            X = X if hasattr(X, "shape") else object_rows(X)
        else:
            X = read_features(self, X, [np.float64])
        coefficients = self._coefficients
        if alpha is not None or targets is not self._fitted.targets:
            alpha = self.alpha_ if alpha is None else alpha
            hypothesis = self._decomposed()
            coefficients = hypothesis.expand(_ridge(hypothesis, self._X, targets, self._weights).minimiser(alpha))
        return self._expanded.predict(coefficients, X)

    def _decomposed(self) -> Kernel:
        """The kernel with its eigendecomposition, made again after a pickle."""
        if self._bound is None:
            self._bound = self._hypothesis().bind(self._X, self._weights)
        return self._bound

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {**state, "_bound": None} if "_bound" in state else state

    @property
    def lists_labels(self) -> bool:
        """Whether it predicts one of a list of labels, or a set of these, by their moments alone."""
        check_is_fitted(self)
        loss = self._fitted.loss
        own = self.decoder is not None or self.refine is not None
        return loss.kind in ("classes", "indicator") and not loss.takes_objects and not own

    @property
    def labels_(self) -> Any:
        check_is_fitted(self)
        return self._fitted.translator.classes

    @property
    def classes_(self) -> Any:
        return self.labels_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_coefficients")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags


def _ridge(hypothesis: Kernel, X: Any, targets: np.ndarray, weights: np.ndarray) -> RidgeForm:
    """Kernel ridge regression on the targets, for every strength of the penalty."""
    return ClosedForm().form(objective(hypothesis, X, Rows(Quadratic(), targets, weights), 1.0))
