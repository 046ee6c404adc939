"""Laws that every polytope assert_obeys, against enumeration of its vertices."""

import numpy as np
import pytest
from tests.parts import assert_obeys, every_law, every_polytope

from taskloss.polytopes import Cube, Hull, Product, Simplex
from taskloss.testing.polytopes import LAWS


@every_polytope
@every_law(LAWS)
def test_laws(part, law):
    assert_obeys(law, part)


def test_inclusion():
    assert Cube(3, low=0).includes(Simplex(3))
    assert not Simplex(3).includes(Cube(3, low=0))
    assert Cube(3).includes(Hull(2.0 * np.tri(4, 3, -1) - 1))
    assert not Cube(3).includes(Simplex(4))
    assert Product([Cube(2, low=0), Cube(2, low=0)]).includes(Product([Simplex(2), Simplex(2)]))
    assert not Simplex(60).includes(Cube(60))


def test_too_many_vertices_are_refused():
    with pytest.raises(ValueError, match="too many to list"):
        Cube(40).vertices()


def test_weights_of_a_hull_need_independent_points():
    square = Hull([[0, 0], [1, 0], [0, 1], [1, 1]])
    with pytest.raises(ValueError, match="affinely dependent"):
        square.weights(np.zeros((1, 2)))
