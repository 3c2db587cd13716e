"""dtypes, promotion, broadcasting, dims."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import extempo as ex
from extempo.core.types import DTYPES, TensorType, broadcast_shapes, normalize_dims, promote_types, result_dtype
from extempo.errors import DtypeError, IndexRangeError, ShapeError


@given(st.sampled_from(DTYPES), st.sampled_from(DTYPES))
def test_promotion_is_commutative_and_keeps_the_higher_category(a, b):
    result = promote_types(a, b)
    assert result is promote_types(b, a)
    assert result.category == max(a.category, b.category)


def test_python_numbers_are_weak():
    assert (ex.ones(2, dtype=ex.float16) * 2.5).dtype is ex.float16
    assert (ex.ones(2, dtype=ex.int32) * 2).dtype is ex.int32
    assert (ex.ones(2, dtype=ex.int32) * 2.5).dtype is ex.float32
    assert (ex.ones(2, dtype=ex.bool) + 1).dtype is ex.int64


def test_zero_dim_tensors_stand_below_dimensioned_ones():
    scalar = ex.tensor(1.0, dtype=ex.float64)
    assert (ex.ones(2) + scalar).dtype is ex.float32
    assert (ex.ones(2, dtype=ex.int64) + scalar).dtype is ex.float64
    assert (scalar + ex.tensor(1.0)).dtype is ex.float64


def test_integer_division_gives_the_default_dtype():
    assert (ex.tensor([1, 2]) / ex.tensor([2, 2])).dtype is ex.float32
    ex.set_default_dtype(ex.float64)
    try:
        assert (ex.tensor([1, 2]) / ex.tensor([2, 2])).dtype is ex.float64
        assert ex.tensor([1.5]).dtype is ex.float64
    finally:
        ex.set_default_dtype(ex.float32)


def test_uint8_numbers_wrap_around():
    assert (ex.tensor([250], dtype=ex.uint8) + 10).item() == 4


@pytest.mark.parametrize("d", DTYPES)
def test_dtypes_pickle_to_the_same_object(d):
    assert pickle.loads(pickle.dumps(d)) is d


@given(st.lists(st.integers(0, 4), max_size=4).map(tuple), st.sampled_from(DTYPES))
def test_type_text_reads_back(shape, d):
    assert TensorType.parse(str(TensorType(shape, d))) == TensorType(shape, d)


@given(st.lists(st.lists(st.integers(0, 3), max_size=3).map(tuple), min_size=1, max_size=3))
def test_broadcasting_is_numpys(shapes):
    import numpy as np

    try:
        expected = np.broadcast_shapes(*shapes)
    except ValueError:
        with pytest.raises(ShapeError, match="do not broadcast"):
            broadcast_shapes(*shapes)
    else:
        assert broadcast_shapes(*shapes) == expected


def test_broadcast_errors_suggest_the_likely_fix():
    with pytest.raises(
        ShapeError, match=r"add: shapes \(3, 4\) and \(3,\) do not broadcast; did you mean \(3,\).unsqueeze"
    ):
        ex.ones(3, 4) + ex.ones(3)
    with pytest.raises(ShapeError, match=r"x\.T"):
        ex.ones(3, 4) + ex.ones(4, 3)


def test_dims_out_of_range_say_the_range():
    with pytest.raises(IndexRangeError, match=r"sum: dim 2 is out of range for a 2-dim tensor; expected -2 to 1"):
        ex.ones(2, 2).sum(2)
    assert normalize_dims((-1, 0), 3, "op") == (0, 2)
    with pytest.raises(ShapeError, match="twice"):
        normalize_dims((0, -2), 2, "op")


def test_result_dtype_refuses_what_is_no_number():
    with pytest.raises(DtypeError, match="list"):
        result_dtype([list])


def test_limits():
    assert ex.finfo(ex.float32).eps == pytest.approx(1.1920929e-07)
    assert ex.finfo(ex.bfloat16).bits == 16
    assert ex.iinfo(ex.int8).max == 127
    with pytest.raises(DtypeError, match="iinfo"):
        ex.finfo(ex.int32)


def test_size_counts_elements_and_is_a_tuple():
    size = ex.ones(2, 3).shape
    assert size == (2, 3)
    assert size.numel() == 6
    assert repr(size) == "extempo.Size([2, 3])"
    assert pickle.loads(pickle.dumps(size)) == size
