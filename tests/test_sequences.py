"""Packed inference, and the tagger's risk and predictions, against enumeration and against each other."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import taskloss as tl
from taskloss.data.sequences import SequenceReader
from taskloss.hypotheses.structured import ForestRows, Structured
from taskloss.losses import ChainCost, ChainHamming, SequenceZeroOne
from taskloss.polytopes import Chain, PackedChains, Simplex, Tree
from taskloss.polytopes._forest import Forest
from taskloss.polytopes._max_product import k_best, maximise
from taskloss.polytopes._sum_product import marginals, sample
from taskloss.surrogates import ChainCRF, MaxEntropy

LABELS = np.array(["a", "b", "c"])


def forest_of(kind: str, rng: np.random.Generator) -> Forest:
    lengths = rng.integers(1, 9, size=30)
    if kind == "chains":
        return Forest.chains(lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    parents = np.concatenate(
        [
            [-1, *(start + rng.integers(0, i) for i in range(1, n))]
            for start, n in zip(offsets[:-1], lengths, strict=True)
        ]
    )
    return Forest(parents.astype(np.int64), offsets)


def toy(n: int = 25, d: int = 4, seed: int = 0) -> tuple[list, list]:
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(1, 6), d)) for _ in range(n)]
    y = [LABELS[np.argmax(x[:, :3] + rng.normal(size=(len(x), 3)), axis=1)] for x in X]
    return X, y


# -- packed inference -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["chains", "trees"])
@pytest.mark.parametrize("scale", [1.0, 300.0, 1e4])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("n_states", [1, 3, 6])
def test_compiled_equals_plain(kind, scale, shared, n_states):
    rng = np.random.default_rng(n_states)
    forest = forest_of(kind, rng)
    unary = scale * rng.normal(size=(forest.n_nodes, n_states))
    pairwise = scale * rng.normal(size=(() if shared else (forest.n_edges,)) + (n_states, n_states))
    for forbid in (False, True):
        if forbid:
            pairwise = np.where(rng.random(pairwise.shape) < 0.2, -np.inf, pairwise)
            np.einsum("...ii->...i", pairwise)[...] = 0.0  # so that every tree has an assignment
        for pairs, weights in itertools.product(("all", "sum", "none"), (None, rng.uniform(size=len(forest)))):
            plain = marginals(forest, unary, pairwise, pairs, weights, compiled=False)
            fast = marginals(forest, unary, pairwise, pairs, weights, compiled=True)
            for one, other in zip(plain, fast, strict=True):
                assert (one is None) == (other is None)
                if one is not None:
                    np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-10)
        score, states = maximise(forest, unary, pairwise, compiled=True)
        plain_score, plain_states = maximise(forest, unary, pairwise, compiled=False)
        np.testing.assert_allclose(score, plain_score, rtol=1e-12)
        np.testing.assert_array_equal(states, plain_states)


@pytest.mark.parametrize("allowed", [None, [[1, 1, 0], [1, 1, 1], [1, 0, 1]]], ids=["free", "forbidden"])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("threads", [1, 3])
def test_packed_chains_are_chains_of_each_length(monkeypatch, threads, shared, allowed):
    """Every verb on sequences of unequal lengths equals that of `Chain` on each of them, on any number of threads."""
    monkeypatch.setattr("taskloss.parallel.THREAD_WORK", 1)
    monkeypatch.setattr("taskloss.parallel.blas_threads", lambda: threads)
    rng, lengths = np.random.default_rng(5), [3, 1, 4, 2, 1, 3, 5]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    chains = PackedChains(3, offsets, allowed)
    unary = rng.normal(size=(offsets[-1], 3))
    steps = offsets - np.arange(len(offsets))
    pairwise = rng.normal(size=(3, 3) if shared else (steps[-1], 3, 3))
    log_z, nodes, edges = chains.log_partition_and_marginals(unary, pairwise)
    best, states = chains.maximiser(unary, pairwise)
    tops, ranked = chains.best(unary, pairwise, 2)
    drawn = chains.sample(unary, pairwise, 4000, random_state=0)
    np.testing.assert_allclose(chains.log_partition(unary, pairwise), log_z)
    for i, length in enumerate(lengths):
        chain, at, on = Chain(3, length, allowed), slice(*offsets[i : i + 2]), slice(*steps[i : i + 2])
        own = np.broadcast_to(pairwise, (length - 1, 3, 3)) if shared else pairwise[on]
        v = chain.join(unary[at], own)
        a, mu = chain.log_partition_and_marginals(v)
        np.testing.assert_allclose(log_z[i], a)
        np.testing.assert_allclose(chain.join(nodes[at], edges[on]), mu, atol=1e-12)
        one_best, one_states = chain.best(v, 2)
        np.testing.assert_allclose(tops[i], one_best)
        np.testing.assert_array_equal(ranked[:, at], one_states)
        np.testing.assert_allclose(best[i], one_best[0])
        np.testing.assert_array_equal(states[at], one_states[0])
        np.testing.assert_allclose(np.eye(3)[drawn[:, at]].mean(0), nodes[at], atol=0.04)


@pytest.mark.parametrize(
    ("offsets", "unary", "pairwise", "message"),
    [
        ([0, 2, 2], np.zeros((2, 2)), np.zeros((2, 2)), "Sequence 1 of X is empty"),
        ([1, 2], np.zeros((2, 2)), np.zeros((2, 2)), "offsets must be integers that rise from 0"),
        ([0, 2], np.zeros((3, 2)), np.zeros((2, 2)), "unary must have a row for each of the 2 positions"),
        ([0, 2], np.zeros((2, 2)), np.zeros((2, 2, 2)), "pairwise must be one matrix"),
        ([0, 2], np.full((2, 2), np.nan), np.zeros((2, 2)), "Scores must be finite"),
        ([0, 2], np.zeros((2, 2)), np.full((2, 2), -np.inf), "No assignment of states is allowed"),
    ],
)
def test_packed_chains_refuse(offsets, unary, pairwise, message):
    with pytest.raises(ValueError, match=message):
        PackedChains(2, offsets).log_partition_and_marginals(unary, pairwise)


@pytest.mark.parametrize("compiled", [True, False])
def test_long_chain_keeps_its_precision(compiled):
    # Without transitions a chain is a product of softmaxes; with strong ones it is nearly one decision.
    rng = np.random.default_rng(0)
    unary = 5 * rng.normal(size=(3000, 4))
    forest = Forest.chains([3000])
    log_z, mu, _ = marginals(forest, unary, np.zeros((4, 4)), compiled=compiled)
    a, expected = Simplex(4).log_partition_and_marginals(unary)
    np.testing.assert_allclose(log_z, a.sum(), rtol=1e-12)
    np.testing.assert_allclose(mu, expected, atol=1e-12)
    stay = np.where(np.eye(4) > 0, 0.0, -1e4)
    log_z, mu, _ = marginals(forest, unary, stay, compiled=compiled)
    total = unary.sum(0)
    np.testing.assert_allclose(log_z, logsumexp(total), rtol=1e-12)
    np.testing.assert_allclose(mu, np.tile(np.exp(total - logsumexp(total)), (3000, 1)), atol=1e-9)


@pytest.mark.parametrize("polytope", [Chain(3, 5000), Tree(3, (-1, *(np.arange(2999) // 2)))], ids=["chain", "tree"])
def test_single_precision_gives_laws_on_long_chains(polytope):
    v = np.random.default_rng(0).normal(size=polytope.size)
    for scale, atol in ((1.0, 1e-5), (1e4, 1e-2)):
        a, mu = polytope.log_partition_and_marginals((scale * v).astype(np.float32))
        assert mu.dtype == np.float32
        nodes, edges = polytope.split(mu)
        for law in (nodes.sum(-1), edges.sum((-1, -2))):
            np.testing.assert_allclose(law, 1, atol=1e-5)
        exact = polytope.log_partition_and_marginals(scale * v)
        np.testing.assert_allclose(a, exact[0], rtol=1e-5)
        np.testing.assert_allclose(mu, exact[1], atol=atol)


def test_parts_of_the_chain_that_never_meet():
    # Two groups of states without transitions between them: the group far behind underflows unless logarithms take
    # over, and the first position brings it back.
    n = 400
    unary = np.tile([0.0, 0.0, -3.0, -3.0], (n, 1))
    unary[0, :2] = -np.inf
    block = np.kron(np.eye(2), np.ones((2, 2)))
    for compiled in (True, False):
        log_z, mu, _ = marginals(Forest.chains([n]), unary, np.where(block > 0, 0.0, -np.inf), compiled=compiled)
        np.testing.assert_allclose(log_z, -3.0 * n + n * np.log(2), rtol=1e-12)
        np.testing.assert_allclose(mu[:, 2:], 0.5, atol=1e-12)


def test_no_allowed_sequence_is_refused():
    """By every answer in the same words, and with the user's number of the sequence, also in a subset or a block."""
    unary, free = np.zeros((9, 2)), np.zeros((2, 2))
    unary[6] = -np.inf
    forest = Forest.chains([3, 2, 1, 2, 1])
    sentence = "No assignment of states is allowed on sequence or tree 3"
    matrices = np.zeros((forest.n_edges, 2, 2))
    calls = [
        *(lambda c=c, p=p: marginals(forest, unary, p, compiled=c) for c in (True, False) for p in (free, matrices)),
        *(lambda c=c: maximise(forest, unary, free, compiled=c) for c in (True, False)),
        lambda: sample(forest, unary, free, 2, np.random.default_rng(0)),
        lambda: maximise(forest.take(np.array([1, 3])), unary[[3, 4, 6, 7]], free),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=sentence):
            call()
    nothing = Chain(2, 3, allowed=np.zeros((2, 2)))
    for call in (nothing.marginals, nothing.maximiser, lambda v: nothing.sample(v, 2)):
        with pytest.raises(ValueError, match="sequence or tree 0"):
            call(np.zeros((2, nothing.size)))


