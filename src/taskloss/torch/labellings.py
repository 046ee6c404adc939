"""Scores of the labellings of chains and trees, as tensors, and what can be asked of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from .._compiled import torch_chain
from .._compiled.torch_definition import EACH, SUMS, VALUE, at_ends, inside
from ..losses.sequence import SequenceLoss
from ..polytopes._forest import Forest, Limits
from ..polytopes._max_product import k_best, maximise
from ..polytopes._sum_product import marginals, sample
from .checks import check_floating, check_same_device, found_bad, refuse

Tensor = torch.Tensor

_COMPILED_WORK = 1 << 16  # sums from which Viterbi is compiled: a layer that decodes once decodes again


class Labellings:
    """A batch of chains, or of copies of one tree, with scores for the states of nodes and of neighbouring pairs.

    Parameters
    ----------
    nodes : (B, T, K), batch first.
    pairs : (K, K), [state, next state], shared by all; or (B, T - 1, K, K).
    start, end : (K,) or None, added at the first and the last position of each chain.
    mask : (B, T), true on each sequence's positions, which come first; or None.
    lengths : (B,), in the place of a mask.
    parents : of a tree's nodes, as in polytopes.Tree; None for chains.
    validate : whether to check values too, which on a GPU waits for what was computed before.
    """

    def __init__(
        self,
        nodes: Tensor,
        pairs: Tensor,
        start: Tensor | None = None,
        end: Tensor | None = None,
        mask: Tensor | None = None,
        lengths: Any = None,
        parents: Sequence[int] | None = None,
        validate: bool = True,
    ):
        self.nodes, self.pairs, self.start, self.end, self.parents = nodes, pairs, start, end, parents
        self.validate = validate and not torch.compiler.is_compiling()
        self._mask: Tensor | None = None
        check_floating(nodes, "scores of nodes")
        if nodes.ndim != 3 or not nodes.shape[1]:
            raise ValueError(
                f"Scores of nodes must have shape (sequences, positions, states) with at least one position, got {tuple(nodes.shape)}."
            )
        batch, length, states = nodes.shape
        if pairs.shape not in ((states, states), (batch, length - 1, states, states)):
            raise ValueError(
                f"Scores of pairs must be one table {(states, states)} or one for each pair of neighbours, {(batch, length - 1, states, states)}; got {tuple(pairs.shape)}."
            )
        check_same_device(nodes, pairs, "scores of pairs")
        self.lengths = self._lengths(mask, lengths)
        if parents is not None:
            if len(parents) != length:
                raise ValueError(f"The tree has {len(parents)} nodes, but the scores have {length} positions.")
            if self.lengths is not None:
                raise ValueError("Trees of one shape have no positions to mask: leave mask and lengths out.")

    def _lengths(self, mask: Any, lengths: Any) -> Tensor | None:
        batch, length, _ = self.nodes.shape
        if mask is not None and lengths is not None:
            raise ValueError("Give mask or lengths, not both.")
        if mask is not None:
            if mask.shape != (batch, length):
                raise ValueError(
                    f"The mask must have one entry for each position, {(batch, length)}, got {tuple(mask.shape)}."
                )
            check_same_device(self.nodes, mask, "the mask")
            self._mask = mask.bool()
            return self._mask.sum(1)
        if lengths is None:
            return None
        lengths = torch.as_tensor(lengths, device=self.nodes.device)
        if lengths.shape != (batch,) or lengths.is_floating_point():
            raise ValueError(
                f"lengths must be {batch} whole numbers, one for each sequence, got shape {tuple(lengths.shape)} and {lengths.dtype}."
            )
        return lengths.long()

    # -- the law -----------------------------------------------------------------------------------------------------

    def _run(self, tags: Tensor | None, what: int) -> tuple[Tensor, Tensor, Tensor]:
        scores = self.nodes, self.pairs, self.start, self.end
        if self.parents is None:
            return torch_chain.chain(*scores, self.lengths, tags, what)
        return self._run_tree(tags, what)

    def _run_tree(self, tags: Tensor | None, what: int) -> tuple[Tensor, Tensor, Tensor]:
        batch, length, states = self.nodes.shape
        forest = Forest.copies(np.asarray(self.parents), batch)
        shared = self.pairs.ndim == 2
        unary, pairs = self.nodes.reshape(-1, states), self.pairs if shared else self.pairs.flatten(0, 1)
        value, mu, joint = marginals(forest, unary, pairs, "none" if what == VALUE else "all")
        if tags is not None:
            value = self._tree_score(tags) - value
        if what == VALUE:
            return value, mu.new_empty(0), mu.new_empty(0)
        return value, mu.reshape(self.nodes.shape), joint.reshape(batch, length - 1, states, states)

    def _tree_score(self, tags: Tensor) -> Tensor:
        states = self.nodes.shape[2]
        known = (tags >= 0) & (tags < states)
        tags = torch.where(known, tags, 0)
        above = tags[:, list(self.parents or ())[1:]]
        codes = above * states + tags[:, 1:]
        table = self.pairs.flatten(-2)
        steps = table[codes] if self.pairs.ndim == 2 else table.gather(2, codes[..., None])[..., 0]
        score = self.nodes.gather(2, tags[..., None])[..., 0].sum(1) + steps.sum(1)
        return torch.where(known.all(1), score, torch.nan)

    @property
    def _gradient(self) -> int:
        scores = (self.nodes, self.pairs, self.start, self.end)
        wanted = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in scores)
        return SUMS if wanted else VALUE

    def log_partition(self) -> Tensor:
        """log of the sum over labellings of exp(score), (B,)."""
        return self._checked(self._run(None, self._gradient))[0]

    def _bad(self, value: Tensor) -> Tensor:
        """Whether anything is wrong, read from the result: on a GPU this is looked at once."""
        bad = ~torch.isfinite(value).all()
        if self._mask is not None:
            bad |= (self._mask[:, 1:] > self._mask[:, :-1]).any()
        return bad

    def _checked(self, found: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        if self.validate and found_bad(self._bad(found[0])):
            self._explain(found[0], None, found[0])
        return found

    def log_likelihood(self, tags: Tensor, ignore_index: int | None = None) -> Tensor:
        """log p(tags), (B,). Where a tag is `ignore_index` any state will do, and the sum over them is taken.

        Tags of type bool, (B, T, K), say which states may be at each position.
        """
        value = self.raw_likelihood(tags)
        other = self.mended(value, tags, ignore_index)
        return value if other is None else other

    @property
    def positions(self) -> Any:
        """How many positions each sequence has: a number, or (B,)."""
        return self.nodes.shape[1] if self.lengths is None else self.lengths

    def raw_likelihood(self, tags: Tensor) -> Tensor:
        """`log_likelihood`, NaN where a tag is not known: nothing waits for a value."""
        if tags.dtype == torch.bool:
            return self._partial(tags)
        if tags.shape != self.nodes.shape[:2]:
            raise ValueError(
                f"Tags must have one code for each position, {tuple(self.nodes.shape[:2])}, got {tuple(tags.shape)}."
            )
        if tags.is_floating_point():
            raise ValueError(f"Tags must be whole numbers, got {tags.dtype}.")
        check_same_device(self.nodes, tags, "tags")
        return self._run(tags.long(), self._gradient)[0]

    def mended(self, value: Tensor, tags: Tensor, ignore_index: int | None) -> Tensor | None:
        """None where the raw likelihood is in order; where tags are not known the sum over them, and else one clear sentence."""
        if tags.dtype == torch.bool or not self.validate:
            return None
        tags = tags.long()
        bad = self._bad(value)
        if ignore_index is None:
            refuse(bad, lambda: self._explain(value, tags, self._run(None, VALUE)[0]), value)
            return None
        if not found_bad(bad):
            return None
        self._refuse_lengths()
        # Unknown tags have made the value NaN: only then is the second sum worth its while.
        if found_bad((tags == ignore_index) & inside(tags, self.lengths)):
            self._refuse_tags(tags, ignore_index)
            states = torch.arange(self.nodes.shape[2], device=tags.device)
            return self._partial((tags[..., None] == states) | (tags[..., None] == ignore_index))
        self._explain(value, tags, self._run(None, VALUE)[0])
        return None

    def _partial(self, allowed: Tensor) -> Tensor:
        if allowed.shape != self.nodes.shape:
            raise ValueError(
                f"Sets of tags must be true or false for each state, {tuple(self.nodes.shape)}, got {tuple(allowed.shape)}."
            )
        whole = self.log_partition()
        nodes = self.nodes.masked_fill(~allowed, -torch.inf)
        part = Labellings(nodes, self.pairs, self.start, self.end, None, self.lengths, self.parents, validate=False)
        value = part.log_partition()
        if self.validate and found_bad(~torch.isfinite(value)):
            at = int(torch.nonzero(~torch.isfinite(value))[0])
            raise ValueError(
                f"The sets of tags of sequence {at} leave no sequence that is allowed: widen them, or allow more transitions."
            )
        return value - whole

    def marginals(self, pairs: bool = False) -> tuple[Tensor, Tensor | None]:
        """P(y_t = a), (B, T, K), and of neighbouring pairs (B, T - 1, K, K) where asked for; zero beyond a sequence's end."""
        _, mu, joint = self._checked(self._run(None, EACH if pairs else SUMS))
        return mu, joint if pairs else None

    def entropy(self) -> Tensor:
        """-sum over labellings of p log p = log-partition - <marginals, scores>, in float64 inside, (B,)."""
        nodes, pairs = self.nodes.double(), self.pairs.double()
        start, end = (None if x is None else x.double() for x in (self.start, self.end))
        wide = Labellings(nodes, pairs, start, end, None, self.lengths, self.parents, False)
        value, mu, joint = self._checked(wide._run(None, SUMS))
        mean = _dot(mu, nodes).sum((1, 2)) + _dot(joint, pairs).flatten(1).sum(1)
        if start is not None:
            mean = mean + _dot(mu[:, 0], start).sum(1)
        if end is not None:
            mean = mean + _dot(at_ends(mu, self.lengths), end).sum(1)
        return (value - mean).to(torch.promote_types(self.nodes.dtype, torch.float32))

    # -- decisions, which are combinatorial and have no gradient -----------------------------------------------------

    @cached_property
    def forest(self) -> Forest:
        batch, length, _ = self.nodes.shape
        if self.parents is not None:
            return Forest.copies(np.asarray(self.parents), batch)
        self._refuse_lengths()
        return Forest.chains([length] * batch if self.lengths is None else self.lengths.tolist())

    def pack(self, x: Tensor) -> np.ndarray:
        """The rows of real positions, one after the other, in float64 and on the CPU."""
        x = x.detach()
        return (x[inside(x, self.lengths)] if self.lengths is not None else x.flatten(0, 1)).double().cpu().numpy()

    def pack_pairs(self, x: Tensor) -> np.ndarray:
        """The tables of real pairs."""
        x = x.detach()
        if x.ndim == 2:
            return x.double().cpu().numpy()
        keep = inside(self.nodes, self.lengths)[:, 1:]
        return x[keep].double().cpu().numpy()

    def unpack(self, states: np.ndarray) -> Tensor:
        """(..., nodes) packed to (..., B, T), zero beyond a sequence's end."""
        batch, length, _ = self.nodes.shape
        out = np.zeros((*states.shape[:-1], batch, length), dtype=np.int64)
        out[..., inside(self.nodes, self.lengths).cpu().numpy()] = states
        return torch.from_numpy(out).to(self.nodes.device)

    def packed_scores(self) -> tuple[np.ndarray, np.ndarray]:
        unary, pairs = self.pack(self.nodes), self.pack_pairs(self.pairs)
        ends = (None if x is None else x.detach().double().cpu().numpy() for x in (self.start, self.end))
        unary, pairs = Limits(None, *ends).apply(self.forest, unary, pairs)
        if self.validate and np.isnan(unary.sum()):
            self._explain(torch.full((len(self.nodes),), torch.nan), None, self.nodes.new_zeros(len(self.nodes)))
        return unary, pairs

    def maximise(self) -> tuple[Tensor, Tensor]:
        """The best score of each labelling, (B,), and its states (B, T), zero beyond a sequence's end."""
        if self.parents is None and torch_chain.on_triton(self.nodes):
            from .._compiled import triton_chain

            score, states = triton_chain.viterbi(
                self.nodes.detach(), self.pairs.detach(), self.start, self.end, self.lengths
            )
            if self.validate and found_bad(self._bad(score)):
                self._explain(score, None, score)
        else:
            unary, pairs = self.packed_scores()
            found, packed = maximise(self.forest, unary, pairs, unary.size * unary.shape[1] >= _COMPILED_WORK)
            score, states = torch.from_numpy(found).to(self.nodes.device), self.unpack(packed)
        return score.to(torch.promote_types(self.nodes.dtype, torch.float32)), states

    def best(self, k: int) -> tuple[Tensor, Tensor]:
        """The k largest log-probabilities in falling order, (B, k), -inf where there are fewer, and states (k, B, T)."""
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}.")
        unary, pairs = self.packed_scores()
        score, states = k_best(self.forest, unary, pairs, k)
        score -= marginals(self.forest, unary, pairs, "none")[0][:, None]
        return torch.from_numpy(score).to(self.nodes), self.unpack(states)

    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Labellings drawn from the law, (count, B, T); reproducible by torch.manual_seed, or the generator."""
        if count < 1:
            raise ValueError(f"count must be at least 1, got {count}.")
        where = "cpu" if generator is None else generator.device
        seed = int(torch.randint(2**62, (), generator=generator, device=where))
        return self.unpack(sample(self.forest, *self.packed_scores(), count, np.random.default_rng(seed)))

    def decode(self, loss: SequenceLoss, limits: Limits | None = None) -> tuple[Tensor, Tensor]:
        """The outputs of least expected loss, (B, T), and their expected loss, (B,).

        limits: what may follow what; outputs obey it too, where they are states.
        """
        limits = loss.output_limits(limits)
        forest = self.forest
        if loss.reads_law:
            unary, pairs = self.packed_scores()
            packed = loss.law_decode(forest, unary.copy(), pairs, limits)
            risk = loss.law_risk(forest, packed, unary, pairs)
        else:
            with torch.no_grad():
                mu, joint = self.marginals(loss.needs_edges)
            nodes, edges = self.pack(mu), None if joint is None else self.pack_pairs(joint)
            packed = loss.packed_decode(forest, nodes, edges, limits)
            risk = loss.packed_risk(forest, packed, nodes, edges)
        return self.unpack(packed), torch.from_numpy(np.asarray(risk, dtype=float)).to(self.nodes.device)

    def losses(self, loss: SequenceLoss, outputs: Tensor, tags: Tensor) -> Tensor:
        """L(outputs, tags) of each labelling, (B,)."""
        keep = inside(self.nodes, self.lengths).cpu().numpy()
        z, y = (x.detach().cpu().numpy()[keep] for x in (outputs, tags))
        return torch.from_numpy(loss.packed_loss(self.forest, z, y)).to(self.nodes.device)

    # -- what went wrong ---------------------------------------------------------------------------------------------

    def _refuse_tags(self, tags: Tensor, ignore_index: int | None) -> None:
        states = self.nodes.shape[2]
        known = (tags >= 0) & (tags < states)
        if ignore_index is not None:
            known |= tags == ignore_index
        bad = ~known & inside(tags, self.lengths)
        if found_bad(bad):
            b, t = torch.nonzero(bad)[0].tolist()
            raise ValueError(
                f"Tags must be codes from 0 to {states - 1}, got {int(tags[b, t])} at position {t} of sequence {b}."
            )

    def _refuse_lengths(self) -> None:
        if self._mask is not None:
            mask = self._mask
            if found_bad(~mask[:, 0]):
                at = int(torch.nonzero(~mask[:, 0])[0])
                raise ValueError(
                    f"Sequence {at} is empty, or its mask does not begin with a position that counts: drop it, or pad at the end."
                )
            holes = (mask[:, 1:] > mask[:, :-1]).any(1)
            if found_bad(holes):
                raise ValueError(
                    f"The mask of sequence {int(torch.nonzero(holes)[0])} has a hole: the positions that count must come first; move the padding to the end."
                )
        elif self.lengths is not None:
            most, values = self.nodes.shape[1], self.lengths.tolist()
            for at, n in enumerate(values):
                if not 1 <= n <= most:
                    raise ValueError(
                        f"Sequence {at} has length {n}: lengths go from 1 to the number of positions, {most}; drop empty sequences."
                    )

    def _explain(self, value: Tensor, tags: Tensor | None, log_z: Tensor) -> None:
        """One clear sentence on why a value is not finite."""
        self._refuse_lengths()
        keep = inside(self.nodes, self.lengths)
        bad = (torch.isnan(self.nodes) | torch.isposinf(self.nodes)).any(2) & keep
        if found_bad(bad):
            b, t = torch.nonzero(bad)[0].tolist()
            raise ValueError(
                f"Scores must be finite, or -inf where a state is forbidden: those at position {t} of sequence {b} hold NaN or inf; look for a diverged network."
            )
        for name, part in (("pairs", self.pairs), ("starts", self.start), ("ends", self.end)):
            if part is not None and found_bad(torch.isnan(part) | torch.isposinf(part)):
                raise ValueError(
                    f"Scores of {name} must be finite, or -inf where forbidden: they hold NaN or inf; look for a diverged network."
                )
        if tags is not None:
            self._refuse_tags(tags, None)
        at = int(torch.nonzero(~torch.isfinite(value))[0])
        if torch.isneginf(log_z).any():
            at = int(torch.nonzero(torch.isneginf(log_z))[0])
            raise ValueError(
                f"No assignment of states is allowed on sequence or tree {at}: what is forbidden leaves none; allow more."
            )
        if tags is not None:
            raise ValueError(
                f"The tags of sequence {at} are forbidden by emissions or transitions of -inf: correct the tags, or allow them."
            )
        raise ValueError(f"The scores of sequence {at} are too large to be added up.")


def _dot(p: Tensor, score: Any) -> Tensor:
    """p times scores, zero where p is, also where the score is -inf or stands for nothing."""
    return p * torch.where(torch.isfinite(score), score, 0.0)
