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
dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
db = pytest.importorskip("dask.bag")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
delayed = dask.delayed
rounds = pytest.importorskip("taskloss.distributed.rounds")

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
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
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
    face = case.face
    if face.solver == "auto":  # on little data in memory that is Newton's method
        face = clone(face).set_params(solver="lbfgs")
    one, two = fitted(face, case.data), fitted(face, case.parted())
    assert two.solution_.converged
    assert abs(one.solution_.value - two.solution_.value) <= share * one.solution_.value
    if name != "single precision":  # which leaves a constant on all scores undetermined
        # tol determines parameters to its root; but for sparse rows, steps are the same in memory, too.
        assert close(one.theta_, two.theta_, share if name != "sparse" else 1e-5)
    test = {k: v for k, v in case.data.items() if k in ("X", "groups", "parents")}
    assert all(np.array_equal(a, b) for a, b in zip(one.predict(**test), two.predict(**test), strict=True))


@pytest.fixture(scope="module", params=[1, 4])
def workers(request):
    """Clusters of one worker, and of more workers than some data have partitions with rows."""
    with (
        distributed.LocalCluster(
            n_workers=request.param, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as one,
        one.as_current(),
    ):
        yield one


LAYOUTS = ["multinomial", "sparse", "nystrom", "ordinal", "named sets", "rankings", "sequences", "trees", "matchings"]


@pytest.mark.parametrize("name", LAYOUTS)
def test_results_do_not_depend_on_the_number_of_workers(name, workers, monkeypatch):
    test_objective_is_the_same(name, workers, monkeypatch)
    test_fit_is_the_same(name, workers)


@pytest.mark.parametrize("name", ["multinomial", "costs", "sparse", "nystrom", "newton", "rankings", "sequences"])
def test_data_that_are_not_held_are_read_where_they_are_used(name, client, monkeypatch):
    """In one task for each partition, so that no worker keeps what it has read ahead."""
    compute, tasks = rounds.compute, []

    def counted(values):
        tasks.append(len({key for value in values if value is not None for key in value.dask}))
        return compute(values)

    monkeypatch.setattr(rounds, "_HELD", 0.0)
    monkeypatch.setattr(rounds, "compute", counted)
    test_fit_is_the_same(name, client)
    assert len(tasks) > 5
    curvatures = len(CUTS) if name in ("newton", "sequences") else 0  # which are held while a direction is sought
    assert max(tasks) <= len(CUTS) + curvatures


def test_tasks_are_fused_unless_others_need_them_or_workers_have_them(client):
    common = delayed(np.arange)(4, dask_key_name="common")
    parts = [delayed(np.add)(delayed(np.full)(4, i, dask_key_name=("read", i)), common) for i in range(3)]
    items = [delayed(np.sum)(part, dask_key_name=("sum", i)) for i, part in enumerate(parts)]
    found = rounds.fused(items)
    assert set(found[0].dask) == {"common", *(("sum", i) for i in range(3))}
    assert dask.compute(*found) == (6, 10, 14)
    placed = da.ones(4, chunks=2)
    with dask.annotate(workers=["one"]):
        placed = placed + 1
    mine = list(placed.to_delayed(optimize_graph=False))
    assert rounds.fused(mine) is mine
    if client is not None:
        held = client.persist(delayed(np.arange)(5))
        both = [delayed(np.dot)(held, delayed(np.ones)(5)) for _ in range(2)]
        found = rounds.fused(both)
        assert set(found[0].dask) == {held.key, *(item.key for item in both)}
        assert dask.compute(*found) == (10, 10)


def computed(value):
    return value.compute()


LAZY = {
    "multinomial": [
        "predict",
        "predict_moments",
        "predict_proba",
        "predict_log_proba",
        "expected_loss",
        "decision_function",
        "predict_scores",
    ],
    "costs": ["predict", "predict_moments", "expected_loss"],
    "sparse": ["predict", "predict_moments"],
    "sets": ["predict", "predict_proba"],
    "named sets": ["predict", "expected_loss"],
    "rankings": ["predict", "predict_moments", "expected_loss"],
    "sequences": ["predict", "predict_proba", "expected_loss", "predict_marginals"],
    "trees": ["predict", "expected_loss"],
    "matchings": ["predict", "predict_moments", "expected_loss"],
}


@pytest.mark.parametrize("name", LAZY)
def test_predictions_are_lazy_and_the_same(name, client):
    case = CASES[name]
    model, parted = fitted(case.face, case.data), case.parted()
    inputs = [k for k in ("X", "groups", "parents") if k in case.data]
    for method in LAZY[name]:
        one = getattr(model, method)(**{k: case.data[k] for k in inputs})
        two = getattr(model, method)(**{k: parted[k] for k in inputs})
        assert two.__dask_graph__()  # nothing is computed yet
        found = computed(two)
        if method == "expected_loss" and "groups" in inputs:  # of partitions in turn
            one, found = np.sort(one), np.sort(found)
        assert len(one) == len(found)
        same = np.allclose if np.asarray(one[0]).dtype.kind == "f" else np.array_equal
        assert all(same(a, b) for a, b in zip(one, found, strict=True)), method
    score = model.score(**{k: v for k, v in parted.items()})
    assert score.shape == ()
    assert np.isclose(float(computed(score)), model.score(**case.data), rtol=1e-12)


def test_costs_per_example_go_with_their_partition(client):
    case = CASES["multinomial"]
    model, X = fitted(case.face, case.data), case.data["X"]
    costs = np.random.default_rng(2).random((N, 5))
    assert np.array_equal(computed(model.predict(case.part(X), costs=case.part(costs))), model.predict(X, costs=costs))


def test_one_pass_over_partitions_in_turn_is_that_of_their_stream(client):
    case = CASES["multinomial"]
    X, y = case.data["X"], case.data["y"]
    face = tl.TaskLossEstimator(solver=tl.solvers.ASGD(radius=3.0))
    ends = np.cumsum((0, *CUTS))
    batches = [(X[a:b], y[a:b]) for a, b in itertools.pairwise(ends)]
    one = clone(face).fit_stream(batches, classes=np.unique(y), n_samples=N)
    two = clone(face).fit(case.part(X), case.part(y))
    assert np.allclose(one.theta_, two.theta_, rtol=1e-12, atol=1e-14)
    assert two.n_iter_ == N
    ranks = CASES["rankings, nystrom"]
    ends = [(a, b) for a, b in itertools.pairwise(np.cumsum((0, *ranks.cuts))) if b > a]
    one = tl.Ranker(solver=tl.solvers.ASGD(radius=3.0, step=0.5))
    two = clone(one).fit(**ranks.parted())
    for a, b in ends:
        one.partial_fit(**{name: value[a:b] for name, value in ranks.data.items()})
    assert np.allclose(one.theta_, two.theta_, rtol=1e-12, atol=1e-14)


def test_what_workers_hold_stays_with_them(client):
    """Shares are made of partitions where they lie, and every round goes to the shares: what travels is small beside one partition."""
    if client is None:
        pytest.skip("one process")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 10))
    y = np.argmax(X[:, :3] + rng.normal(size=(8000, 3)), axis=1)
    workers = list(client.scheduler_info()["workers"])

    def lying(value):
        pieces = [client.scatter(value[i : i + 1000], workers=[workers[i // 1000 % 2]]) for i in range(0, 8000, 1000)]
        return da.concatenate([da.from_delayed(piece, (1000, *value.shape[1:]), value.dtype) for piece in pieces])

    parts = lying(X), lying(y)

    def moved(dask_worker):
        found = sum(record["total"] for record in dask_worker.transfer_incoming_log)
        dask_worker.transfer_incoming_log.clear()
        return found

    client.run(moved)
    face = tl.TaskLossEstimator(hypothesis=tl.hypotheses.Nystrom(12), alpha=1e-4, tol=1e-9)
    two = clone(face).fit(*parts)
    assert two.solution_.evaluations > 5
    assert sum(client.run(moved).values()) < X.nbytes / 8
    one = clone(face).fit(X, y)
    assert close(
        one.hypothesis_.moments_, two.hypothesis_.moments_, 1e-9
    )  # of the same centres: rows count in memory's order
    assert abs(one.solution_.value - two.solution_.value) <= 1e-9 * one.solution_.value


def test_frames_of_sequences(client):
    frame = pd.DataFrame({"s": np.repeat(np.arange(20), 3), "x": np.arange(60.0), "z": 1.0, "tag": list("BI") * 30})
    parts = dd.from_pandas(frame.set_index("s"), npartitions=3).reset_index()
    X, y = tl.distributed.sequences(parts, "s", "tag")
    rows = [part[["x", "z"]] for _, part in frame.groupby("s")]
    tags = [part["tag"].tolist() for _, part in frame.groupby("s")]
    face = tl.SequenceTagger(alpha=1e-2, tol=1e-12, solver="newton")
    one, two = clone(face).fit(rows, tags), clone(face).fit(X, y)
    assert close(one.theta_, two.theta_, 1e-9)
    assert two.predict(X).compute()[3].tolist() == one.predict(rows)[3].tolist()
    broken = dd.from_delayed([dask_value(frame[:4]), dask_value(frame[4:])], meta=frame[:0])
    with pytest.raises(ValueError, match=r"The sequence 1 has rows in partition 0 and in partition 1"):
        tl.distributed.sequences(broken, "s", "tag")


def test_folders_of_parquet_and_csv(client, tmp_path):
    case = CASES["costs"]
    frame = case.data["X"].assign(label=case.data["y"].to_numpy())
    one = fitted(case.face, case.data)
    for kind in ("csv", "parquet"):
        folder = tmp_path / kind
        folder.mkdir()
        for i, part in enumerate(np.array_split(np.arange(N), 3)):
            getattr(frame.iloc[part], f"to_{kind}")(folder / f"part-{i}.{kind}", index=False)
        read = getattr(dd, f"read_{kind}")(folder / f"*.{kind}")
        two = clone(case.face).fit(read[list("abcde")], read["label"])
        assert two.feature_names_in_.tolist() == list("abcde")
        assert close(one.theta_, two.theta_, 1e-9)


def words(rows):
    """A partition in which a column holds words."""
    return rows.assign(a="high")


BAD = {
    "words in one partition": (
        lambda X, y, g: (tl.TaskLossEstimator(), {"X": frames(X, words), "y": y}),
        r"Partition 1: X must hold numbers",
    ),
    "other columns in one partition": (
        lambda X, y, g: (
            tl.TaskLossEstimator(),
            {"X": frames(X, lambda rows: rows.rename(columns={"a": "q"})), "y": y},
        ),
        r"Partition 1 of X is rows of 5 columns named \['q', .*, and partition 0 is",
    ),
    "labels of other types": (
        lambda X, y, g: (tl.TaskLossEstimator(), {"X": X, "y": typed(y)}),
        r"y must hold labels of one type",
    ),
    "a group in two partitions": (
        lambda X, y, g: (tl.Ranker(), {"X": X, "y": g, "groups": g}),
        r"The group 1 has rows in partition 0 and in partition 1: a group lies in one partition",
    ),
    "no groups": (lambda X, y, g: (tl.Ranker(), {"X": X, "y": g}), r"needs groups"),
    "other partitions": (
        lambda X, y, g: (tl.TaskLossEstimator(), {"X": unknown(X), "y": y.rechunk(60)}),
        r"X has 3 partitions and y has 4, and it is unknown which rows they hold",
    ),
    "rows unknown beside an array": (
        lambda X, y, g: (tl.TaskLossEstimator(), {"X": unknown(X), "y": y.compute()}),
        r"The chunk sizes of X are unknown, so that y, which is no Dask collection",
    ),
    "columns cut": (
        lambda X, y, g: (tl.TaskLossEstimator(), {"X": unknown(X.rechunk((80, 2))), "y": y}),
        r"X is cut between its columns, and its chunk sizes are unknown",
    ),
    "lengths": (lambda X, y, g: (tl.TaskLossEstimator(), {"X": X, "y": y[:200]}), r"different lengths: 240 and 200"),
    "a label missing": (
        lambda X, y, g: (tl.TaskLossEstimator(), {"X": X, "y": da.where(g == 40, np.nan, g)}),
        r"Partition 2: Input y contains NaN",
    ),
    "one class": (lambda X, y, g: (tl.TaskLossEstimator(), {"X": X, "y": g * 0}), r"y has one class only \(0\)"),
    "an array beside": (
        lambda X, y, g: (tl.TaskLossEstimator(), {"X": X.compute(), "y": y}),
        r"y is a Dask collection and X is none",
    ),
    "no weight": (
        lambda X, y, g: (tl.TaskLossEstimator(), {"X": X, "y": y, "sample_weight": g * 0}),
        r"sample_weight is zero for all examples of all partitions",
    ),
    "trees": (lambda X, y, g: (tl.TaskLossEstimator(hypothesis="boosting"), {"X": X, "y": y}), r"trains itself"),
    "exact kernels": (
        lambda X, y, g: (tl.TaskLossEstimator(hypothesis="kernel", alpha=1.0), {"X": X, "y": y}),
        r"use hypothesis='nystrom'",
    ),
    "a penalty to choose": (
        lambda X, y, g: (tl.TaskLossEstimator(alpha="auto"), {"X": X, "y": y}),
        r"alpha must be a number, got 'auto'",
    ),
    "fitted in memory": (
        lambda X, y, g: (tl.KernelPredictor(), {"X": X, "y": y}),
        r"KernelPredictor is fitted in memory",
    ),
    "a validation": (
        lambda X, y, g: (tl.TaskLossEstimator(), {"X": X, "y": y, "validation": (X, y)}),
        r"validation is for learners",
    ),
    "a sequence too few": (
        lambda X, y, g: (
            tl.SequenceTagger(),
            {"X": db.from_sequence([[["a"]]] * 4, npartitions=2), "y": db.from_sequence([["u"]] * 3, npartitions=2)},
        ),
        r"Partition 1: X has 2 sequences, but y has 1",
    ),
}


def frames(X, change):
    """Three partitions of a data frame, of which the second is changed."""
    parts = [pd.DataFrame(X.blocks[i].compute(), columns=list("abcde")) for i in range(3)]
    parts[1] = change(parts[1])
    return dd.from_delayed([dask_value(part) for part in parts], meta=parts[0].iloc[:0], verify_meta=False)


def unknown(X):
    """The same array, whose rows nobody has counted."""
    return X[da.ones(N, chunks=X.chunks[0]) > 0]


def typed(y):
    first = da.from_array(np.arange(80) % 3, chunks=80)
    return da.concatenate([first.astype(object), y.blocks[1:].astype(object)])


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_sentence(name, client):
    if client is not None:
        pytest.skip("sentences do not depend on who computes")
    X, y = da.from_array(CASES["multinomial"].data["X"], chunks=(80, -1)), CASES["multinomial"].data["y"]
    make, sentence = BAD[name]
    face, data = make(
        X,
        da.from_array(y, chunks=80),
        da.from_array(np.arange(N) // 5 * 1 // 13, chunks=80)
        if "group" in name
        else da.from_array(np.arange(N) // 5, chunks=80),
    )
    with pytest.raises((ValueError, TypeError), match=sentence):
        face.fit(**data)


def test_a_checkpoint_is_where_a_fit_goes_on(client, tmp_path):
    case = CASES["newton"]
    file = tmp_path / "fit.npz"
    one = fitted(case.face, case.data)
    short = clone(case.face).set_params(max_iter=2, solver="lbfgs")
    with pytest.warns(Warning, match="max_iter"):
        first = short.fit(**case.parted(), checkpoint=file)
    with np.load(file, allow_pickle=False) as kept:
        assert np.array_equal(kept["theta"], first.theta_)
    again = clone(case.face).fit(**case.parted(), checkpoint=file)
    assert again.solution_.evaluations < one.solution_.evaluations
    assert close(one.theta_, again.theta_, 1e-6)
    assert clone(case.face).fit(**case.data, checkpoint=str(file)).solution_.evaluations <= 2  # also in memory
    with pytest.raises(ValueError, match="give another path, or remove the file"):
        tl.OrdinalClassifier().fit(case.data["X"], np.arange(N) % 3, checkpoint=file)
    file.write_text("no arrays")
    with pytest.raises(ValueError, match="is no checkpoint of a fit"):
        fitted(case.face, {**case.data, "checkpoint": file})
    with pytest.raises(FileNotFoundError, match="must lie in a folder that is there"):
        fitted(case.face, {**case.data, "checkpoint": tmp_path / "none" / "fit.npz"})
