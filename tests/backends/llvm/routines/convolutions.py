"""Convolutions natively and by NumPy, with their gradients; any convolution there could be."""

from __future__ import annotations

import numpy as np

from extempo.core.op import REGISTRY

from ..guarded import call

EPSILON = {np.float32: 2.0**-23, np.float64: 2.0**-52}


def draw(rng, shape, dtype):
    return rng.normal(size=shape).astype(dtype)


def check(name, *inputs, **attrs):
    """The routine's results differ from exact ones by a few roundings of the sum of absolute products."""
    results = call(name, *inputs, **attrs)
    assert results is not None
    wide = [x if x is None else x.astype(np.longdouble if x.dtype == np.float64 else np.float64) for x in inputs]
    numpy = REGISTRY[name].numpy
    exact, size = numpy(*wide, **attrs), numpy(*(x if x is None else np.abs(x) for x in wide), **attrs)
    if not isinstance(exact, tuple):
        exact, size = (exact,), (size,)
    for y, e, s in zip(results, exact, size, strict=True):
        assert y.shape == e.shape
        assert (np.abs(y - e) <= 8 * EPSILON[y.dtype.type] * s).all(), (name, [np.shape(x) for x in inputs], attrs)
    return results


def attributes(stride=1, padding=0, dilation=1, groups=1, n=2):
    def each(value):
        return value if isinstance(value, tuple) else (value,) * n

    return {"stride": each(stride), "padding": each(padding), "dilation": each(dilation), "groups": groups}


def check_all(x_shape, w_shape, bias, dtype, counts=None, **options):
    """A convolution, both of its gradients, and the transposed convolution with the same weight."""
    rng = np.random.default_rng(0)
    attrs = attributes(n=len(x_shape) - 2, **options)
    if counts is None:
        numbers = zip(x_shape[2:], w_shape[2:], attrs["stride"], attrs["padding"], attrs["dilation"], strict=True)
        counts = tuple((s + 2 * p - d * (k - 1) - 1) // step + 1 for s, k, step, p, d in numbers)
    x, w, g = (draw(rng, s, dtype) for s in (x_shape, w_shape, (x_shape[0], w_shape[0], *counts)))
    outputs = draw(rng, w_shape[:1], dtype) if bias else None
    back = draw(rng, (w_shape[1] * attrs["groups"],), dtype) if bias else None
    check("conv", x, w, outputs, **attrs, counts=counts)
    check("conv_transpose", g, w, back, **attrs, counts=x_shape[2:])
    check("conv_weight_grad", x, g, **attrs, kernel=w_shape[2:])


def anything(rng):
    """A convolution of any kind: shapes, number of results (not only those that fit), options."""

    def ints(low, high, n):
        return tuple(int(i) for i in rng.integers(low, high, n))

    n = int(rng.integers(1, 4))
    groups = int(rng.choice([1, 1, 1, 2, 3, 8, 17]))
    channels, outputs = (
        int(rng.integers(1, 5)),
        int(rng.choice([1, 3, 5, 8, 9, 16, 17, 33] if groups < 4 else [1, 2, 5])),
    )
    largest = (0, 60, 16, 7)[n]
    x_shape = (int(rng.integers(1, 8)), groups * channels, *ints(1, largest, n))
    w_shape = (groups * outputs, channels, *ints(1, 4, n))
    options = {"stride": ints(1, 4, n), "padding": ints(-1, 5, n), "dilation": ints(1, 4, n), "groups": groups}
    return x_shape, w_shape, {**options, "counts": ints(1, largest, n)}
