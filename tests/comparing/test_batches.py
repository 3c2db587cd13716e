"""What batches are: sizes, values, structure."""

from __future__ import annotations

import numpy as np

import extempo as ex
from extempo.comparing.batches import batch_size, caller, same_values, sizes


def test_a_batch_is_spread_where_the_step_takes_as_many_arguments():
    x, y = ex.ones(1), ex.zeros(1)
    assert caller(lambda a, b: None)((x, y)) == (x, y)
    assert caller(lambda a, b: None)([x, y]) == (x, y)
    assert caller(lambda a: None)([x, y]) == ([x, y],)
    assert caller(lambda a: None)((x, y)) == ((x, y),)
    assert caller(lambda a: None)(x) == (x,)
    assert caller(lambda *a: None)((x, y)) == (x, y)
    assert caller(lambda a, b=1: None)((x,)) == (x,)


def test_sizes_and_batch_sizes_look_into_what_a_batch_is_made_of():
    x = ex.ones(3, 2)
    assert sizes((x, [1, 2])) == ("tuple", (3, 2), ("list", "int", "int"))
    assert sizes(ex.ragged([[1], [2, 3]])) != sizes(ex.ragged([[1, 2], [3]]))
    assert batch_size((x, ex.ones(3))) == 3
    assert batch_size({"x": x}) == 3
    assert batch_size([[1, 2], [3]]) == 2
    assert batch_size(ex.ragged([[1], [2, 3]])) == 2
    assert batch_size("text") is None


def test_values_of_batches_are_compared_however_deep():
    x = ex.tensor([1.0, float("nan")])
    assert same_values({"x": [x, (1, "a")]}, {"x": [x.clone(), (1, "a")]})
    assert same_values(ex.ragged([[1], [2, 3]]), ex.ragged([[1], [2, 3]]))
    assert not same_values(ex.ragged([[1], [2, 3]]), ex.ragged([[1], [2, 4]]))
    assert not same_values((x, 1), (x, 2))
    assert not same_values([np.zeros(2)], [np.ones(2)])
