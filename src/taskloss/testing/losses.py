"""Laws of losses, against enumeration of outputs and labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..losses.base import Loss
from .running import Law, applies, close, holds, run


def _pairs(loss: Loss) -> tuple[np.ndarray, np.ndarray]:
    z, y = loss.outputs(), loss.labels()
    i, j = np.indices((len(z), len(y))).reshape(2, -1)
    return z[i], y[j]


def drawn(size: int, seed: int = 0, rows: int = 120) -> np.ndarray:
    """Test vectors: uniform, small, with ties, zero, and constant."""
    rng = np.random.default_rng(seed)
    kinds = [
        rng.uniform(-1, 1, (rows, size)),
        1e-6 * rng.normal(size=(rows // 4, size)),
        rng.integers(-1, 2, (rows // 2, size)) / 2.0,
        np.zeros((1, size)),
        np.vstack([np.ones((1, size)), -np.ones((1, size))]),
    ]
    return np.vstack(kinds)


def decomposition(loss: Loss) -> None:
    """<psi(z), phi(y)> + c(z) is the loss of every output and label."""
    z, y = _pairs(loss)
    inner = (loss.psi(z) * loss.phi(y)).sum(-1)
    close(inner + loss.offset(z), loss(z, y), "<psi(z), phi(y)> + c(z)")
    close(loss.matrix().ravel(), loss(z, y), "matrix()")


def expected_loss(loss: Loss) -> None:
    """bayes_risk at the moments of a law is the mean loss under it."""
    y = loss.labels()
    law = np.random.default_rng(0).dirichlet(np.ones(len(y)), 6)
    mu = law @ loss.phi(y)
    for z, row in zip(loss.outputs(), loss.matrix(), strict=True):
        zs = np.broadcast_to(z, (6, *np.shape(z)))
        close(loss.bayes_risk(zs, mu), law @ row, f"the expected loss of the output {z!r}")


def decoding(loss: Loss) -> None:
    """decode finds the least of <psi(z), mu> + c(z), for any vector mu, in the polytope or not."""
    mu = drawn(loss.phi(loss.labels()).shape[1])
    z = loss.outputs()
    risks = mu @ loss.psi(z).T + np.broadcast_to(loss.offset(z), len(z))
    close(loss.bayes_risk(loss.decode(mu), mu), risks.min(1), "the expected loss of decode(mu)")


def hull(loss: Loss) -> None:
    """The vertices of the polytope are the embedded labels."""
    phi, vertices = loss.phi(loss.labels()), loss.polytope.vertices()
    embedded, expected = ({tuple(row) for row in points.round(9)} for points in (phi, vertices))
    holds(
        embedded == expected,
        f"the polytope has {len(expected - embedded)} vertices that are no label's phi, and lacks {len(embedded - expected)}",
    )


def one_byte(loss: Loss) -> None:
    """phi in int8 equals phi, where the loss declares small integer entries."""
    applies(loss.integral_phi, "phi is not integral")
    y = loss.labels()
    close(loss.phi(y, dtype=np.int8), loss.phi(y), "phi in one byte", atol=0.0)


def largest(loss: Loss) -> None:
    """worst(z) is the largest loss of each output, and range() the least and the largest of all."""
    z, table = loss.outputs(), loss.matrix()
    close(loss.worst(z), table.max(1), "worst(z)")
    close(np.array(loss.range()), np.array([table.min(), table.max()]), "range()")


def priced(loss: Loss) -> list[np.ndarray]:
    """Random costs of six examples, of each shape that the loss takes."""
    rng = np.random.default_rng(3)
    if loss.kind == "classes":
        return [rng.normal(size=(6, *loss.matrix().shape)), rng.normal(size=(6, len(loss.matrix())))]
    if loss.kind == "indicator":
        return [rng.normal(size=(6, loss.outputs().shape[1]))]
    return []


def costs(loss: Loss) -> None:
    """With costs per example, the expected cost is the mean of realised costs, and decode minimises it."""
    kinds = priced(loss)
    applies(bool(kinds), "costs per example have another form for this kind of output")
    rng, labels, z = np.random.default_rng(4), loss.labels(), loss.outputs()
    law = rng.dirichlet(np.ones(len(labels)), 6)
    mu = law @ loss.phi(labels)
    try:
        known = loss.probabilities(mu)
    except ValueError:
        known = None
    applies(known is not None, "moments do not determine the law")
    for prices in kinds:
        some = z[rng.integers(0, len(z), 6)]
        each = np.stack([loss.realised(some, np.repeat(y[None], 6, axis=0), prices) for y in labels], axis=1)
        close(loss.risk(some, mu, prices), (law * each).sum(1), "the expected cost")
        close(loss.worst(some, prices), each.max(1), "the worst cost")
        best = loss.risk(loss.decode(mu, prices), mu, prices)
        for one in z:
            holds(
                best <= loss.risk(np.repeat(one[None], 6, axis=0), mu, prices) + 1e-9,
                f"the output {one!r} is cheaper than the decision",
            )


LAWS: dict[str, Law] = {
    "decomposition": decomposition,
    "expected loss": expected_loss,
    "decoding": decoding,
    "hull": hull,
    "one byte": one_byte,
    "largest": largest,
    "costs": costs,
}


def check_loss(loss: Any) -> dict[str, str]:
    """Check a user-defined loss against the laws of losses, on all its outputs and labels.

    Parameters
    ----------
    loss : a loss with its sizes, small enough that its outputs and labels can be listed.

    Returns
    -------
    For each law "holds", or why it does not apply.

    Raises
    ------
    BrokenLawError
        that names every law that does not hold, with the value found and the value expected.
    """
    return run(Loss.resolve(loss), LAWS)