def test_k_best_on_ragged_chains():
    rng = np.random.default_rng(0)
    forest, pairwise = Forest.chains([1, 3, 4]), rng.normal(size=(3, 3))
    unary = rng.normal(size=(8, 3))
    scores, states = k_best(forest, unary, pairwise, 4)
    for q, (low, high) in enumerate(itertools.pairwise(forest.offsets)):
        every = np.array(list(itertools.product(range(3), repeat=high - low)))
        value = unary[np.arange(low, high), every].sum(1) + pairwise[every[:, :-1], every[:, 1:]].sum(1)
        order = np.argsort(-value)[:4]
        np.testing.assert_allclose(scores[q, : len(order)], value[order])
        np.testing.assert_array_equal(states[: len(order), low:high], every[order])


def test_torch_gives_numpy_s_numbers_and_gradients():
    torch = pytest.importorskip("torch")
    for polytope in (*Chain.examples(), *Tree.examples()):
        v = np.random.default_rng(0).normal(size=(3, polytope.size))
        a, mu = polytope.log_partition_and_marginals(v)
        t = torch.tensor(v, requires_grad=True)
        ta, tmu = polytope.log_partition_and_marginals(t)
        np.testing.assert_allclose(ta.detach().numpy(), a, rtol=1e-12)
        np.testing.assert_allclose(tmu.detach().numpy(), mu, atol=1e-12)
        ta.sum().backward()
        np.testing.assert_allclose(t.grad.numpy(), mu, atol=1e-12)
        best = polytope.maximiser(torch.tensor(v))
        np.testing.assert_allclose(best.numpy(), polytope.maximiser(v))


