"""taskloss explain-costs and taskloss theory: what a table of costs implies, before there are data."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from ..losses import CostMatrix, Loss
from .command import Command, add_table
from .costs import read_costs, with_abstention
from .implications import Implications
from .output import Output, check_place, written
from .words import explanation

_FILE = """\
COSTS is a text file. Its first line names the labels, and each line below begins with a decision and has its costs:

  decision,good,bad
  good,0,5
  bad,1,0

so that deciding good where it is bad costs 5. Lines that begin with # are comments.
"""
_LEVELS = (0.05, 0.1, 0.25, 0.5)  # excess risks in the table, as shares of the largest
_PATIENCE = 60.0  # seconds for each value of a calibration function, after which it is an interval


def _add_costs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("costs", metavar="COSTS", nargs="?", help="the table of costs")
    add_table(parser)
    parser.add_argument(
        "--loss",
        metavar="NAME",
        help="in the place of a table: a loss on labels by its name, such as zero-one, absolute, squared",
    )
    parser.add_argument("--labels", type=int, metavar="K", help="how many labels --loss has")
    parser.add_argument("--encoding", default="utf-8-sig", help=argparse.SUPPRESS)


def _loss(options: Any) -> Loss:
    """The loss of a table or of a name, with names for its labels and outputs."""
    if (options.costs is None) == (options.loss is None):
        raise ValueError("Give a table of costs, or --loss NAME with --labels K.")
    if options.costs is not None:
        table = read_costs(options.costs, options.truth_in_rows, options.encoding)
        loss: Loss = CostMatrix(table.matrix, table.outputs, table.labels)
        names = table.labels
    else:
        if options.labels is None or options.labels < 2:
            raise ValueError(f"--loss {options.loss} needs its number of labels, at least 2: --labels K.")
        loss = Loss.resolve(options.loss)
        if loss.kind != "classes" or options.loss in ("abstain", "cost-matrix", "listed", "tree-distance"):
            raise ValueError(
                f"--loss must be a loss on labels that its name says whole: zero-one, absolute or squared, got {options.loss!r}."
            )
        names = [str(j) for j in range(options.labels)]
        loss = loss.bind(options.labels)
    return loss if options.abstain is None else with_abstention(loss, options.abstain, names)


def _explain(options: Any, out: Output) -> dict[str, Any]:
    loss = _loss(options)
    matrix = loss.matrix()
    names = loss.label_names()
    labels = names.tolist() if names is not None else [str(j) for j in range(matrix.shape[1])]
    found = Implications(matrix, [str(z) for z in loss.output_names(np.array(labels))], labels)
    out.table(
        ["decision", *labels], [[z, *(f"{c:g}" for c in row)] for z, row in zip(found.outputs, matrix, strict=True)]
    )
    said = explanation(found)
    for heading, sentences in said.items():
        out.say(f"\n{heading}")
        for sentence in sentences:
            out.say(f"  {sentence}")
    d = found.decomposition
    name = found.outputs
    return {
        "decisions": name,
        "labels": labels,
        "costs": matrix,
        "relative_costs": found.relative,
        "best_where_certain": {
            label: [name[z] for z in best] for label, best in zip(labels, found.certain, strict=True)
        },
        "thresholds": [{"decision": name[z], "from": low, "to": high} for z, low, high in found.thresholds],
        "ranges": {name[z]: {"possible_from": a, "always_above": b} for z, (a, b) in found.ranges.items()},
        "never": {name[z]: why for z, why in found.never.items()},
        "same_decisions": [[name[i], name[j]] for i, j in found.twins],
        "same_labels": [[labels[i], labels[j]] for i, j in found.alike],
        "known_as": found.known_as,
        "dimension": d.k,
        "dimension_of_labels": d.r,
        "words": said,
    }


def _theory_arguments(parser: argparse.ArgumentParser) -> None:
    _add_costs(parser)
    parser.add_argument(
        "--surrogate",
        default="auto",
        metavar="NAME",
        help="what is minimised in the place of the costs: multinomial (auto), quadratic, one-vs-all, all-thresholds, ...; taskloss list has them all",
    )
    parser.add_argument(
        "--eps", metavar="A,B,...", help="excess costs to look at (default: 5, 10, 25 and 50 percent of the largest)"
    )
    parser.add_argument("--figure", metavar="FILE", help="draw the calibration function too, as .png, .svg or .pdf")
    parser.add_argument("--force", action="store_true", help="write over a figure that exists")


def _levels(text: str | None, largest: float) -> list[float]:
    if text is None:
        return [share * largest for share in _LEVELS]
    try:
        levels = [float(word) for word in text.split(",")]
    except ValueError:
        levels = []
    if not levels or not all(0 < level < np.inf for level in levels):
        raise ValueError(f"--eps must be numbers above zero with commas between, got {text!r}.")
    return levels


def _theory(options: Any, out: Output) -> dict[str, Any]:
    from .. import demo, theory

    if options.figure:
        demo.check_figure(options.figure)
        check_place(options.figure, options.force, "--figure")
    zeta = theory.calibration(_loss(options), options.surrogate, time_limit=_PATIENCE)
    if zeta.eps_max <= 0:
        raise ValueError("All decisions cost the same, whatever the label: there is nothing to learn.")
    levels = _levels(options.eps, zeta.eps_max)
    found = [zeta.exact(level) for level in levels]
    surrogate = zeta.surrogate.name
    out.say(
        f"Calibration function of {surrogate} for these costs: to decide within eps of the least possible expected cost, it is enough"
    )
    out.say("that the surrogate risk is within zeta(eps) of its least.\n")
    rows = [[f"{c.eps:.4g}", f"{c.lower:.4g}", f"{c.value:.4g}", "yes" if c.exact else "interval"] for c in found]
    out.table(["eps", "zeta at least", "zeta at most", "exact"], rows)
    deltas = [float(zeta.envelope(level)) for level in levels]
    out.say("\nIn words")
    out.say(
        f"  The most that a decision can cost above the best is {zeta.eps_max:.4g}, on average over an example's labels."
    )
    for level, delta in zip(levels, deltas, strict=True):
        out.say(
            f"  With a surrogate risk within {delta:.3g} of its least, over all examples together, decisions cost at most {level:.4g} more than the best."
        )
    first, last = deltas[0], deltas[-1]
    if first > 0 and len(levels) > 1:
        power = np.log(last / first) / np.log(levels[-1] / levels[0])
        out.say(
            f"  Over this range zeta grows like eps to the power {power:.2g}: half the excess cost asks for {1 / 2**power:.2g} times the surrogate excess."
        )
    if options.figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 4.2), layout="constrained")
        zeta.plot(figure.subplots())
        with written(options.figure, options.force, "--figure") as temporary:
            figure.savefig(temporary, dpi=150)
        out.say(f"\n{options.figure} is written.")
    values = [
        {"eps": c.eps, "lower": c.lower, "upper": c.value, "exact": c.exact, "envelope": e, "method": c.method}
        for c, e in zip(found, deltas, strict=True)
    ]
    return {"surrogate": surrogate, "largest_excess": zeta.eps_max, "zeta": values}


COMMANDS = [
    Command(
        "explain-costs",
        "say in words what a table of costs implies: thresholds, what is never decided",
        _add_costs,
        _explain,
        "Say what follows from a table of costs, whatever the data.\n\n" + _FILE,
    ),
    Command(
        "theory",
        "how well a surrogate must be minimised for decisions to cost little: the calibration function",
        _theory_arguments,
        _theory,
        "How much a surrogate's excess risk can hide in terms of these costs: the calibration function of Nowak-Vila, Bach and\nRudi (2019), computed with certificates.\n\n"
        + _FILE,
    ),
]
