"""
What surrogate excess risk can hide
===================================

The calibration function says how much surrogate excess risk a true excess risk costs at least. Read the other way round: how much true risk a fit that is nearly
optimal may still hide.
"""

import taskloss as tl

loss = tl.losses.Absolute(4)
display = tl.plots.CalibrationFunctionDisplay.from_loss(loss, tl.surrogates.AllThresholds(), points=25)
zeta = display.zeta
print(f"surrogate excess 0.05 hides at most {zeta.excess_risk(0.05):.3f} of absolute error")

# %%
# All surrogates that fit a loss, each in its own units, and the examples that they need for a given excess risk.
tl.theory.compare(tl.losses.ZeroOne(3), ["multinomial", "quadratic", "one-vs-all"], eps=[0.1, 0.2, 0.4]).plot()
