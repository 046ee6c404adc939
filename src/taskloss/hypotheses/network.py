"""Scores that a network makes."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np

from .._checks import check_hyperparameters, check_number, check_whole
from .base import Array, Hypothesis, Inputs
from .trained import SelfTrained, Trained

_PRECISIONS = (None, "bfloat16", "float16")
_OWN = ("module__", "optimizer__")


class Network(Trained):
    """The parameters of `Torch`: constant scores, and the state of its module as arrays by name. Files hold nothing else."""

    def __init__(self, start: np.ndarray, n_inputs: int, state: dict[str, np.ndarray], epochs: int, curve: Any):
        self.start, self.n_inputs, self.state, self.epochs = start, n_inputs, state, epochs
        self.curve = np.asarray(curve, dtype=float)

        self.module: Any = None  # made of the state when it is first asked for

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "module": None}


class Torch(SelfTrained):
    """g(x) = c + module(x): a network of PyTorch, trained by mini-batches on the risk of its scores.

    It needs only the risk's gradient in score space, and so serves every task and every surrogate: the gradient of a batch's risk in
    its scores goes backwards through the module. With ordered labels, `Thresholds(Torch())` is a network of one score
    beside thresholds; with sequences, `Structured(Torch())` is a network of each position's row beside a table of
    transitions. Such a table is fitted exactly after each epoch.

    Parameters
    ----------
    module : what makes the network, called as module(n_inputs, n_scores, ...): a class such as `torch.nn.Linear`, or a function; or a
        module that is made already, of which each fit takes a copy. None is a perceptron with one hidden layer of 100
        units (module__hidden=(100,), module__dropout=0.0).
    optimizer : a class of `torch.optim` or its name, such as "adam", "sgd" or "lbfgs".
    lr : its learning rate.
    max_epochs : passes over the examples. With the estimator's `warm_start`, a fit goes on from the last fit's parameters and
        epochs up to this number.
    batch_size : examples (rows, groups, matchings or sequences) in a step, about: an epoch is cut into even batches.
    device : where the network is trained and predicts: "cpu", "cuda", "cuda:1", "mps", ...
    precision : None, or "bfloat16" or "float16" for mixed precision: the module runs in it where PyTorch holds that safe, and
        parameters stay as they are.
    early_stopping : stop after so many epochs in which the held-out task loss did not improve, and keep the parameters at
        its best; None takes all epochs. What is held out is `validation` of the estimator's fit or else a share of its examples.
    validation_fraction : that share; whole groups, sequences or matchings are held out, and classes in proportion.
    checkpoint : a path to which the training's state is written after each epoch. A fit that finds the file of the same
        fit there, one that was interrupted or killed, goes on from it.
    fit_intercept : add the best constant scores c to the module's.
    random_state : seeds the module's first parameters, the order of the examples, dropout, and the draw of what is held out.
    **params : module__name and optimizer__name go to the module and to the optimizer, as in skorch.

    Notes
    -----
    theta minimises mean_i S(g_theta(x_i), y_i) + alpha/2 |W|^2, as the estimators say, where W are all parameters with two or
    more dimensions: biases and the scales of normalisations are not penalised. `Torch(torch.nn.Linear)` is `Linear` then,
    but for how well it is minimised. Rows of sparse matrices become dense batch by batch. The estimators' tol, max_iter
    and solver do not act on a network.

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
        """What goes on to the module, or to the optimizer."""
        first = f"{part}__"
        return {name.removeprefix(first): value for name, value in self.params.items() if name.startswith(first)}

    def bind(self, inputs: Inputs, weights: np.ndarray | None = None) -> Self:
        self._check()
        return self.with_params()

    def agrees(self, other: Hypothesis) -> bool:
        if not isinstance(other, Torch) or self.params_of("module") != other.params_of("module"):
            return False
        return self.module == other.module or repr(self.module) == repr(other.module)  # a copy says what it is made of

    def _check(self) -> None:
        check_hyperparameters(self)
        check_whole("random_state", self.random_state, 0)
        check_number("lr", self.lr, above=0)
        self._check_stopping("epochs")
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
        return scores_of(theta.module, inputs, self.precision) + theta.start

    def expand(self, theta: Array) -> Array:
        raise AttributeError("A network has no coefficients: theta_.state has its parameters by name.")
