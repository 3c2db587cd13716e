"""Attention of rows that lie end to end is attention of each row, with gradients to second order."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.dispatch.dispatcher import apply
from extempo.errors import DtypeError, ShapeError
from extempo.nn import functional as F
from extempo.ops.row_attention import RowAttention
from extempo.testing import check_grad

from .helpers import normal

QUERIES, KEYS = [0, 2, 2, 5], [0, 3, 4, 4]


def attend(query, key, value, is_causal=False, queries=QUERIES, keys=KEYS):
    return apply(RowAttention, (query, key, value, ex.tensor(queries), ex.tensor(keys), 0.5), {"is_causal": is_causal})


@pytest.mark.parametrize("is_causal", [False, True])
def test_each_row_attends_to_its_own_keys(is_causal):
    query, key, value = normal(2, 5, 3), normal(2, 4, 3, seed=1), normal(2, 4, 6, seed=2)
    found = attend(query, key, value, is_causal)
    first = F.scaled_dot_product_attention(query[:, :2], key[:, :3], value[:, :3], scale=0.5, is_causal=is_causal)
    np.testing.assert_allclose(found[:, :2].numpy(), first.numpy(), rtol=1e-12)


def test_a_row_of_no_keys_gives_zeros():
    found = attend(normal(5, 3), normal(4, 3, seed=1), normal(4, 6, seed=2))
    np.testing.assert_array_equal(found[2:].numpy(), np.zeros((3, 6)))


def test_gradients_agree_with_differences_to_second_order():
    check_grad(attend, [normal(5, 2), normal(4, 2, seed=1), normal(4, 3, seed=2)])


@pytest.mark.parametrize("offsets", [[0, 2, 4], [1, 2, 5], [0, 3, 2, 5]])
def test_offsets_that_do_not_rise_to_the_number_of_elements_are_refused(offsets):
    keys = KEYS[: len(offsets)] if len(offsets) == 4 else [0, 3, 4]
    with pytest.raises(ShapeError, match="offsets must rise from 0 to the 5 elements"):
        attend(normal(5, 3), normal(4, 3), normal(4, 3), queries=offsets, keys=keys).numpy()


def test_what_does_not_fit_is_named():
    with pytest.raises(ShapeError, match="query and key must have as many features"):
        attend(normal(5, 3), normal(4, 2), normal(4, 2))
    with pytest.raises(DtypeError, match="expected one floating dtype"):
        attend(normal(5, 3), normal(4, 3).float(), normal(4, 3))