def test_projection_is_the_nearest_vertex_mixture():
    for polytope in (*Chain.examples(), *Tree.examples()):
        u = np.random.default_rng(0).normal(size=(5, polytope.size))
        expected = tl.polytopes.Hull(polytope.vertices()).project(u)
        np.testing.assert_allclose(polytope.project(u), expected, atol=1e-7)
        assert polytope.contains(expected, tol=1e-7).all()
        assert not polytope.contains(u).any()


def test_import_needs_no_compiler():
    code = "import taskloss, sys; assert not {'numba', 'matplotlib', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# -- what equals what -------------------------------------------------------------------------------------------------


def test_equal_spellings():
    rng = np.random.default_rng(0)
    crf, entropy = ChainCRF(3, 4), MaxEntropy(Chain(3, 4))
    v, y = rng.normal(size=(6, Chain(3, 4).size)), rng.integers(0, 3, (6, 4))
    phi = ChainHamming(3).phi(y)
    for one, other in zip(crf.value_and_gradient(v, phi), entropy.value_and_gradient(v, phi), strict=True):
        np.testing.assert_allclose(one, other)
    assert ChainCRF().bind(ChainHamming(3, 4).polytope) == crf
    with pytest.raises(ValueError, match="is for chains over its states"):
        ChainCRF(2).bind(ChainHamming(3, 4).polytope)
    one = Chain(3, 1)
    np.testing.assert_allclose(one.marginals(v[:, :3]), Simplex(3).marginals(v[:, :3]))
    np.testing.assert_allclose(Tree(3, (-1, 0, 1, 2)).marginals(v), Chain(3, 4).marginals(v))
    weights = np.array([1.0, 2.0, 0.5])
    table = ChainCost((1 - np.eye(3)) * weights, normalise=True)
    z = rng.integers(0, 3, (6, 4))
    np.testing.assert_allclose(table(z, y), ChainHamming(3, state_weights=weights)(z, y))
    np.testing.assert_allclose(ChainHamming(3)(z, y), (z != y).mean(1))
    np.testing.assert_allclose(ChainHamming(3, weights=[1, 0, 0, 2, 9], normalise=False)(z, y), (z != y) @ [1, 0, 0, 2])


def test_sequence_zero_one_is_map():
    tree = Chain(3, 4)
    v = 2 * np.random.default_rng(0).normal(size=(20, tree.size))
    nodes, edges = tree.split(tree.marginals(v))
    forest = Forest.copies(tree._parents(), 20)
    args = (forest, nodes.reshape(-1, 3), edges.reshape(-1, 3, 3))
    loss = SequenceZeroOne(3)
    z = loss.packed_decode(*args)
    best, states = tree.best(v, 1)
    np.testing.assert_array_equal(z.reshape(20, 4), states[:, 0])
    risk = loss.packed_risk(forest, z, *args[1:])
    np.testing.assert_allclose(risk, 1 - np.exp(best[:, 0] - tree.log_partition(v)), atol=1e-12)


