"""Workers and schedulers that die in the middle of a fit: it ends, and where it ends is the same."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import taskloss as tl
from taskloss.progress import callbacks

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore")

N, PARTS, WORKERS = 4000, 8, 3
DEADLINE = 90  # seconds, after which a test fails in the place of hanging


@pytest.fixture(autouse=True)
def deadline():
    def late(*_):
        raise TimeoutError(f"not done after {DEADLINE} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(DEADLINE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def client():
    """Three workers, each a process with a nanny that starts another in its place."""
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "3s"}),  # how long a worker waits for one that is gone
        distributed.LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as one,
    ):
        yield one


def data(read_seconds=0.0):
    """Rows that a worker makes itself: lost with it, they are read again."""

    def block(block_info=None):
        time.sleep(read_seconds)
        i = block_info[None]["chunk-location"][0]
        return np.random.default_rng(i).normal(size=(N // PARTS, 6))

    X = da.map_blocks(block, chunks=((N // PARTS,) * PARTS, 6), dtype=float, meta=np.empty((0, 0)))
    noise = da.from_array(np.random.default_rng(99).normal(size=(N, 3)), chunks=(N // PARTS, -1))
    return X, (X[:, :3] + noise).argmax(axis=1)


def kill(client, count=1, rng=None):
    rng = np.random.default_rng(0) if rng is None else rng
    pids = [worker for worker in client.run(os.getpid).values()]
    for pid in rng.choice(pids, count, replace=False):
        os.kill(int(pid), signal.SIGKILL)


FACE = {"alpha": 1e-4, "tol": 1e-13}


@pytest.fixture(scope="module")
def whole():
    X, y = data()
    return tl.TaskLossEstimator(**FACE).fit(*(part.compute(scheduler="sync") for part in (X, y)))


@pytest.mark.parametrize(("count", "at"), [(1, 0), (2, 3)])
def test_killed_workers_cost_their_share_of_an_evaluation(client, whole, count, at):
    client.wait_for_workers(WORKERS, timeout=60)
    rng, steps = np.random.default_rng(at), []

    def strike(step):
        steps.append(step)
        if len(steps) == at + 1:
            kill(client, count, rng)

    with callbacks(strike):
        found = tl.TaskLossEstimator(**FACE).fit(*data())
    assert len(steps) > at
    assert abs(found.solution_.value - whole.solution_.value) <= 1e-9 * whole.solution_.value
    assert np.abs(found.theta_ - whole.theta_).max() <= 1e-6


def test_a_worker_killed_while_it_reads(client, whole):
    client.wait_for_workers(WORKERS, timeout=60)
    timer = threading.Timer(0.4, kill, (client,))
    timer.start()
    found = tl.TaskLossEstimator(**FACE).fit(*data(0.3))
    timer.join()
    assert abs(found.solution_.value - whole.solution_.value) <= 1e-9 * whole.solution_.value


def test_a_lost_scheduler_leaves_a_checkpoint(whole, tmp_path):
    where, file = tmp_path / "scheduler.json", tmp_path / "fit.npz"
    started = []

    def start(*words):
        command = [sys.executable, "-m", "dask", *words, "--scheduler-file", str(where)]
        started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        return started[-1]

    def strike(step):
        if step.done == 3:
            scheduler.kill()

    try:
        scheduler = start("scheduler", "--port", "0", "--no-dashboard", "--host", "127.0.0.1")
        start("worker", "--no-dashboard", "--no-nanny", "--nthreads", "1", "--local-directory", str(tmp_path))
        with distributed.Client(scheduler_file=str(where), timeout=30) as client:
            client.wait_for_workers(1, timeout=30)
            sentence = r"(?s)scheduler at tcp.* was lost .* so far are in .*fit\.npz"
            with callbacks(strike), pytest.raises(ConnectionError, match=sentence):
                tl.TaskLossEstimator(**FACE).fit(*data(), checkpoint=file)
    finally:
        for process in started:
            process.kill()
            process.wait()
    X, y = (part.compute(scheduler="sync") for part in data())
    on = tl.TaskLossEstimator(**FACE).fit(X, y, checkpoint=file)
    assert on.solution_.evaluations < whole.solution_.evaluations
    assert abs(on.solution_.value - whole.solution_.value) <= 1e-9 * whole.solution_.value


def test_a_closed_client(client):
    with distributed.Client(client.scheduler.address, set_as_default=False) as other:
        X = other.persist(data()[0])
    with pytest.raises(ValueError, match="X lies with a client that is closed"):
        tl.TaskLossEstimator().fit(X, data()[1])
