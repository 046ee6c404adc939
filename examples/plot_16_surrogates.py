"""
Every surrogate: potential, link and loss
=========================================

A surrogate is a convex potential and a link. Here is each that is registered, on its own small example, along the segment from one label to another.
"""

# sphinx_gallery_thumbnail_number = 2
import taskloss as tl

tl.plots.SurrogateDisplay.from_surrogates()

# %%
# On two labels, margins and links by their names.
tl.plots.surrogates_figure(
    ["thresholds, logistic", "thresholds, exponential", "thresholds, square", "thresholds, hinge", "cumulative, probit"]
)
