"""LightGBM and XGBoost behind one interface: rounds of trees on given derivatives, a model as text, and its scores."""

from __future__ import annotations

import difflib
import importlib
import json
import warnings
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

# What the hypothesis and the estimator decide: given as a parameter of the library, it would say the same thing twice.
_TAKEN = {
    "the surrogate is the objective": ("objective", "objective_type", "app", "application", "loss", "fobj"),
    "n_estimators is the number of rounds": (
        *("num_iterations", "num_iteration", "n_iter", "num_tree", "num_trees", "num_round", "num_rounds", "nrounds"),
        *("num_boost_round", "max_iter"),
    ),
    "early_stopping is the number of rounds without improvement": (
        *("early_stopping_round", "early_stopping_rounds", "n_iter_no_change"),
    ),
    "learning_rate is the rate": ("eta", "shrinkage_rate"),
    "the task loss is the metric": ("metric", "metrics", "metric_types", "eval_metric", "disable_default_eval_metric"),
    "the number of scores follows from the task": ("num_class", "num_classes", "num_target"),
    "the estimator's class_weight and sample_weight say what examples weigh": (
        *("scale_pos_weight", "is_unbalance", "unbalance", "unbalanced_sets"),
    ),
    "fit_intercept says whether scores start from the best constant": (
        *("base_score", "boost_from_average", "init_score"),
    ),
}


def check_parameters(params: dict[str, Any]) -> None:
    """Refuse, in one sentence, parameters of a library that are decided elsewhere."""
    for reason, names in _TAKEN.items():
        for name in names:
            if name in params:
                raise ValueError(f"Boosting does not take {name}={params[name]!r}: {reason}.")


class Rounds(ABC):
    """An ensemble while it grows."""

    @property
    @abstractmethod
    def scores(self) -> np.ndarray:
        """The sum of all trees at the training rows, (rows, k)."""

    @property
    @abstractmethod
    def held_out(self) -> np.ndarray:
        """The sum of all trees at the held-out rows, (rows, k)."""

    @abstractmethod
    def step(self, gradient: np.ndarray, curvature: np.ndarray) -> bool:
        """Add a tree for each score; whether any of them has a split."""

    @abstractmethod
    def text(self, rounds: int) -> str:
        """The first rounds in the library's own text format."""


class Library(ABC):
    """A library of boosted trees. values: rows as an array or CSR; categorical: columns that hold codes of categories."""

    name: ClassVar[str]
    libraries: ClassVar[dict[str, type[Library]]] = {}

    def __init_subclass__(cls) -> None:
        cls.libraries[cls.name] = cls

    @classmethod
    def resolve(cls, name: Any) -> Library:
        if not isinstance(name, str) or name not in cls.libraries:
            raise ValueError(f"library must be one of {', '.join(map(repr, cls.libraries))}, got {name!r}.")
        return cls.libraries[name]()

    @property
    def module(self) -> Any:
        try:
            return importlib.import_module(self.name)
        except ImportError as error:
            raise ImportError(
                f"Boosting(library={self.name!r}) needs {self.name}, which is not installed: pip install 'taskloss[boosting]'."
            ) from error

    def check_names(self, params: dict[str, Any], n_features: int, own: list[str]) -> None:
        """Refuse names that the library passes over, with the nearest ones that it, or `Boosting` itself (own), has."""
        for name in self.passed_over({k: v for k, v in params.items() if v is not None}, n_features):
            near = difflib.get_close_matches(name, sorted({*self.names, *own}), n=3)
            hint = f"did you mean {', '.join(near)}?" if near else "its own list of parameters has the names."
            version = f"{self.name} {self.module.__version__}"
            raise ValueError(f"{version} makes no use of the parameter {name}={params[name]!r}: {hint}")

    @property
    @abstractmethod
    def names(self) -> set[str]:
        """The library's own parameters and their aliases, as it lists them."""

    @abstractmethod
    def passed_over(self, params: dict[str, Any], n_features: int) -> list[str]:
        """The names among these that would have no effect."""

    @abstractmethod
    def softmax_factor(self, n_scores: int) -> float:
        """What the library's own softmax objective multiplies the diagonal curvature with."""

    @abstractmethod
    def grow(self, params: dict[str, Any], values: Any, categorical: list[int], n_scores: int, held: Any) -> Rounds:
        """A new ensemble on these rows, which also follows its scores at held-out rows, if there are some."""

    @abstractmethod
    def load(self, text: str, threads: int | None) -> Any:
        """The model that a text describes, which several threads of ours may predict with at one time."""

    @abstractmethod
    def predict(self, model: Any, values: Any, categorical: list[int], threads: int | None) -> np.ndarray:
        """The sum of all trees, (rows, k)."""

    @abstractmethod
    def importances(self, model: Any, n_features: int) -> np.ndarray:
        """The total gain of each feature's splits."""


