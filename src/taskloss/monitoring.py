"""A deployed model's loss: what it expects without labels, what it has cost where labels came in, and alarms."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import stats

from ._arguments import explained
from ._checks import check_level, check_whole, count_examples, real_array, said_of
from .betting import RiseTest, chernoff_interval
from .decisions import find
from .estimators.base import Decoder
from .model_files import Portable
from .wrapped import innermost

__all__ = ["BatchReport", "LossMonitor"]

UNSEEN = (
    "Without labels, only shifts of X that raise the loss which the model expects can be seen. Not seen before labels "
    "come in: labels that change given X (concept shift), and inputs on which the model is sure and wrong."
)
_INTERVAL = 0.95
_KEPT = 1000  # batches whose reports are kept
_FEWEST = 20  # examples of a reference
_KINDS = {
    "expected": "the expected loss has risen: inputs are harder than those of the reference; needs no labels",
    "realised": "the realised loss has risen",
    "excess": "the realised loss exceeds the expected by more than on the reference: labels have changed given X",
}


class BatchReport(NamedTuple):
    """One batch: the loss expected of it, with an interval for its realised mean, and the realised mean of the labels that
    came in, with an interval for the mean that they are drawn from; NaN before the first label.
    """

    batch: int
    examples: int
    expected: float
    expected_low: float
    expected_high: float
    labelled: int
    realised: float
    realised_low: float
    realised_high: float


class LossMonitor:
    """Watches the loss of a fitted model batch by batch, and says when it has risen above that of a reference.

    Parameters
    ----------
    model : a fitted model of labels or label sets, of this library or any classifier with `predict_proba`, bare or inside
        a pipeline, a search or a FrozenEstimator. None: losses themselves are given in the place of X and y, for rankings,
        sequences, or amounts that differ per example.
    X_ref, y_ref : held-out examples that the model was not fitted to, on which its loss was as it should be. With model=None
        their expected losses (None where there are none) and their realised losses.
    loss : the loss to watch; None is the model's own, elsewhere 0-1.
    level : the chance, at most, that any alarm is ever raised while nothing has changed.
    bounds : the least and the largest loss; None is the loss's own, and (0, 1) with model=None.
    keep : decisions that are kept until their labels come in; the oldest are dropped, as if they had no labels.

    Attributes
    ----------
    alarms_ : dict from "expected", "realised" or "excess" to the number of examples, or of labels, after which it was raised.
    batches_ : the reports of the last 1,000 batches.

    Notes
    -----
    Each of the three alarms is a test by betting (`taskloss.betting.RiseTest`) at a third of the level, valid whenever it is
    looked at: "expected" of min_z <psi(z), mu(x)>, "realised" of L(z, y), "excess" of their difference. It is raised in error with
    at most that chance as long as the means do not exceed the reference's, in streams of any length. Labels
    must come in without regard to their value: where frauds are reported sooner, wait until a batch's labels are whole.
    Intervals hold at 95 %: of a batch's realised loss before labels, expected plus the reference's excess, by the normal law, as
    long as labels given X are as they were; of a realised mean by Chernoff's bound.
    The state is small (`state`), whatever the length of the stream, and JSON holds it.

    Examples
    --------
    >>> import numpy as np, taskloss as tl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(900, 2))
    >>> y = (X[:, 0] + rng.logistic(size=900) > 0).astype(int)
    >>> model = tl.CostSensitiveClassifier([[0, 5], [1, 0]]).fit(X[:300], y[:300])
    >>> monitor = tl.LossMonitor(model, X[300:800], y[300:800])
    >>> report = monitor.update(X[800:])
    >>> monitor.label(y[800:])
    >>> monitor.batches_[0].labelled, monitor.alarms_
    (100, {})
    """

    def __init__(
        self,
        model: Any,
        X_ref: Any,
        y_ref: Any,
        *,
        loss: Any = None,
        level: float = 0.05,
        bounds: tuple[float, float] | None = None,
        keep: int = 100_000,
    ):
        check_level("level", level)
        check_whole("keep", keep)
        self.model, self.loss, self.level, self.keep = model, loss, level, keep
        self.alarms_: dict[str, int] = {}
        self.batches_: list[BatchReport] = []
        self._pending: OrderedDict[Hashable, tuple[int, float, Any]] = OrderedDict()  # batch, expected loss, decision
        self._sums: list[float] = []  # of the scaled realised losses of each of batches_
        self._batch = self._seen = self._labelled = 0
        self._totals = {"expected": 0.0, "realised": 0.0}
        self._settle(bounds)
        self._take_reference(X_ref, y_ref)

    def _settle(self, bounds: Any) -> None:
        """Labels and loss of the model, and what the loss is bounded by."""
        if self.model is not None:
            inner = innermost(self.model)[0]
            face = inner if isinstance(inner, Portable) else find(self.model, (), self.loss)[0]
            if not isinstance(face, Decoder):
                raise ValueError(
                    f"model is a {type(face).__name__}, which decides for structures: pass model=None, and its "
                    "expected_loss(X) and the losses themselves in the place of X and y."
                )
            self._bound, self._labels = face._loss_for(self.loss), face.labels_
            bounds = self._bound.range() if bounds is None else bounds
        ends = real_array("bounds", (0.0, 1.0) if bounds is None else bounds)
        if ends.shape != (2,) or not (np.isfinite(ends).all() and ends[0] < ends[1]):
            raise ValueError(f"bounds must be the least and the largest loss, two numbers, got {bounds!r}.")
        self.low, self.high = map(float, ends)

    def _take_reference(self, X: Any, y: Any) -> None:
        z, expected = self._read(X, "X_ref")
        realised = self._realised(z, y, "y_ref")
        if len(realised) < _FEWEST:
            raise ValueError(f"y_ref must be the labels of at least {_FEWEST} examples, got {len(realised)}.")
        self._tests = {"realised": RiseTest(self._scaled(realised))}
        self._shift, self._spread, self._reference = 0.0, 0.0, len(realised)
        if expected is not None:
            excess = realised - expected
            self._tests |= {"expected": RiseTest(self._scaled(expected)), "excess": RiseTest(self._scaled_gap(excess))}
            self._shift, self._spread = float(excess.mean()), float(excess.std(ddof=1))

    # -- the stream --------------------------------------------------------------------------------------------------

    @explained
    def update(self, X: Any, ids: Any = None) -> BatchReport:
        """Take a batch of examples as they are predicted; returns its report.

        ids: a name for each, by which its label comes in later, a string or a whole number; None is its position in the
        stream, from 0. With model=None, X is their expected losses.
        """
        z, expected = self._read(X, "X")
        if expected is None:
            raise ValueError("This monitor's reference has no expected losses: give label(...) the realised ones only.")
        n = len(expected)
        names = list(range(self._seen, self._seen + n)) if ids is None else self._names(ids, n)
        if known := [name for name in names if name in self._pending]:
            raise ValueError(f"ids names {known[0]!r}, which an earlier example has that waits for its label.")
        for i, name in enumerate(names):
            self._pending[name] = (self._batch, float(expected[i]), None if z is None else z[i].tolist())
        while len(self._pending) > self.keep:
            self._pending.popitem(last=False)
        self._seen += n
        self._totals["expected"] += float(expected.sum())
        self._bet("expected", self._scaled(expected), self._seen)
        centre = float(expected.mean()) + self._shift
        half = float(stats.norm.ppf((1 + _INTERVAL) / 2)) * self._spread * (1 / n + 1 / self._reference) ** 0.5
        low, high = (float(np.clip(end, self.low, self.high)) for end in (centre - half, centre + half))
        nan = float("nan")
        report = BatchReport(self._batch, n, float(expected.mean()), low, high, 0, nan, nan, nan)
        self._batch += 1
        self.batches_, self._sums = [*self.batches_[1 - _KEPT :], report], [*self._sums[1 - _KEPT :], 0.0]
        return report

    @explained
    def label(self, y: Any, ids: Any = None) -> None:
        """Take labels as they come in, of examples that `update` has seen; each once.

        ids: whose labels they are; None is the oldest ones without a label, in order. With model=None, y is realised losses.
        """
        if "expected" not in self._tests:
            self._take_realised(self._realised(None, y, "y"))
            return
        n = count_examples("y", y)
        names = list(self._pending)[:n] if ids is None else self._names(ids, n)
        unknown = [name for name in names if name not in self._pending]
        if unknown or len(names) < n:
            which = (
                f"ids names {unknown[0]!r}"
                if unknown
                else f"y has {n} labels and {len(names)} examples wait for one, keep={self.keep}"
            )
            raise ValueError(f"{which}: every label is of one example that update(...) has seen, and comes in once.")
        if not n:
            return
        rows = [self._pending[name] for name in names]
        expected = np.array([row[1] for row in rows])
        decided = None if self.model is None else np.array([row[2] for row in rows])
        realised = self._realised(decided, y, "y")
        for name in names:
            del self._pending[name]
        self._take_realised(realised)
        self._bet("excess", self._scaled_gap(realised - expected), self._labelled)
        places = np.array([row[0] for row in rows]) - (self._batch - len(self.batches_))
        for place in np.unique(places[places >= 0]).tolist():
            self._note(place, self._scaled(realised[places == place]))

    def _take_realised(self, realised: np.ndarray) -> None:
        self._labelled += len(realised)
        self._totals["realised"] += float(realised.sum())
        self._bet("realised", self._scaled(realised), self._labelled)

    def _note(self, place: int, scaled: np.ndarray) -> None:
        """Realised losses of one of the batches that are kept."""
        self._sums[place] += float(scaled.sum())
        total, n = self._sums[place], self.batches_[place].labelled + len(scaled)
        low, high = chernoff_interval(total, n, _INTERVAL)
        realised, low, high = (self.low + (self.high - self.low) * share for share in (total / n, low, high))
        report = self.batches_[place]._replace(labelled=n, realised=realised)
        self.batches_[place] = report._replace(realised_low=low, realised_high=high)

    def _bet(self, kind: str, x: np.ndarray, after: int) -> None:
        if self._tests[kind].update(x) >= np.log(len(_KINDS) / self.level):
            self.alarms_.setdefault(kind, after)

    # -- reading -----------------------------------------------------------------------------------------------------

    def _read(self, X: Any, name: str) -> tuple[Any, np.ndarray | None]:
        """Decisions as codes, and their expected losses."""
        if self.model is None:
            return None, None if X is None else np.clip(self._numbers(name, X), self.low, self.high)
        if not count_examples(name, X):
            raise ValueError(f"{name} has no examples.")
        with said_of(name, "hold what the model predicts from"):
            face, inputs = find(self.model, X, self.loss)
            loss, z, mu = face._decide(inputs, self.loss, None)
        return np.asarray(z), np.asarray(loss.risk(z, mu), dtype=float)

    def _realised(self, z: Any, y: Any, name: str) -> np.ndarray:
        if z is None:
            return self._bounded(name, y)
        if count_examples(name, y) != len(z):
            raise ValueError(f"{name} has {count_examples(name, y)} labels for the {len(z)} examples of X_ref.")
        with said_of(name, "be labels of the model"):
            return np.asarray(self._labels.losses(self._bound, z, y), dtype=float)

    def _bounded(self, name: str, values: Any) -> np.ndarray:
        values = self._numbers(name, values)
        if values.min() < self.low or values.max() > self.high:
            raise ValueError(
                f"{name} must be losses from {self.low:g} to {self.high:g}: for others pass bounds=(low, high)."
            )
        return values

    def _numbers(self, name: str, values: Any) -> np.ndarray:
        values = real_array(name, values, "losses")
        if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
            raise ValueError(f"{name} must be a list of losses, finite numbers, got shape {values.shape}.")
        return values

    def _names(self, ids: Any, n: int) -> list[Any]:
        names = (
            np.asarray(ids).tolist()
            if not isinstance(ids, list | tuple)
            else [getattr(i, "item", lambda i=i: i)() for i in ids]
        )
        if not isinstance(names, list) or len(names) != n or len(set(map(str, names))) != n:
            raise ValueError(
                f"ids must be a name of its own for each of the {n} examples, by which its label comes in later; labels themselves are for label(y)."
            )
        if not all(isinstance(name, str | int) for name in names):
            raise ValueError("ids must be strings or whole numbers, so that the state can be stored.")
        return names

    def _scaled(self, losses: np.ndarray) -> np.ndarray:
        return np.clip((losses - self.low) / (self.high - self.low), 0.0, 1.0)

    def _scaled_gap(self, gaps: np.ndarray) -> np.ndarray:
        return np.clip(0.5 + gaps / (2 * (self.high - self.low)), 0.0, 1.0)

    # -- out ---------------------------------------------------------------------------------------------------------

    def report(self) -> dict[str, Any]:
        """Where the stream stands, as numbers, strings, lists and dicts: means, evidence, alarms and the last batch."""
        last = self.batches_[-1]._asdict() if self.batches_ else None
        return {
            "examples": self._seen,
            "labelled": self._labelled,
            "waiting": len(self._pending),
            "expected": self._totals["expected"] / self._seen if self._seen else None,
            "realised": self._totals["realised"] / self._labelled if self._labelled else None,
            "level": self.level,
            "evidence": {kind: float(np.exp(min(t.log_evidence, 700.0))) for kind, t in self._tests.items()},
            "alarm_at": len(_KINDS) / self.level,
            "alarms": {kind: {"after": after, "means": _KINDS[kind]} for kind, after in self.alarms_.items()},
            "last_batch": last and {name: _or_none(value) for name, value in last.items()},
            "unseen_without_labels": UNSEEN,
        }

    def to_json(self) -> str:
        """`report` as JSON."""
        return json.dumps(self.report())

    def to_prometheus(self, labels: dict[str, str] | None = None) -> str:
        """`report` in Prometheus' text format; labels: names and values that every sample carries, such as the model's name."""
        found, fixed = self.report(), {} if labels is None else dict(labels)
        last = found["last_batch"] or {}
        one: dict[str, str] = {}
        samples: list[tuple[str, str, str, Iterable[tuple[dict[str, str], Any]]]] = [
            ("examples_total", "counter", "Examples predicted.", [(one, found["examples"])]),
            ("labelled_total", "counter", "Examples whose label came in.", [(one, found["labelled"])]),
            ("expected_loss", "gauge", "Expected loss of the last batch.", [(one, last.get("expected"))]),
            ("realised_loss", "gauge", "Mean realised loss of all labelled examples.", [(one, found["realised"])]),
            (
                "evidence",
                "gauge",
                f"Evidence that a loss has risen; an alarm at {found['alarm_at']:g}.",
                [({"kind": kind}, value) for kind, value in found["evidence"].items()],
            ),
            (
                "alarm",
                "gauge",
                "Whether an alarm was raised.",
                [({"kind": kind}, int(kind in self.alarms_)) for kind in self._tests],
            ),
        ]
        lines = []
        for name, kind, words, values in samples:
            lines += [f"# HELP taskloss_{name} {words}", f"# TYPE taskloss_{name} {kind}"]
            for extra, value in values:
                both = {**fixed, **extra}
                text = ",".join(f'{key}="{_escaped(str(both[key]))}"' for key in both)
                lines.append(f"taskloss_{name}{'{' + text + '}' if text else ''} {'NaN' if value is None else value}")
        return "\n".join(lines) + "\n"

    def state(self) -> dict[str, Any]:
        """All that the monitor knows, for `json.dumps`; `from_state` goes on from it after a restart."""
        return {
            "level": self.level,
            "keep": self.keep,
            "bounds": [self.low, self.high],
            "reference": [self._shift, self._spread, self._reference],
            "seen": [self._batch, self._seen, self._labelled],
            "totals": self._totals,
            "alarms": self.alarms_,
            "batches": [[_or_none(value) for value in report] for report in self.batches_],
            "sums": self._sums,
            "pending": [[name, *row] for name, row in self._pending.items()],
            "tests": {kind: test.state() for kind, test in self._tests.items()},
        }

    @classmethod
    def from_state(cls, model: Any, state: dict[str, Any], loss: Any = None) -> Self:
        """The monitor of this model that `state` was taken of."""
        if not (isinstance(state, Mapping) and {"level", "keep", "bounds", "reference", "tests"} <= state.keys()):
            raise ValueError(
                f"state must be what state() of a LossMonitor returned, read by json.loads where it was stored, got {type(state).__name__}"
                + (f" with the keys {list(state)}." if isinstance(state, Mapping) else ".")
            )
        new = cls.__new__(cls)
        new.model, new.loss, new.level, new.keep = model, loss, state["level"], state["keep"]
        new._settle(state["bounds"])
        new._shift, new._spread, new._reference = state["reference"]
        new._batch, new._seen, new._labelled = state["seen"]
        new._totals, new.alarms_, new._sums = dict(state["totals"]), dict(state["alarms"]), list(state["sums"])
        numbers: list[list[Any]] = [
            [float("nan") if value is None else value for value in row] for row in state["batches"]
        ]
        new.batches_ = [BatchReport(*row) for row in numbers]
        new._pending = OrderedDict((row[0], tuple(row[1:])) for row in state["pending"])
        new._tests = {kind: RiseTest.from_state(test) for kind, test in state["tests"].items()}
        return new


def _or_none(value: Any) -> Any:
    return None if value != value else value


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
