"""What a command is, and the arguments that several have in common."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .output import Output


@dataclass(frozen=True)
class Command:
    """A name, its arguments, and what it does: run returns what --json prints, and with it an exit code where that is not 0."""

    name: str
    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Output], Any]
    description: str = ""
    epilog: str = ""


def add_reading(parser: argparse.ArgumentParser) -> None:
    """How files of rows are read."""
    group = parser.add_argument_group("reading files")
    group.add_argument("--delimiter", help="between the columns of a text file (default: found in its first line)")
    group.add_argument("--encoding", default="utf-8-sig", help="of a text file (default: UTF-8)")


def add_writing(parser: argparse.ArgumentParser, what: str, required: bool = True, default: str | None = None) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", required=required, default=default, help=what)
    parser.add_argument("--force", action="store_true", help="write over a file that exists")


def add_table(parser: Any) -> None:
    """How a table of costs is laid out, and one more row for it."""
    parser.add_argument(
        "--truth-in-rows", action="store_true", help="the table has labels in rows and decisions in columns"
    )
    parser.add_argument("--abstain", type=float, metavar="COST", help="one more decision, to abstain, at this cost")


def add_loss(parser: argparse.ArgumentParser) -> None:
    """What mistakes cost."""
    group = parser.add_argument_group("what mistakes cost")
    group.add_argument(
        "--costs", metavar="FILE", help="a table of costs: a row for each decision, a column for each label"
    )
    add_table(group)
    group.add_argument(
        "--loss",
        metavar="NAME",
        help="in the place of a table: zero-one, absolute, squared; for label sets hamming, f-beta; for rankings ndcg, precision-at",
    )
    group.add_argument("--beta", type=float, help="of f-beta (default: 1)")
    group.add_argument("--at", type=int, metavar="K", help="of ndcg and precision-at: only the first K places count")
