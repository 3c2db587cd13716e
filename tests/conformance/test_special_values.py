"""Elementwise functions against PyTorch at special numbers: zeros of both signs, infinities, NaN, limits, halves.

Every function runs on all of them (two operands: on all pairs) in every dtype that PyTorch has it for, eagerly and
compiled. Results must be equal but for rounding, the sign of zero included.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import extempo as ex

pytestmark = pytest.mark.conformance
torch = pytest.importorskip("torch", reason="conformance needs PyTorch: pip install -e '.[conformance]'")

TESTS = Path(__file__).resolve().parents[1]
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))

from conformance.convert import lookup, to_numpy  # noqa: E402 - needs PyTorch, and the path above

# Left out, with what PyTorch gives: cosh, sinh, i0 and i1 that overflow before the limit of the dtype; sigmoid and silu
# that are 0 too early; gelu(inf), which is NaN; ndtr and erf that lose digits; sinc and Bessel functions far from 0.
_ONE = """
    abs acos acosh asin asinh atan atanh ceil cos deg2rad erfc erfinv exp exp2 expm1 floor frac isfinite isinf isnan
    isneginf isposinf lgamma log log10 log1p log2 logical_not logit nan_to_num neg rad2deg reciprocal relu round
    rsqrt sign signbit sin sqrt square tan tanh trunc bitwise_not angle special.entr special.erfcx special.ndtri
    nn.functional.celu nn.functional.elu nn.functional.hardshrink nn.functional.hardsigmoid nn.functional.hardtanh
    nn.functional.leaky_relu nn.functional.relu6 nn.functional.selu nn.functional.softplus nn.functional.tanhshrink
"""
# Left out: fmod and remainder of numbers that are many orders of magnitude apart, which are NaN in PyTorch.
_TWO = """
    add sub mul div floor_divide pow float_power atan2 fmax fmin copysign hypot logaddexp xlogy special.xlog1py
    heaviside eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor isclose rsub
"""
ONE, TWO = _ONE.split(), _TWO.split()
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
ROUNDING = {"float64": 1e-10, "float32": 1e-5, "float16": 4e-3, "bfloat16": 2e-2}
HALVES = [0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.5, 0.25, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 10.0, -10.0, 100.0, 1 / 3]


def numpy_dtype(name: str) -> Any:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def special_values(name: str) -> np.ndarray[Any, Any]:
    """What functions get wrong, and a few ordinary numbers."""
    dtype = numpy_dtype(name)
    if name == "bool":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        signed = [-7, -2, -1] if info.min else []
        return np.array([info.min, info.min + 1, *signed, 0, 1, 2, 3, 8, info.max - 1, info.max], dtype)
    info = ml_dtypes.finfo(dtype)
    limits = [float(x) for x in (info.max, -info.max, info.tiny, -info.tiny, info.eps)]
    return np.array([0.0, -0.0, math.inf, -math.inf, math.nan, *limits, *HALVES]).astype(dtype)


def as_torch(array: np.ndarray[Any, Any]) -> Any:
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def differs(theirs: np.ndarray[Any, Any], ours: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Where results are not the same but for rounding; numbers below the normal ones may be 0."""
    if theirs.dtype.kind in "biu":
        return theirs != ours
    rounding = ROUNDING[theirs.dtype.name]
    tiny = float(ml_dtypes.finfo(theirs.dtype).tiny)
    x, y = theirs.astype(np.float64), ours.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.isfinite(x) & (np.abs(x - y) <= rounding * np.abs(x) + 1.001 * tiny)
    equal = (x == y) | (np.isnan(x) & np.isnan(y)) | near
    return ~equal | ((x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y)))


def compare(name: str, dtype: str, arrays: list[np.ndarray[Any, Any]], *, compiled: bool) -> None:
    try:
        theirs = lookup(torch, name)(*map(as_torch, arrays))
    except (RuntimeError, NotImplementedError):
        return  # PyTorch does not have it for this dtype
    function = lookup(ex, name)
    run = ex.compile(lambda *operands: function(*operands)) if compiled else function
    operands = [ex.from_numpy(array.copy()) for array in arrays]
    results = [run(*operands) for _ in range(3 if compiled else 1)]
    expected, actual = to_numpy(theirs), results[-1].numpy()
    assert actual.dtype == expected.dtype, f"{name} of {dtype}: {actual.dtype}, expected {expected.dtype}"
    wrong = np.flatnonzero(differs(expected, actual))
    cases = [(*(a[i] for a in arrays), "expected", expected[i], "got", actual[i]) for i in wrong[:5]]
    assert not cases, f"{name} of {dtype}: {cases}"


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", ONE)
def test_functions_of_special_values_agree_with_pytorch(name: str, compiled: bool) -> None:
    for dtype in DTYPES:
        compare(name, dtype, [np.tile(special_values(dtype), 2)], compiled=compiled)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_special_values_agree_with_pytorch(name: str, compiled: bool) -> None:
    for dtype in DTYPES:
        one = special_values(dtype)
        left, right = np.repeat(one, len(one)), np.tile(one, len(one))
        if name in ("div", "floor_divide") and left.dtype.kind in "biu":  # least // -1 stops PyTorch's process
            fits = (right != 0) & ~((left == one.min()) & (right.astype(np.int64) == -1))
            left, right = left[fits], right[fits]
        compare(name, dtype, [left, right], compiled=compiled)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("exponent", [0.5, -0.5, 2, 3, -1.0, -2.0, 0.0, -0.0, 1.5, math.inf, math.nan])
def test_powers_of_and_to_numbers_agree_with_pytorch(exponent: float, compiled: bool) -> None:
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        x = special_values(dtype)
        for form in (lambda t: t**exponent, lambda t: exponent**t, lambda t: t.clone().pow_(exponent)):
            run = ex.compile(form) if compiled else form
            results = [run(ex.from_numpy(x.copy())) for _ in range(3 if compiled else 1)]
            expected, actual = to_numpy(form(as_torch(x))), results[-1].numpy()
            wrong = np.flatnonzero(differs(expected, actual))
            assert not wrong.size, f"{dtype}: {x[wrong]} gives {actual[wrong]}, expected {expected[wrong]}"
