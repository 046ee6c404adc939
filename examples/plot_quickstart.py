"""
Name the loss
=============
"""

import taskloss as tl

print(tl.__version__)
