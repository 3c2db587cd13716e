"""The Python array API standard (2024.12): what PyTorch does as it says, Extempo does too.

Every function, constant, operator and attribute of the standard is called in the standard's words, by position and by
keyword, in every dtype, on shapes of no, one and several dimensions, on empty arrays and on special numbers. NumPy 2,
which follows the standard, says what is right: shape, dtype, values. A call that PyTorch gets right must be right here.

Both libraries are called as they are, and through `array_api_compat.torch`, which gives PyTorch the names it lacks.
Left out are complex numbers, uint16 to uint64 and fft (see `REFUSED`), and what PyTorch does not do either.
"""

from __future__ import annotations

import json
import math
import operator
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import extempo as ex
from extempo.errors import UnsupportedError

pytestmark = pytest.mark.conformance
torch = pytest.importorskip("torch", reason="conformance needs PyTorch: pip install -e '.[conformance]'")

Call = Callable[[Any], Any]  # of a namespace

INTS = ("int8", "int16", "int32", "int64", "uint8")
FLOATS = ("float32", "float64")
NUMBERS = (*INTS, *FLOATS)
DTYPES = ("bool", *NUMBERS)
SHAPES = ((), (3,), (2, 3), (0,), (2, 0, 3), (1, 1))
ROUNDING = {"float32": 2e-5, "float64": 1e-11}


def values(shape: tuple[int, ...], dtype: str, first: int = 1) -> np.ndarray[Any, Any]:
    """Small numbers of both signs, none of them 0."""
    count = np.arange(first, first + math.prod(shape)).reshape(shape)
    if dtype == "bool":
        return np.asarray(count % 3 == 1)
    signed = count if dtype == "uint8" else np.where(count % 2 == 0, -count, count)
    return np.asarray(signed / 4 if dtype in FLOATS else signed).astype(dtype)


def special(dtype: str) -> np.ndarray[Any, Any]:
    """Zeros of both signs, infinities, NaN and limits; for integers their limits."""
    if dtype == "bool":
        return np.array([True, False])
    if dtype in INTS:
        limits = np.iinfo(dtype)
        return np.array([limits.min, limits.max, 0, 1, 2, 3], dtype)
    numbers = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 2.0, 3.0, -3.0, 1e30, 1e-30]
    return np.array(numbers, dtype)


def put(xp: Any, array: Any) -> Any:
    """The array in the namespace, with memory of its own."""
    return xp.asarray(np.array(array, copy=True))


def find(xp: Any, path: str) -> Any:
    for name in path.split("."):
        xp = getattr(xp, name)
    return xp


