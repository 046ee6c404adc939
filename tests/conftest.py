"""What all tests share: reproducible Hypothesis draws with no time limit, since first calls may compile."""

import hypothesis

hypothesis.settings.register_profile("taskloss", deadline=None, max_examples=25, derandomize=True)
hypothesis.settings.load_profile("taskloss")
