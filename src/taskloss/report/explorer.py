"""The cost explorer of a page: stored moments, and costs that are edited there."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from ..diagnosis.evidence import Evidence, row_names
from ..diagnosis.parts import recalibrates
from ..losses.fbeta import FBeta
from ..losses.hamming import Hamming
from ..losses.label_costs import LabelCosts
from .markup import asset, paragraph, section

if TYPE_CHECKING:
    from ..diagnosis.diagnosis import Diagnosis

_EXAMPLES = 100_000
_WORK = 60_000_000  # products for one decision of all examples, some 100 ms in a browser
_NUMBERS = 4_000_000  # moments in a page: 16 MB, a third more as text


def explorer(found: Diagnosis) -> str:
    """The section; where there are no moments of labels, or no one table of costs, a sentence."""
    evidence = found.evidence
    if not recalibrates(evidence):
        return ""
    if evidence.costs is not None:
        return section(
            "explorer", "Cost explorer", paragraph("Costs differ per example here: there is no one table to edit.")
        )
    data = payload(evidence)
    if data is None:
        return ""
    kept = (
        ""
        if data["n"] == len(evidence)
        else f" These are {data['n']:,} of the {len(evidence):,} examples, drawn at random."
    )
    lead = (
        "The model is fitted once; what mistakes cost is settled here. Change the costs, and every decision is made again from the stored moments."
        + kept
    )
    # A label may be any text: what could end the script is written otherwise.
    stored = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    script = '(() => {\n"use strict";\n' + asset("core.js") + asset("controls.js") + "})();"
    return section(
        "explorer",
        "Cost explorer",
        paragraph(lead),
        '<div id="tl-explorer"></div><noscript><p>The explorer needs JavaScript.</p></noscript>',
        f'<script type="application/json" id="tl-data">{stored}</script><script>{script}</script>',
    )


def payload(evidence: Evidence) -> dict[str, Any] | None:
    """What the page computes from, as JSON has it; moments as base64 of float32."""
    loss, classes = evidence.loss, [_word(label) for label in evidence.labels.classes.tolist()]
    if loss.kind == "classes":
        data, moments, work = _labels(evidence, classes)
    elif isinstance(loss, FBeta):
        sizes, k = loss.polytope.sizes, len(classes)
        data = {"kind": "f", "sizes": sizes, "beta": float(loss.beta), "dearest": 1.0}
        moments, work = np.asarray(evidence.mu), k * k * (sizes + 6)
    elif isinstance(loss, Hamming):
        tables = loss.tables() if isinstance(loss, LabelCosts) else loss._weights()[:, None, None] * (1 - np.eye(2))
        data = {"kind": "sets", "sizes": 0, "tables": tables.tolist(), "dearest": float(tables.max((1, 2)).sum())}
        moments, work = loss.probabilities(evidence.mu), 12 * len(classes)
    else:
        return None
    keep = _kept(len(evidence), work, moments.shape[1])
    codes = evidence.codes[keep]
    code_type = "uint16" if codes.ndim == 1 and len(classes) > 256 else "uint8"
    weights = evidence.weights[keep] / evidence.weights[keep].sum() * len(keep)
    even = np.allclose(weights, 1.0, rtol=1e-12, atol=1e-12)
    return data | {
        "n": len(keep),
        "k": len(classes),
        "labels": classes,
        "moments": _packed(moments[keep], "<f4"),
        "codes": _packed(codes, "<u2" if code_type == "uint16" else "u1"),
        "code_type": code_type,
        "weights": None if even else _packed(weights, "<f8"),
        "ids": _ids(evidence, keep),
    }


def _labels(evidence: Evidence, classes: list[str]) -> tuple[dict[str, Any], np.ndarray, int]:
    """Of one label for each example. A last output that costs the same whatever the label, and is none, is the person."""
    outputs = [_word(output) for output in evidence.labels.outputs(evidence.loss).tolist()]
    matrix = evidence.loss.matrix()
    foreign, person = [output not in classes for output in outputs], None
    if len(outputs) > 1 and foreign[-1] and np.ptp(matrix[-1]) == 0:
        person, outputs, matrix, foreign = float(matrix[-1, 0]), outputs[:-1], matrix[:-1], foreign[:-1]
    if sum(foreign) > 1 or len(foreign) != len(classes) + sum(foreign):
        foreign = [False] * len(foreign)  # actions of their own, none of which is a person
    data = {"kind": "labels", "outputs": outputs, "matrix": matrix.tolist(), "person": person, "foreign": foreign}
    return data, np.asarray(evidence.loss.probabilities(evidence.mu)), matrix.size


def _kept(n: int, work: int, width: int) -> np.ndarray:
    """The examples that are stored: all, or as many as a browser decides in a tenth of a second."""
    most = max(min(_EXAMPLES, _WORK // max(work, 1), _NUMBERS // width), 100)
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(0).choice(n, most, replace=False))


def _ids(evidence: Evidence, keep: np.ndarray) -> list[Any] | None:
    """The names of the examples, where they are not their places."""
    index = row_names(evidence.X)
    if index is not None and len(keep) <= 20_000:
        return [_word(index[i]) for i in keep.tolist()]
    return None if len(keep) == len(evidence) else keep.tolist()


def _packed(values: Any, dtype: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode("ascii")


def _word(label: Any) -> str:
    return str(label)