# -- the tagger's risk ------------------------------------------------------------------------------------------------


def enumerated_risk(
    hypothesis: Structured, theta: np.ndarray, X: list, y: list, weights: np.ndarray, alpha: float
) -> float:
    """The same objective by listing every sequence."""
    parts, k = hypothesis.parts(theta), 3
    columns = [] if hypothesis.edges is None else hypothesis.edges
    total = alpha / 2 * ((theta**2).sum() - (parts["node"][-1] ** 2).sum())  # the intercepts are not penalised
    for x, labels, w in zip(X, y, weights / weights.sum(), strict=True):
        every = np.array(list(itertools.product(range(k), repeat=len(x))))
        unary = x @ parts["node"][:-1] + hypothesis.fit_intercept * parts["node"][-1]
        unary[0] += parts.get("start", 0.0)
        unary[-1] += parts.get("end", 0.0)
        value = unary[np.arange(len(x)), every].sum(1) + parts["transition"][every[:, :-1], every[:, 1:]].sum(1)
        if len(columns):
            step = (x[:, columns] @ parts["edges"]).reshape(-1, k, k)
            value += sum(step[t][every[:, t - 1], every[:, t]] for t in range(1, len(x)))
        known = [(t, LABELS.tolist().index(label)) for t, label in enumerate(labels) if label is not None]
        agrees = np.all([every[:, t] == code for t, code in known], axis=0) if known else np.ones(len(every), bool)
        total += w * (logsumexp(value) - logsumexp(value[agrees]))
    return total


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize(
    "options",
    [{}, {"fit_intercept": False, "boundaries": False}, {"transition_features": "all"}, {"transition_features": [2]}],
)
def test_risk_equals_enumeration_and_its_gradient(options, partial):
    X, y = toy()
    rng = np.random.default_rng(1)
    y = [[None if partial and rng.random() < 0.3 else label for label in row] for row in y]
    weights = rng.uniform(size=len(X))
    tagger = tl.SequenceTagger(alpha=0.3, **options)
    risk = tagger.objective(X, y, weights)
    theta = rng.normal(size=risk.start.shape)
    if not tagger.fit_intercept:
        risk.hypothesis.parts(theta)["node"][-1] = 0.0
    value, gradient = risk.value_and_gradient(risk.flatten(theta))
    np.testing.assert_allclose(value[0], enumerated_risk(risk.hypothesis, theta, X, y, weights, 0.3), rtol=1e-11)
    step, flat = 1e-4, theta.reshape(-1, 1)
    free = np.ones_like(theta)
    risk.hypothesis.parts(free)["node"][-1] = tagger.fit_intercept
    for j in rng.choice(np.flatnonzero(free), 12, replace=False):
        e = step * np.eye(len(flat))[:, [j]]
        f = [risk.value_and_gradient(flat + t * e)[0][0] for t in (1, -1, 2, -2)]
        np.testing.assert_allclose((8 * (f[0] - f[1]) - (f[2] - f[3])) / (12 * step), gradient[j, 0], atol=1e-8)


def test_sparse_rows_threads_and_kept_memory_change_nothing():
    rng = np.random.default_rng(0)
    X = [sparse.random(rng.integers(1, 30), 300, 0.05, "csr", random_state=rng) for _ in range(400)]
    y = [rng.integers(0, 12, x.shape[0]) for x in X]
    for options in ({}, {"transition_features": [0, 1]}):
        tagger = tl.SequenceTagger(alpha=0.01, **options)
        risk = tagger.objective(X, y)
        theta = rng.normal(size=risk.start.size)[:, None]
        risk.value_and_gradient(2 * theta)  # what it leaves in memory must not be seen again
        value, gradient = risk.value_and_gradient(theta)
        parts = [tagger.objective(X[i::4], y[i::4]) for i in range(4)]
        other = sum(len(X[i::4]) / 400 * part.value_and_gradient(theta)[0] for i, part in enumerate(parts))
        np.testing.assert_allclose(value, other, rtol=1e-10)
        dense = tagger.objective([x.toarray() for x in X], y)
        for one, two in zip((value, gradient), dense.value_and_gradient(theta), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)


def test_fit_reaches_the_minimum_from_scipy():
    from scipy.optimize import minimize

    X, y = toy(60)
    tagger = tl.SequenceTagger(alpha=0.05, tol=1e-12).fit(X, y)
    risk = clone(tagger).objective(X, y)

    def f(theta):
        value, gradient = risk.value_and_gradient(theta[:, None])
        return value[0], gradient[:, 0]

    found = minimize(f, np.zeros(risk.start.size), jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9})
    np.testing.assert_allclose(tagger.solution_.value, found.fun, rtol=1e-9)


