"""From anyone's probabilities, or a fitted model wherever it sits, to moments, decisions and expected losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import NotFittedError

from ._checks import check_names, count_examples
from .data.base import Translator
from .data.costs import by_name, example_costs
from .data.labels import labels_for
from .data.laws import read_laws
from .estimators.base import Decoder, resolve_loss
from .estimators.decoded import DecodedClassifier, arranged, settled
from .estimators.kernel import KernelPredictor
from .losses.base import Loss, name_array
from .model_files import Portable
from .priors import reweigh
from .wrapped import innermost

__all__ = ["Moments", "decide", "expected_loss", "find", "holds_own", "moments_of"]


class Moments(NamedTuple):
    """What decisions are made from: moments mu, one row for each example; the loss, with its size and names, in the
    embedding of mu; and the translator between its codes and the users' own labels.
    """

    mu: np.ndarray
    loss: Loss
    labels: Translator


def decide(
    proba: Any,
    loss: Any = None,
    costs: Any = None,
    labels: Any = None,
    *,
    X: Any = None,
    class_prior: Any = None,
    train_prior: Any = None,
    **params: Any,
) -> Any:
    """The outputs of least expected loss, from probabilities or from a fitted model.

    Parameters
    ----------
    proba : array (n, labels) of probabilities, anyone's: out-of-fold ones, a network's, a file's. For losses on label
        sets the probability of each label. Or a fitted model, together with X: one of this library or any classifier
        with `predict_proba`, bare or inside a pipeline, a search or a FrozenEstimator.
    loss : a loss, its name, or a cost matrix; None is the loss that a model of this library was fitted for, elsewhere 0-1.
    costs : costs that differ per example, as the estimators' `predict` takes them.
    labels : the labels in the order of the columns of `proba`; None is the columns' names where it is a data frame, the
        loss's own names, or 0, 1, ...
    X : inputs of the model, as its own `predict` takes them. Costs that are a function of X or a formula on its columns are
        read from it as it is here, before a pipeline's steps change it; with probabilities it serves for these only.
    class_prior, train_prior : the shares of the labels among these examples, and those that a fit saw, where they differ
        (`taskloss.reweigh`); models of this library know the second from their fit.
    params : what else the `predict` of a model of this library takes, such as groups or parents.

    Returns
    -------
    The outputs by their names, as the estimators' `predict` returns them.

    Notes
    -----
    argmin_z <psi(z), mu> + c(z), ties to the first output: the decisions of `DecodedClassifier` on the same probabilities,
    bit by bit.

    Examples
    --------
    >>> import taskloss as tl
    >>> tl.decide([[0.9, 0.1], [0.6, 0.4]], [[0, 5], [1, 0]], labels=["ham", "spam"]).tolist()
    ['ham', 'spam']
    """
    if not _is_model(proba):
        mu, loss, names = _shifted(moments_of(proba, loss, labels=labels), class_prior, train_prior)
        return names.translate(loss.decode(mu, _read(costs, X, params, loss, names, len(mu))), loss)
    face, inputs = find(proba, X, loss, labels)
    return face.predict(inputs, **_given(face, loss, costs, X, class_prior, train_prior), **params)


def expected_loss(
    proba: Any,
    loss: Any = None,
    costs: Any = None,
    labels: Any = None,
    *,
    X: Any = None,
    class_prior: Any = None,
    train_prior: Any = None,
    **params: Any,
) -> np.ndarray:
    """What each decision of `decide` is expected to cost, from probabilities or from a fitted model; arguments as there.

    Returns
    -------
    One number for each example: min_z <psi(z), mu> + c(z).

    Examples
    --------
    >>> import taskloss as tl
    >>> tl.expected_loss([[0.9, 0.1], [0.6, 0.4]], [[0, 5], [1, 0]]).round(3).tolist()
    [0.5, 0.6]
    """
    if not _is_model(proba):
        mu, loss, names = _shifted(moments_of(proba, loss, labels=labels), class_prior, train_prior)
        costs = _read(costs, X, params, loss, names, len(mu))
        return loss.risk(loss.decode(mu, costs), mu, costs)
    face, inputs = find(proba, X, loss, labels)
    return face.expected_loss(inputs, **_given(face, loss, costs, X, class_prior, train_prior), **params)


def moments_of(source: Any, loss: Any = None, X: Any = None, labels: Any = None, name: str = "proba") -> Moments:
    """The moments that a loss on labels or label sets is decided by, from probabilities or from a fitted model with X; `name` is the
    argument that holds the source."""
    if _is_model(source):
        face, inputs = find(source, X, loss, labels)
        if isinstance(face, KernelPredictor) and face.lists_labels:
            task, mu = face._weigh(inputs, loss, None, None)
            return Moments(mu, task.loss, task.translator)
        if not isinstance(face, Decoder):
            raise ValueError(
                f"{type(face).__name__} has moments of structures and not of single labels: use its own predict and expected_loss."
            )
        loss, mu = face._loss_and_moments(loss, inputs)
        return Moments(mu, loss, face.labels_)
    loss = resolve_loss("zero-one" if loss is None else loss)
    q = read_laws(name, source, loss.kind == "indicator")
    if labels is None and hasattr(source, "columns") and type(source.columns).__name__ != "RangeIndex":
        labels = list(source.columns)
    if labels is not None:
        check_names("labels", labels)
    known = np.arange(q.shape[1]) if labels is None else name_array(labels)
    if len(known) != q.shape[1]:
        raise ValueError(f"labels names {len(known)} labels, but {name} has {q.shape[1]} columns.")
    if len(set(known.tolist())) < len(known):
        raise ValueError(
            f"{'labels' if labels is not None else name} must name each column once, got {known.tolist()}."
        )
    if loss.kind == "indicator":
        sets = [set(known.tolist())] if labels is not None else np.repeat([[0], [1]], len(known), axis=1)
        translator = labels_for(loss, sets, known)
        loss = loss.bind_names(translator.classes).bind(translator.size)
        return Moments(loss.moments(q), loss, translator)
    # A loss that names its labels tells them from columns that nobody has named, in its own order.
    known = known if labels is not None or loss.label_names() is None else loss.label_names()
    loss, translator, columns = settled(loss, known, name="labels")
    return Moments(loss.moments(arranged(q, columns, translator.size)), loss, translator)


def find(model: Any, X: Any, loss: Any = None, labels: Any = None) -> tuple[Any, Any]:
    """The estimator of this library that decides for a fitted model, and the inputs that it takes.

    It is the innermost one, or for classifiers of others a `DecodedClassifier` around the whole.
    """
    if isinstance(model, type):
        raise ValueError(
            f"{model.__name__} is a class: pass probabilities, or a fitted {model.__name__}(...) with X=..."
        )
    if X is None:
        raise ValueError(f"{type(model).__name__} is a model: pass X=..., the inputs that it is to decide for.")
    inner, before = innermost(model)
    if isinstance(inner, Portable):
        if labels is not None:
            raise ValueError(f"{type(inner).__name__} knows its labels from its fit: leave out labels=...")
        for steps in before:
            X = steps.transform(X)
        return inner, X
    if not hasattr(inner, "predict_proba"):
        raise ValueError(
            f"{type(inner).__name__} has no predict_proba: pass probabilities, or a fitted model that has them, such as "
            "CalibratedClassifierCV around it."
        )
    if not hasattr(model, "classes_"):
        raise NotFittedError(f"This {type(model).__name__} is not fitted yet, or no classifier: it has no classes_.")
    return DecodedClassifier(model, "zero-one" if loss is None else loss, prefit=True, order=labels), X


def holds_own(model: Any) -> bool:
    """Whether an estimator of this library decides, bare or inside a pipeline, a search or a FrozenEstimator."""
    return isinstance(innermost(model)[0], Portable)


def _is_model(source: Any) -> bool:
    return hasattr(source, "predict")  # forests are lists of trees, too


def _shifted(found: Moments, class_prior: Any, train_prior: Any) -> Moments:
    """Moments of probabilities, reweighed where shares of the labels are given."""
    if class_prior is None and train_prior is None:
        return found
    if class_prior is None or train_prior is None or found.loss.kind != "classes":
        raise ValueError(
            "Probabilities of single labels are reweighed from the shares of a fit to those in use: give both class_prior and train_prior."
        )
    q = reweigh(found.loss.probabilities(found.mu), class_prior, train_prior, found.labels.classes)
    return found._replace(mu=found.loss.moments(q))


def _given(face: Any, loss: Any, costs: Any, X: Any, class_prior: Any, train_prior: Any) -> dict[str, Any]:
    """What was given of these; the costs as an array, from X as the user has it."""
    if costs is not None:
        costs = face._costs(costs, X, loss) if isinstance(face, Decoder) else costs(X) if callable(costs) else costs
    given = {"loss": loss, "costs": costs, "class_prior": class_prior, "train_prior": train_prior}
    return {name: value for name, value in given.items() if value is not None}


def _read(costs: Any, X: Any, params: dict[str, Any], loss: Loss, labels: Translator, n: int) -> Any:
    """Costs of probabilities that are decided as they are: an array, or read from X."""
    derived = callable(costs) or isinstance(costs, Mapping)
    if params or (X is not None and not derived):
        name = "X" if X is not None and not derived else next(iter(params))
        raise ValueError(f"{name}=... is for a fitted model: probabilities are decided as they are.")
    if derived and X is None:
        raise ValueError("These costs are read from X: pass X=..., one row for each row of probabilities.")
    if not derived:
        return by_name(costs, labels.outputs(loss))
    if count_examples("X", X) != n:
        raise ValueError(f"X has {count_examples('X', X)} rows, from which costs are read, and proba has {n}.")
    return example_costs(X, costs, labels.classes, labels.outputs(loss))
