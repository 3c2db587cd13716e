"""Native pooling against the NumPy kernels of its ops, with guards around everything written."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.routines import pooling
from extempo.core.op import REGISTRY

from ..guarded import bind, call

FLOATS = [np.float32, np.float64]
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


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", range(2, 40))
def test_rows_of_any_length_are_pooled_by_two(size, dtype):
    x = np.random.default_rng(size).normal(size=(3, 5, size)).astype(dtype)
    attrs = geometry((5, size), 2, 2)
    check_max(x, attrs)
    check_avg(x, attrs, True, None)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("seed", range(60))
def test_any_window_is_pooled_within_its_operands(seed, dtype):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 3))
    for _ in range(4):
        lead = tuple(int(i) for i in rng.integers(1, 5, rng.integers(0, 3)))
        sizes, kernel, stride = (tuple(int(i) for i in rng.integers(1, high, n)) for high in (45, 5, 5))
        dilation = tuple(int(i) for i in rng.integers(1, 4, n))
        spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
        padding = tuple(int(rng.integers(0, span // 2 + 1)) for span in spans)
        attrs = geometry(sizes, kernel, stride, padding, dilation, bool(rng.integers(2)))
        x = rng.normal(size=(*lead, *sizes)).astype(dtype)
        if rng.random() < 0.5:
            x = np.round(x)  # many equal elements
        if min(attrs["counts"]) > 0:
            check_max(x, attrs)
        padding = tuple(min(p, k // 2) for p, k in zip(padding, kernel, strict=True))
        attrs = geometry(sizes, kernel, stride, padding, 1, bool(rng.integers(2)))
        if min(attrs["counts"]) > 0:
            check_avg(x, attrs, bool(rng.integers(2)), int(rng.integers(1, 9)) if rng.random() < 0.3 else None)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 2, 0), (3, 1, 1), (3, 2, 1), (3, 3, 0), (5, 4, 2)])
def test_nan_and_infinities_are_treated_as_in_numpy(kernel, stride, padding, dtype):
    rng = np.random.default_rng(0)
    for value in (np.nan, -np.inf, np.inf):
        for share in (0.05, 0.5, 1.0):
            x = rng.normal(size=(4, 13, 21)).astype(dtype)
            x[rng.random(x.shape) < share] = value
            check_max(x, geometry((13, 21), kernel, stride, padding))
            check_max(x[..., :9], geometry((13, 9), kernel, stride, padding))


@pytest.mark.parametrize("shape", [(5, 6, 4), (40, 28, 28), (3, 7, 15)])
def test_planes_in_several_chunks_have_no_seams(shape, monkeypatch):
    monkeypatch.setattr(pooling, "_CHUNK_ELEMENTS", 30)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    for kernel, stride, padding in ((2, 2, 0), (3, 2, 1), (3, 1, 1)):
        attrs = geometry(shape[1:], kernel, stride, padding)
        check_max(x, attrs)
        check_avg(x, attrs, True, None)


def test_indices_outside_of_their_windows_are_followed():
    g, indices = np.ones((2, 3, 3), np.float32), np.full((2, 3, 3), 35)
    (y,) = call("max_pool_grad", g, indices, sizes=(6, 6))
    assert (y[:, 5, 5] == 9).all()
    assert y.sum() == 18


@pytest.mark.parametrize("wrong", [36, -1, 1 << 40])
def test_indices_outside_of_the_plane_are_declined(wrong):
    indices = np.zeros((2, 3, 3), np.int64)
    indices[1, 2, 2] = wrong
    assert call("max_pool_grad", np.ones((2, 3, 3), np.float32), indices, sizes=(6, 6)) is None
    assert call("max_pool_grad", np.ones((2, 3, 3), np.float32), indices, sizes=(4, 9)) is None


def test_what_has_no_native_code_is_left_to_numpy():
    attrs = geometry((4, 4), 2, 2)
    assert bind("max_pool", (np.zeros((1, 4, 4), np.float32),), attrs) is not None
    assert bind("max_pool", (np.zeros((1, 4, 4), np.int64),), attrs) is None
    assert bind("max_pool", (np.zeros((0, 4, 4), np.float32),), attrs) is None
    assert bind("max_pool", (np.zeros((1, 4, 4, 4), np.float32),), geometry((4, 4, 4), 2, 2)) is None
