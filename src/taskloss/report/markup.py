"""Bits of HTML: escaped text, tables, and the files of this folder."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any


def text(value: Any) -> str:
    """A value as escaped text; numbers to four digits."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) or (hasattr(value, "dtype") and getattr(value.dtype, "kind", "") == "f"):
        return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")
    if isinstance(value, set | frozenset):
        return html.escape(", ".join(map(str, sorted(value, key=str))) or "none")
    return html.escape(str(value))


def asset(name: str) -> str:
    """A file of this folder."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], caption: str, numbers: Sequence[int] = ()) -> str:
    """A table whose first column names its rows; `numbers` are the columns that are aligned right."""

    def cell(j: int, value: Any) -> str:
        kind = ' class="number"' if j in numbers else ""
        tag, scope = ("th", ' scope="row"') if j == 0 else ("td", "")
        return f"<{tag}{scope}{kind}>{text(value)}</{tag}>"

    head = "".join(
        f'<th scope="col"{" class=number" if j in numbers else ""}>{text(name)}</th>' for j, name in enumerate(header)
    )
    body = "".join(f"<tr>{''.join(cell(j, v) for j, v in enumerate(row))}</tr>" for row in rows)
    return (
        f'<p class="caption">{text(caption)}</p><div class="scroll" tabindex="0" role="region" aria-label="{text(caption)}">'
        f'<table aria-label="{text(caption)}">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def section(name: str, title: str, *body: str) -> str:
    """A section with a heading; `name` is what links point at."""
    return (
        f'<section id="{name}" aria-labelledby="{name}-h"><h2 id="{name}-h">{text(title)}</h2>{"".join(body)}</section>'
    )


def paragraph(sentence: str, kind: str = "") -> str:
    return f"<p{f' class={kind}' if kind else ''}>{text(sentence)}</p>"
