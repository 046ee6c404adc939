"""Every registered part's examples, for the laws."""

import re

from taskloss.losses import Loss
from taskloss.margins import Margin
from taskloss.polytopes import Polytope
from taskloss.surrogates import Surrogate


def label(part):
    """A part's own words, the same in every process: functions without their addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(part))


def examples(kind):
    """(id, instance) of every example of every registered part of a kind."""
    return [
        (f"{name}-{i}", part) for name, cls in sorted(kind.registry.items()) for i, part in enumerate(cls.examples())
    ]


def parametrise(kind):
    import pytest

    found = examples(kind)
    return pytest.mark.parametrize("part", [p for _, p in found], ids=[i for i, _ in found])


every_loss = parametrise(Loss)
every_margin = parametrise(Margin)
every_polytope = parametrise(Polytope)
every_surrogate = parametrise(Surrogate)


def every_law(laws):
    """One test for each law of a kind of part."""
    import pytest

    return pytest.mark.parametrize("law", laws.values(), ids=list(laws))


def assert_obeys(law, *args, **options):
    """A law of taskloss.testing as a test: skipped where it says nothing of this part."""
    import pytest

    from taskloss.testing import NotApplicableError

    try:
        law(*args, **options)
    except NotApplicableError as reason:
        pytest.skip(str(reason))
