"""What a fit says while it runs: to a terminal, a log file, a logger and callbacks."""

import io
import logging

import numpy as np
import pytest

from taskloss import progress
from taskloss.progress import Progress, Step, callbacks, follow, warn
from taskloss.solvers import LBFGS
from taskloss.solvers.base import Objective


class Quadratic(Objective):
    """f(theta) = |theta - 1|^2 weighed by powers of ten."""

    scale = np.logspace(0, 2, 5)[:, None]

    def value_and_gradient(self, theta):
        return np.atleast_1d((self.scale * (theta - 1) ** 2).sum() + 1), 2 * self.scale * (theta - 1)


def minimise(reporter):
    return LBFGS(tol=1e-10).minimise(Quadratic(), np.zeros((5, 1)), reporter)


def test_a_log_file_gets_lines_and_no_carriage_returns():
    stream = io.StringIO()
    solution = minimise(Progress("fit", 1e-10, stream))
    lines = stream.getvalue().splitlines()
    assert "\r" not in stream.getvalue()
    assert 3 <= len(lines) <= 12  # a line for each tenth of the way at the most
    assert lines[0].startswith("fit   0%")
    assert lines[-1] == solution.status.value


@pytest.mark.parametrize(("total", "lines"), [(1000, 12), (None, 11)])
def test_counted_work_gets_few_lines(total, lines):
    stream = io.StringIO()
    reporter = Progress("read", 1.0, stream)
    for done in range(1, 1001):
        reporter.count(done, total, "rows")
    reporter.close("Done.")
    assert stream.getvalue().count("\n") == lines


def test_the_logger_hears_each_iteration_at_debug(caplog):
    assert follow("fit", 1e-10, verbose=False) is None  # nobody listens
    with caplog.at_level(logging.DEBUG, "taskloss"):
        solution = minimise(follow("fit", 1e-10, verbose=False))
    heard = [record for record in caplog.records if "iterations, objective" in record.getMessage()]
    assert len(heard) == solution.iterations + 1
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}
    assert {record.name for record in caplog.records} == {"taskloss"}


def test_callbacks_hear_each_iteration_and_may_end_it():
    steps = []
    with callbacks(steps.append):
        solution = minimise(follow("fit", 1e-10, verbose=False))
    assert follow("fit", 1e-10, verbose=False) is None
    assert [step.done for step in steps] == list(range(solution.iterations + 1))
    assert all(isinstance(step, Step) and step.unit == "iterations" for step in steps)
    assert steps[-1].value == pytest.approx(solution.value)

    def stop(step):
        if step.done == 2:
            raise TimeoutError("enough")

    with callbacks(stop), pytest.raises(TimeoutError, match="enough"):
        minimise(follow("fit", 1e-10, verbose=False))


def test_a_sentence_is_logged_once_and_warned_each_time(caplog, monkeypatch):
    monkeypatch.setattr(progress, "_logged", set())
    for _ in range(3):
        with pytest.warns(UserWarning, match="once is enough"):
            warn("once is enough", UserWarning)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_fits_report_to_callbacks_without_being_verbose():
    import numpy as np

    import taskloss as tl

    rng, steps = np.random.default_rng(0), []
    X = rng.normal(size=(60, 3))
    with tl.progress.callbacks(steps.append):
        model = tl.CostSensitiveClassifier().fit(X, X.argmax(1))
    assert [step.done for step in steps] == list(range(model.n_iter_ + 1))
    assert steps[-1].value == model.solution_.value

    def stop(step):
        raise RuntimeError("enough")

    before = model.predict_moments(X)
    with tl.progress.callbacks(stop), pytest.raises(RuntimeError, match="enough"):
        model.fit(X[:, ::-1], X.argmax(1))
    np.testing.assert_array_equal(model.predict_moments(X), before)
