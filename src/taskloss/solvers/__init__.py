"""Minimisers of a regularised risk. They know an objective (value, gradient, products with the Hessian) and nothing else."""

from ..registry import publish
from .base import Solution, Solver, Status

__all__ = [*publish(__name__, Solver), "Solution", "Status"]
