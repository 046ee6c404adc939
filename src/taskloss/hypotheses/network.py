"""Neural networks in PyTorch as hypotheses."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np

from .._arguments import check_hyperparameters
from .._checks import check_number, check_whole
from .base import Array, Hypothesis, Inputs
from .trained import SelfTrained, Start, Trained

_PRECISIONS = (None, "bfloat16", "float16")
_OWN = ("module__", "optimizer__")


class Network(Trained):
    """The parameters of `Torch`: where it starts from and the state of its module, as arrays by name; only these are pickled."""

    def __init__(
        self,
        start: np.ndarray,
        begun: Start | None,
        n_inputs: int,
        state: dict[str, np.ndarray],
        epochs: int,
        curve: Any,
    ):
        self.start, self.begun, self.n_inputs, self.state, self.epochs = start, begun, n_inputs, state, epochs
        self.curve = np.asarray(curve, dtype=float)
        self.module: Any = None  # built from the state on first use

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "module": None}


class Torch(SelfTrained):
    """g(x) = c + module(x): a PyTorch network, trained by mini-batches on the risk of its scores.

    It works with every task and surrogate, as the gradient of a batch's risk in the scores is backpropagated through
    the module. With ordered labels, `Thresholds(Torch())` has one network score and thresholds; with sequences,
    `Structured(Torch())` has network scores of each position and a table of transitions. Thresholds and transitions are
    refitted exactly after each epoch.

    Parameters
    ----------
    module : a class such as `torch.nn.Linear` or a function, called as module(n_inputs, n_scores, ...); or a module, of
        which each fit trains a copy. None is a perceptron with one hidden layer of 100 units (module__hidden=(100,),
        module__dropout=0.0).
    optimizer : a class of `torch.optim` or its name, such as "adam", "sgd" or "lbfgs".
    lr : its learning rate.
    max_epochs : passes over the examples. With the estimator's `warm_start`, a fit continues from the last fit's
        parameters and epochs, up to this number.
    batch_size : the most examples (rows, groups, matchings or sequences) in a batch; batches of an epoch are of even
        size.
    device : where the network is trained and predicts: "cpu", "cuda", "cuda:1", "mps", ...
    precision : None, or "bfloat16" or "float16" for mixed precision: PyTorch's autocast in the forward pass, with
        parameters in their own precision.
    start : None, or another hypothesis or its name, fitted first to the same risk, under the same alpha: the network goes on from its
        scores, as the trees of `Boosting` do.
    early_stopping : the number of epochs without improvement of the held-out task loss after which training stops, with
        the best parameters kept; None trains for all epochs. Held out is `validation` of the estimator's fit, or else a
        share of its examples.
    validation_fraction : that share; whole groups, sequences or matchings are held out, stratified by class.
    checkpoint : a path to which the state of training is written after each epoch. An interrupted fit resumes from the
        file when it is run again.
    fit_intercept : without a start, add the best constant scores c to the module's.
    random_state : seed of the module's initial parameters, the order of the examples, dropout, and the held-out split.
    **params : module__name and optimizer__name go to the module and to the optimizer, as in skorch.

    Notes
    -----
    theta minimises mean_i S(g_theta(x_i), y_i) + alpha/2 |W|^2, where W are all parameters with two or more dimensions:
    biases and scales of normalisation layers are not penalised. `Torch(torch.nn.Linear)` has the objective of `Linear`,
    minimised less precisely. Rows of sparse matrices become dense batch by batch. The estimators' tol, max_iter and
    solver have no effect on a network.

    Examples
    --------
    >>> import taskloss as tl
    >>> network = tl.hypotheses.Torch(max_epochs=30, early_stopping=5, module__hidden=(64, 64))
    >>> model = tl.OrdinalClassifier(hypothesis=network)
    >>> model.get_params()["hypothesis__module__hidden"]
    (64, 64)
    """

    name = "torch"

    def __init__(
        self,
        module: Any = None,
        optimizer: Any = "adam",
        lr: float = 1e-3,
        max_epochs: int = 50,
        batch_size: int = 128,
        device: str = "cpu",
        precision: str | None = None,
        start: Any = None,
        early_stopping: int | None = None,
        validation_fraction: float = 0.1,
        checkpoint: Any = None,
        fit_intercept: bool = True,
        random_state: int = 0,
        **params: Any,
    ):
        self.module = module
        self.optimizer = optimizer
        self.lr = lr
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.device = device
        self.precision = precision
        self.first = start
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.checkpoint = checkpoint
        self.fit_intercept = fit_intercept
        self.random_state = random_state
        self.params = params

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(max_epochs=5, lr=0.01), cls(optimizer="sgd", max_epochs=5, module__hidden=())]

    def params_of(self, part: str) -> dict[str, Any]:
        """The parameters passed on to the module, or to the optimizer."""
        first = f"{part}__"
        return {name.removeprefix(first): value for name, value in self.params.items() if name.startswith(first)}

    def bind(self, inputs: Inputs, weights: np.ndarray | None = None) -> Self:
        self._check()
        return self.with_params()

    def agrees(self, other: Hypothesis) -> bool:
        if (
            not isinstance(other, Torch)
            or self.begins != other.begins
            or self.params_of("module") != other.params_of("module")
        ):
            return False
        return self.module == other.module or repr(self.module) == repr(
            other.module
        )  # a copy of a module has the same repr

    def _check(self) -> None:
        check_hyperparameters(self)
        check_whole("random_state", self.random_state, 0)
        check_number("lr", self.lr, above=0)
        self._check_stopping("epochs")
        self._check_start()
        if self.precision not in _PRECISIONS:
            raise ValueError(f"precision must be None, 'bfloat16' or 'float16', got {self.precision!r}.")
        if not (self.checkpoint is None or isinstance(self.checkpoint, str | os.PathLike)):
            raise ValueError(f"checkpoint must be a path or None, got {self.checkpoint!r}.")
        unknown = [name for name in self.params if not name.startswith(_OWN)]
        if unknown:
            raise ValueError(
                f"Torch has no parameter {unknown[0]!r}: those of the module and the optimizer begin with module__ and optimizer__."
            )
        if self.module is not None and not callable(self.module):
            raise ValueError(
                f"module must be a class or a function that makes a torch.nn.Module, such a module, or None, got {self.module!r}."
            )

    def train(self, inputs: Inputs, risk: Any, options: Any) -> Any:
        from ..torch.training import Training

        return Training(self, inputs, risk, options).run()

    def predict(self, theta: Network, inputs: Inputs) -> np.ndarray:
        from ..torch.training import restored, scores_of

        if theta.module is None:
            theta.module = restored(self, theta)
        return scores_of(theta.module, inputs, self.precision) + theta.before(inputs)

    def expand(self, theta: Array) -> Array:
        raise AttributeError("A network has no coefficients: theta_.state has its parameters by name.")
