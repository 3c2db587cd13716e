"""Elementwise kernels called directly, their results inside larger arrays that must stay untouched; errors in ulp."""

from __future__ import annotations

import ctypes
import functools
import math

import numpy as np

from extempo.backends.llvm.elementwise.loops import write_kernel
from extempo.backends.llvm.ir.builder import IRModule, i1
from extempo.backends.llvm.ir.machine import machine
from extempo.core.types import from_numpy_dtype

GUARD = 48  # bytes on either side of a result
_FILL = 0xC5


class Kernel:
    """A compiled kernel. `body(e, values)` gives a list of results; `kinds` is how each input runs along a row.

    With `refusable`, a last result of dtype bool says for every element whether its vector was refused.
    """

    def __init__(self, body, inputs, results, kinds=None, refusable=False):
        self._results = [np.dtype(d) for d in results]
        self.kinds = kinds if kinds is not None else "1" * len(inputs)
        self._refusable = refusable

        def written(e, values):
            if not refusable:
                return body(e, values)
            e.refused = e.b.var(i1, False)
            made = body(e, values)
            return [*made, e.b.splat(e.refused.value, made[0].type.lanes)]

        if refusable:
            self._results.append(np.dtype(np.bool_))
        module = IRModule()
        dtypes = [[from_numpy_dtype(np.dtype(d)) for d in side] for side in (inputs, self._results)]
        write_kernel(module, "kernel", written, *dtypes, self.kinds)
        self._library = machine().load(module.text(), ["kernel"], module.imports)
        self._call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(self._library.address["kernel"])

    def __call__(self, *arrays, shape=None):
        """The results for arrays of one shape of at most two dimensions (0-dim arrays where the kind is "0")."""
        if shape is None:
            shape = next((a.shape for a, k in zip(arrays, self.kinds, strict=True) if k != "0"), (1,))
        rows, columns = shape if len(shape) == 2 else (1, *shape)
        made = [np.full(rows * columns * d.itemsize + 2 * GUARD, _FILL, np.uint8) for d in self._results]
        inside = [m[GUARD : m.size - GUARD].view(d).reshape(shape) for m, d in zip(made, self._results, strict=True)]
        operands = [*arrays, *inside]
        steps = [(*(0,) * (2 - a.ndim), *a.strides) for a in operands]
        addresses = (ctypes.c_void_p * len(operands))(*(a.ctypes.data for a in operands))
        geometry = (ctypes.c_int64 * (2 + 2 * len(operands)))(
            rows, columns, *(s[0] for s in steps), *(s[1] for s in steps)
        )
        self._call(ctypes.addressof(addresses), ctypes.addressof(geometry))
        for m in made:
            assert (m[:GUARD] == _FILL).all(), "something was written before the result"
            assert (m[m.size - GUARD :] == _FILL).all(), "something was written after the result"
        return inside if len(inside) > 1 else inside[0]


def of_method(name, dtype=np.float32):
    """The kernel of an Emitter's method of one variable."""
    return Kernel(lambda e, values: [getattr(e, name)(*values)], [dtype], [dtype])


def ulps(actual, expected):
    """How far each element is from the expected one (of a wider dtype, or the same), in units in the last place.

    The same infinities, and NaN and NaN, are 0 apart; everything else that is not a number is infinitely far.
    """
    dtype = actual.dtype.type
    with np.errstate(all="ignore"):
        limit = np.finfo(dtype)
        wide = np.asarray(expected, np.longdouble)
        nearest = wide.astype(dtype)
        unit = np.spacing(np.minimum(np.abs(nearest), limit.max)).astype(np.longdouble)
        error = np.abs(actual.astype(np.longdouble) - wide) / unit
    same = (actual == nearest) & ~np.isfinite(nearest) | np.isnan(actual) & np.isnan(nearest) | (actual == wide)
    return np.where(same, 0.0, np.where(np.isfinite(actual) & np.isfinite(nearest), error, np.inf)).astype(np.float64)


REFUSING = {"binary_cross_entropy", "floor_divide", "fmod", "remainder"}  # elements may be an error


BETWEEN_0_AND_1 = {"binary_cross_entropy"}


DTYPES = {"f": (np.float32, np.float64), "i": (np.int64, np.int32), "b": (np.bool_,)}


def operands_of(op):
    """How many inputs the op has."""
    return max(len(s.inputs) for s in op.samples(np.random.default_rng(0)))


@functools.cache
def kernel_of(op, dtype, kinds=None, given=None):
    """The compiled kernel of an op that computes in that dtype; `given`: for each input whether it is (not None)."""
    given = given or (True,) * operands_of(op)
    inputs = [np.bool_ if op.name == "where" and i == 0 else dtype for i, there in enumerate(given) if there]

    def body(e, values):
        left = iter(values)
        return [op.lower(e, *(next(left) if there else None for there in given))]

    result = np.bool_ if op.returns_bool else dtype
    return Kernel(body, inputs, [result], kinds, refusable=op.name in REFUSING)


def awkward(dtype, n, rng, name=""):
    """n values: the special ones of the dtype among random ones of all sizes."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(n) < 0.5
    if dtype.kind == "i":
        info = np.iinfo(dtype)
        special = [0, 1, -1, 2, 3, 5, -7, 31, 32, 63, 64, 65, info.min, info.min + 1, info.max]
        values = rng.integers(-200, 200, size=n)
    elif name in BETWEEN_0_AND_1:
        special = [0.0, 1.0, 0.5, 1e-30]
        values = rng.random(n)
    else:
        info = np.finfo(dtype)
        special = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.0, 2.5, 3.0, -3.0, 6.0, 20.0, -20.0, math.inf, -math.inf]
        special += [math.nan, info.tiny, -info.tiny, info.smallest_subnormal, info.max, info.min, info.eps, 1e-4]
        values = rng.normal(size=n) * 10.0 ** rng.uniform(-6, 2.3, size=n)
    values = values.astype(dtype)
    places = rng.random(n) < 0.3
    values[places] = np.array(special, dtype)[rng.integers(0, len(special), size=n)][places]
    return values
