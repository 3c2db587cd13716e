"""dtypes, promotion, broadcasting, dims."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import extempo as ex
from extempo.core.types import (
    DTYPES,
    NAMED_ONLY,
    TensorType,
    broadcast_shapes,
    normalize_dims,
    promote_types,
    result_dtype,
    type_of_array,
)
from extempo.errors import DtypeError, IndexRangeError, ShapeError, UnsupportedError


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


@pytest.mark.parametrize("name", sorted(NAMED_ONLY))
def test_dtypes_without_tensors_answer_and_say_what_to_use_instead(name):
    d = getattr(ex, name)
    assert type(d) is ex.dtype
    assert isinstance(d.itemsize, int)
    assert repr(d) == f"extempo.{name}"
    assert pickle.loads(pickle.dumps(d)) is d
    assert d.is_floating_point == name.startswith("float")
    assert d.is_complex == name.startswith("complex")
    for make in (
        lambda: ex.zeros(2, dtype=d),
        lambda: ex.ones(2).to(d),
        lambda: ex.ones(2).sum(dtype=d),
        lambda: ex.nn.Linear(2, 2, dtype=d),
        lambda: d.numpy,
    ):
        with pytest.raises(UnsupportedError, match=rf"extempo\.{name}: no tensor .*use|keep"):
            make()


def test_a_dtype_without_tensors_is_no_default():
    with pytest.raises(UnsupportedError, match="float8_e5m2"):
        ex.set_default_dtype(ex.float8_e5m2)
    assert ex.get_default_dtype() is ex.float32


def test_a_dtype_has_no_other_attributes():
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        ex.float32.colour  # noqa: B018 - reading it is the test


@pytest.mark.conformance
def test_dtypes_answer_what_pytorchs_answer():
    torch = pytest.importorskip("torch", reason="compares dtypes with PyTorch: pip install -e '.[conformance]'")

    def answer(ask):
        try:
            return str(ask()).rpartition(".")[2]
        except (RuntimeError, TypeError):  # RuntimeError is what PyTorch raises where it has no answer
            return "refused"

    names = [n for n in ex.__all__ if isinstance(getattr(ex, n), ex.dtype)]
    assert len(names) == 50
    different = []
    for name in names:
        ours, theirs = getattr(ex, name), getattr(torch, name)
        for ask in ("itemsize", "is_floating_point", "is_complex", "is_signed"):
            if answer(lambda d=theirs, ask=ask: getattr(d, ask)) not in (str(getattr(ours, ask)), "refused"):
                different.append((name, ask))
        for ask in ("to_real", "to_complex"):
            if answer(getattr(theirs, ask)) != answer(getattr(ours, ask)):
                different.append((name, ask))
        # PyTorch promotes to two numbers in one byte, which nobody can mean.
        for other in names if name != "float4_e2m1fn_x2" else ():
            if other != "float4_e2m1fn_x2" and answer(
                lambda a=theirs, b=other: torch.promote_types(a, getattr(torch, b))
            ) != answer(lambda a=ours, b=other: ex.promote_types(a, getattr(ex, b))):
                different.append((name, other))
    assert different == []


@pytest.mark.conformance
@pytest.mark.parametrize("name", [*map(str, DTYPES), *NAMED_ONLY])
def test_limits_of_dtypes_are_pytorchs(name):
    torch = pytest.importorskip("torch", reason="compares dtypes with PyTorch: pip install -e '.[conformance]'")
    name = name.removeprefix("extempo.")
    ours, theirs = getattr(ex, name), getattr(torch, name)
    for info in ("finfo", "iinfo"):
        try:
            limits = getattr(torch, info)(theirs)
            expected = {n: getattr(limits, n) for n in ("bits", "max", "min", "dtype")}
            if info == "finfo":
                expected |= {n: getattr(limits, n) for n in ("eps", "tiny", "smallest_normal", "resolution")}
        except (TypeError, NotImplementedError):
            with pytest.raises((DtypeError, UnsupportedError), match=info):
                getattr(ex, info)(ours)
            continue
        if name == "float8_e5m2fnuz":
            expected["eps"] = 0.25  # two bits of mantissa; PyTorch says 0.125
        found = getattr(ex, info)(ours)
        assert {n: getattr(found, n) for n in expected} == pytest.approx(expected)


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


def test_arrays_of_one_shape_and_dtype_have_the_very_same_type():
    one = type_of_array(np.zeros((2, 3), "f4"))
    assert one is type_of_array(np.ones((2, 3), "f4"))
    assert one == TensorType((2, 3), ex.float32)
    assert one != type_of_array(np.zeros((2, 3), "f8"))
    with pytest.raises(DtypeError, match="complex"):
        type_of_array(np.zeros(2, complex))
