"""
Figure 1, right: calibration sets of Hamming loss
=================================================

Two labels and z = (1, 1): the moments at which z is optimal, and those at which it costs more than epsilon beyond the best. The calibration function is the Bregman divergence between the two.
"""

import taskloss as tl

tl.plots.hamming_figure(resolution=401)
