"""How values of all samples are held."""

from __future__ import annotations

import numpy as np

import extempo as ex
from extempo.batching.lockstep.lanes import Lanes
from extempo.batching.lockstep.values import EACH, PAIRS, RAGGED, SHARED, UNIFORM, apart, form_of, open_dims, together
from extempo.core.types import TensorType
from extempo.exporting.sizes import SizeExpr

from .loops_beside import assert_same, ragged

N, M = SizeExpr.of("n"), SizeExpr.of("m")


def _type(*shape):
    return TensorType(shape, ex.float32)


def test_forms_follow_from_how_many_sizes_are_each_samples_own():
    assert [form_of(_type(*shape)) for shape in ((), (2, 3), (N, 3), (2, N), (N, M), (N, 2, M))] == [
        *(UNIFORM, UNIFORM, RAGGED, RAGGED, PAIRS, EACH)
    ]
    assert open_dims(_type(2, N, M)) == [1, 2]


def test_what_was_put_together_comes_apart_again():
    lanes = Lanes(5, {"n": np.array([4, 1, 3, 7, 3]), "m": np.array([4, 1, 3, 7, 3])})
    rows = ragged(3)
    columns = [x.T for x in rows]
    same = [x[:1] for x in rows]
    pairs = [x @ x.T for x in rows]
    given = (
        *((rows, _type(N, 3)), (columns, _type(3, N)), (same, _type(1, 3)), (pairs, _type(N, M))),
        ([x[:, None] for x in pairs], _type(N, 1, M)),
    )
    for values, t in given:
        form = form_of(t)
        assert_same(list(apart(together(values, t, lanes), form, t, lanes)), values, form)


def test_what_all_share_is_that_of_each():
    x = ex.ones(2)
    assert all(own is x for own in apart(x, SHARED, None, Lanes(3, {})))
