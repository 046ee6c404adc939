"""The command line: `taskloss demo`, `taskloss list`."""

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
    demo.add_argument("--repeats", type=int, default=3, help="how often to repeat the five folds (default: 3)")
    commands.add_parser("list", help="the losses, surrogates and other parts that have a name")
    options = parser.parse_args(arguments)
    if options.command == "demo":
        return _demo(options.figure, options.repeats)
    return _list()


def _demo(figure: str, repeats: int) -> int:
    from . import demo

    print(
        f"Held-out task loss, {repeats} times 5 folds, same penalty for both; 'argmax' is cross-entropy and the likeliest label.\n"
    )
    results = demo.run(repeats=repeats)
    try:
        demo.draw(results, figure)
    except ImportError as error:
        print(f"\n{error}")
    else:
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


if __name__ == "__main__":
    raise SystemExit(main())
