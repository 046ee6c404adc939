"""Pictures of a diagnosis as SVG that takes its colours from the page."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

_WIDTH = 640


def _svg(height: float, label: str, body: list[str]) -> str:
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{html.escape(label, quote=True)}">'
        f"{''.join(body)}</svg><figcaption>{html.escape(label)}</figcaption></figure>"
    )


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{html.escape(words)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between two ends."""
    if not high > low:
        return [low]
    raw = (high - low) / about
    power = 10.0 ** np.floor(np.log10(raw))
    step = float(power * min((m for m in (1, 2, 2.5, 5, 10) if m * power >= raw), default=10))
    return [float(t) for t in np.arange(np.ceil(low / step - 1e-9) * step, high + step * 1e-6, step)]


def number(value: float) -> str:
    """Three digits, with a minus sign that is one."""
    return f"{0.0 if abs(value) < 1e-12 else value:.3g}".replace("-", "\N{MINUS SIGN}")


def reliability(rows: Sequence[dict[str, Any]]) -> str:
    """Expected against realised loss, by bins, with intervals; the diagonal is what the model promises."""
    ends = [row[key] for row in rows for key in ("expected", "realised_low", "realised_high")]
    low, high = min(0.0, *ends), max(ends) * 1.04 or 1.0
    left, right, top, bottom = 64.0, _WIDTH - 20.0, 16.0, 340.0

    def x(v: float) -> float:
        return left + (right - left) * (v - low) / (high - low)

    def y(v: float) -> float:
        return bottom - (bottom - top) * (v - low) / (high - low)

    body = []
    for t in ticks(low, high):
        body += [_line(left, y(t), right, y(t), "grid"), _text(left - 8, y(t) + 4, number(t), "tick", "end")]
        body.append(_text(x(t), bottom + 18, number(t), "tick", "middle"))
    body.append(_line(x(low), y(low), x(high), y(high), "diagonal"))
    body.append(_text(x(high) - 8, y(high) + 30, "as expected", "note", "end"))
    for row in rows:
        off = not row["gap_low"] <= 0 <= row["gap_high"]
        kind, at = "off" if off else "on", x(row["expected"])
        body.append(_line(at, y(row["realised_low"]), at, y(row["realised_high"]), f"bar {kind}"))
        size = 3 + 9 * np.sqrt(row["share"])
        title = f"expected {number(row['expected'])}, realised {number(row['realised'])}"
        body.append(
            f'<circle cx="{at:.1f}" cy="{y(row["realised"]):.1f}" r="{size:.1f}" class="{kind}"><title>{title}</title></circle>'
        )
    body += [_text((left + right) / 2, bottom + 40, "expected loss", "axis", "middle")]
    body.append(
        f'<text transform="translate(16 {(top + bottom) / 2:.0f}) rotate(-90)" class="axis" text-anchor="middle">realised loss</text>'
    )
    return _svg(bottom + 52, "Realised against expected loss, by bins of the expectation, with 95 % intervals.", body)


def waterfall(parts: Sequence[tuple[str, float]], total: float, others: Sequence[tuple[str, float]]) -> str:
    """Parts that add up to a total, and other ways to decide below them."""
    starts = np.concatenate([[0.0], np.cumsum([value for _, value in parts])])
    ends = [*starts, total, *(value for _, value in others)]
    low, high = min(0.0, *ends), max(ends) or 1.0
    left, right, step = 150.0, _WIDTH - 80.0, 30.0

    def x(v: float) -> float:
        return left + (right - left) * (v - low) / (high - low)

    rows = [(name, a, a + value, "part") for (name, value), a in zip(parts, starts, strict=False)]
    rows += [("task loss", 0.0, total, "total"), *((name, 0.0, value, "other") for name, value in others)]
    body = [_line(x(0), 4, x(0), step * len(rows) + 4, "grid")]
    for i, (name, a, b, kind) in enumerate(rows):
        at = 8 + i * step
        kind = f"{kind} {name}" if kind == "part" else kind
        width = max(abs(x(b) - x(a)), 1.5)
        body.append(f'<rect x="{min(x(a), x(b)):.1f}" y="{at:.1f}" width="{width:.1f}" height="20" class="{kind}"/>')
        body += [
            _text(left - 10, at + 15, name, "name", "end"),
            _text(max(x(a), x(b)) + 6, at + 15, number(b - a), "value"),
        ]
    return _svg(step * len(rows) + 12, "The parts of the task loss, and other ways to decide.", body)


def histogram(values: np.ndarray, weights: np.ndarray, words: str, bins: int = 24) -> str:
    """The distribution of margins, with its median."""
    high = float(values.max()) or 1.0
    counts, edges = np.histogram(values, bins=bins, range=(0, high), weights=weights)
    left, right, top, bottom = 64.0, _WIDTH - 20.0, 22.0, 210.0
    most = float(counts.max()) or 1.0

    def x(v: float) -> float:
        return left + (right - left) * v / high

    body = []
    for t in ticks(0, most, 3):
        at = bottom - (bottom - top) * t / most
        body += [_line(left, at, right, at, "grid"), _text(left - 8, at + 4, f"{number(100 * t)} %", "tick", "end")]
    for count, a, b in zip(counts, edges[:-1], edges[1:], strict=True):
        height = (bottom - top) * count / most
        body.append(
            f'<rect x="{x(a) + 0.5:.1f}" y="{bottom - height:.1f}" width="{max(x(b) - x(a) - 1, 0.5):.1f}" height="{height:.1f}" class="other"/>'
        )
    order = np.argsort(values)
    middle = float(values[order][np.searchsorted(np.cumsum(weights[order]), 0.5 * weights.sum())])
    body.append(_line(x(middle), top - 6, x(middle), bottom, "median"))
    side = "start" if x(middle) < _WIDTH / 2 else "end"
    body.append(_text(x(middle) + (6 if side == "start" else -6), top + 2, f"median {number(middle)}", "note", side))
    body += [_text(x(t), bottom + 18, number(t), "tick", "middle") for t in ticks(0, high)]
    body.append(_text((left + right) / 2, bottom + 40, words, "axis", "middle"))
    return _svg(bottom + 50, "How far decisions are from flipping.", body)
