"""What all tests share: reproducible Hypothesis draws with no time limit, since first calls may compile; figures without a screen."""

import os

import hypothesis

os.environ["MPLBACKEND"] = (
    "Agg"  # before Matplotlib is imported: it warns of open figures when its backend is changed later
)
hypothesis.settings.register_profile("taskloss", deadline=None, max_examples=25, derandomize=True)
hypothesis.settings.load_profile("taskloss")
