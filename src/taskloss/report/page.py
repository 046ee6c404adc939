"""The page of a diagnosis, section by section."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..diagnosis import words
from ..diagnosis.intervals import Interval
from . import pictures
from .markup import asset, paragraph, section, table, text

if TYPE_CHECKING:
    from ..diagnosis.diagnosis import Diagnosis


def page(found: Diagnosis, title: str | None = None) -> str:
    """The whole page, as text."""
    if title is not None and not isinstance(title, str):
        raise ValueError(f"title must be a string, got {title!r}.")
    from .explorer import explorer

    title = f"{found.evidence.name}: where its loss comes from" if title is None else title
    parts = [_figures(found), explorer(found), _sources(found), _reliability(found), _recalibration(found)]
    parts += [_margins(found), _mistakes(found), _guarantee(found), _reading(found)]
    body = "".join(part for part in parts if part)
    return (
        asset("page.html")
        .replace("{{title}}", text(title))
        .replace("{{lead}}", _lead(found))
        .replace("{{style}}", asset("report.css"))
        .replace("{{theme}}", asset("theme.js"))
        .replace("{{body}}", body)
    )


def write(path: Any, page: str, overwrite: bool) -> None:
    """Write a page to a file that is not there yet, or whose loss has been allowed."""
    if not (isinstance(path, str | os.PathLike) and os.fspath(path)):
        raise TypeError(f"path must be a path of a file, got {path!r}.")
    path = Path(path)
    if path.exists() and not overwrite:
        raise FileExistsError(f"path {str(path)!r} is there already: choose another, or pass overwrite=True.")
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"path {str(path)!r} is in a folder that is not there: make {str(path.parent)!r} first."
        )
    path.write_text(page, encoding="utf-8")


def fragment(found: Diagnosis) -> str:
    """What a notebook shows: the figures and the picture of the parts."""
    body = _figures(found) + (_parts_picture(found) or _reliability_picture(found))
    return f'<style>{asset("report.css")}</style><div class="tl embedded">{_lead(found)}{body}</div>'


# -- sections ----------------------------------------------------------------------------------------------------------


def _lead(found: Diagnosis) -> str:
    return (
        f'<p class="lead">{text(found.evidence.name)} on {len(found):,} {text(found.evidence.unit)}, judged by '
        f"<code>{text(words.loss_name(found.evidence.loss))}</code></p>"
    )


def _figures(found: Diagnosis) -> str:
    cards: list[tuple[str, Any, str]] = [
        ("task loss", found.realised, "mean over the examples, with its 95 % interval")
    ]
    cards += [("expected by the model", found.expected, words.verdict(found.gap))]
    for row in found.baseline_rows[1:]:
        name = {"argmax": "the likeliest label", "constant": "best constant"}[row["decisions"]]
        more = Interval(row["more"], row["more_low"], row["more_high"])
        cards.append((name, Interval(row["realised"], row["realised_low"], row["realised_high"]), words.against(more)))
    return '<dl class="figures">' + "".join(_card(*card) for card in cards) + "</dl>"


def _card(name: str, value: Any, note: str) -> str:
    ends = f'<span class="ends">{text(value.low)} to {text(value.high)}</span>' if isinstance(value, Interval) else ""
    shown = text(float(value.value if isinstance(value, Interval) else value))
    return f'<div><dt>{text(name)}</dt><dd><strong>{shown}</strong> {ends}<span class="note">{text(note)}</span></dd></div>'


def _parts_picture(found: Diagnosis) -> str:
    if not found.part_rows:
        return ""
    others = [(row["decisions"], row["realised"]) for row in found.baseline_rows[1:]]
    return pictures.waterfall([(r["part"], r["loss"]) for r in found.part_rows], found.realised.value, others)


def _sources(found: Diagnosis) -> str:
    if not found.part_rows:
        return ""
    rows = [(r["part"], r["loss"], r["loss_low"], r["loss_high"]) for r in found.part_rows]
    meanings = "".join(f"<dt>{text(r['part'])}</dt><dd>{text(r['meaning'])}</dd>" for r in found.part_rows)
    return section(
        "parts",
        "Where the loss comes from",
        _parts_picture(found),
        table(
            ("part", "loss", "low", "high"), rows, "Parts that add up to the task loss, with 95 % intervals", (1, 2, 3)
        ),
        f'<dl class="meanings">{meanings}</dl>',
    )


def _reliability_picture(found: Diagnosis) -> str:
    return pictures.reliability(found.reliability_rows)


def _reliability(found: Diagnosis) -> str:
    unit = found.evidence.unit
    rows = [
        (r["expected"], r["realised"], r["realised_low"], r["realised_high"], f"{100 * r['share']:.3g} %", r[unit])
        for r in found.reliability_rows
    ]
    header = ("expected", "realised", "low", "high", "share", unit)
    return section(
        "reliability",
        "Is the expected loss right?",
        paragraph(f"Over all {unit} the model is {words.verdict(found.gap)}."),
        _reliability_picture(found),
        _details("The numbers", table(header, rows, "Realised loss by bins of the expected one", range(6))),
    )


def _recalibration(found: Diagnosis) -> str:
    if not found.recalibration_rows:
        return ""
    rows = [
        (
            *(r[key] for key in ("method", "moment_error", "foretold", "realised", "saved")),
            f"{r['saved_low']:.4g} to {r['saved_high']:.4g}",
            f"{100 * r['changed']:.3g} %",
        )
        for r in found.recalibration_rows
    ]
    header = ("method", "error of moments", "expected", "realised", "saved", "interval", "decisions changed")
    return section(
        "recalibration",
        "What recalibration would do",
        paragraph(words.recalibration_sentence(found)),
        table(
            header, rows, "Decisions from recalibrated moments, each fitted without the example's own fold", range(1, 7)
        ),
    )


def _margins(found: Diagnosis) -> str:
    if found.margin_values is None or not found.margin_rows:
        return ""
    rows = [
        (f"{r['margin_from']:.3g} to {r['margin_to']:.3g}", r["realised"], f"{100 * r['changed']:.3g} %", r["saved"])
        for r in found.margin_rows
    ]
    header = ("margin", "realised loss", "changed by recalibration", "saved by it")
    return section(
        "margins",
        "How far decisions are from flipping",
        paragraph(words.margin_sentence(found)),
        pictures.histogram(
            found.margin_values, found.evidence.weights, "expected loss of the second best, less that of the best"
        ),
        _details("The numbers", table(header, rows, "By bins of the margin", (1, 2, 3))),
    )


def _mistakes(found: Diagnosis) -> str:
    rows = found.mistake_rows
    if not rows:
        return section(
            "mistakes", "The costliest mistakes", paragraph("There is none: every decision was the best there was.")
        )
    header = list(rows[0])
    numbers = [j for j, name in enumerate(header) if name in ("loss", "expected")]
    return section(
        "mistakes",
        "The costliest mistakes",
        paragraph("Of equally costly ones, first those that the model expected least."),
        table(header, [list(row.values()) for row in rows], f"The {len(rows)} costliest", numbers),
    )


def _guarantee(found: Diagnosis) -> str:
    return section("guarantee", "What is guaranteed", paragraph(str(found.guarantee)))


def _reading(found: Diagnosis) -> str:
    from .. import __version__

    notes = [
        "Intervals are of 95 % over the draw of the examples.",
        "The noise is that of decisions from these moments, recalibrated: an upper bound on the noise that no model can beat, which a model that "
        "knows more of an example may lower.",
        "Recalibrations are fitted without each example's own fold, so that what they save is an honest estimate.",
        "All of this supposes that the model was not fitted on these examples.",
    ]
    items = "".join(f"<li>{text(note)}</li>" for note in notes)
    return (
        section("reading", "How to read this", f"<ul>{items}</ul>")
        + f'<p class="made">taskloss {text(__version__)}</p>'
    )


def _details(summary: str, body: str) -> str:
    return f"<details><summary>{text(summary)}</summary>{body}</details>"
