"""A linear-chain conditional random field as a layer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from .._checks import check_flag, check_whole
from ..losses.base import Loss
from ..losses.sequence import SequenceLoss
from ..polytopes._forest import Limits
from .checks import check_floating, check_tensor, refuse, refuse_weights
from .labellings import Labellings

Tensor = torch.Tensor


class CRF(nn.Module):
    """A linear-chain conditional random field on top of a network's emissions.

    log p(y | x) = sum_t emissions[t, y_t] + sum_t transitions[y_t, y_{t+1}] + start[y_1] + end[y_T] - log Z. Takes the
    place of pytorch-crf's `CRF`: the same names of parameters (checkpoints load), calls and numbers.

    Parameters
    ----------
    num_tags : int
        Number of tags, K.
    batch_first : bool
        Whether tensors come as (batch, length, ...) rather than (length, batch, ...).
    forbidden : iterable of pairs, optional
        Transitions (tag, next tag) that never happen; (None, tag) forbids a start and (tag, None) an end.
    ignore_index : int, optional
        A tag that stands for "not known", such as -100: the likelihood then sums over all tags there, and on a GPU every
        call waits for the tags. Positions that are no part of a sequence are left out by the mask instead.
    validate : bool
        Check values too (tags, masks, NaN, forbidden sequences), for one clear sentence in the place of a silent NaN. On a
        GPU the sentence on a likelihood comes at the end of its backward pass, so that nothing waits for it; without one,
        and elsewhere, at once. Shapes and devices are checked always; under torch.compile nothing else is.

    Attributes
    ----------
    transitions, start_transitions, end_transitions : Parameter
        (K, K) as [tag, next tag], (K,) and (K,).

    Notes
    -----
    Sums over sequences run by scaled products of matrices on the CPU and in one Triton kernel on a GPU (up to 256
    tags), in float32 or better whatever the emissions' type. Results are the same from run to run. Gradients of all
    orders exist: the first from the marginals, further ones by differentiating the plain recursion, whose memory grows
    with B T K^2.

    References
    ----------
    Lafferty, McCallum and Pereira (2001), Conditional random fields.

    Examples
    --------
    >>> import torch
    >>> from taskloss.torch import CRF
    >>> crf = CRF(3, batch_first=True)
    >>> emissions = torch.randn(2, 5, 3, requires_grad=True)
    >>> loss = -crf(emissions, torch.zeros(2, 5, dtype=torch.long), reduction="mean")
    >>> loss.backward()
    >>> len(crf.decode(emissions))
    2
    """

    _step_limits: Tensor | None
    _start_limits: Tensor | None
    _end_limits: Tensor | None

    def __init__(
        self,
        num_tags: int,
        batch_first: bool = False,
        *,
        forbidden: Iterable[tuple[int | None, int | None]] | None = None,
        ignore_index: int | None = None,
        validate: bool = True,
    ) -> None:
        super().__init__()
        check_whole("num_tags", num_tags)
        check_flag("batch_first", batch_first)
        self.num_tags, self.batch_first, self.ignore_index, self.validate = (
            int(num_tags),
            batch_first,
            ignore_index,
            validate,
        )
        num_tags = self.num_tags
        self.start_transitions = nn.Parameter(torch.empty(num_tags))
        self.end_transitions = nn.Parameter(torch.empty(num_tags))
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags))
        limits = _limits(forbidden, num_tags)
        for name, table in zip(("step", "start", "end"), limits, strict=True):
            kept = None if table is None else torch.from_numpy(table).float()
            self.register_buffer(f"_{name}_limits", kept, persistent=False)  # no part of pytorch-crf's checkpoints
        self._limits = limits
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all transitions uniformly from -0.1 to 0.1."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def extra_repr(self) -> str:
        return f"num_tags={self.num_tags}, batch_first={self.batch_first}"

    # -- likelihood --------------------------------------------------------------------------------------------------

    def forward(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        reduction: str = "sum",
        *,
        lengths: Any = None,
        edges: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """The log-likelihood of tags; minus it is the loss to minimise.

        Parameters
        ----------
        emissions : Tensor
            (length, batch, K), or (batch, length, K) with `batch_first`, as everything below.
        tags : Tensor
            Codes (length, batch), `ignore_index` where not known; or bool, (length, batch, K): the tags that may be.
        mask : Tensor, optional
            (length, batch), true on each sequence's positions, which come first.
        reduction : {"sum", "mean", "token_mean", "none"}
        lengths : Tensor or list, optional
            (batch,), in the place of a mask.
        edges : Tensor, optional
            (length - 1, batch, K, K), scores of transitions at each step, added to `transitions`.
        weights : Tensor, optional
            (batch,), which multiply the log-likelihoods; "mean" and "token_mean" divide by their sums.

        Returns
        -------
        Tensor
            () or, with reduction="none", (batch,).
        """
        if not isinstance(reduction, str) or reduction not in ("none", "sum", "mean", "token_mean"):
            raise ValueError(f"reduction must be 'none', 'sum', 'mean' or 'token_mean', got {reduction!r}.")
        law = self._law(emissions, mask, lengths, edges)
        check_tensor(tags, "tags")
        if tags.ndim < 2:
            raise ValueError(f"Tags must have one code for each position, got shape {tuple(tags.shape)}.")
        tags = tags if self.batch_first else tags.transpose(0, 1)

        def reduced(value: Tensor) -> Tensor:
            if weights is not None:
                if weights.shape != value.shape:
                    raise ValueError(
                        f"weights must be one number for each of the {len(value)} sequences, got {tuple(weights.shape)}."
                    )
                value = value * weights
            if reduction == "none":
                return value
            if reduction == "sum":
                return value.sum()
            counts: Any = law.positions if reduction == "token_mean" else 1
            if weights is not None:
                return value.sum() / (weights.to(value.dtype) * counts).sum()
            return value.sum() / (counts.sum() if isinstance(counts, Tensor) else counts * len(value))

        # Reduced before it is checked: a GPU waits for the check, and has nothing to do until the backward pass begins.
        raw = law.raw_likelihood(tags)
        found = reduced(raw)
        if weights is not None and self.validate and not torch.compiler.is_compiling():
            bad = ~torch.isfinite(weights).all() | ((weights.sum() == 0) if "mean" in reduction else False)
            refuse(bad, lambda: refuse_weights(weights), raw)
        other = law.mended(raw, tags, self.ignore_index)
        return found if other is None else reduced(other)

    def log_partition(
        self, emissions: Tensor, mask: Tensor | None = None, *, lengths: Any = None, edges: Tensor | None = None
    ) -> Tensor:
        """log Z of each sequence, (batch,)."""
        return self._law(emissions, mask, lengths, edges).log_partition()

    def marginals(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Any = None,
        edges: Tensor | None = None,
        pairs: bool = False,
    ) -> Any:
        """P(y_t = tag), shaped as the emissions and zero where the mask is; with `pairs`, also P(y_t, y_{t+1}), (length - 1, batch, K, K).

        They have gradients, so that a loss may be a function of them.
        """
        mu, joint = self._law(emissions, mask, lengths, edges).marginals(pairs)
        mu = self._out(mu)
        return (mu, self._out(joint)) if pairs else mu  # type: ignore[arg-type]

    def entropy(
        self, emissions: Tensor, mask: Tensor | None = None, *, lengths: Any = None, edges: Tensor | None = None
    ) -> Tensor:
        """The entropy of the law over tag sequences, (batch,), with gradients."""
        return self._law(emissions, mask, lengths, edges).entropy()

    # -- decisions ---------------------------------------------------------------------------------------------------

    def decode(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Any = None,
        edges: Tensor | None = None,
        loss: Any = None,
    ) -> list[list[int]]:
        """The likeliest tags of each sequence (Viterbi); with a loss, those of least expected loss.

        loss : a loss on sequences or its name: "chain-hamming" counts wrong tags, `ChainCost` prices neighbours.
        """
        law = self._law(emissions, mask, lengths, edges)
        if loss is None:
            states = law.maximise()[1]
        else:
            states = law.decode(self._loss(loss), self._limits)[0]
        counts = [states.shape[1]] * len(states) if law.lengths is None else law.lengths.tolist()
        return [row[:n] for row, n in zip(states.tolist(), counts, strict=True)]

    def expected_loss(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Any = None,
        edges: Tensor | None = None,
        loss: Any = "chain-hamming",
    ) -> Tensor:
        """The expected loss of what `decode(loss=loss)` returns, (batch,)."""
        return self._law(emissions, mask, lengths, edges).decode(self._loss(loss), self._limits)[1]

    def best(
        self, emissions: Tensor, k: int, mask: Tensor | None = None, *, lengths: Any = None, edges: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The k likeliest sequences: log-probabilities (batch, k) in falling order, and tags (k, length, batch).

        Where there are fewer than k, the log-probability is -inf; tags are zero where the mask is.
        """
        score, states = self._law(emissions, mask, lengths, edges).best(k)
        return score, self._out(states, 1)

    def sample(
        self,
        emissions: Tensor,
        count: int = 1,
        mask: Tensor | None = None,
        *,
        lengths: Any = None,
        edges: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Tag sequences drawn from the law, (count, length, batch); tags are zero where the mask is."""
        return self._out(self._law(emissions, mask, lengths, edges).sample(count, generator), 1)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _law(self, emissions: Tensor, mask: Any, lengths: Any, edges: Any) -> Labellings:
        check_floating(emissions, "emissions")
        if emissions.ndim != 3 or emissions.shape[2] != self.num_tags:
            axes = "(batch, length, tags)" if self.batch_first else "(length, batch, tags)"
            raise ValueError(
                f"Emissions must have shape {axes} with {self.num_tags} tags, got {tuple(emissions.shape)}."
            )
        if 0 in emissions.shape:
            raise ValueError(
                f"Emissions must have a sequence and a position at least, got {tuple(emissions.shape)}: leave empty batches out."
            )
        start: Tensor = self.start_transitions
        end: Tensor = self.end_transitions
        pairs: Tensor = self.transitions
        if start.device != emissions.device:
            raise ValueError(
                f"Emissions are on {emissions.device}, but the CRF on {start.device}: move it with .to({str(emissions.device)!r})."
            )
        if not self.batch_first:
            emissions = emissions.transpose(0, 1)
            mask, edges = (x if x is None else x.transpose(0, 1) for x in (mask, edges))
        if self._step_limits is not None:
            pairs = pairs + self._step_limits
        if self._start_limits is not None:
            start = start + self._start_limits
        if self._end_limits is not None:
            end = end + self._end_limits
        if edges is not None:
            wanted = (emissions.shape[0], emissions.shape[1] - 1, self.num_tags, self.num_tags)
            if edges.shape != wanted:
                raise ValueError(
                    f"edges must hold a table of {self.num_tags} x {self.num_tags} scores for each step of each sequence, got {tuple(edges.shape)}."
                )
            pairs = edges + pairs
        return Labellings(emissions, pairs, start, end, mask, lengths, validate=self.validate)

    def _out(self, x: Tensor, first: int = 0) -> Tensor:
        return x if self.batch_first else x.transpose(first, first + 1)

    def _loss(self, loss: Any) -> SequenceLoss:
        loss = Loss.resolve(loss)
        if not isinstance(loss, SequenceLoss) or loss.parents is not None:
            raise ValueError(
                f"{loss!r} is no loss on sequences: use ChainHamming, ChainCost or SequenceZeroOne without parents."
            )
        return loss.bind(self.num_tags)


def _limits(forbidden: Any, states: int) -> Limits:
    """0 and -inf tables from forbidden pairs; None where nothing is forbidden."""
    if forbidden is None:
        return Limits()
    import numpy as np

    table = np.zeros((states + 1, states + 1))  # the last row is the start, the last column the end
    for pair in forbidden:
        if len(tuple(pair)) != 2 or all(tag is None for tag in pair):
            raise ValueError(f"forbidden must list pairs (tag, next tag), with None for an end; got {pair!r}.")
        for tag in pair:
            if tag is not None and not 0 <= tag < states:
                raise ValueError(f"forbidden names the tag {tag!r}, but tags go from 0 to {states - 1}.")
        before, after = (states if tag is None else tag for tag in pair)
        table[before, after] = -np.inf
    parts = table[:states, :states], table[states, :states], table[:states, states]
    return Limits(*(np.ascontiguousarray(part) if np.isneginf(part).any() else None for part in parts))
