"""Label sequences: OCR letters, CoNLL-2000 chunking, UD English EWT part of speech; features, and chunk F1."""

from __future__ import annotations

import gzip
import pathlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from . import root


class Split(NamedTuple):
    """Sequences of feature names per position (or rows of numbers), and labels, to train on and to test on."""

    X: list
    y: list
    X_test: list
    y_test: list


def _folder(name: str) -> pathlib.Path:
    data = root()
    if data is None:
        raise FileNotFoundError("The data sets are not here: set TASKLOSS_DATA to their folder.")
    return data / "sequence" / name


def ocr_letters(large: bool) -> Split:
    """Words of 16 x 8 bitmaps, one per letter. The small split trains on fold 0 and tests on the nine others, the large one the other way."""
    data = np.load(_folder("ocr_letters") / "ocr_letters.npz")
    pixels = np.unpackbits(data["pixels"], axis=1).astype(float)
    cuts = data["offsets"][1:-1]
    X, y = np.split(pixels, cuts), np.split(data["labels"].astype(np.int64), cuts)
    first = data["folds"] == 0
    train = ~first if large else first
    return Split(*_pick(X, y, train), *_pick(X, y, ~train))


def _pick(X: list, y: list, where: np.ndarray) -> tuple[list, list]:
    return [X[i] for i in np.flatnonzero(where)], [y[i] for i in np.flatnonzero(where)]


def conll2000() -> Split:
    """Chunk tags (IOB2) from words and parts of speech within two positions."""
    parts = []
    for name in ("train", "test"):
        with gzip.open(_folder("conll2000") / f"{name}.txt.gz", "rt") as lines:
            sentences = [[line.split() for line in block] for block in _blocks(lines)]
        parts += [[_chunk_features([t[0] for t in s], [t[1] for t in s]) for s in sentences]]
        parts += [[[t[2] for t in s] for s in sentences]]
    return Split(*parts)


def ud_ewt() -> Split:
    """Universal part-of-speech tags from words, their shapes and ends within one position."""
    parts = []
    for name in ("train", "test"):
        with gzip.open(_folder("ud_english_ewt") / f"en_ewt-ud-{name}.conllu.gz", "rt") as lines:
            blocks = _blocks(line for line in lines if not line.startswith("#"))
            sentences = [[f for f in (line.split("\t") for line in block) if f[0].isdigit()] for block in blocks]
        parts += [[_word_features([f[1] for f in s]) for s in sentences], [[f[3] for f in s] for s in sentences]]
    return Split(*parts)


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Runs of lines between empty ones."""
    block: list[str] = []
    for line in lines:
        if line.strip():
            block.append(line.rstrip("\n"))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _word(word: str) -> list[str]:
    shape = "upper" if word.isupper() else "title" if word.istitle() else "digit" if word.isdigit() else "other"
    return [f"w={word.lower()}", f"3={word[-3:].lower()}", f"2={word[-2:].lower()}", f"s={shape}"]


def _chunk_features(words: list[str], tags: list[str]) -> list[list[str]]:
    out = []
    for t in range(len(words)):
        here = ["bias", *_word(words[t]), f"p={tags[t]}"]
        for step in (-2, -1, 1, 2):
            i = t + step
            if 0 <= i < len(words):
                here += [f"{step}w={words[i].lower()}", f"{step}p={tags[i]}"]
            else:
                here.append(f"{step}edge")
        here += [f"pp={tags[t - 1]}|{tags[t]}"] if t else []
        out.append(here)
    return out


def _word_features(words: list[str]) -> list[list[str]]:
    out = []
    for t, word in enumerate(words):
        here = ["bias", *_word(word), f"1={word[-1:].lower()}", f"b={word[:2].lower()}"]
        here += [f"mark={c}" for c in "-.@/" if c in word] + (
            ["digit inside"] if any(c.isdigit() for c in word) else []
        )
        for step in (-1, 1):
            i = t + step
            here += [f"{step}{f}" for f in _word(words[i])] if 0 <= i < len(words) else [f"{step}edge"]
        out.append(here)
    return out


def chunks(labels: Iterable[str]) -> set[tuple[int, int, str]]:
    """The chunks (first, last + 1, type) of a sequence of IOB2 tags; an I that nothing opens opens a chunk, as in conlleval."""
    found, start, kind, end = set(), 0, "", 0
    for t, label in enumerate(labels):
        prefix, _, name = str(label).partition("-")
        if kind and (prefix != "I" or name != kind):
            found.add((start, t, kind))
            kind = ""
        if prefix != "O" and not kind:
            start, kind = t, name
        end = t + 1
    return found | {(start, end, kind)} if kind else found


def chunk_f1(predicted: list, labels: list) -> float:
    """F1 over all chunks."""
    right = sum(len(chunks(z) & chunks(y)) for z, y in zip(predicted, labels, strict=True))
    count = sum(len(chunks(z)) for z in predicted) + sum(len(chunks(y)) for y in labels)
    return 2 * right / max(count, 1)
