"""
Figure 1, left: consistency and its speed
=========================================

Calibration functions for 0-1 loss on three classes. A method is consistent where the function is positive for every positive excess risk, and the better the higher it is.
The multiclass hinge is zero up to 1/2: not consistent.
"""

import taskloss as tl

tl.plots.consistency_figure(points=31)
