"""The command line: one module for each group of commands, and `main`, which turns what fails into a sentence and a code."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from . import explaining, fitting, parts, using
from .output import Output

COMMANDS = {command.name: command for module in (fitting, using, explaining, parts) for command in module.COMMANDS}
BAD_INPUT, INTERRUPTED = 2, 130

_DESCRIPTION = """\
Say what mistakes cost, and decide by it: from a table and a table of costs to a model that predicts what costs least.

  taskloss fit data.csv --target risk --costs costs.csv -o model.skops   learn, and say what it costs on held-out rows
  taskloss predict model.skops new.csv -o decisions.csv                  decide for new rows
  taskloss evaluate model.skops test.csv                                 what the decisions cost, beside the likeliest label

costs.csv has a row for each decision and a column for each label; here to grant a credit that turns out bad costs 5:

  decision,good,bad
  good,0,5
  bad,1,0
"""
_EPILOG = """\
Each command explains itself: taskloss fit --help. All take --json, for one JSON object on standard output.
Exit codes: 0 done, 2 bad input (with one sentence on standard error), 130 interrupted. Files are written whole or not at
all, and nothing is written over without --force. CSV and model files need pip install 'taskloss[files]', and trees
pip install 'taskloss[boosting]'.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, by default the process's own arguments; returns its exit code."""
    try:
        options = _parser().parse_args(arguments)
    except SystemExit as stop:  # after --help, --version, or a sentence on what is wrong with the arguments
        return int(stop.code or 0)
    command = COMMANDS[options.command]
    out = Output(options.json, getattr(options, "quiet", False))
    try:
        _check_nothing_read_is_written(options)
        with _warnings_in_a_line():
            found = command.run(options, out)
        result, code = found if isinstance(found, tuple) else (found, 0)
        out.finish(result)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("\ntaskloss: interrupted; nothing was written.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError, ImportError, OSError) as error:
        if options.debug:
            raise
        print(f"taskloss {command.name}: {_sentence(error)}", file=sys.stderr)
        return BAD_INPUT


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments in one sentence, without all the options there are."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {message.rstrip('.')}. See {self.prog} --help.\n")


def _check_nothing_read_is_written(options: argparse.Namespace) -> None:
    """Not even --force may cost anybody the file that a command reads."""
    for option in ("output", "figure"):
        place = getattr(options, option, None)
        for read in ("data", "model", "costs"):
            path = getattr(options, read, None)
            if place and path and os.path.exists(place) and os.path.exists(path) and os.path.samefile(place, path):
                name = "-o" if option == "output" else "--figure"
                raise ValueError(f"{place} is read by this command, and {name} would write over it: name another file.")


def _parser() -> argparse.ArgumentParser:
    from .. import __version__

    form = argparse.RawDescriptionHelpFormatter
    parser = _Parser("taskloss", description=_DESCRIPTION, epilog=_EPILOG, formatter_class=form)
    parser.add_argument("--version", action="version", version=f"taskloss {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS.values():
        one = commands.add_parser(
            command.name,
            help=command.help,
            description=command.description,
            epilog=command.epilog,
            formatter_class=form,
        )
        command.arguments(one)
        one.add_argument("--json", action="store_true", help="one JSON object on standard output, for programs")
        one.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    return parser


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror.lower()}."
    return " ".join(str(error).split())


@contextlib.contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    """Warnings for users, each once and in a line of its own on standard error; those for programmers are not shown."""
    seen: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if str(message) not in seen and not issubclass(category, DeprecationWarning | FutureWarning):
            seen.add(str(message))
            print(f"taskloss: {' '.join(str(message).split())}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield
