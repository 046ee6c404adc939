"""
A linear bound
==============

The excess risk of a smooth surrogate bounds the true one by a square root. Convolved with the loss, the same potential has a linear bound.
"""

import taskloss as tl

tl.plots.convolved_figure()
