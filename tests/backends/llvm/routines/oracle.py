"""What native routines are compared with: the NumPy kernels of their ops, exactly or in float64 up to rounding."""

from __future__ import annotations

import itertools

import numpy as np

from extempo.core.op import REGISTRY

from ..guarded import call

FLOATS = [np.float32, np.float64]
INDICES = [np.int64, np.int32]
NEAR = {np.float32: 3e-6, np.float64: 1e-13}
# (outer, n, inner) as shapes and dimensions: rows, columns, both with every kind of tail.
LAYOUTS = [
    *[((3, n), 1) for n in (*range(1, 20), 63, 64, 65, 127, 129, 300)],
    *[((n, k), 0) for n in (2, 5, 70) for k in (2, 7, 8, 9, 33, 70)],
    ((2, 5, 3), 1),
    ((3, 70, 65), 1),
    ((7,), 0),
]


def draw(shape, dtype=np.float32, seed=0, scale=1.0):
    """Normal numbers, the same ones every time."""
    return np.asarray(np.random.default_rng(seed).normal(size=shape) * scale).astype(dtype)


def numbers(low, high, shape, dtype=np.int64, seed=1):
    """Whole numbers from low up to high."""
    return np.random.default_rng(seed).integers(low, high, size=shape, dtype=dtype)


def layouts(shape, dtype):
    """Arrays of that shape in many layouts."""
    yield draw(shape, dtype, scale=50)
    if not shape:
        return
    for axes in itertools.islice(itertools.permutations(range(len(shape))), 1, 6):
        back = np.argsort(axes)
        yield draw([shape[a] for a in axes], dtype, scale=50).transpose(back)
    yield draw([2 * n for n in shape], dtype, scale=50)[tuple(slice(None, None, 2) for _ in shape)]
    yield draw(shape, dtype, scale=50)[::-1]
    yield np.broadcast_to(draw((1, *shape[1:]), dtype, scale=50), shape)
    yield np.broadcast_to(draw(shape[-1:], dtype, scale=50), shape)
    yield draw((*shape[:-1], shape[-1] + 3), dtype, scale=50)[..., 1 : shape[-1] + 1]


def expect(name, *inputs, **attrs):
    """The routine of one result gives what NumPy gives, every bit."""
    (got,) = call(name, *inputs, **attrs)
    with np.errstate(invalid="ignore"):
        wanted = REGISTRY[name].numpy(*inputs, **attrs)
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    np.testing.assert_array_equal(got, wanted)


def exact(op, *inputs, **attrs):
    """The results of the op's NumPy kernel in float64."""
    wide = [x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for x in inputs]
    with np.errstate(all="ignore"):
        y = REGISTRY[op].numpy(*wide, **attrs)
    return y if type(y) is tuple else (y,)


def check(op, *inputs, near=1.0, **attrs):
    """The routine's results, which are those of NumPy in float64 up to `near` times the usual rounding."""
    dtype = next(x.dtype.type for x in inputs if isinstance(x, np.ndarray) and x.dtype.kind == "f")
    assert REGISTRY[op].lower.name == op
    got, expected = call(op, *inputs, **attrs), exact(op, *inputs, **attrs)
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        assert g.shape == e.shape
        np.testing.assert_allclose(g, e, rtol=near * NEAR[dtype], atol=near * NEAR[dtype], err_msg=op)
    return got
