"""A figure that compares a surrogate with its convolution; needs the extra `plot`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..losses.base import Loss
from ..losses.tabular import ZeroOne
from ..theory.calibration import calibration
from ..theory.convolved import linear_calibration
from .style import BLUE, GREY, ORANGE, RED, pyplot, styled


def excess_pairs(
    loss: Any, surrogate: Any, count: int = 4000, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Surrogate excess, task excess of the decision and, for a convolved surrogate, that of a drawn output.

    Laws over the labels are random, most of them near a tie; estimates are the scores of other such laws, and for a
    convolved surrogate scores within its ties.
    """
    rng = np.random.default_rng(seed)
    matrix, labels = loss.matrix(), loss.phi(loss.labels())
    spread = 0.5 * rng.uniform(0, 1, (2, count, 1)) ** 2 / loss.n_labels
    laws = 1 / loss.n_labels + spread * rng.normal(size=(2, count, loss.n_labels))
    laws = np.maximum(laws, 1e-6)
    laws /= laws.sum(-1, keepdims=True)
    truth, mu = laws[0] @ labels, laws[1] @ labels
    v = surrogate.link(mu)
    risks = laws[0] @ matrix.T
    excess = risks - risks.min(1, keepdims=True)
    if surrogate.differentiable:
        z, drawn = loss.decode(surrogate.inverse_link(v)), None
    else:
        psi = loss.psi(loss.outputs())
        v = v + psi[loss.decode(mu)] - rng.dirichlet(np.full(len(psi), 0.7), count) @ psi
        pi = surrogate.mixture(v)
        z, drawn = pi.argmax(1), (pi * excess).sum(1)
    return surrogate.value(v, truth), excess[np.arange(count), z], drawn


@styled
def convolved_figure(loss: Any = None, surrogate: Any = "multinomial", most: float = 0.15) -> Any:
    """Task excess against surrogate excess: below a square root for a surrogate, below a line for its convolution.

    Parameters
    ----------
    loss : a loss on labels that knows how many there are; None for 0-1 loss on three labels.
    surrogate : a surrogate that fits it, or its name.
    most : the largest surrogate excess to show.

    Returns
    -------
    The matplotlib figure.
    """
    from ..surrogates.convolutional import ConvolutionalFenchelYoung

    loss = ZeroOne(3) if loss is None else Loss.resolve(loss)
    zeta = calibration(loss, surrogate)
    likeliest, drawn = (
        linear_calibration(zeta.loss, ConvolutionalFenchelYoung(surrogate), decision)
        for decision in ("likeliest", "drawn")
    )
    delta = np.linspace(0, most, 61)
    fig, (left, right) = pyplot().subplots(1, 2, figsize=(9, 4), sharey=True)
    s, e, _ = excess_pairs(zeta.loss, zeta.surrogate)
    left.plot(s, e, ".", color=BLUE, ms=2, alpha=0.5, label="random laws and estimates")
    left.plot(
        delta, [zeta.excess_risk(d) for d in delta], "-", color=RED, label="most that is possible, a square root at 0"
    )
    left.set_title(f"{type(zeta.surrogate).__name__}")
    s, e, d = excess_pairs(likeliest.loss, likeliest.surrogate)
    right.plot(s, e, ".", color=BLUE, ms=2, alpha=0.5, label="likeliest output")
    right.plot(s, d, ".", color=ORANGE, ms=2, alpha=0.5, label="output drawn from the mixture")
    right.plot(delta, likeliest.excess_risk(delta), "-", color=RED, label="bound for the likeliest")
    right.plot(delta, drawn.excess_risk(delta), "--", color=GREY, label="bound for the drawn")
    right.set_title(f"the same potential, convolved with {type(loss).__name__}")
    top = 1.1 * zeta.excess_risk(most)
    for ax in (left, right):
        ax.set(xlim=(0, most), ylim=(0, top), xlabel="surrogate excess risk")
        ax.legend(loc="upper left", fontsize=8, markerscale=4)
    left.set_ylabel("task excess risk")
    return fig