def thread_count(params: dict[str, Any]) -> int | None:
    """The number of threads under any of its names."""
    names = ("n_jobs", "num_threads", "num_thread", "nthread", "nthreads")
    return next((params[name] for name in names if params.get(name) is not None), None)


def _matrix(values: Any) -> Any:
    """Rows as libraries know them, which take sparse matrices and not yet sparse arrays."""
    return sparse.csr_matrix(values) if sparse.issparse(values) else values


class LightGBM(Library):
    """Scores and derivatives lie score by score in memory."""

    name = "lightgbm"

    @property
    def names(self) -> set[str]:
        table = self.module.basic._ConfigAliases._get_all_param_aliases()  # the Python face of LGBM_DumpParamAliases
        return {*table, *(alias for aliases in table.values() for alias in aliases)}

    def passed_over(self, params: dict[str, Any], n_features: int) -> list[str]:
        known = self.names if params else set()
        return [name for name in params if name not in known]

    def softmax_factor(self, n_scores: int) -> float:
        return n_scores / max(n_scores - 1, 1)

    def grow(self, params: dict[str, Any], values: Any, categorical: list[int], n_scores: int, held: Any) -> Rounds:
        return _LightGBMRounds(self.module, params, values, categorical, n_scores, held)

    def load(self, text: str, threads: int | None) -> Any:
        return self.module.Booster(model_str=text)

    def predict(self, model: Any, values: Any, categorical: list[int], threads: int | None) -> np.ndarray:
        limits = {} if threads is None else {"num_threads": threads}
        return np.asarray(model.predict(_matrix(values), raw_score=True, **limits)).reshape(values.shape[0], -1)

    def importances(self, model: Any, n_features: int) -> np.ndarray:
        return model.feature_importance("gain")


class _LightGBMRounds(Rounds):
    def __init__(self, lgb: Any, params: dict[str, Any], values: Any, categorical: list[int], k: int, held: Any):
        params = {"verbosity": -1, **params, "objective": "none", "metric": "none", "num_class": k}

        def data(rows: Any, reference: Any = None) -> Any:
            columns = {} if "categorical_feature" in params else {"categorical_feature": categorical or "auto"}
            labels = np.zeros(rows.shape[0], np.float32)
            return lgb.Dataset(_matrix(rows), label=labels, reference=reference, params=params, **columns)

        train = data(values)
        self.booster, self.rounds = lgb.Booster(params, train), 0
        # Where every column is constant, or too few rows differ, it keeps no feature, and refuses a round.
        self.splits = any(train.feature_num_bin(j) > 1 for j in range(values.shape[1]))
        if held is not None:
            self.booster.add_valid(data(held, train), "held out")

    def _read(self, evaluate: Any) -> np.ndarray:
        """The library hands its running scores to functions that evaluate them."""
        found: list[np.ndarray] = []

        def look(scores: np.ndarray, data: Any) -> tuple[str, float, bool]:
            found.append(scores if scores.ndim == 2 else scores[:, None])
            return "", 0.0, True

        evaluate(look)
        return found[0]

    @property
    def scores(self) -> np.ndarray:
        return self._read(self.booster.eval_train)

    @property
    def held_out(self) -> np.ndarray:
        return self._read(self.booster.eval_valid)

    def step(self, gradient: np.ndarray, curvature: np.ndarray) -> bool:
        if not self.splits:
            return False
        one = gradient.shape[1] == 1
        derivatives = (gradient[:, 0], curvature[:, 0]) if one else (gradient, curvature)
        grew = not self.booster.update(fobj=lambda scores, data: derivatives)
        self.rounds += grew
        return grew

    def text(self, rounds: int) -> str:
        # A first round without a split leaves trees of the constant zero behind, which do not count as a round.
        idle = self.booster.current_iteration() - self.rounds
        return self.booster.model_to_string(num_iteration=rounds + idle)


