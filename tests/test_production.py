"""As in production: forks, threads, read-only files, many fits, and models that are stored and read again."""

import copy
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import threading
import tomllib
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from tests.fitted import CASES, answers, fitted, same
from threadpoolctl import threadpool_limits

import taskloss as tl
from taskloss import _blas, ahead
from taskloss._compiled.caching import KernelCache

ROOT = pathlib.Path(__file__).parents[1]
every_case = pytest.mark.parametrize("name", CASES)


def python(code, *arguments, folder=None, **environment):
    """Run a script in a process of its own, which must end in two minutes; its output."""
    script = pathlib.Path(folder) / "script.py" if folder else None
    if script:
        script.write_text(code)
    command = [sys.executable, "-W", "error", *([str(script)] if script else ["-c", code]), *arguments]
    settings = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=settings)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# -- processes -------------------------------------------------------------------------------------------------------

LARGE = """
import multiprocessing, hashlib, warnings
import numpy as np
import taskloss as tl
from taskloss._blas import _hold, pool, serial_blas
from taskloss.polytopes import PackedChains
from taskloss.polytopes.assignment import assign

warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)  # Python 3.12 says it of any threads


def work(_):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40_000, 50)), rng.integers(0, 10, 40_000)
    theta = tl.CostSensitiveClassifier(tol=1e-1).fit(X, y).theta_
    chains = PackedChains(16, np.arange(0, 40_001, 20))
    states = chains.maximiser(rng.normal(size=(40_000, 16)), rng.normal(size=(16, 16)))[1]
    columns = assign(rng.normal(size=(4_000, 10, 10)))
    return [hashlib.sha256(a.tobytes()).hexdigest() for a in (theta, states, columns)]


if __name__ == "__main__":
    with serial_blas():
        here = work(0)
        pool().submit(int).result()  # a thread that the child will not have, also on one core
        for method in ("fork", "forkserver", "spawn"):
            with multiprocessing.get_context(method).Pool(1) as processes:
                there = processes.map_async(work, [0]).get(timeout=90)
            print(method, [here] == there)
"""


def test_processes_started_after_large_fits_fit_alike(tmp_path):
    """A forked child has none of its parent's threads: a pool that it inherits would never answer."""
    assert python(LARGE, folder=tmp_path).splitlines() == ["fork True", "forkserver True", "spawn True"]


FORK = """
import os, threading, warnings
from taskloss._blas import _blas, _free_control, pool, serial_blas

warnings.simplefilter("ignore", DeprecationWarning)


def limits():
    return [info["num_threads"] for info in _blas().info()]


def hold():
    with serial_blas():
        ready.set()
        stop.wait(60)


_blas().limit(limits=2)
_free_control()
ready, stop = threading.Event(), threading.Event()
other = threading.Thread(target=hold, daemon=True)
other.start()
ready.wait()
assert set(limits()) == {1}
for mine in (False, True):
    with serial_blas(mine):
        child = os.fork()
        if child == 0:
            # The other thread's hold is gone with it; one's own goes on.
            good = set(limits()) == {1 if mine else 2} and pool().submit(int).result() == 0
            with serial_blas():
                good = good and set(limits()) == {1}
            os._exit(0 if good else 1)
        assert os.waitpid(child, 0)[1] == 0, mine
stop.set()
other.join()
assert set(limits()) == {2}
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_fork_keeps_the_holds_of_the_thread_that_forked():
    assert python(FORK) == "done"


# -- threads ---------------------------------------------------------------------------------------------------------


def limits():
    return {info["num_threads"] for info in _blas._blas().info()}


@pytest.fixture
def two_threads():
    """BLAS on two threads, under nobody's control."""
    limiter = _blas._blas().limit(limits=2)
    _blas._free_control()
    yield
    limiter.restore_original_limits()
    _blas._free_control()


def elsewhere(function):
    """Call a function in a thread that lives on for a while, as a server's would."""
    done = threading.Event()
    threading.Thread(target=lambda: (function(), done.set(), threading.Event().wait(5)), daemon=True).start()
    assert done.wait(60)


