"""Minimisers of a regularised risk. They know an objective (value, gradient, Hessian products) and nothing else."""

from typing import TYPE_CHECKING

from ..registry import publish
from .base import Solution, Status
from .base import Solver as Solver

if TYPE_CHECKING:  # for editors: the registry imports every file of this folder, named here or not
    from .asgd import ASGD as ASGD
    from .closed import ClosedForm as ClosedForm
    from .descent import LBFGS as LBFGS
    from .descent import Newton as Newton

__all__ = [*publish(__name__, Solver), "Solution", "Status"]
