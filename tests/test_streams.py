"""Files of examples: what they say is what is read, or one sentence says why not."""

import gzip
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import taskloss as tl

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def labels_of(text, **options):
    return np.concatenate([y for _, y in tl.streams.from_csv(io.StringIO(text), **options)])


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["9007199254740993", "9007199254740992"], "i"),
        (["-3", "0", "9223372036854775807"], "i"),
        (["00501", "501"], "U"),
        (["+1", "1"], "f"),
        (["1.5", "2"], "f"),
        (["1_0", "10"], "U"),
        (["nan?", "1"], "U"),
    ],
)
def test_distinct_labels_stay_distinct(words, kind):
    found = labels_of("x,y\n" + "".join(f"1,{word}\n" for word in words))
    assert found.dtype.kind == kind
    if kind != "f":
        assert found.astype(str).tolist() == words


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.integers(1, 5))
def test_whole_numbers_come_back(numbers, size):
    assert labels_of("y,x\n" + "".join(f"{n},0\n" for n in numbers), target="y", size=size).tolist() == numbers


@given(
    st.lists(
        st.tuples(st.text(st.characters(codec="utf-8", exclude_characters="\0")), st.floats(-1e300, 1e300)), min_size=1
    )
)
def test_words_and_numbers_come_back(rows):
    """As Python's own writer writes them: quotes, delimiters and line ends in labels, and every bit of a number."""
    import csv

    text = io.StringIO(newline="")
    csv.writer(text).writerows([["x", "y"], *((repr(x), word) for word, x in rows)])
    text.seek(0)
    batches = list(tl.streams.from_csv(text, labels=str))
    # NumPy's strings end where their last nulls begin, and hold all other characters.
    assert [word for _, y in batches for word in y.tolist()] == [word for word, _ in rows]
    assert [float(x) for X, _ in batches for x in X[:, 0]] == [x for _, x in rows]


