"""What all elementwise ops share: broadcasting, dtypes, `out=`, in-place forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, ShapeError

from .helpers import same_bits, values

# ---- powers


# ---- division


# ---- choice


# ---- rounding


# ---- functions


# ---- comparison


# ---- shapes and memory


@pytest.mark.parametrize("name", ["add", "maximum", "atan2", "hypot", "xlogy", "logaddexp"])
def test_shapes_that_do_not_broadcast_name_op_and_shapes(name):
    with pytest.raises(ShapeError, match=rf"{name}: shapes \(2, 3\) and \(2,\) do not broadcast"):
        getattr(ex, name)(ex.ones(2, 3), ex.ones(2))


@pytest.mark.parametrize("name", ["exp", "floor", "erf", "relu", "lgamma", "sinc", "isnan"])
def test_strided_empty_and_0_dim_inputs(name):
    fn = getattr(ex, name)
    grid = ex.tensor(np.linspace(0.5, 2.0, 12).reshape(3, 4))
    strided = grid.T[::2]
    assert values(fn(strided)) == values(fn(strided.contiguous()))
    assert fn(ex.empty(0, 2)).shape == (0, 2)
    assert fn(ex.tensor(1.0)).shape == ()


def test_out_takes_the_shape_of_the_result():
    out = ex.empty(0)
    assert ex.add(ex.ones(2), 1.0, out=out) is out
    assert values(out) == [2.0, 2.0]


def test_in_place_forms_write_where_they_stand():
    x = ex.tensor([1.0, 4.0])
    address = x.data_ptr()
    assert values(x.sqrt_().lerp_(ex.tensor([3.0, 3.0]), 0.5).addcmul_(x, x, value=2).neg_()) == [-10.0, -15.0]
    assert x.data_ptr() == address


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("add", lambda x: x.__iadd__(None)),
        ("mul", lambda x: x.__imul__(None)),
        ("where", lambda x: ex.where(x > 0, x, None)),
        ("lerp", lambda x: ex.lerp(x, x, None)),
        ("leaky_relu", lambda x: ex.nn.functional.leaky_relu(x, None)),
    ],
)
def test_none_is_no_operand(name, call):
    with pytest.raises(DtypeError, match=f"^{name}: expected tensors or numbers, got None"):
        call(ex.ones(3))


# ---- special values, out= and alpha as PyTorch has them


@pytest.mark.parametrize("dtype", [ex.float16, ex.bfloat16, ex.float32, ex.float64])
def test_rectifiers_keep_negative_zero(dtype):
    F, x = ex.nn.functional, ex.tensor([-0.0] * 9, dtype=dtype)
    for function in (ex.relu, F.relu6, F.elu, F.celu, F.selu, F.hardtanh, F.leaky_relu):
        same_bits(function(x), [-0.0] * 9)


@pytest.mark.parametrize("dtype", [ex.float16, ex.bfloat16])
@pytest.mark.filterwarnings("error")
def test_half_precision_overflows_and_compares_nan_without_a_warning(dtype):
    x = ex.tensor([ex.finfo(dtype).max, math.nan], dtype=dtype)
    assert values((x**1.5)[:1]) == [math.inf]
    assert values(ex.xlogy(x, x)[:1]) == [math.inf]
    assert values(x > 1.0) == values(x >= x) == [True, False]
    assert values(ex.fmin(x, x)[:1]) == values(ex.maximum(x, x)[:1]) == [ex.finfo(dtype).max]


def test_functions_of_bools_whose_gradients_would_negate_them_can_be_compiled():
    x = ex.tensor([True, False])
    for function in (lambda a: ex.erfc(a), lambda a: ex.atan2(a, a)):
        compiled = ex.compile(function)
        for _ in range(3):
            assert values(compiled(x)) == values(function(x))
