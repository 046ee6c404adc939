"""
Figure 5: absolute error splits the simplex
===========================================

Ordinal regression with three grades: the laws for which each grade is the best prediction, the median of the law. Beside it the same for squared error.
"""

import taskloss as tl

tl.plots.partition_figure()

# %%
tl.plots.partition_figure(tl.losses.Squared(3))
