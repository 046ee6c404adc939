"""What notebooks show of an estimator."""

from __future__ import annotations


class Shown:
    """An estimator that notebooks show by its parts, what they mean, and how the fit ended."""

    def _html_repr(self) -> str:
        """What scikit-learn's classes ask for, unless their `display` is set to text."""
        from ..report.estimators import view

        return view(self)