@pytest.mark.parametrize("mine_first", [True, False])
def test_interleaved_holds_give_blas_back(two_threads, mine_first):
    """A enters, B enters, A leaves, B leaves: held until the last one leaves, and then as before the first one came."""
    a, b = _blas.serial_blas(), _blas.serial_blas()
    a.__enter__()
    assert _blas.blas_threads() == min(2, os.cpu_count() or 1)  # what is allowed, not what is held
    elsewhere(b.__enter__)
    first, last = (a, b) if mine_first else (b, a)
    first.__exit__(None, None, None)
    assert limits() == {1}
    elsewhere(lambda: last.__exit__(None, None, None))
    assert limits() == {2}


def test_a_hold_ends_with_an_error_in_it(two_threads):
    def fail():
        with _blas.serial_blas(), _blas.serial_blas():
            assert limits() == {1}
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert limits() == {2}


def test_one_pool_for_threads_that_ask_at_once():
    _blas._executor = None
    gate = threading.Barrier(8)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: (gate.wait(), _blas.pool())[1], range(8)))
    assert len({id(pool) for pool in found}) == 1


def test_concurrent_fits_and_predictions_are_those_of_one_after_the_other():
    with threadpool_limits(1, "blas"):  # sums in BLAS come out alike whoever holds it
        expected = {name: answers(name, fitted(name)) for name in CASES}

        def use(name):
            estimator, data, _ = CASES[name]
            return same(answers(name, clone(estimator).fit(*data)), expected[name]) and same(
                answers(name, fitted(name)), expected[name]
            )

        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(use, [*CASES, *reversed(CASES)]))


def large_fit(seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(40_000, 50)).astype(dtype), rng.integers(0, 10, 40_000)
    return tl.CostSensitiveClassifier(tol=1e-2).fit(X, y).theta_.tobytes()


def test_concurrent_large_fits_are_those_of_one_after_the_other():
    alone = [large_fit(seed) for seed in (0, 1)]
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(large_fit, (0, 1))) == alone


@every_case
def test_two_fits_are_equal_bit_by_bit(name):
    estimator, data, _ = CASES[name]
    assert same(answers(name, clone(estimator).fit(*data)), answers(name, fitted(name)))


@pytest.mark.parametrize("threads", [1, 2])
def test_two_large_fits_are_equal_bit_by_bit(threads):
    with threadpool_limits(threads, "blas"):
        assert large_fit(0) == large_fit(0)


MANY = """
import gc, warnings
import numpy as np
import taskloss as tl

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X, y = rng.normal(size=(20, 2)), rng.integers(0, 3, 20)


def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def some(count):
    for _ in range(count):
        tl.TaskLossEstimator("zero-one", "quadratic", tol=1.0).fit(X, y).predict(X)


some(400)
before = resident()
some(1600)
print(resident() - before)
"""


@pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_two_thousand_small_fits_keep_no_memory():
    assert int(python(MANY)) < 2 << 20  # less than 1.3 kB a fit: a model with its data takes several times as much


# -- caches ----------------------------------------------------------------------------------------------------------

