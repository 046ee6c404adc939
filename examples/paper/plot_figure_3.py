"""
Figure 3: MAP against decoding
==============================

MAP follows the moments of growing multiples of the scores to a vertex, whatever the loss is; decoding takes the output in whose calibration set the moments lie.
"""

import taskloss as tl

tl.plots.map_figure()
