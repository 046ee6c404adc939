"""
Figure 2: the surrogate method
==============================

Scores go to moments by the inverse link, and moments to an output by the calibration set in which they lie.
"""

import taskloss as tl

tl.plots.method_figure()
