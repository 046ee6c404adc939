"""What translates between users' labels and the codes that losses count in."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ..losses.base import Loss


class Translator(Protocol):
    """Users' labels and outputs on one side, a loss's codes on the other. Knows names; computes nothing."""

    classes: np.ndarray  # the users' labels, in the order of their codes

    @property
    def size(self) -> int:
        """How many labels there are."""
        ...

    def check(self, name: str = "y") -> None:
        """Refuse labels that leave nothing to learn, in one sentence on the argument that gave them."""
        ...

    def encode(self, y: Any) -> np.ndarray:
        """The codes of users' labels; one that is unknown is refused in one sentence."""
        ...

    def outputs(self, loss: Loss) -> np.ndarray:
        """The users' names of a loss's outputs."""
        ...

    def translate(self, z: np.ndarray, loss: Loss) -> Any:
        """The users' names of outputs given as codes."""
        ...

    def encode_outputs(self, z: Any, loss: Loss) -> np.ndarray:
        """The codes of outputs given by the users' names."""
        ...

    def losses(self, loss: Loss, z: np.ndarray, y: Any, costs: Any = None) -> np.ndarray:
        """L(z, y) of outputs given as codes and users' labels, with costs per example where they are given; labels that no
        fit has seen count by their worst.
        """
        ...