def fn(path: str, *args: Any, **options: Any) -> Call:
    """A call of the namespace's function: arrays are put there, names of dtypes that begin with "." are looked up."""

    def put_all(xp: Any, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return put(xp, value)
        if isinstance(value, list):
            return [put_all(xp, part) for part in value]
        return find(xp, value[1:]) if isinstance(value, str) and value[0] == "." else value

    return lambda xp: find(xp, path)(
        *[put_all(xp, arg) for arg in args], **{name: put_all(xp, value) for name, value in options.items()}
    )


def is_refused(call: Call, xp: Any) -> bool:
    if xp is reference:
        return True
    try:
        call(xp)
    except (TypeError, ValueError, IndexError):
        return True
    return False


Cases = Iterator[tuple[str, Call]]  # with the words that tell one from another

# ---- elementwise functions


def of(names: str, dtypes: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Functions, by the dtypes that the standard has them for."""
    return dict.fromkeys(names.split(), dtypes)


ONE = {
    **of("acos acosh asin asinh atan atanh cos cosh exp expm1 log log1p log2 log10", FLOATS),
    **of("reciprocal sin sinh sqrt tan tanh", FLOATS),
    **of("abs ceil floor isfinite isinf isnan negative positive round sign square trunc real conj", NUMBERS),
    "signbit": FLOATS,
    "logical_not": ("bool",),
    "bitwise_invert": ("bool", *INTS),
}
TWO = {
    **of("atan2 copysign divide hypot logaddexp nextafter", FLOATS),
    **of("add floor_divide maximum minimum multiply pow remainder subtract", NUMBERS),
    **of("greater greater_equal less less_equal", NUMBERS),
    **of("equal not_equal", DTYPES),
    **of("logical_and logical_or logical_xor", ("bool",)),
    **of("bitwise_and bitwise_or bitwise_xor", ("bool", *INTS)),
    **of("bitwise_left_shift bitwise_right_shift", INTS),
}
OPERATORS = {
    **of("add sub mul floordiv mod pow", NUMBERS),
    "truediv": FLOATS,
    **of("and_ or_ xor", ("bool", *INTS)),
    **of("lshift rshift", INTS),
    **of("lt le gt ge", NUMBERS),
    **of("eq ne", DTYPES),
}
# Division by an integer 0, and shifts and powers that do not fit, are left to the library.
CAREFUL = {"floor_divide", "remainder", "pow", "bitwise_left_shift", "bitwise_right_shift", "copysign"}


def promoted(one: str, two: str) -> bool:
    """Whether the standard says what the two dtypes become: they are of one kind."""
    return (one in FLOATS) == (two in FLOATS) and (one == "bool") == (two == "bool")


def counts(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Numbers from 1 to 3, which every integer may be divided by, shifted by and raised to."""
    if dtype == "bool":
        return values(shape, dtype)
    return np.asarray((np.arange(1, 1 + math.prod(shape)).reshape(shape) % 3 + 1).astype(dtype))


def elementwise() -> Cases:
    for name, dtypes in ONE.items():
        for dtype in dtypes:
            for shape in SHAPES:
                yield f"{name} {dtype} {shape}", fn(name, values(shape, dtype))
            yield f"{name} special {dtype}", fn(name, special(dtype))
    for name, dtypes in TWO.items():
        for one in dtypes:
            a, b = values((2, 3), one), counts((3,), one)
            yield f"{name} {one} empty", fn(name, values((2, 0), one), values((1,), one))
            yield f"{name} {one} 0-dim", fn(name, values((), one), counts((), one))
            yield f"{name} {one} array and number", fn(name, a, b.reshape(-1)[0].item())
            yield f"{name} {one} number and array", fn(name, a.reshape(-1)[0].item(), b)
            x, y = np.meshgrid(special(one), special(one))
            if one not in INTS or name not in CAREFUL:
                yield f"{name} special {one}", fn(name, x, y)
            for two in dtypes:
                if promoted(one, two):
                    yield f"{name} {one} {two}", fn(name, a, counts((3,), two))
                    yield f"{name} {one} {two} 0-dim", fn(name, a, counts((), two))
    for name in (*ONE, *TWO):
        wrong = (0, 2) if name in ONE else (0, 1)  # NumPy and PyTorch take an array more in their own ways
        for n in wrong:
            yield f"{name} of {n}", lambda xp, name=name, n=n: is_refused(fn(name, *[values((3,), "float32")] * n), xp)
    for dtype in NUMBERS:
        x = special(dtype)
        yield f"clip {dtype}", fn("clip", x, 1, 3)
        yield f"clip {dtype} by name", fn("clip", x, min=1, max=3)
        yield f"clip {dtype} min", fn("clip", x, min=1)
        yield f"clip {dtype} max", fn("clip", x, max=2)
        yield f"clip {dtype} arrays", fn("clip", values((2, 3), dtype), counts((3,), dtype), counts((2, 1), dtype))
        yield f"clip {dtype} nothing", fn("clip", x)


def operators() -> Cases:
    for name, dtypes in OPERATORS.items():
        op = getattr(operator, name)
        for one in dtypes:
            a = values((2, 3), one)
            number = counts((3,), one)[1].item()
            yield f"{name} {one} array and number", lambda xp, op=op, a=a, n=number: op(put(xp, a), n)
            yield (
                f"{name} {one} number and array",
                lambda xp, op=op, n=number, one=one: op(n, put(xp, counts((2, 3), one))),
            )
            for two in dtypes:
                if promoted(one, two):
                    b = counts((3,), two)
                    yield f"{name} {one} {two}", lambda xp, op=op, a=a, b=b: op(put(xp, a), put(xp, b))
            in_place = getattr(operator, "i" + name.rstrip("_"), None) if name not in ("and_", "or_") else None
            in_place = in_place or {"and_": operator.iand, "or_": operator.ior}.get(name)
            if in_place is not None:
                b = counts((3,), one)
                yield f"{name} in place {one}", lambda xp, op=in_place, a=a, b=b: op(put(xp, a), put(xp, b))
                yield f"{name} in place {one} number", lambda xp, op=in_place, a=a, n=number: op(put(xp, a), n)
    for name in ("neg", "pos", "abs", "invert"):
        for dtype in ("bool", *INTS) if name == "invert" else NUMBERS:
            yield f"{name} {dtype}", lambda xp, n=name, d=dtype: getattr(operator, n)(put(xp, values((2, 3), d)))
    for dtype in FLOATS:
        for shapes in (((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((5, 2, 3), (3, 2))):
            a, b = (values(shape, dtype) for shape in shapes)
            yield f"matmul {dtype} {shapes}", lambda xp, a=a, b=b: put(xp, a) @ put(xp, b)


# ---- other functions


def creation() -> Cases:
    for dtype in NUMBERS:
        yield f"arange {dtype}", fn("arange", 5, dtype=f".{dtype}")
        yield f"arange {dtype} 3", fn("arange", 1, 9, 3, dtype=f".{dtype}")
    for args in ((4,), (4.0,), (0,), (-3,), (1, 4), (1.0, 4.0), (0.0, 1.0, 0.25), (5, 1, -2), (3, 1)):
        yield f"arange {args}", fn("arange", *args)
    yield "arange by name", fn("arange", 1, stop=7, step=2)
    for what in (1, 1.5, True, [1, 2], [[1.0], [2.0]], [True, False], [], [1, 2.5], ((1, 2), (3, 4))):
        yield f"asarray {what}", lambda xp, what=what: xp.asarray(what)
    for dtype in DTYPES:
        dot = f".{dtype}"
        yield f"asarray {dtype}", lambda xp, d=dtype: xp.asarray([0, 1, 2], dtype=getattr(xp, d))
        yield f"asarray copy {dtype}", lambda xp, d=dtype: xp.asarray(put(xp, values((2, 3), d)), copy=True)
        yield f"asarray no copy {dtype}", lambda xp, d=dtype: xp.asarray(put(xp, values((2, 3), d)), copy=False)
        for name in ("zeros", "ones"):
            for shape in ((2, 3), (), (0,), 3):
                yield f"{name} {dtype} {shape}", fn(name, shape, dtype=dot)
        for name in ("zeros_like", "ones_like"):
            yield f"{name} {dtype}", fn(name, values((2, 3), dtype))
            yield f"{name} to {dtype}", fn(name, values((2, 3), "float32"), dtype=dot)
        yield f"empty {dtype}", lambda xp, d=dtype: xp.empty((2, 3), dtype=getattr(xp, d)) * 0 == 0
        yield f"empty_like {dtype}", lambda xp, d=dtype: xp.empty_like(put(xp, values((2, 0), d)))
        yield f"full {dtype}", fn("full", (2, 3), True if dtype == "bool" else 3, dtype=dot)
        yield f"full_like {dtype}", fn("full_like", values((2, 3), dtype), True if dtype == "bool" else 3)
        yield f"eye {dtype}", fn("eye", 3, dtype=dot)
        yield f"eye {dtype} 2 by 3", fn("eye", 2, 3, dtype=dot)
        for name in ("tril", "triu"):
            for k in (0, 1, -1):
                yield f"{name} {dtype} {k}", fn(name, values((2, 3, 4), dtype), k=k)
                yield f"{name} {dtype} {k} diagonal", fn(name, values((2, 3, 4), dtype), k)
    yield "eye k", fn("eye", 3, k=1)
    for value in (1, 1.5, True):
        yield f"full {value}", fn("full", (2,), value)
    yield "full shape 3", fn("full", 3, 1.0)
    yield "zeros", fn("zeros", (2, 3))
    yield "zeros by name", fn("zeros", shape=(2, 3))
    for dtype in FLOATS:
        yield f"linspace {dtype}", fn("linspace", 0, 1, 5, dtype=f".{dtype}")
        yield f"linspace {dtype} by name", fn("linspace", 0.0, 1.0, num=5, dtype=f".{dtype}")
    for args in ((0, 1, 5), (2.0, -1.0, 4), (0.0, 1.0, 1), (0, 3, 0)):
        yield f"linspace {args}", fn("linspace", *args)
    yield "linspace endpoint", fn("linspace", 0.0, 1.0, 5, endpoint=False)
    x, y = values((3,), "float32"), values((2,), "float32")
    for indexing in ("xy", "ij"):
        yield f"meshgrid {indexing}", fn("meshgrid", x, y, indexing=indexing)
    yield "meshgrid of one", fn("meshgrid", x, indexing="ij")
    for dtype in DTYPES:
        if dtype != "bool":
            yield f"from_dlpack {dtype}", lambda xp, d=dtype: xp.from_dlpack(put(xp, values((2, 3), d)))


def dtypes() -> Cases:
    for one in DTYPES:
        for two in DTYPES:
            if promoted(one, two):
                yield (
                    f"result_type {one} {two}",
                    lambda xp, a=one, b=two: xp.empty(
                        0, dtype=xp.result_type(xp.empty(1, dtype=getattr(xp, a)), xp.empty(1, dtype=getattr(xp, b)))
                    ),
                )
                yield (
                    f"result_type of dtypes {one} {two}",
                    lambda xp, a=one, b=two: xp.empty(0, dtype=xp.result_type(getattr(xp, a), getattr(xp, b))),
                )
            yield f"can_cast {one} {two}", fn("can_cast", f".{one}", f".{two}")
            yield f"can_cast array {one} {two}", fn("can_cast", values((2,), one), f".{two}")
            yield f"astype {one} {two}", fn("astype", values((2, 3), one), f".{two}")
            yield f"isdtype {one} {two}", fn("isdtype", f".{one}", f".{two}")
    for kind in ("bool", "signed integer", "unsigned integer", "integral", "real floating", "numeric"):
        for dtype in DTYPES:
            yield f"isdtype {dtype} {kind}", fn("isdtype", f".{dtype}", kind)
    for dtype in FLOATS:
        for name in ("bits", "eps", "max", "min", "smallest_normal"):
            yield f"finfo {dtype} {name}", lambda xp, d=dtype, n=name: float(getattr(xp.finfo(getattr(xp, d)), n))
    for dtype in INTS:
        for name in ("bits", "max", "min"):
            yield f"iinfo {dtype} {name}", lambda xp, d=dtype, n=name: int(getattr(xp.iinfo(getattr(xp, d)), n))
    for name in ("e", "inf", "nan", "pi"):
        yield f"constant {name}", lambda xp, n=name: float(getattr(xp, n))
    yield "newaxis", lambda xp: xp.newaxis is None


def manipulation() -> Cases:
    for dtype in ("float32", "int64", "bool"):
        x, y = values((2, 3, 4), dtype), values((2, 3, 4), dtype, 7)
        flat = values((4,), dtype)
        for axis in (0, 1, 2, -1, -3):
            yield f"concat {dtype} {axis}", fn("concat", [x, y], axis=axis)
            yield f"stack {dtype} {axis}", fn("stack", [x, y], axis=axis)
            yield f"expand_dims {dtype} {axis}", fn("expand_dims", x, axis=axis)
            yield f"flip {dtype} {axis}", fn("flip", x, axis=axis)
            yield f"roll {dtype} {axis}", fn("roll", x, 2, axis=axis)
            yield f"moveaxis {dtype} {axis}", fn("moveaxis", x, 0, axis)
            yield f"unstack {dtype} {axis}", fn("unstack", x, axis=axis)
            yield f"repeat {dtype} {axis}", fn("repeat", x, 2, axis=axis)
            yield f"take {dtype} {axis}", fn("take", x, np.array([1, 0, 1]), axis=axis)
            index = np.argsort(x, axis)
            yield f"take_along_axis {dtype} {axis}", fn("take_along_axis", x, index, axis=axis)
        yield f"concat {dtype} flat", fn("concat", [x, flat], axis=None)
        yield f"concat {dtype} empty", fn("concat", [values((0,), dtype), flat])
        yield f"concat {dtype} tuple", lambda xp, x=x, y=y: xp.concat((put(xp, x), put(xp, y)))
        yield f"flip {dtype} all", fn("flip", x)
        yield f"flip {dtype} axes", fn("flip", x, axis=(0, 2))
        yield f"roll {dtype} flat", fn("roll", x, 5)
        yield f"roll {dtype} axes", fn("roll", x, (1, -1), axis=(0, 2))
        yield f"moveaxis {dtype} two", fn("moveaxis", x, (0, 1), (2, 0))
        yield f"permute_dims {dtype}", fn("permute_dims", x, (2, 0, 1))
        yield f"repeat {dtype} flat", fn("repeat", x, 3)
        yield f"tile {dtype}", fn("tile", x, (2, 1, 3))
        yield f"tile {dtype} more", fn("tile", flat, (2, 2))
        yield f"tile {dtype} fewer", fn("tile", x, (2,))
        for shape in ((6, 4), (-1,), (4, -1, 2), (2, 3, 4, 1)):
            yield f"reshape {dtype} {shape}", fn("reshape", x, shape)
            yield f"reshape {dtype} {shape} copy", fn("reshape", x, shape, copy=True)
        yield f"reshape {dtype} by name", fn("reshape", x, shape=(24,))
        yield f"squeeze {dtype}", fn("squeeze", x[:, None], axis=1)
        yield f"squeeze {dtype} two", fn("squeeze", x[:, None, :, None], axis=(1, 3))
        yield f"squeeze {dtype} positional", fn("squeeze", x[None], 0)
        yield f"broadcast_to {dtype}", fn("broadcast_to", flat, (2, 3, 4))
        yield f"broadcast_to {dtype} by name", fn("broadcast_to", flat, shape=(3, 4))
        yield f"broadcast_arrays {dtype}", fn("broadcast_arrays", x, flat)
        yield f"matrix_transpose {dtype}", fn("matrix_transpose", x)


KEYS: dict[str, Any] = {
    "int": 1, "negative int": -1, "two ints": (1, 2), "slice": slice(1, None), "step": slice(None, None, 2),
    "ellipsis": (..., 1), "ellipsis in front": (0, ...), "newaxis": (None, 0), "newaxis behind": (..., None),
    "empty slice": slice(2, 2), "beyond": slice(1, 100), "negative slice": (slice(None), slice(-2, None)),
    "nothing": (), "all ints": (1, 2, 3), "int and slice": (slice(None), 1, slice(0, 3, 2)), "full": ...,
}  # fmt: skip


def indexing() -> Cases:
    rows, columns = np.array([0, 1, 1]), np.array([2, 0, -1])
    for dtype in ("float32", "int64", "bool", "uint8"):
        x = values((2, 3, 4), dtype)

        def written(xp: Any, key: Any, value: Any, x: Any = x) -> Any:
            target = put(xp, x)
            target[key if not isinstance(key, np.ndarray) else put(xp, key)] = value
            return target

        for words, key in KEYS.items():
            yield f"x[{words}] {dtype}", lambda xp, key=key, x=x: put(xp, x)[key]
            number = True if dtype == "bool" else 7
            yield f"x[{words}] = number {dtype}", lambda xp, key=key, n=number, w=written: w(xp, key, n)
            part = x[key] * 0 if dtype != "bool" else ~x[key]
            yield f"x[{words}] = array {dtype}", lambda xp, key=key, p=part, w=written: w(xp, key, put(xp, p))
        for mask in (values((2, 3, 4), "bool"), values((2, 3), "bool"), values((2,), "bool"), np.array(True)):
            yield f"x[mask {mask.shape}] {dtype}", lambda xp, m=mask, x=x: put(xp, x)[put(xp, m)]
            yield f"x[mask {mask.shape}] = number {dtype}", lambda xp, m=mask, w=written: w(xp, m, 1)
        yield f"x[ints] {dtype}", lambda xp, x=x: put(xp, x)[put(xp, rows)]
        yield f"x[ints, ints] {dtype}", lambda xp, x=x: put(xp, x)[put(xp, rows), put(xp, columns)]
        yield f"x[ints, int] {dtype}", lambda xp, x=x: put(xp, x)[put(xp, rows), 1]
        yield f"x[0-dim] {dtype}", lambda xp, x=x: put(xp, x)[put(xp, np.array(1))]


def searching() -> Cases:
    for dtype in NUMBERS:
        x = values((2, 3, 4), dtype)
        for name in ("argmax", "argmin"):
            yield f"{name} {dtype}", fn(name, x)
            for axis in (0, 1, -1):
                for keep in (False, True):
                    yield f"{name} {dtype} {axis} {keep}", fn(name, x, axis=axis, keepdims=keep)
        for name in ("argsort", "sort"):
            for axis in (-1, 0, 1):
                for descending in (False, True):
                    yield f"{name} {dtype} {axis} {descending}", fn(name, x, axis=axis, descending=descending)
            yield f"{name} {dtype}", fn(name, x)
            yield f"{name} {dtype} stable", fn(name, x, stable=True)
        ordered = np.sort(x.reshape(-1))
        for side in ("left", "right"):
            yield f"searchsorted {dtype} {side}", fn("searchsorted", ordered, x[0], side=side)
        order = np.argsort(x[0, 0])
        yield f"searchsorted {dtype} sorter", fn("searchsorted", x[0, 0], x[0], sorter=order)
    for dtype in DTYPES:
        x = values((2, 3, 4), dtype) * values((3, 1), "bool")
        x = x if dtype == "bool" else x + x.dtype.type(0)  # which one of two zeros is found is nobody's business
        yield f"nonzero {dtype}", fn("nonzero", x)
        yield f"count_nonzero {dtype}", fn("count_nonzero", x)
        for axis in (0, -1, (0, 1)):
            yield f"count_nonzero {dtype} {axis}", fn("count_nonzero", x, axis=axis)
            yield f"count_nonzero {dtype} {axis} keep", fn("count_nonzero", x, axis=axis, keepdims=True)
        for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
            yield f"{name} {dtype}", fn(name, x)
        for two in DTYPES:
            if promoted(dtype, two):
                mask = values((4,), "bool")
                yield f"where {dtype} {two}", fn("where", mask, x, values((3, 1), two))
        number = True if dtype == "bool" else 2
        yield f"where {dtype} number", fn("where", values((2, 3, 4), "bool"), x, number)
        yield f"where number {dtype}", fn("where", values((2, 3, 4), "bool"), number, x)


def statistics() -> Cases:
    options = ({}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"axis": (0, 2)}, {"axis": (1,), "keepdims": True})
    for dtype in NUMBERS:
        x = values((2, 3, 4), dtype)
        reduced = ["max", "min", "sum", "prod", *(["mean", "std", "var"] if dtype in FLOATS else [])]
        for name in reduced:
            for given in options:
                yield f"{name} {dtype} {given}", fn(name, x, **given)
            yield f"{name} {dtype} positional", fn(name, x, axis=1)
            yield f"{name} {dtype} 0-dim", fn(name, values((), dtype))
            if name not in ("max", "min"):
                yield f"{name} {dtype} empty", fn(name, values((0, 3), dtype), axis=1)
        for name in ("sum", "prod"):
            yield f"{name} {dtype} of nothing", fn(name, values((0,), dtype))
            for to in NUMBERS:
                yield f"{name} {dtype} to {to}", fn(name, counts((2, 3), dtype), dtype=f".{to}")
        for name in ("cumulative_sum", "cumulative_prod"):
            for axis in (0, 1, -1):
                for initial in (False, True):
                    yield f"{name} {dtype} {axis} {initial}", fn(name, x, axis=axis, include_initial=initial)
        yield f"diff {dtype}", fn("diff", x)
        yield f"diff {dtype} twice", fn("diff", x, n=2, axis=1)
        yield f"diff {dtype} with more", fn("diff", x, prepend=x[:, :, :1], append=x[:, :, :2])
    for dtype in FLOATS:
        for name in ("std", "var"):
            for correction in (0, 1, 1.0, 0.5):
                yield f"{name} {dtype} {correction}", fn(name, values((2, 3, 4), dtype), axis=1, correction=correction)
        for name in ("max", "min", "sum", "prod", "mean"):
            yield f"{name} special {dtype}", fn(name, special(dtype))
    for dtype in DTYPES:
        x = values((2, 3, 4), dtype) * values((3, 1), "bool")
        for name in ("all", "any"):
            for given in options:
                yield f"{name} {dtype} {given}", fn(name, x, **given)
            yield f"{name} {dtype} of nothing", fn(name, values((0, 2), dtype), axis=0)


def linear_algebra() -> Cases:
    rng = np.random.default_rng(0)
    for dtype in FLOATS:
        square = rng.normal(size=(2, 3, 3)).astype(dtype)
        definite = (square @ square.swapaxes(-1, -2) + np.eye(3)).astype(dtype)
        tall, wide = rng.normal(size=(2, 4, 3)).astype(dtype), rng.normal(size=(2, 3, 4)).astype(dtype)
        row, other = rng.normal(size=(2, 3)).astype(dtype), rng.normal(size=(2, 3)).astype(dtype)
        for name in ("det", "inv", "slogdet", "matrix_norm", "matrix_rank", "svdvals", "trace", "diagonal"):
            yield f"{name} {dtype}", fn(f"linalg.{name}", definite)
        for name in ("cholesky", "eigvalsh"):
            yield f"{name} {dtype}", fn(f"linalg.{name}", definite)
        yield f"cholesky {dtype} upper", fn("linalg.cholesky", definite, upper=True)
        for k in (0, 1, 2, 3, -1):
            yield f"matrix_power {dtype} {k}", fn("linalg.matrix_power", definite, k)
        for k in (-1, 1, 2):
            yield f"diagonal {dtype} {k}", fn("linalg.diagonal", wide, offset=k)
            yield f"trace {dtype} {k}", fn("linalg.trace", wide, offset=k)
        yield f"trace {dtype} dtype", fn("linalg.trace", wide, dtype=".float64")
        for name in ("linalg.matmul", "matmul"):
            yield f"{name} {dtype}", fn(name, tall, wide)
        for name in ("linalg.vecdot", "vecdot"):
            yield f"{name} {dtype}", fn(name, row, other)
            yield f"{name} {dtype} axis", fn(name, tall, tall, axis=-2)
            yield f"{name} {dtype} broadcast", fn(name, row, other[0])
        for name in ("linalg.tensordot", "tensordot"):
            yield f"{name} {dtype}", fn(name, tall, row.T.copy(), axes=1)
            yield f"{name} {dtype} pairs", fn(name, tall, wide, axes=((2, 1), (1, 2)))
            yield f"{name} {dtype} none", fn(name, row, other, axes=0)
        for name in ("linalg.matrix_transpose", "matrix_transpose"):
            yield f"{name} {dtype}", fn(name, tall)
        yield f"outer {dtype}", fn("linalg.outer", row[0], other[1])
        yield f"cross {dtype}", fn("linalg.cross", row, other)
        yield f"cross {dtype} axis", fn("linalg.cross", row.T.copy(), other.T.copy(), axis=0)
        yield f"pinv {dtype}", fn("linalg.pinv", tall)
        yield f"pinv {dtype} rtol", fn("linalg.pinv", tall, rtol=0.01)
        yield f"matrix_rank {dtype} rtol", fn("linalg.matrix_rank", tall, rtol=0.01)
        yield f"matrix_norm {dtype} keep", fn("linalg.matrix_norm", tall, keepdims=True)
        for order in ("fro", "nuc", 1, 2, math.inf, -1, -2, -math.inf):
            yield f"matrix_norm {dtype} {order}", fn("linalg.matrix_norm", tall, ord=order)
        for order in (1, 2, 3, 0, -1, 2.5, math.inf, -math.inf):
            yield f"vector_norm {dtype} {order}", fn("linalg.vector_norm", tall, axis=1, ord=order)
        yield f"vector_norm {dtype}", fn("linalg.vector_norm", tall)
        yield f"vector_norm {dtype} axes", fn("linalg.vector_norm", tall, axis=(0, 2), keepdims=True)
        yield f"solve {dtype}", fn("linalg.solve", definite, wide)
        yield f"solve {dtype} vector", fn("linalg.solve", definite[0], row[0])
        for full in (False, True):
            yield (
                f"svd {dtype} {full}",
                lambda xp, x=tall, f=full: [part.shape for part in xp.linalg.svd(put(xp, x), full_matrices=f)],
            )
        yield f"svd {dtype} by name", lambda xp, x=tall: xp.linalg.svd(put(xp, x)).S
        yield f"eigh {dtype} by name", lambda xp, x=definite: xp.linalg.eigh(put(xp, x)).eigenvalues
        yield f"slogdet {dtype} by name", lambda xp, x=definite: xp.linalg.slogdet(put(xp, x)).logabsdet
        for mode in ("reduced", "complete"):
            yield (
                f"qr {dtype} {mode}",
                lambda xp, x=tall, m=mode: (lambda qr: qr.Q @ qr.R)(xp.linalg.qr(put(xp, x), mode=m)),
            )
    for dtype in INTS:
        yield f"matmul {dtype}", fn("matmul", counts((2, 3), dtype), counts((3, 2), dtype))
        yield f"vecdot {dtype}", fn("vecdot", counts((2, 3), dtype), counts((3,), dtype))
        yield f"tensordot {dtype}", fn("tensordot", counts((2, 3), dtype), counts((3, 2), dtype), axes=1)


def _capsule_name(capsule: Any) -> str:
    """What a capsule holds is in the end of its text."""
    return "versioned" if "versioned" in repr(capsule) else "plain"


def arrays() -> Cases:
    """The array object."""
    for dtype in DTYPES:
        x = values((2, 3), dtype)
        yield f"T {dtype}", lambda xp, x=x: put(xp, x).T
        yield f"mT {dtype}", lambda xp, x=x: put(xp, x[None]).mT
        yield f"ndim {dtype}", lambda xp, x=x: put(xp, x).ndim
        yield f"shape {dtype}", lambda xp, x=x: tuple(put(xp, x).shape)
        yield f"size {dtype}", lambda xp, x=x: put(xp, x).size
        yield f"dtype {dtype}", lambda xp, x=x, d=dtype: put(xp, x).dtype == getattr(xp, d)
        yield f"to_device {dtype}", lambda xp, x=x: put(xp, x).to_device(put(xp, x).device)
        yield f"len {dtype}", lambda xp, x=x: len(put(xp, x))
        for kind in (bool, int, float):
            yield f"{kind.__name__} {dtype}", lambda xp, k=kind, d=dtype: k(put(xp, values((), d, 2)))
        if dtype in INTS:
            yield f"index {dtype}", lambda xp, d=dtype: operator.index(put(xp, values((), d)))
        if dtype != "bool":
            yield f"dlpack {dtype}", lambda xp, x=x: np.from_dlpack(put(xp, x))
        yield f"dlpack_device {dtype}", lambda xp, x=x: tuple(map(int, put(xp, x).__dlpack_device__()))
        yield f"device {dtype}", lambda xp, x=x: xp.zeros_like(put(xp, x), device=put(xp, x).device)
        yield f"asarray device {dtype}", lambda xp, x=x: xp.asarray(put(xp, x), device=put(xp, x).device)
        if dtype != "bool":
            yield f"dlpack copy {dtype}", lambda xp, x=x: np.from_dlpack(put(xp, x), copy=True)
            yield f"from_dlpack NumPy {dtype}", lambda xp, x=x: xp.from_dlpack(x.copy())
            yield f"from_dlpack device {dtype}", lambda xp, x=x: xp.from_dlpack(put(xp, x), device=put(xp, x).device)
            yield f"from_dlpack copy {dtype}", lambda xp, x=x: xp.from_dlpack(put(xp, x), copy=True)
            for options in ({"max_version": (1, 0)}, {"dl_device": (1, 0)}, {"copy": True}, {"stream": None}):
                yield f"dlpack {options} {dtype}", lambda xp, x=x, o=options: _capsule_name(put(xp, x).__dlpack__(**o))
        yield f"iterated {dtype}", lambda xp, x=x: list(put(xp, x))
        yield f"contains {dtype}", lambda xp, x=x: x[1, 1].item() in put(xp, x)
        for key in (2, -3, (0, 3), (0, 0, 0)):
            yield f"x[{key}] beyond {dtype}", lambda xp, x=x, k=key: is_refused(lambda xp: put(xp, x)[k], xp)
        yield f"bool of many {dtype}", lambda xp, x=x: is_refused(lambda xp: bool(put(xp, x)), xp)
        yield f"scalars {dtype}", lambda xp, x=x: xp.asarray(x[0, 0].item(), dtype=put(xp, x).dtype)
    yield "index of a float", lambda xp: is_refused(lambda xp: operator.index(put(xp, values((), "float32"))), xp)
    yield "namespace", lambda xp: put(xp, values((2,), "float32")).__array_namespace__() is xp
    yield "dtypes differ", lambda xp: xp.float32 == xp.float64
    yield "dtype equals itself", lambda xp: xp.float32 == xp.float32


ROOMS = (
    arrays, creation, dtypes, elementwise, indexing, linear_algebra, manipulation, operators, searching, statistics,
)  # fmt: skip


# ---- comparing


def _sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    ascending = np.sort(x, axis, stable=stable)
    return np.flip(ascending, axis) if descending else ascending


def _argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    if not descending:
        return np.argsort(x, axis, stable=stable)
    return x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, stable=True), axis)


# NumPy, with what it lacks.
reference = SimpleNamespace(**{name: getattr(np, name) for name in np.__all__} | {"sort": _sort, "argsort": _argsort})


def plain(result: Any) -> Any:
    """Arrays, numbers and texts of a result, whatever library they are of."""
    if isinstance(result, torch.Tensor | ex.Tensor):
        return result.numpy()
    if isinstance(result, list | tuple):
        return [plain(part) for part in result]
    return result


def same(right: Any, made: Any) -> bool:
    """The standard speaks of sequences; lists and tuples are both."""
    if isinstance(right, list):
        return isinstance(made, list) and len(right) == len(made) and all(map(same, right, made))
    if not isinstance(right, np.ndarray | np.generic):
        return type(right) is type(made) and (right == made or (right != right and made != made))
    if isinstance(made, list) or getattr(made, "dtype", type(made)) != right.dtype or np.shape(made) != right.shape:
        return False
    if right.dtype.kind != "f":
        return bool(np.array_equal(right, made))
    close = np.allclose(made, right, ROUNDING[right.dtype.name], ROUNDING[right.dtype.name] / 10, equal_nan=True)
    zero = (right == 0) & (made == 0)
    return bool(close and np.array_equal(np.signbit(right)[zero], np.signbit(made)[zero]))


def outcome(call: Call, xp: Any) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return plain(call(xp))
        except Exception as error:  # whatever a library says of a call that it does not take
            return error


def is_right(call: Call, right: Any, xp: Any) -> bool:
    return same(right, outcome(call, xp))


def cases() -> Iterator[tuple[str, Call, Any]]:
    """(words, call, what is right) of all calls."""
    for room in ROOMS:
        for words, call in room():
            right = outcome(call, reference)
            if not isinstance(right, Exception):
                yield f"{room.__name__}: {words}", call, right


def right_through_compat() -> list[str]:
    """The words of the calls that are right if made through `array_api_compat.torch`."""
    import array_api_compat.torch as compat

    return [words for words, call, right in cases() if is_right(call, right, compat)]


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_what_pytorch_does_as_the_standard_says_is_done_here(room):
    worse, n_asked = [], 0
    for words, call in room():
        right = outcome(call, reference)
        if isinstance(right, Exception) or not is_right(call, right, torch):
            continue
        n_asked += 1
        ours = outcome(call, ex)
        if not same(right, ours):
            worse.append(f"{words}: expected {right!r}, got {ours!r}"[:300])
    assert worse == []
    assert n_asked >= LEAST[room.__name__]  # of a table that asks nothing, nothing can be wrong


def test_array_api_compat_finds_here_what_it_finds_in_pytorch():
    pytest.importorskip("array_api_compat", reason="pip install -e '.[conformance]'")
    script = f"""
import json, sys
import extempo.as_torch
sys.path[:0] = [{str(Path(__file__).resolve().parents[1])!r}]
from conformance import test_array_api
assert test_array_api.torch.Tensor is extempo.Tensor
print(json.dumps(test_array_api.right_through_compat()))
"""
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = os.environ | {"PYTHONPATH": paths}
    child = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    theirs, ours = right_through_compat(), json.loads(child.stdout.splitlines()[-1])
    assert sorted(set(theirs) - set(ours)) == []
    assert len(theirs) > 5000


def test_every_name_of_the_standard_that_pytorch_has_is_here():
    words = {words.split(": ")[1].split()[0] for words, *_ in cases()}
    assert {"astype", "broadcast_to", "cumulative_sum", "unique_all", "vecdot"} <= words
    names = [*_NAMES.split(), *(f"linalg.{name}" for name in _LINALG.split())]
    assert [name for name in names if _has(torch, name) and not _has(ex, name)] == []


def _has(xp: Any, path: str) -> bool:
    return not isinstance(outcome(lambda space: find(space, path) is None, xp), Exception)


_NAMES = """
    e inf nan newaxis pi arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like
    tril triu zeros zeros_like astype can_cast finfo iinfo isdtype result_type abs acos acosh add asin asinh atan atan2
    atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip conj
    copysign cos cosh divide equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan
    less less_equal log log1p log2 log10 logaddexp logical_and logical_not logical_or logical_xor maximum minimum
    multiply negative nextafter not_equal positive pow real reciprocal remainder round sign signbit sin sinh square sqrt
    subtract tan tanh trunc take take_along_axis matmul matrix_transpose tensordot vecdot broadcast_arrays broadcast_to
    concat expand_dims flip moveaxis permute_dims repeat reshape roll squeeze stack tile unstack argmax argmin
    count_nonzero nonzero searchsorted where unique_all unique_counts unique_inverse unique_values argsort sort
    cumulative_sum cumulative_prod max mean min prod std sum var all any diff bool int8 int16 int32 int64 uint8 float32
    float64
"""
_LINALG = """
    cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose outer
    pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm
"""
# What the standard has and Extempo refuses, with the reason.
REFUSED: dict[str, tuple[Call, str]] = {
    "complex arrays": (lambda xp: xp.asarray([1j]), "complex"),
    "complex dtypes": (lambda xp: xp.zeros(2, dtype=xp.complex64), "complex"),
    "complex numbers": (lambda xp: xp.ones(2) * 1j, "complex"),
    "fft": (lambda xp: xp.fft.fft(xp.ones(2)), "complex"),
    "uint16": (lambda xp: xp.zeros(2, dtype=xp.uint16), "uint16"),
    "uint64": (lambda xp: xp.asarray([1], dtype=xp.uint64), "uint64"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_left_out_is_refused_in_words(what):
    call, word = REFUSED[what]
    with pytest.raises((UnsupportedError, AttributeError, TypeError), match=word):
        call(ex)


LEAST = {
    "arrays": 220,
    "creation": 250,
    "dtypes": 110,
    "elementwise": 2500,
    "indexing": 240,
    "linear_algebra": 115,
    "manipulation": 90,
    "operators": 880,
    "searching": 200,
    "statistics": 370,
}