class XGBoost(Library):
    """Entries that a sparse matrix leaves out are missing to it, and not zero."""

    name = "xgboost"

    @property
    def names(self) -> set[str]:
        def walk(node: dict[str, Any]) -> set[str]:
            return set().union(*(walk(v) if isinstance(v, dict) else {k} for k, v in node.items()))

        row = self.module.DMatrix(np.zeros((1, 1)), label=np.zeros(1), nthread=1)
        return walk(json.loads(self.module.Booster({}, [row]).save_config())) | set(self.module.get_config())

    def passed_over(self, params: dict[str, Any], n_features: int) -> list[str]:
        """It validates names itself, and says so in a warning, which its verbosity of zero would silence."""
        if not params:
            return []
        row = self.module.DMatrix(np.zeros((1, n_features)), label=np.zeros(1), nthread=1)
        given = {**params, "validate_parameters": True, "verbosity": 1}
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                self.module.Booster(given, [row]).save_config()
            except Exception:  # of a value, not of a name: training says it, with the data
                return []
        sentences = " ".join(str(w.message) for w in said)
        return [name for name in params if f'"{name}"' in sentences]

    def softmax_factor(self, n_scores: int) -> float:
        return 2.0

    def grow(self, params: dict[str, Any], values: Any, categorical: list[int], n_scores: int, held: Any) -> Rounds:
        return _XGBoostRounds(self, params, values, categorical, n_scores, held)

    def data(self, values: Any, categorical: list[int], threads: int | None) -> Any:
        types = ["c" if j in categorical else "q" for j in range(values.shape[1])] if categorical else None
        return self.module.DMatrix(
            _matrix(values), feature_types=types, enable_categorical=bool(categorical), nthread=threads
        )

    def load(self, text: str, threads: int | None) -> Any:
        model = self.module.Booster({} if threads is None else {"nthread": threads})
        model.load_model(bytearray(text.encode()))
        model.save_config()  # reads its parameters now: while one thread has it do so, others cannot predict
        return model

    def predict(self, model: Any, values: Any, categorical: list[int], threads: int | None) -> np.ndarray:
        scores = model.predict(self.data(values, categorical, threads), output_margin=True)
        return scores.reshape(values.shape[0], -1).astype(float)

    def importances(self, model: Any, n_features: int) -> np.ndarray:
        out = np.zeros(n_features)
        for name, gain in model.get_score(importance_type="total_gain").items():
            out[int(name[1:])] = gain
        return out


class _XGBoostRounds(Rounds):
    def __init__(
        self, library: XGBoost, params: dict[str, Any], values: Any, categorical: list[int], k: int, held: Any
    ):
        threads = thread_count(params)
        self.train = library.data(values, categorical, threads)
        self.held = None if held is None else library.data(held, categorical, threads)
        sizes = {"num_class": k} if k > 1 else {}
        params = {"verbosity": 0, **params, **sizes, "base_score": 0.0, "disable_default_eval_metric": True}
        known = [self.train] if self.held is None else [self.train, self.held]
        self.k, self.rounds, self.booster = k, 0, library.module.Booster(params, known)
        self.booster.save_config()  # reads the values now, where one that is refused is told from later errors

    def _predict(self, data: Any, training: bool) -> np.ndarray:
        scores = self.booster.predict(data, output_margin=True, training=training)
        return scores.reshape(-1, self.k)

    @property
    def scores(self) -> np.ndarray:
        return self._predict(self.train, True)

    @property
    def held_out(self) -> np.ndarray:
        return self._predict(self.held, False)

    def step(self, gradient: np.ndarray, curvature: np.ndarray) -> bool:
        self.booster.boost(self.train, self.rounds, grad=gradient, hess=curvature)
        self.rounds += 1
        return True

    def text(self, rounds: int) -> str:
        model = self.booster[:rounds] if rounds < self.rounds else self.booster
        return model.save_raw("json").decode()
