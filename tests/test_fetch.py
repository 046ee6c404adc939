"""`make data` keeps what was measured and nothing else, and says what is missing."""

import gzip
import hashlib

import pytest
from benchmarks import fetch
from benchmarks.datasets import root


def test_files_are_kept_where_they_are_what_was_measured(tmp_path):
    source = tmp_path / "there.txt"
    source.write_text("1 2 3\n")
    right, wrong = hashlib.sha256(b"1 2 3\n").hexdigest(), "0" * 64
    address = source.as_uri()
    files = [
        ("a/one.txt", address, right),
        ("a/two.txt.gz", address, right),
        ("b/three.txt", address, wrong),
        ("b/four.txt", (tmp_path / "none.txt").as_uri(), right),
    ]
    said = []
    folder = tmp_path / "data"
    assert fetch.fetch(folder, said.append, files) == 2
    assert (folder / "a" / "one.txt").read_text() == "1 2 3\n"
    assert gzip.decompress((folder / "a" / "two.txt.gz").read_bytes()) == b"1 2 3\n"
    assert not (folder / "b").exists()
    assert [line.split()[0] for line in said] == ["fetched", "fetched", "missing", "missing"]
    assert "is not what was measured" in said[2]
    (folder / "a" / "one.txt").write_text("mine")
    fetch.fetch(folder, said.append, files[:1])
    assert (folder / "a" / "one.txt").read_text() == "mine"
    assert said[-1].startswith("there")


@pytest.mark.skipif(root() is None, reason="the data sets are not here")
def test_every_set_is_listed_with_what_it_holds():
    folder = root()
    for name, _, expected in fetch.FILES:
        if (folder / name).exists():
            text = (folder / name).read_bytes()
            text = gzip.decompress(text) if name.endswith(".gz") else text
            assert hashlib.sha256(text).hexdigest() == expected, name
    listed = {name for name in fetch.BY_HAND} | {str(name.rpartition("/")[0]) for name, _, _ in fetch.FILES}
    for kind in folder.iterdir():
        for one in kind.iterdir() if kind.is_dir() else ():
            assert {f"{kind.name}/{one.name}", kind.name} & listed, one
