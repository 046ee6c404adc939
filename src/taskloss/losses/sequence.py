"""What every loss on label sequences has: their shape, rows of codes, and packed sequences of unequal lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from ..polytopes._forest import Forest, Limits
from ..polytopes.chain import Chain
from ..polytopes.tree import Tree
from .base import Array, Loss, check_codes


class SequenceLoss(Loss):
    """A loss on sequences of states, rows of codes (n, T); a child says what a sequence costs and how to decode.

    Without `length`, sequences may be of any length, which the data tell; with `parents`, labellings of that tree
    take the place of sequences. `allowed[a, b]`: whether b may follow a, in labels and in outputs alike.

    Packed sequences of unequal lengths come with a Forest that tells where each begins: `packed_loss`,
    `packed_decode` and `packed_risk` are the same three verbs on those, and the others are spelt through them.
    """

    kind = "sequence"
    needs_edges: ClassVar[bool] = True  # whether decoding reads the edges' marginals
    reads_law: ClassVar[bool] = False  # whether it is decoded from the law itself, whose moments do not tell all

    n_states: int | None
    length: int | None
    parents: Sequence[int] | None
    allowed: Any

    # -- shape -------------------------------------------------------------------------------------------------------

    @property
    def n_labels(self) -> int:
        if self.n_states is None:
            raise ValueError(f"{self!r} does not know its number of states yet: give n_states, or call bind(n_states).")
        return self.n_states

    @property
    def n_outputs(self) -> int:
        """Outputs to choose from at each position."""
        return self.n_labels

    def bind(self, size: int) -> Self:
        if self.n_states is None:
            return self.with_params(n_states=size)
        if self.n_labels != size:
            raise ValueError(f"{self!r} is a loss over {self.n_labels} states, but y has {size}.")
        return self

    def tree(self, length: int | None = None) -> Tree:
        """The polytope of the label sequences."""
        if self.parents is not None:
            return Tree(self.n_labels, self.parents, self.allowed)
        length = self.length if self.length is not None else length
        if length is None:
            raise ValueError(
                f"{self!r} is for sequences of any length: give length=... to list them or their polytope."
            )
        return Chain(self.n_labels, length, self.allowed)

    def on(self, polytope: Any) -> Self:
        if self.length is not None or self.parents is not None:
            return self
        return self.with_params(parents=polytope._parents().tolist())

    def _codes(self, rows: Array, count: int, what: str) -> np.ndarray:
        rows = np.asarray(rows)
        wanted = self.tree().n_nodes if self.length is not None or self.parents is not None else "T"
        if not rows.ndim or not rows.shape[-1] or wanted not in ("T", rows.shape[-1]):
            raise ValueError(f"{what} must be rows of {wanted} codes, one per position, got shape {rows.shape}.")
        return check_codes(rows, count, what)

    def output_names(self, classes: np.ndarray) -> np.ndarray:
        """The users' names of the outputs at a position."""
        return classes

    # -- the loss on rows --------------------------------------------------------------------------------------------

    def __call__(self, z: Array, y: Array) -> np.ndarray:
        z, y = self._codes(z, self.n_outputs, "outputs"), self._codes(y, self.n_labels, "labels")
        z, y = np.broadcast_arrays(z, y)
        forest = Forest.copies(self.tree(y.shape[-1])._parents(), y.size // y.shape[-1])
        return self.packed_loss(forest, z.ravel(), y.ravel()).reshape(y.shape[:-1])

    def labels(self) -> np.ndarray:
        return self.tree().labellings()

    def outputs(self) -> np.ndarray:
        return self.labels()

    def scorer(self, costs: Any = None) -> Any:
        """A scikit-learn scorer: minus the mean loss of `predict` over sequences, for any tagger."""
        if costs is not None:
            raise ValueError(
                "Prices of positions are scored by a tagger's own score(X, y, costs=...): pass scoring=None."
            )
        from ..data.sequences import SequenceScorer

        return SequenceScorer(self)

    def range(self) -> tuple[float, float]:
        if self.length is None and self.parents is None:
            raise ValueError(
                f"{self!r} has no bound, as sequences may be of any length: normalise it, or give it length=..."
            )
        return super().range()

    # -- the same on packed sequences --------------------------------------------------------------------------------

    def packed_loss(self, forest: Forest, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        """L(z, y) of each sequence. A label of -1, which no fit has seen, counts by the largest cost of the output at its position."""
        raise NotImplementedError

    def packed_decode(
        self, forest: Forest, nodes: np.ndarray, edges: Any, limits: Limits | None = None, prices: Any = None
    ) -> np.ndarray:
        """The outputs of least expected loss under marginals of nodes and edges, within the limits on outputs; without, within `allowed`.

        prices: (nodes, outputs), added to the loss for each output that is taken.
        """
        raise NotImplementedError

    def packed_values(
        self, forest: Forest, nodes: np.ndarray, edges: Any, limits: Limits | None = None, prices: Any = None
    ) -> np.ndarray:
        """Minus the least expected loss of a sequence with each output at each node, (nodes, outputs)."""
        raise NotImplementedError

    def output_limits(self, limits: Limits | None = None, classes: np.ndarray | None = None) -> Limits:
        """What outputs must obey: limits on states, and `allowed`, where outputs are states; others are free.

        Outputs are the states of the same name among classes; without classes, those of the same code.
        """
        limits = Limits() if limits is None else limits
        if self.allowed is not None:
            own = Chain(self.n_labels, 1, self.allowed)._log_allowed()
            limits = limits._replace(transition=own if limits.transition is None else own + limits.transition)
        if not limits:
            return limits
        states = self._states_of_outputs(classes)
        free = states < 0
        step, *ends = (None if part is None else part[states] for part in limits)
        if step is not None:
            step = np.where(free[:, None] | free, 0.0, step[:, states])
        return Limits(step, *(None if end is None else np.where(free, 0.0, end) for end in ends))

    def _states_of_outputs(self, classes: np.ndarray | None) -> np.ndarray:
        """The code of each output's state, -1 where it has none."""
        if classes is None:
            return np.arange(self.n_outputs) if self.n_outputs == self.n_labels else np.full(self.n_outputs, -1)
        index = {label: code for code, label in enumerate(classes.tolist())}
        return np.array([index.get(name, -1) for name in self.output_names(classes).tolist()])

    def check(self, forest: Forest, classes: np.ndarray) -> None:
        """Refuse tables and names that do not fit these sequences and labels, before anything is fitted."""
        self.output_limits(classes=classes)

    def packed_risk(self, forest: Forest, z: np.ndarray, nodes: np.ndarray, edges: Any) -> np.ndarray:
        """The expected loss of each sequence's output."""
        raise NotImplementedError

    # -- the same from the scores of a law, for losses that need it --------------------------------------------------

    def law_decode(self, forest: Forest, unary: np.ndarray, pairwise: np.ndarray, limits: Limits) -> np.ndarray:
        """The outputs of least expected loss under the law with these scores, which may be changed."""
        raise NotImplementedError

    def law_risk(self, forest: Forest, z: np.ndarray, unary: np.ndarray, pairwise: np.ndarray) -> np.ndarray:
        """The expected loss of each sequence's output."""
        raise NotImplementedError

    def law_values(self, forest: Forest, unary: np.ndarray, pairwise: np.ndarray, limits: Limits) -> np.ndarray:
        """As `packed_values`."""
        raise NotImplementedError

    def law_of(self, forest: Forest, nodes: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores of the law that marginals stand for."""
        raise NotImplementedError
