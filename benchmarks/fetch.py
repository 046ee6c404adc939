"""`make data`: the public data sets of the tables, fetched where a network allows; what is missing is said, with where it is from.

What is fetched must be what was measured: files are compared by the SHA-256 of their text, and one that differs is not kept. Files that are there already are never touched.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import pathlib
import sys
import urllib.error
import urllib.request
from collections.abc import Callable

from .datasets import place

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
CONLL = "https://www.clips.uantwerpen.be/conll2000/chunking"
LIGHTGBM = "https://raw.githubusercontent.com/microsoft/LightGBM/master/examples/lambdarank"

# Place below the folder of the data sets (what ends in .gz is kept compressed), address, SHA-256 of the text.
FILES = [
    (
        "cost_sensitive/german/german.data-numeric",
        f"{UCI}/statlog/german/german.data-numeric",
        "2752b044394958ab6dd193a0b56ca0f0b3a2d8bc7cb8c008e35a5e84bbec02f8",
    ),
    (
        "cost_sensitive/german/german.data",
        f"{UCI}/statlog/german/german.data",
        "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
    ),
    (
        "multiclass/optdigits/optdigits.tra.gz",
        f"{UCI}/optdigits/optdigits.tra",
        "e1b683cc211604fe8fd8c4417e6a69f31380e0c61d4af22e93cc21e9257ffedd",
    ),
    (
        "multiclass/optdigits/optdigits.tes.gz",
        f"{UCI}/optdigits/optdigits.tes",
        "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8",
    ),
    (
        "ordinal/winequality-red/winequality-red.csv",
        f"{UCI}/wine-quality/winequality-red.csv",
        "4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e",
    ),
    (
        "sequence/conll2000/train.txt.gz",
        f"{CONLL}/train.txt.gz",
        "82033cd7a72b209923a98007793e8f9de3abc1c8b79d646c50648eb949b87cea",
    ),
    (
        "sequence/conll2000/test.txt.gz",
        f"{CONLL}/test.txt.gz",
        "73b7b1e565fa75a1e22fe52ecdf41b6624d6f59dacb591d44252bf4d692b1628",
    ),
    (
        "ranking/lightgbm_rank/rank.train.gz",
        f"{LIGHTGBM}/rank.train",
        "a0c7201c89120879c14a5059e091f441cbf2a29b8aaef363885ccb1a530448df",
    ),
    (
        "ranking/lightgbm_rank/rank.train.query",
        f"{LIGHTGBM}/rank.train.query",
        "40cb5fef637229311cd30fab13cb7fb633b023e86a87ff04ec55db420143d6af",
    ),
    (
        "ranking/lightgbm_rank/rank.test.gz",
        f"{LIGHTGBM}/rank.test",
        "3b1219ce117a0a36d2f76c02de7e7831c1d79af0d40f5195c03178bbe26c824b",
    ),
    (
        "ranking/lightgbm_rank/rank.test.query",
        f"{LIGHTGBM}/rank.test.query",
        "36dca82ba3bf99201bac3987b00a8fbf6fe5f563e9fa6d0da90e783710a32df4",
    ),
]

# Sets without an address that gives the very files that were measured: where their authors publish them.
BY_HAND = {
    "cost_sensitive/bankmarketing": "UCI, Bank Marketing (bank-additional-full)",
    "graph_matching/cars": "Leordeanu and Hebert, cars and motorbikes from PASCAL 2007",
    "graph_matching/cmu_house": "CMU, the house sequence of 111 frames, with 30 marked points",
    "graph_matching/motorbikes": "Leordeanu and Hebert, cars and motorbikes from PASCAL 2007",
    "graph_matching/willow_duck": "INRIA, Willow-ObjectClass",
    "hierarchical": "KU Leuven, the data sets of Clus for hierarchical classification",
    "multiclass": "UCI, by the set's name, as attribute files of OpenML",
    "multilabel": "Mulan, the data sets for multilabel learning, by the set's name",
    "ordinal": "ORCA of the University of Cordoba, by the set's name, and Torgo's regression sets",
    "ranking/mq2008": "Microsoft Research, LETOR 4.0, MQ2008 supervised ranking",
    "ranking/trec_news_2018": "NIST, TREC 2018 News, entity linking",
    "sequence/ocr_letters": "Stanford, Taskar's OCR words (letter.data), as arrays",
    "sequence/ud_english_ewt": "Universal Dependencies, English EWT",
}
COSTS = "# rows = actual (1 good, 2 bad), columns = predicted (1 good, 2 bad)\n0,1\n5,0\n"  # of the authors of german


def read(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=30) as answer:
        return answer.read()


def fetch(folder: pathlib.Path, say: Callable[[str], object] = print, files: list[tuple[str, str, str]] = FILES) -> int:
    """Fetch what is not there; the number of files that are still missing."""
    missing = 0
    for name, address, expected in files:
        target = folder / name
        if target.exists():
            say(f"there     {name}")
            continue
        try:
            text = read(address)
            text = gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text
        except (OSError, urllib.error.URLError) as error:
            say(f"missing   {name}: {address} cannot be read ({error}).")
            missing += 1
            continue
        if hashlib.sha256(text).hexdigest() != expected:
            say(f"missing   {name}: what {address} gives today is not what was measured; it was not kept.")
            missing += 1
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + ".part")
        part.write_bytes(gzip.compress(text, mtime=0) if name.endswith(".gz") else text)
        os.replace(part, target)
        say(f"fetched   {name}")
    return missing


def main() -> int:
    folder = place()
    print(f"Data sets are kept in {folder}; TASKLOSS_DATA names another folder.")
    missing = fetch(folder)
    costs = folder / "cost_sensitive" / "german" / "cost_matrix.csv"
    if costs.parent.is_dir() and not costs.exists():
        costs.write_text(COSTS)
    for name, origin in BY_HAND.items():
        there = (folder / name).is_dir() and any((folder / name).iterdir())
        print(f"{'there ' if there else 'by hand'}   {name}" + ("" if there else f": {origin}."))
    print(f"{missing} files could not be fetched." if missing else "Nothing that can be fetched is missing.")
    print("Benchmarks and tests leave out what is not there.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
