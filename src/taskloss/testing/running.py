"""Run laws on a part and report those that do not hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Law = Callable[..., None]


class BrokenLawError(AssertionError):
    """Raised for a part that breaks laws of its kind; `broken` maps each to what was found."""

    def __init__(self, message: str, broken: dict[str, str]):
        super().__init__(message)
        self.broken = broken


class NotApplicableError(Exception):
    """Raised by a law that does not apply to the part."""


def run(part: Any, laws: Mapping[str, Law], **options: Any) -> dict[str, str]:
    """ "holds", or why it does not apply, for each law by its name; raises BrokenLawError where one does not hold."""
    report, broken = {}, {}
    for name, law in laws.items():
        try:
            law(part, **options)
            report[name] = "holds"
        except NotApplicableError as reason:
            report[name] = f"does not apply: {reason}"
        except AssertionError as error:
            broken[name] = str(error).strip() or "it does not hold"
        except Exception as error:
            broken[name] = f"{type(error).__name__}: {error}"
    if broken:
        alike: dict[str, list[str]] = {}  # what stops every law, such as a size that is missing, is said once
        for name, text in broken.items():
            alike.setdefault(text, []).append(name)
        lines = "\n".join(
            f"- {', '.join(names)}{f' ({said(laws[names[0]])})' if len(names) == 1 else ''}: {_short(text)}"
            for text, names in alike.items()
        )
        raise BrokenLawError(f"{part!r} breaks {len(broken)} of {len(laws)} laws of its kind:\n{lines}", broken)
    return report


def said(law: Law) -> str:
    """The first line of a law's docstring."""
    return (law.__doc__ or law.__name__).strip().splitlines()[0].rstrip(".")


def close(found: Any, expected: Any, what: str, rtol: float = 0.0, atol: float = 1e-9) -> None:
    """AssertionError, with the first difference, unless the arrays agree."""
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    if found.shape != expected.shape:
        raise AssertionError(f"{what} has shape {found.shape}, and should have {expected.shape}")
    with np.errstate(invalid="ignore"):
        gap = np.abs(found - expected)
        wrong = ~((gap <= atol + rtol * np.abs(expected)) | (found == expected))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AssertionError(f"{what} is {found[at]:.6g} at {at}, and should be {expected[at]:.6g}")


def holds(condition: Any, what: str) -> None:
    """AssertionError unless the condition holds everywhere."""
    if not np.all(condition):
        raise AssertionError(what)


def applies(condition: bool, reason: str) -> None:
    """NotApplicableError unless the condition holds."""
    if not condition:
        raise NotApplicableError(reason)


def _short(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(lines[:3])
