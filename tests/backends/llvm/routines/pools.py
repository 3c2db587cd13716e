"""Pooling natively and by NumPy, forward and backward."""

from __future__ import annotations

import numpy as np

from extempo.core.op import REGISTRY

from ..guarded import call

TOLERANCE = {np.float32: 1e-6, np.float64: 1e-14}


def each(value, n):
    return value if isinstance(value, tuple) else (value,) * n


def n_windows(size, kernel, stride, padding, dilation, ceil_mode):
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (room + stride - 1 if ceil_mode else room) // stride + 1
    return count - 1 if ceil_mode and (count - 1) * stride >= size + padding else count


def geometry(sizes, kernel, stride, padding=0, dilation=1, ceil_mode=False):
    """The attributes of max_pool."""
    n = len(sizes)
    kernel, stride, padding, dilation = (each(v, n) for v in (kernel, stride, padding, dilation))
    counts = tuple(n_windows(*v, ceil_mode) for v in zip(sizes, kernel, stride, padding, dilation, strict=True))
    return {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "counts": counts}


def check_max(x, attrs):
    """Values, indices and gradients are exactly NumPy's."""
    values, indices = call("max_pool", x, **attrs)
    expected_values, expected_indices = REGISTRY["max_pool"].numpy(x, **attrs)
    np.testing.assert_array_equal(values, expected_values)
    np.testing.assert_array_equal(indices, expected_indices)
    g = np.random.default_rng(1).normal(size=values.shape).astype(x.dtype)
    sizes = x.shape[x.ndim - len(attrs["kernel"]) :]
    (back,) = call("max_pool_grad", g, indices, sizes=sizes)
    np.testing.assert_array_equal(back, REGISTRY["max_pool_grad"].numpy(g, indices, sizes=sizes))


def check_avg(x, attrs, include_pad, divisor):
    attrs = {k: v for k, v in attrs.items() if k != "dilation"} | {"include_pad": include_pad}
    tolerance = TOLERANCE[x.dtype.type]
    (y,) = call("avg_pool", x, divisor, **attrs)
    np.testing.assert_allclose(y, REGISTRY["avg_pool"].numpy(x, divisor, **attrs), tolerance, tolerance)
    attrs["sizes"] = x.shape[x.ndim - len(attrs.pop("counts")) :]
    g = np.random.default_rng(1).normal(size=y.shape).astype(x.dtype)
    (back,) = call("avg_pool_grad", g, divisor, **attrs)
    np.testing.assert_allclose(back, REGISTRY["avg_pool_grad"].numpy(g, divisor, **attrs), tolerance, tolerance)
