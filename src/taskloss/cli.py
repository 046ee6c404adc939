"""The command line: `taskloss demo`, `taskloss list`, `taskloss compile`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="taskloss", description="Train on a surrogate, predict for the loss you are judged by."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="compare cross-entropy and argmax with taskloss on five bundled tasks")
    demo.add_argument("--figure", default="demo.png", help="where to save the figure (default: demo.png)")
    demo.add_argument("--repeats", type=_count, default=3, help="how often to repeat the five folds (default: 3)")
    commands.add_parser("list", help="the losses, surrogates and other parts that have a name")
    commands.add_parser("compile", help="compile every kernel now, into numba's cache, as for an image of a container")
    options = parser.parse_args(arguments)
    if options.command == "demo":
        return _demo(demo, options.figure, options.repeats)
    return _list() if options.command == "list" else _compile()


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number


def _demo(parser: argparse.ArgumentParser, figure: str, repeats: int) -> int:
    from . import demo

    problem = None
    try:
        demo.check_figure(figure)  # before the work, not after it
    except ValueError as error:
        parser.error(str(error))
    except ImportError as error:
        problem = error
    print(
        f"Held-out task loss, {repeats} times 5 folds, same penalty for both; 'argmax' is cross-entropy and the likeliest label.\n"
    )
    results = demo.run(repeats=repeats)
    if problem is not None:
        print(f"\n{problem}")
    else:
        demo.draw(results, figure)
        print(f"\nFigure saved to {figure}.")
    return 0


def _list() -> int:
    from .hypotheses import Hypothesis
    from .losses import Loss
    from .margins import Margin
    from .polytopes import Polytope
    from .solvers import Solver
    from .surrogates import Surrogate

    for kind in (Loss, Surrogate, Margin, Polytope, Hypothesis, Solver):
        print(f"{kind.__name__.lower()}:")
        for name, part in sorted(kind.registry.items()):
            print(f"  {name:<18} {(part.__doc__ or '').strip().splitlines()[0]}")
    return 0


def _compile() -> int:
    """Non-zero where nothing was kept: the build of an image should fail, not its first request be slow."""
    from . import ahead
    from ._compiled.caching import KernelCache

    counts = ahead.rehearse(report=print)
    new, old = (sum(column) for column in zip(*counts.values(), strict=True))
    print(f"\n{len(counts)} kernels: {new} signatures compiled, {old} read from the cache.")
    if KernelCache.warned:
        print("They are not kept: set NUMBA_CACHE_DIR to a directory that can be written.")
    return int(KernelCache.warned)


if __name__ == "__main__":
    raise SystemExit(main())