BAD = {
    "infinite label": ("x,y\n1,inf\n2,1.5\n", {}, "the label 'inf' is not a finite number"),
    "infinite feature": ("x,y\n-inf,1\n", {}, "must not be infinite, got -inf"),
    "too large": ("x,y\n1,9223372036854775808\n", {}, "does not fit in 64 bits: pass labels=str"),
    "rounded": (
        "x,y\n1,9007199254740993\n2,1.5\n",
        {},
        "is not a floating-point number: pass labels=int or labels=str",
    ),
    "rounded with a point": ("x,y\n1,9007199254740993.0\n", {}, "is not a floating-point number"),
    "unclosed quote": ('x,y\n1,"a\n2,b\n3,c\n', {}, "line 2: a quote that is never closed"),
    "long unclosed quote": ('x,y\n1,"a\n' + "2,b\n" * 50_000, {}, "line 2: a quote that is never closed"),
    "text after a quote": ('x,y\n1,"a"b\n', {}, "line 2: ',' expected after '\"'"),
    "wide": ("x,y\n1,a\n2,b,c\n", {}, "line 3: 3 columns where the header has 2"),
    "narrow": ("x,y\n1,a\n2\n", {}, "line 3: 1 columns where the header has 2"),
    "wide without a header": ("1,a\n2,b,c\n", {"header": False}, "line 2: 3 columns where the first line has 2"),
    "words among features": ("x,y\nred,1\n", {}, "every column but the label's must hold numbers"),
    "missing label": ("x,y\n1,\n", {}, "a label is missing"),
    "no such place": ("x,y\n1,2\n", {"target": 2}, "has no column 2: it has 2 columns"),
    "two names": ("y,y\n1,2\n", {"target": "y"}, "has 2 columns named 'y'"),
    "later words": ("x,y\n1,1\n2,a\n", {"size": 1}, "not all of type int, as 'a' shows"),
    "later codes": ("x,y\n1,1\n2,01\n", {"size": 1}, "not all of type int, as '01' shows"),
    "labels": ("x,y\n1,1\n", {"labels": bool}, "labels must be int, float, str or None"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_get_one_sentence(name):
    text, options, sentence = BAD[name]
    with pytest.raises(ValueError, match=sentence.replace("(", r"\(")):
        list(tl.streams.from_csv(io.StringIO(text), **options))


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    path = tmp_path / "marked.csv"
    path.write_text("y,x\n1,2\n", encoding="utf-8-sig")
    with open(path, encoding="utf-8") as plain, open(path, "rb") as raw:
        for file in (path, str(path), plain, raw):
            ((X, y),) = tl.streams.from_csv(file, "y")
            assert (X.tolist(), y.tolist()) == ([[2.0]], [1])
        assert not raw.closed


def test_open_files_of_text_and_of_bytes(tmp_path):
    text = "x,y\n1,a\n2,é\n"
    (tmp_path / "latin.csv").write_text(text, encoding="latin-1")
    with gzip.open(tmp_path / "some.gz", "wb") as file:
        file.write(text.encode())
    with gzip.open(tmp_path / "some.gz", "rb") as file:
        assert [y.tolist() for _, y in tl.streams.from_csv(file)] == [["a", "é"]]
    assert [y.tolist() for _, y in tl.streams.from_csv(io.BytesIO(text.encode()))] == [["a", "é"]]
    assert [y.tolist() for _, y in tl.streams.from_csv(tmp_path / "latin.csv", encoding="latin-1")] == [["a", "é"]]
    with pytest.raises(ValueError, match="is not text in utf-8"):
        list(tl.streams.from_csv(tmp_path / "latin.csv"))


# -- Parquet ---------------------------------------------------------------------------------------------------------


def written(columns, **options):
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file, **options)
    file.seek(0)
    return file


@pytest.mark.parametrize(
    "labels",
    [
        np.array([2**53 + 1, 2**53, -(2**63)]),
        np.array([2**64 - 1, 0, 1], dtype=np.uint64),
        np.array([0.5, -1.0, 2.0]),
        np.array(["00501", "501", ""]),
        np.array([True, False, True]),
        pyarrow.array(["b", "a", "b"]).dictionary_encode(),
    ],
    ids=["int", "unsigned", "float", "words", "truth", "categories"],
)
def test_types_of_a_parquet_file_are_kept(labels, tmp_path):
    columns = {"y": labels, "u": [1, 2, 3], "v": np.array([0.1, 0.2, 0.3], dtype=np.float32), "w": [True, False, True]}
    path = tmp_path / "some.parquet"
    path.write_bytes(written(columns).getvalue())
    expected = labels.tolist() if hasattr(labels, "tolist") else labels.to_pylist()
    for file in (path, written(columns), written(columns, row_group_size=2)):
        for size in (1, 2, 100):
            batches = list(tl.streams.from_parquet(file, "y", size))
            assert np.concatenate([y for _, y in batches]).tolist() == expected
            X = np.concatenate([X for X, _ in batches])
            np.testing.assert_array_equal(
                X, [[1, np.float32(0.1), 1], [2, np.float32(0.2), 0], [3, np.float32(0.3), 1]]
            )


@pytest.mark.parametrize(
    ("columns", "target", "sentence"),
    [
        ({"x": [1.0, None], "y": [1, 2]}, "y", "column 'x': 1 values are missing"),
        ({"x": [1.0, 2.0], "y": [1, None]}, "y", "column 'y': 1 values are missing"),
        ({"x": [2**53 + 1, 1], "y": [1, 2]}, "y", "a whole number is not a floating-point number"),
        ({"x": [np.inf, 1], "y": [1, 2]}, "y", "must not be infinite"),
        ({"x": ["a", "b"], "y": [1, 2]}, "y", "features must be numbers, got string"),
        ({"x": [1, 2], "y": [[1], [2]]}, "y", "labels must be whole numbers, numbers, words or truth values"),
        ({"x": [1, 2], "y": [np.nan, 2]}, "y", "a label must be a number, got nan"),
        ({"x": [1, 2], "y": [1, 2]}, "z", "has no column named 'z'; its columns are x, y"),
        ({"x": [1, 2], "y": [1, 2]}, 5, "has no column 5: it has 2 columns"),
    ],
)
def test_bad_parquet_files_get_one_sentence(columns, target, sentence):
    with pytest.raises(ValueError, match=sentence):
        list(tl.streams.from_parquet(written(columns), target))


def test_files_feed_a_fit(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 3)), rng.choice(["a", "b"], 90)
    columns = {**{f"x{j}": X[:, j] for j in range(3)}, "y": y}
    text = "x0,x1,x2,y\n" + "".join(
        f"{','.join(map(repr, row))},{label}\n" for row, label in zip(X.tolist(), y, strict=True)
    )
    whole = tl.CostSensitiveClassifier().fit_stream(tl.streams.from_arrays(X, y, 20), classes=["a", "b"])
    for batches in (
        tl.streams.from_csv(io.StringIO(text), size=20),
        tl.streams.from_parquet(written(columns), size=20),
    ):
        model = tl.CostSensitiveClassifier().fit_stream(batches, classes=["a", "b"])
        np.testing.assert_array_equal(model.theta_, whole.theta_)