def test_weights_of_zero_and_two_are_leaving_out_and_repeating():
    X, y = toy(12)
    weights = np.r_[np.zeros(4), np.full(4, 2.0), np.ones(4)]
    again = [*range(4, 8), *range(4, 12)]
    one = tl.SequenceTagger(alpha=0.1, tol=1e-13).fit(X, y, sample_weight=weights)
    two = tl.SequenceTagger(alpha=0.1, tol=1e-13).fit([X[i] for i in again], [y[i] for i in again])
    np.testing.assert_allclose(one.theta_, two.theta_, atol=1e-5)


# -- predictions ------------------------------------------------------------------------------------------------------


def test_forms_of_input_agree():
    X, y = toy()
    names = [f"f{j}" for j in range(4)]
    offsets = np.concatenate([[0], np.cumsum([len(x) for x in X])])
    forms = {
        "arrays": (X, y),
        "sparse": ([sparse.csr_matrix(x) for x in X], y),
        "mappings": ([[dict(zip(names, row, strict=True)) for row in x] for x in X], [row.tolist() for row in y]),
        "packed": (tl.Packed(np.concatenate(X), offsets), np.concatenate(y)),
    }
    found = {name: tl.SequenceTagger(alpha=0.05, tol=1e-12).fit(*form) for name, form in forms.items()}
    for name, tagger in found.items():
        np.testing.assert_allclose(tagger.theta_, found["arrays"].theta_, atol=1e-5)
        flat = np.concatenate(tagger.predict(forms[name][0])) if name != "packed" else tagger.predict(forms[name][0])
        np.testing.assert_array_equal(flat, np.concatenate(found["arrays"].predict(X)))
        assert tagger.score(*forms[name]) == pytest.approx(found["arrays"].score(X, y))
    assert found["mappings"].feature_names_in_.tolist() == names


def test_feature_names_as_lists_and_unseen_features():
    X = [[["w=a", "cap"], ["w=b"]], [["w=b"], ["w=a"]], [["w=a"]]]
    y = [["x", "y"], ["y", "x"], ["x"]]
    tagger = tl.SequenceTagger(alpha=0.01).fit(X, y)
    assert set(tagger.feature_names_in_) == {"cap", "w=a", "w=b"}
    assert tagger.predict([[["w=a", "never seen"], ["w=b"]]])[0].tolist() == ["x", "y"]


def test_mappings_read_as_scikit_learn_s_vectorizer_does():
    from sklearn.feature_extraction import DictVectorizer

    X = [[{"w": "a", "n": 2.5, "up": True, "tags": ["x", "y"]}, {"w": "b", "n": -1}], [{"tags": ("y",), "up": False}]]
    reader = SequenceReader()
    rows, offsets = reader.fit_read(X)
    peer = DictVectorizer()
    np.testing.assert_array_equal(rows.toarray(), peer.fit_transform(X[0] + X[1]).toarray())
    assert list(reader.vocabulary) == peer.get_feature_names_out().tolist()
    assert offsets.tolist() == [0, 2, 3]
    new = [[{"w": "never", "n": 3}]]
    np.testing.assert_array_equal(reader.read(new)[0].toarray(), peer.transform(new[0]).toarray())
    with pytest.raises(ValueError, match=r"The feature 'w' in X must be a number.*or a mapping, got None"):
        reader.read([[{"w": None}]])


def test_nested_mappings_are_named_as_crfsuite_names_them():
    pycrfsuite = pytest.importorskip("pycrfsuite")
    item = {"w": {"a": 1.5, "b": {"c": 2.0}}, "n": 3.0}
    reader = SequenceReader()
    rows, _ = reader.fit_read([[item]])
    theirs = dict(pycrfsuite.ItemSequence([item]).items()[0])
    assert dict(zip(reader.vocabulary, rows.toarray()[0].tolist(), strict=True)) == theirs
    assert theirs == {"n": 3.0, "w:a": 1.5, "w:b:c": 2.0}


