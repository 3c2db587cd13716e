"""Transforms of tensors part by part along a dimension."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.distributions import transforms as t
from extempo.errors import DtypeError, ShapeError

EXP, DOUBLE = t.ExpTransform(), t.AffineTransform(0.0, 2.0)


def test_each_transform_sees_its_own_stretch_of_the_dimension():
    cat = t.CatTransform([EXP, DOUBLE], dim=-1, lengths=[1, 2])
    x = ex.tensor([[0.0, 1.0, 2.0]])
    y = cat(x)
    assert y.tolist() == [[1.0, 2.0, 4.0]]
    assert ex.equal(cat.inv(y), x)
    assert cat.length == 3
    assert cat.log_abs_det_jacobian(x, y).shape == (1, 3)


def test_each_transform_sees_its_own_index_of_the_dimension():
    stack = t.StackTransform([EXP, DOUBLE], dim=1)
    x = ex.tensor([[0.0, 3.0], [0.0, 4.0]])
    assert stack(x).tolist() == [[1.0, 6.0], [1.0, 8.0]]
    assert ex.equal(stack.inv(stack(x)), x)


def test_another_cache_size_reaches_the_parts():
    for transform in (t.CatTransform([EXP, DOUBLE]), t.StackTransform([EXP, DOUBLE])):
        cached = transform.with_cache(1)
        assert [part._cache_size for part in cached.transforms] == [1, 1]
        assert cached.with_cache(1) is cached
    assert not t.CatTransform([EXP, t.AbsTransform()]).bijective


def test_parts_that_do_not_fit_the_dimension_are_refused():
    with pytest.raises(ShapeError, match="expected one length for each of 2 transforms, got 1"):
        t.CatTransform([EXP, DOUBLE], lengths=[1])
    with pytest.raises(ShapeError, match="expected size 2 in dim 0"):
        t.CatTransform([EXP, DOUBLE])(ex.zeros(3))
    with pytest.raises(ShapeError, match="expected size 2 in dim 0, one for each transform"):
        t.StackTransform([EXP, DOUBLE])(ex.zeros(3))
    with pytest.raises(DtypeError, match="expected a list of transforms"):
        t.StackTransform([EXP, 2.0])
