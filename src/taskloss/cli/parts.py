"""taskloss demo, list and compile."""

from __future__ import annotations

import argparse
from typing import Any

from .command import Command
from .output import Output, check_place, written


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number


def _demo_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--figure", default="demo.png", help="where to save the figure (default: demo.png)")
    parser.add_argument("--repeats", type=_count, default=3, help="how often to repeat the five folds (default: 3)")
    parser.add_argument("--force", action="store_true", help="write over a figure that exists")


def _demo(options: Any, out: Output) -> dict[str, Any]:
    from .. import demo

    problem = None
    try:
        demo.check_figure(options.figure)  # before the work, not after it
        check_place(options.figure, options.force, "--figure")
    except ImportError as error:
        problem = error
    out.say(
        f"Held-out task loss, {options.repeats} times 5 folds, same penalty for both; 'argmax' is cross-entropy and the likeliest label.\n"
    )
    results = demo.run(repeats=options.repeats, report=out.say)
    if problem is not None:
        out.say(f"\n{problem}")
    else:
        with written(options.figure, options.force, "--figure") as temporary:
            demo.draw(results, temporary)
        out.say(f"\nFigure saved to {options.figure}.")
    fields = ("argmax", "ours", "saved", "low", "high")
    return {r.task.name: {"data": r.task.data, **{name: getattr(r, name) for name in fields}} for r in results}


def _list(options: Any, out: Output) -> dict[str, dict[str, str]]:
    from ..hypotheses import Hypothesis
    from ..losses import Loss
    from ..margins import Margin
    from ..polytopes import Polytope
    from ..solvers import Solver
    from ..surrogates import Surrogate

    found = {}
    for kind in (Loss, Surrogate, Margin, Polytope, Hypothesis, Solver):
        title = kind.__name__.lower()
        found[title] = {n: (part.__doc__ or "").strip().splitlines()[0] for n, part in sorted(kind.registry.items())}
        out.say(f"{title}:")
        for name, line in found[title].items():
            out.say(f"  {name:<18} {line}")
    return found


def _compile(options: Any, out: Output) -> tuple[dict[str, Any], int]:
    """Non-zero where nothing was kept: the build of an image should fail, not its first request be slow."""
    from .. import ahead
    from .._compiled.caching import KernelCache

    counts = ahead.rehearse(report=out.say)
    new, old = (sum(column) for column in zip(*counts.values(), strict=True))
    out.say(f"\n{len(counts)} kernels: {new} signatures compiled, {old} read from the cache.")
    if KernelCache.warned:
        out.say("They are not kept: set NUMBA_CACHE_DIR to a directory that can be written.")
    return {"kernels": len(counts), "compiled": new, "read": old, "kept": not KernelCache.warned}, int(
        KernelCache.warned
    )


def _nothing(parser: argparse.ArgumentParser) -> None:
    pass


COMMANDS = [
    Command("list", "the losses, surrogates and other parts that have a name", _nothing, _list),
    Command(
        "compile", "compile every kernel now, into numba's cache, as for an image of a container", _nothing, _compile
    ),
    Command("demo", "compare cross-entropy and argmax with taskloss on five bundled tasks", _demo_arguments, _demo),
]
