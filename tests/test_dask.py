"""Fits and predictions over Dask collections equal those in memory, whatever the partitions and whoever computes them."""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import taskloss as tl
from taskloss.estimators import base
from taskloss.objectives import objective

pd = pytest.importorskip("pandas")
da = pytest.importorskip("dask.array")
db = pytest.importorskip("dask.bag")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own, of ports and large graphs

N = 240
CUTS = (1, 0, 119, 40, 80)  # tiny, empty and uneven partitions


@pytest.fixture(scope="module", params=["threads", "cluster"])
def client(request):
    """This process's threads, and a cluster of two workers in it."""
    if request.param == "threads":
        yield None
        return
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as one,
    ):
        yield one


@dataclasses.dataclass
class Case:
    """An estimator, the arguments of its fit in memory, and how many examples each partition has of them."""

    face: object
    data: dict
    cuts: tuple = CUTS
    bags: bool = False

    def parted(self):
        return {name: self.part(value) for name, value in self.data.items()}

    def part(self, value):
        ends = np.cumsum((0, *self.cuts))
        pieces = [value[a:b] for a, b in itertools.pairwise(ends)]
        if self.bags:
            return db.Bag(
                {("bag" + str(id(value)), i): piece for i, piece in enumerate(pieces)},
                "bag" + str(id(value)),
                len(pieces),
            )
        if isinstance(value, list):
            return db.from_delayed([dask_value(piece) for piece in pieces])
        if hasattr(value, "iloc"):
            return dd.from_delayed([dask_value(piece) for piece in pieces], meta=value.iloc[:0])
        if sparse.issparse(value):
            blocks = [da.from_delayed(dask_value(p), p.shape, meta=sparse.csr_matrix((0, 0))) for p in pieces]
            return da.concatenate(blocks)
        return da.from_array(value, chunks=(self.cuts, *([-1] * (value.ndim - 1))))


def dask_value(value):
    from dask.delayed import delayed

    return delayed(value, traverse=False)


def cases():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 5))
    s = X[:, :4] + rng.normal(size=(N, 4))
    names = np.array(["ant", "bee", "cat", "dog"])[np.argmax(s, 1)]
    names[-7:] = "emu"  # which only the last partition has
    w, grades, table = rng.random(N), np.digitize(s[:, 0], [-1, 0, 1]), (s > 0.5).astype(int)
    frame = pd.DataFrame(X, columns=list("abcde"))
    rare = sparse.csr_matrix(np.hstack([X, rng.random((N, 40)) > 0.9]))
    tight, nystrom = {"tol": 1e-12, "alpha": 1e-2}, tl.hypotheses.Nystrom(25)
    few = tl.hypotheses.Nystrom(8, gamma=5.0)  # a wider kernel's least eigenvalues are rounding errors
    general, cost = tl.TaskLossEstimator, tl.CostSensitiveClassifier
    yield "multinomial", Case(general(**tight), {"X": X, "y": names, "sample_weight": w})
    yield "balanced", Case(general(class_weight="balanced", **tight), {"X": X, "y": names})
    yield "single precision", Case(general(**tight), {"X": X.astype(np.float32), "y": names})
    yield "costs", Case(cost(1 - np.eye(5), surrogate="quadratic", **tight), {"X": frame, "y": pd.Series(names)})
    yield "closed form", Case(general(surrogate="quadratic", solver="closed-form", **tight), {"X": X, "y": names})
    yield "newton", Case(general(solver="newton", **tight), {"X": X, "y": names})
    yield "sparse", Case(general(**tight), {"X": rare, "y": names, "sample_weight": w})
    yield "nystrom", Case(general(hypothesis=nystrom, **tight), {"X": X, "y": names, "sample_weight": w})
    leverage = tl.hypotheses.Nystrom(25, centres="leverage")
    squares = {"surrogate": "quadratic", "solver": "closed-form"}
    yield "leverage", Case(general(hypothesis=leverage, **squares, **tight), {"X": X, "y": names})
    yield "ordinal", Case(tl.OrdinalClassifier(**tight), {"X": X, "y": grades})
    order = pd.Series(pd.Categorical(grades, categories=[3, 2, 1, 0], ordered=True))
    yield "ordered", Case(tl.OrdinalClassifier(**tight), {"X": frame, "y": order})
    yield "links", Case(tl.OrdinalClassifier(surrogate="cumulative-link", **tight), {"X": X, "y": grades})
    yield "sets", Case(tl.MultilabelClassifier(**tight), {"X": X, "y": table})
    sets = [set(np.array(["p", "q", "r", "s"])[row == 1].tolist()) for row in table]
    yield "named sets", Case(tl.MultilabelClassifier("f-beta", **tight), {"X": X, "y": sets})
    groups = np.repeat(np.arange(N // 5)[::-1], 5)
    groups[1:5] = groups[0] + 1  # a group of one
    ranks = {"X": X, "y": grades, "groups": groups}
    cuts = (5, 0, 120, 40, 75)
    yield "rankings", Case(tl.Ranker(**tight), {**ranks, "sample_weight": w}, cuts)
    yield "rankings, nystrom", Case(tl.Ranker(hypothesis=nystrom, **tight), ranks, cuts)
    lengths = rng.integers(1, 6, size=40)
    words = [[{f"w{rng.integers(12)}": 1.0, "one": 1.0, "x": rng.random()} for _ in range(n)] for n in lengths]
    tags = [["B" if "w1" in p or rng.random() < 0.3 else "I" for p in x] for x in words]
    cut = (1, 0, 19, 8, 12)
    crf = {"tol": 1e-12, "alpha": 1e-2, "solver": "newton"}
    yield "sequences", Case(tl.SequenceTagger(min_frequency=5, **crf), {"X": words, "y": tags}, cut, True)
    some = tl.SequenceTagger(all_possible_states=False, transition_features=["one"], **crf)
    yield "states that occur", Case(some, {"X": words, "y": tags}, cut, True)
    rows = [rng.normal(size=(n, 3)) for n in lengths]
    kernel = tl.SequenceTagger(hypothesis=tl.hypotheses.Nystrom(15), **crf)
    yield "sequences, nystrom", Case(kernel, {"X": rows, "y": tags}, cut, True)
    trees = [np.r_[-1, [rng.integers(i) for i in range(1, n)]].astype(int) for n in lengths]
    yield "trees", Case(tl.TreeTagger(**crf), {"X": words, "y": tags, "parents": trees}, cut, True)
    graphs = [rng.normal(size=(n, 3)) for n in rng.integers(2, 5, size=40)]
    pairs = [(a, a[::-1] + 0.3 * rng.normal(size=a.shape)) for a in graphs]
    matches = [np.arange(len(a))[::-1] for a in graphs]
    yield "matchings", Case(tl.Matcher(**tight), {"X": pairs, "y": matches}, cut, True)
    yield "matches of some", Case(tl.Matcher(unmatched="both", **tight), {"X": pairs, "y": matches}, cut, True)
    yield "matchings, nystrom", Case(tl.Matcher(hypothesis=few, **tight), {"X": pairs, "y": matches}, cut, True)


CASES = dict(cases())


def fitted(face, data):
    return clone(face).fit(**data)


def problem(face, data, monkeypatch):
    """The objective that a fit hands to its solver."""

    class Caught(Exception):
        pass

    def catch(hypothesis, inputs, risk, options):
        raise Caught(objective(hypothesis, inputs, risk, options.alpha))

    with monkeypatch.context() as patch:
        patch.setattr(base, "minimise", catch)
        with pytest.raises(Caught) as caught:
            fitted(face, data)
    return caught.value.args[0]


def close(a, b, share):
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    return np.abs(a - b).max() <= share * max(1.0, np.abs(a).max())


@pytest.mark.parametrize("name", CASES)
def test_objective_is_the_same(name, client, monkeypatch):
    """Value, gradient and products with the Hessian, at equal parameters."""
    case = CASES[name]
    one, two = (problem(case.face, data, monkeypatch) for data in (case.data, case.parted()))
    accuracy = 1e-12 if name != "single precision" else 1e-5
    start = one.flatten(one.start)
    assert one.start.shape == two.start.shape
    assert close(start, two.flatten(two.start), accuracy)
    rng = np.random.default_rng(1)
    theta, direction = (start + 0.3 * rng.normal(size=start.shape) for _ in range(2))
    (value, gradient), (other, slopes) = (f.value_and_gradient(theta) for f in (one, two))
    assert close(value, other, accuracy)
    assert close(gradient, slopes, accuracy)
    assert close(one.hessian(theta)(direction), two.hessian(theta)(direction), accuracy)


@pytest.mark.parametrize("name", CASES)
def test_fit_is_the_same(name, client):
    """To the accuracy that the tolerance leaves."""
    case, share = CASES[name], 1e-9 if name != "single precision" else 1e-5
    one, two = fitted(case.face, case.data), fitted(case.face, case.parted())
    assert two.solution_.converged
    assert abs(one.solution_.value - two.solution_.value) <= share * one.solution_.value
    if name != "single precision":  # which leaves a constant on all scores undetermined
        assert close(one.theta_, two.theta_, share)
    test = {k: v for k, v in case.data.items() if k in ("X", "groups", "parents")}
    assert all(np.array_equal(a, b) for a, b in zip(one.predict(**test), two.predict(**test), strict=True))
