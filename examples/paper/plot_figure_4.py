"""
Figure 4: calibration sets of 0-1 loss
======================================

Three classes: where class 1 is optimal, and where it costs more than epsilon beyond the best.
"""

import taskloss as tl

tl.plots.zero_one_figure()