def test_packed_sequences_are_a_list_of_sequences():
    X, y = toy(40)
    offsets = np.concatenate([[0], np.cumsum([len(x) for x in X])])
    for rows in (np.concatenate(X), sparse.csr_matrix(np.concatenate(X))):
        packed = tl.Packed(rows, offsets)
        assert len(packed) == len(list(packed)) == 40
        for key in (slice(3, 9), [5, 2, 2], np.arange(40) % 3 == 0):
            which = np.arange(40)[key]
            some = packed[key]
            assert some.offsets.tolist() == np.cumsum([0, *(len(X[i]) for i in which)]).tolist()
            np.testing.assert_array_equal(sparse.csr_matrix(some.rows).toarray(), np.concatenate([X[i] for i in which]))
        grid = {"alpha": [1e-3, 1.0]}
        one, two = (GridSearchCV(tl.SequenceTagger(), grid, cv=3).fit(form, y) for form in (packed, X))
        np.testing.assert_allclose(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"], atol=1e-6)
    expected = tl.SequenceTagger().fit(packed, y)
    flat = np.concatenate(y)
    for labels in (flat, flat.tolist(), pd.Series(flat), pd.Series(flat, dtype="category")):
        tagger = tl.SequenceTagger().fit(packed, labels)
        np.testing.assert_allclose(tagger.theta_, expected.theta_)
        assert tagger.score(packed, labels) == ChainHamming().scorer()(tagger, packed, labels) == tagger.score(X, y)


def test_data_frames_are_their_values():
    X, y = toy()
    frames = [pd.DataFrame(x, columns=list("pqrs")) for x in X]
    tagger = tl.SequenceTagger().fit(frames, y)
    np.testing.assert_array_equal(tagger.theta_, tl.SequenceTagger().fit(X, y).theta_)
    with pytest.raises(ValueError, match="the columns of the first one that was fitted"):
        tagger.predict([frame[list("qprs")] for frame in frames])


def test_labels_of_any_type():
    X, y = toy()
    expected = tl.SequenceTagger().fit(X, y)
    pairs = [[("t", label) for label in row] for row in y]
    tagger = tl.SequenceTagger(forbidden=[(("t", "z"), ("t", "a"))]).fit(X, pairs)
    np.testing.assert_array_equal(tagger.theta_, expected.theta_)
    assert [label for _, label in tagger.predict(X)[0]] == expected.predict(X)[0].tolist()
    assert tagger.score(X, pairs) == expected.score(X, y)
    gaps = [[label if t else None for t, label in enumerate(row)] for row in y]
    missing = [pd.Series(row).where([t > 0 for t in range(len(row))], pd.NA) for row in y]
    arrays = [np.array([label if t else np.nan for t, label in enumerate(row)], dtype=object) for row in y]
    known = tl.SequenceTagger().fit(X, gaps)
    for labels in (missing, arrays):
        np.testing.assert_array_equal(tl.SequenceTagger().fit(X, labels).theta_, known.theta_)


def test_forbidden_pairs_of_labels_that_a_fold_lacks_are_passed_over():
    X, y = toy(30)
    expected = tl.SequenceTagger().fit(X, y).theta_
    np.testing.assert_array_equal(
        tl.SequenceTagger(forbidden=[("a", "rare"), ("rare", None)]).fit(X, y).theta_, expected
    )


def test_predictions_minimise_the_expected_loss():
    X, y = toy(40)
    tagger = tl.SequenceTagger(alpha=0.02).fit(X, y)
    rng = np.random.default_rng(0)
    losses = [
        ChainHamming(),
        ChainHamming(state_weights=[1, 5, 0.2]),
        ChainCost(rng.uniform(size=(3, 3)), rng.uniform(size=(3,) * 4)),
    ]
    moments = tagger.predict_moments(X)
    for loss in losses:
        expected = tagger.expected_loss(X, loss)
        for x, labels, mu, risk in zip(X, tagger.predict(X, loss), moments, expected, strict=True):
            here = loss.bind(3).with_params(length=len(x))
            z = here.outputs()
            risks = here.psi(z) @ mu + here.constant
            assert risk == pytest.approx(risks.min())
            assert here.bayes_risk(np.searchsorted(LABELS, labels)[None], mu)[0] == pytest.approx(risks.min())
    for x, mu, nodes in zip(X, moments, tagger.predict_marginals(X), strict=True):
        np.testing.assert_allclose(mu[: 3 * len(x)], nodes.ravel())


def test_map_best_and_samples_agree():
    X, y = toy(10)
    tagger = tl.SequenceTagger(alpha=0.02).fit(X, y)
    log_p, best = tagger.predict_best(X, 3)
    for labels, paths in zip(tagger.predict(X, "sequence-zero-one"), best, strict=True):
        assert labels.tolist() == paths[0].tolist()
    np.testing.assert_allclose(tagger.expected_loss(X, "sequence-zero-one"), 1 - np.exp(log_p[:, 0]), atol=1e-12)
    draws = tagger.sample(X, 4000, random_state=0)
    for labels, nodes in zip(draws, tagger.predict_marginals(X), strict=True):
        share = (labels[:, :, None] == LABELS).mean(0)
        np.testing.assert_allclose(share, nodes, atol=0.05)
    assert np.isneginf(tagger.predict_best([np.zeros((1, 4))], 5)[0][0, 3:]).all()


def test_forbidden_transitions_have_no_probability_and_are_not_predicted():
    X, y = toy(60)
    keep = [
        i
        for i, row in enumerate(y)
        if not any(p == ("a", "b") for p in itertools.pairwise(row)) and row[0] != "c" and row[-1] != "a"
    ]
    X, y = [X[i] for i in keep], [y[i] for i in keep]
    tagger = tl.SequenceTagger(alpha=0.02, forbidden=[("a", "b"), (None, "c"), ("a", None)]).fit(X, y)
    new, _ = toy(40, seed=9)
    for loss in (
        "chain-hamming",
        "sequence-zero-one",
        ChainCost(1 - np.eye(3), np.random.default_rng(0).uniform(size=(3,) * 4)),
    ):
        for row in tagger.predict(new, loss):
            assert ("a", "b") not in list(itertools.pairwise(row))
            assert row[0] != "c"
            assert row[-1] != "a"
    for x, mu in zip(new, tagger.predict_moments(new), strict=True):
        nodes, edges = Chain(3, len(x)).split(mu)
        assert (edges[:, 0, 1] == 0).all()
        assert nodes[0, 2] == 0
        assert nodes[-1, 0] == 0


def test_forbidden_transitions_follow_the_names_of_outputs():
    X, y = toy(60)
    keep = [i for i, row in enumerate(y) if ("a", "b") not in list(itertools.pairwise(row)) and row[0] != "c"]
    X, y = [X[i] for i in keep], [y[i] for i in keep]
    tagger = tl.SequenceTagger(alpha=0.02, forbidden=[("a", "b"), (None, "c")]).fit(X, y)
    new, _ = toy(60, seed=9)
    free = tl.SequenceTagger(alpha=0.02).fit(X, y)
    moved = ChainCost((1 - np.eye(3))[[2, 0, 1]], outputs=["c", "a", "b"])
    expected = np.concatenate(tagger.predict(new))
    assert any(("a", "b") in itertools.pairwise(row) for row in free.predict(new))  # the limits do bind
    np.testing.assert_array_equal(np.concatenate(tagger.predict(new, moved)), expected)
    np.testing.assert_array_equal(np.concatenate(tagger.predict(new, ChainCost(1 - np.eye(3)))), expected)
    # One more output, "abstain": it is free, and the others stay bound.
    more = ChainCost(np.vstack([1 - np.eye(3), np.full(3, 0.3)])[[3, 2, 0, 1]], outputs=["?", "c", "a", "b"])
    rows = [row.tolist() for row in tagger.predict(new, more)]
    assert any("?" in row for row in rows)
    assert all(("a", "b") not in itertools.pairwise(row) and row[0] != "c" for row in rows)


def test_map_on_a_long_sequence_is_the_best_path():
    """Staying at c has the best score, but a and b have so many paths that the marginals of c are zero in floats."""
    X, y = toy(60)
    tagger = tl.SequenceTagger("sequence-zero-one", alpha=0.02).fit(X, y)
    tagger.theta_[:] = 0
    tagger.transition_weights_[:] = [[0.0, 0.0, -1e4], [0.0, 0.0, -1e4], [-1e4, -1e4, 0.5]]
    long = [np.zeros((9000, 4)), np.zeros((2, 4))]
    assert tagger.predict_marginals(long)[0][:, 2].max() == 0
    path = [["c"] * 9000, ["c"] * 2]
    assert [row.tolist() for row in tagger.predict(long)] == path
    np.testing.assert_allclose(tagger.expected_loss(long), [1.0, 1 - np.exp(0.5) / (4 + np.exp(0.5))])
    assert tagger.score(long, path) == 0


def test_impossible_sequences_are_named_by_the_user_s_number():
    X = [np.eye(4), np.eye(4)[:2], np.eye(4)[:3]]
    y = [["a", "b", "c", "a"], ["a", "b"], ["b", "c", "a"]]
    tagger = tl.SequenceTagger(forbidden=[(None, "c"), ("a", None), ("b", None), ("c", None)])
    with pytest.raises(ValueError, match="The training data go from 'a' to the end"):
        tagger.fit(X, y)
    tagger = tl.SequenceTagger(forbidden=[(None, "b"), (None, "c"), ("a", "c")]).fit(X[:2], y[:2])
    tagger.limits_ = tagger.limits_._replace(end=np.array([-np.inf, -np.inf, 0.0]))
    bad = [np.eye(4), np.eye(4)[:3], np.eye(4)[:2]]  # a must come first, then not c, and c last
    for call in (
        tagger.predict,
        lambda X: tagger.predict(X, "sequence-zero-one"),
        tagger.sample,
        lambda X: tagger.predict_best(X, 2),
        tagger.predict_marginals,
    ):
        with pytest.raises(ValueError, match="allowed on sequence or tree 2"):
            call(bad)
    gap = [["a", "b", "c", "a"], ["a", "b"], ["a", None, "b"]]
    steps = [("a", "a"), ("b", "b"), ("a", "c"), ("c", "b")]
    with pytest.raises(ValueError, match="The training data go"):
        tl.SequenceTagger(forbidden=[*steps, ("a", "b")]).fit(X, gap)
    with pytest.raises(ValueError, match="allowed on sequence or tree 2"):
        tl.SequenceTagger(forbidden=steps).fit(X, gap)


def test_neither_an_objective_nor_a_failed_fit_changes_a_fitted_tagger():
    X, y = toy(30)
    loss = ChainCost(1 - np.eye(3))
    tagger = tl.SequenceTagger(loss, alpha=0.05).fit(X, y)
    before = np.concatenate(tagger.predict(X))
    wide = [np.hstack([x, x]) for x in X]
    tagger.objective(wide, [["x" + label for label in row] for row in y])
    for bad in (y[:-1], [["a"] * len(row) for row in y]):
        with pytest.raises(ValueError):
            tagger.fit(wide, bad)
    loss.set_params(unary=np.eye(3))
    np.testing.assert_array_equal(np.concatenate(tagger.predict(X)), before)
    assert tagger.n_features_in_ == 4


def test_transition_weights_of_features():
    X, y = toy()
    tagger = tl.SequenceTagger(alpha=0.05, transition_features=[2, 0]).fit(X, y)
    weights, x = tagger.feature_transition_weights_, np.array([0.0, 0.0, 3.0, 0.0])
    assert weights.shape == (2, 3, 3)
    v = tagger.hypothesis_.predict(tagger.theta_, ForestRows(np.stack([x, x]), Forest.chains([2])))
    np.testing.assert_allclose(v.edges[0], tagger.transition_weights_ + 3 * weights[0])
    assert tl.SequenceTagger().fit(X, y).feature_transition_weights_.shape == (0, 3, 3)


def test_outputs_that_are_not_labels():
    X, y = toy(30)
    abstain = ChainCost(np.vstack([1 - np.eye(3), np.full(3, 0.2)]), outputs=["a", "b", "c", "?"])
    tagger = tl.SequenceTagger(abstain, alpha=0.1).fit(X, y)
    for labels, mu in zip(tagger.predict(X), tagger.predict_marginals(X), strict=True):
        sure = mu.max(1) > 0.8
        assert (labels[~sure] == "?").all()
        assert (labels[sure] == LABELS[mu.argmax(1)][sure]).all()
    assert -0.2 * 6 <= tagger.score(X, y) <= 0


def test_missing_labels_are_nearly_made_up_for():
    X, y = toy(200)
    rng = np.random.default_rng(0)
    holes = [[label if rng.random() < 0.6 else np.nan for label in row.astype(object)] for row in y]
    tagger = tl.SequenceTagger(alpha=0.01).fit(X, holes)
    assert tagger.classes_.tolist() == ["a", "b", "c"]
    complete = tl.SequenceTagger(alpha=0.01).fit(X, y).score(X, y)
    assert complete - 0.03 < tagger.score(X, y) < complete + 0.03


def test_lives_with_scikit_learn():
    X, y = toy(40)
    search = GridSearchCV(tl.SequenceTagger(), {"alpha": [1e-3, 1e3], "boundaries": [True, False]}, cv=3).fit(X, y)
    assert search.best_params_["alpha"] == 1e-3
    tagger = search.best_estimator_
    again = clone(tagger).set_params(warm_start=True, tol=1e-9).fit(X, y)
    first = again.solution_.evaluations
    assert again.fit(X, y).solution_.evaluations < first


def test_scorers_are_the_tagger_s_own_score():
    X, y = toy(30)
    offsets = np.concatenate([[0], np.cumsum([len(x) for x in X])])
    cost = ChainCost(np.vstack([1 - np.eye(3), np.full(3, 0.2)]), outputs=["a", "b", "c", "?"])
    for loss in (ChainHamming(), SequenceZeroOne(), ChainCost(1 - np.eye(3), np.ones((3,) * 4)), cost):
        tagger = tl.SequenceTagger(loss, alpha=0.05).fit(X, y)
        assert loss.scorer()(tagger, X, y) == pytest.approx(tagger.score(X, y))
        packed = tl.Packed(np.concatenate(X), offsets)
        assert loss.scorer()(tagger, packed, np.concatenate(y)) == pytest.approx(tagger.score(X, y))
    search = GridSearchCV(tl.SequenceTagger(), {"alpha": [1e-2, 1e-1]}, scoring=SequenceZeroOne().scorer(), cv=2)
    assert -1 <= search.fit(X, y).best_score_ <= 0


def test_progress_bar(capsys):
    tl.SequenceTagger(verbose=True).fit(*toy(5))
    assert "SequenceTagger" in capsys.readouterr().err