# Each scene is played by a fork of one process, which has imported what does not depend on it. Root may write where
# permissions say no; without this capability it may not, as in a container that drops it.
SCENES = """
import ctypes, os, pathlib, sys, warnings
import numba, sklearn.base, sklearn.utils.validation
from numba.core import config

folder = pathlib.Path(sys.argv[1])
package, home = folder / "site" / "taskloss" / "_compiled", folder / "home"
sys.path.insert(0, str(folder / "site"))
warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)


class Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class Sets(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]


def set_mode(place, mode):
    for place in (place, *place.rglob("*")):
        if place.is_dir():
            place.chmod(mode)


def give_up_root():
    if os.geteuid() == 0:
        libc, header, sets = ctypes.CDLL(None), Header(0x20080522, 0), (Sets * 2)()
        assert libc.capget(ctypes.byref(header), sets) == 0
        sets[0].effective &= ~0b10  # CAP_DAC_OVERRIDE
        assert libc.capset(ctypes.byref(header), sets) == 0


def play(scene, *unwritable, **settings):
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0, scene
        return
    os.environ.update({"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), "NUMBA_CACHE_DIR": "", **settings})
    config.reload_config()
    give_up_root()
    for place in unwritable:
        try:
            open(place / "probe", "w")
        except OSError:
            continue
        raise SystemExit(f"{place} can be written")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        from taskloss._compiled.assignment import _sizes, __file__ as place

        assert place.startswith(str(folder)), "another installation"
        assert _sizes(2).tolist() == [0, 1, 1, 2]
    heard = [w.category.__name__ for w in heard if "NUMBA_CACHE_DIR" in str(w.message)]
    print(scene, sum(_sizes.stats.cache_misses.values()), *heard, flush=True)
    os._exit(0)


set_mode(folder, 0o555)
play("nothing can be written:", package, home)
play("nor the directory that is set:", package, home, NUMBA_CACHE_DIR=str(home / "cache"))
set_mode(folder, 0o755)
play("all can be written:")
set_mode(folder, 0o555)
play("all can be read:", package, home)
set_mode(home, 0o755)
play("home can be written:", package)
assert not list(home.rglob("*.nbi"))  # what can be read is not compiled again for another place
for index in package.rglob("*.nbi"):
    index.write_bytes(index.read_bytes()[:20])
play("what can be read is cut off:", package)
assert list(home.rglob("*.nbi"))
set_mode(folder, 0o755)
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="permissions are taken from root the way Linux does it"
)
def test_an_installation_that_is_read_only(tmp_path):
    """Kernels compile without a cache and say so once; what was compiled before is read; a cache cut off is compiled again."""
    leave = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "taskloss", tmp_path / "site" / "taskloss", ignore=leave)
    (tmp_path / "home").mkdir()
    assert python(SCENES, str(tmp_path), PYTHONPATH="").splitlines() == [
        "nothing can be written: 1 RuntimeWarning",
        "nor the directory that is set: 1 RuntimeWarning",
        "all can be written: 1",
        "all can be read: 0",
        "home can be written: 0",
        "what can be read is cut off: 1",
    ]


def test_every_kernel_has_a_cache_of_ours():
    found = ahead.kernels()
    assert len(found) > 20
    for name, kernel in found.items():
        assert isinstance(kernel._cache, KernelCache), name


def test_compiling_ahead_leaves_nothing_to_compile():
    ahead.rehearse()
    kernels = ahead.kernels()
    called = {name for kernel in kernels.values() for name in kernel.py_func.__code__.co_names}
    alone = {name for name, kernel in kernels.items() if not kernel.signatures and name.partition(".")[2] not in called}
    assert not alone, "neither rehearsed nor called by another kernel"
    before = {name: list(kernel.signatures) for name, kernel in kernels.items()}
    for dtype in (np.float64, np.float32):
        large_fit(0, dtype)
    rng = np.random.default_rng(0)
    chains = tl.polytopes.PackedChains(12, np.arange(0, 40_001, 25))
    chains.maximiser(rng.normal(size=(40_000, 12)), rng.normal(size=(12, 12)))
    chains.log_partition_and_marginals(rng.normal(size=(40_000, 12)), rng.normal(size=(12, 12)))
    tl.polytopes.assignment.assign(rng.normal(size=(4_000, 6, 7)), outliers=True)
    assert {name: list(kernel.signatures) for name, kernel in kernels.items()} == before


# -- models that are stored ------------------------------------------------------------------------------------------


def test_every_estimator_is_among_the_cases():
    estimators = {
        name
        for name in tl.__all__
        if isinstance(getattr(tl, name), type) and issubclass(getattr(tl, name), BaseEstimator)
    }
    estimators -= {
        "Formula",
        "RiskController",
    }  # a transformer of frames; and one that is calibrated, in test_control.py
    assert estimators == {type(estimator).__name__ for estimator, _, _ in CASES.values()}


@every_case
def test_a_model_goes_through_pickle_copies_and_memory_maps(name, tmp_path):
    model = fitted(name)
    expected = answers(name, model)
    joblib.dump(model, tmp_path / "model")
    for again in (
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
        joblib.load(tmp_path / "model"),
        joblib.load(tmp_path / "model", mmap_mode="r"),  # arrays that cannot be written, shared by many processes
    ):
        assert same(answers(name, again), expected)


# -- versions --------------------------------------------------------------------------------------------------------


def test_the_oldest_versions_are_those_that_are_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = dict(
        word.split(">=") for word in [*project["dependencies"], *extras["files"], *extras["plot"], *extras["theory"]]
    )
    lines = (ROOT / "tests" / "oldest.txt").read_text().splitlines()
    tested = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert {package: [*version.split("."), "0", "0"][:3] for package, version in named.items()} == {
        package: tested[package].split(".") for package in named
    }
