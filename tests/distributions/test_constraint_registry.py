"""Which transform leads to a constraint."""

from __future__ import annotations

import pytest

import extempo as ex
import extempo.distributions as d
from extempo.distributions import transforms as t
from extempo.errors import DtypeError


def test_registries_map_free_numbers_into_constraints_and_take_new_ones():
    class Even(d.constraints.Constraint):
        pass

    with pytest.raises(NotImplementedError, match=r"no transform leads to Even\(\)"):
        d.transform_to(Even())

    @d.transform_to.register(Even)
    def make(constraint):
        return t.AffineTransform(0.0, 2.0)

    assert d.transform_to(Even()) == t.AffineTransform(0.0, 2.0)
    with pytest.raises(DtypeError, match="expected a constraint"):
        d.transform_to.register(int, make)
    bounded = d.biject_to(d.constraints.interval(ex.tensor([-1.0, 2.0]), ex.tensor([0.0, 5.0])))
    y = bounded(ex.randn(100, 2))
    assert d.constraints.interval(ex.tensor([-1.0, 2.0]), ex.tensor([0.0, 5.0])).check(y).all()
