"""One threshold, set on held-out examples, so that the loss of what is answered stays below a level.

`steps.py` has the losses of all examples as functions of the threshold, `bounds.py` tests of the mean of a bounded loss, `search.py` the one
search for the boldest threshold that keeps the promise. A knob says what the threshold does to decisions of a kind: `knobs.py` has what knobs share,
`labels.py` labels and label sets, `structures.py` sequences, rankings and matchings, `kinds.py` which serves what. `controller.py` puts them behind a fitted model.
"""

from .controller import RiskController

__all__ = ["RiskController"]
