"""Inference for linear fits without a penalty: standard errors, tests and intervals of coefficients."""

from .nested import likelihood_ratio, proportional_odds
from .separation import refuse_separated
from .summaries import summary

__all__ = ["likelihood_ratio", "proportional_odds", "refuse_separated", "summary"]
