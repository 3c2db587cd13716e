"""Native convolutions against the NumPy kernels of their ops in float64, with guards around everything written."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

import extempo as ex
from extempo.backends.llvm.routines import conv_geometry, convolution, pooling  # noqa: F401 - pooling registers routines
from extempo.backends.selection import FALLBACKS, native
from extempo.core.op import REGISTRY

from ..guarded import bind, call

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


CASES = [
    ((32, 1, 28, 28), (16, 1, 3, 3), {"padding": 1}),
    ((4, 16, 14, 14), (32, 16, 3, 3), {"padding": 1}),
    ((1, 1, 1, 1), (1, 1, 1, 1), {}),
    ((2, 3, 1, 1), (5, 3, 3, 3), {"padding": 1}),
    ((3, 2, 2, 3), (4, 2, 2, 2), {"padding": 4}),  # whole windows of padding
    ((2, 3, 9, 8), (7, 3, 3, 2), {"stride": (2, 3), "padding": (1, 0)}),
    ((2, 3, 11, 13), (17, 3, 3, 3), {"dilation": (2, 3), "padding": 2}),
    ((2, 4, 10, 9), (6, 2, 3, 3), {"stride": 2, "dilation": 2, "padding": 3, "groups": 2}),
    ((2, 8, 7, 7), (8, 1, 3, 3), {"padding": 1, "groups": 8}),
    ((2, 9, 7, 12), (18, 1, 3, 3), {"padding": 1, "groups": 9, "stride": 2}),
    ((1, 24, 9, 9), (48, 2, 3, 3), {"groups": 12, "padding": 1}),
    ((2, 34, 5, 5), (34, 17, 1, 1), {"groups": 2}),
    ((3, 5, 33), (40, 5, 4), {"stride": 3, "padding": 2}),
    ((70, 3, 2, 2), (9, 3, 2, 2), {}),  # one window per image
    ((2, 2, 4, 5, 6), (3, 2, 2, 3, 2), {"padding": 1, "stride": (1, 2, 1)}),
    ((2, 3, 6, 6), (4, 3, 3, 3), {"padding": -1}),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("x_shape", "w_shape", "options"), CASES)
def test_convolutions_and_their_gradients_are_those_of_the_numpy_kernels(x_shape, w_shape, options, bias, dtype):
    check_all(x_shape, w_shape, bias, dtype, **options)


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


@pytest.mark.parametrize("seed", range(40))
def test_any_convolution_stays_within_its_operands(seed):
    rng = np.random.default_rng(seed)
    for _ in range(3):
        x_shape, w_shape, options = anything(rng)
        check_all(x_shape, w_shape, bool(seed % 2), (np.float32, np.float64)[seed % 3 == 0], **options)


@pytest.mark.parametrize("seed", range(40))
def test_images_cut_into_bands_have_no_seams(seed, monkeypatch):
    monkeypatch.setattr(conv_geometry, "_CHUNK_WORK", 500)
    monkeypatch.setattr(conv_geometry, "_COPY_BYTES", 3000)
    monkeypatch.setattr(conv_geometry, "_ROWS_WANTED", 5)
    planned, seen = conv_geometry.planned, []
    monkeypatch.setattr(convolution, "planned", lambda *args: seen.append(planned(*args)) or seen[-1])
    rng = np.random.default_rng(1000 + seed)
    for _ in range(3):
        x_shape, w_shape, options = anything(rng)
        check_all(x_shape, w_shape, bool(seed % 2), np.float32, **options)
    check_all((2, 3, 40, 30), (4, 3, 3, 3), True, np.float32, padding=1, stride=(1, 2))
    assert any(plan.n_bands > 1 and plan.n_chunks > 1 for plan in seen)


def test_the_sum_over_a_large_batch_is_as_good_as_a_pairwise_one():
    rng = np.random.default_rng(0)
    x, g = (np.abs(draw(rng, (256, 2, 16, 16), np.float32)) for _ in range(2))
    attrs = {**attributes(), "kernel": (1, 1)}
    w, bias = call("conv_weight_grad", x, g, **attrs)
    exact_w, exact_bias = REGISTRY["conv_weight_grad"].numpy(x.astype(np.float64), g.astype(np.float64), **attrs)
    np.testing.assert_allclose(w, exact_w, rtol=16 * EPSILON[np.float32])
    np.testing.assert_allclose(bias, exact_bias, rtol=16 * EPSILON[np.float32])


def test_an_image_gives_the_same_bits_alone_and_in_a_batch():
    rng = np.random.default_rng(0)
    x, w = draw(rng, (9, 3, 12, 11), np.float32), draw(rng, (20, 3, 3, 3), np.float32)
    attrs = {**attributes(padding=1), "counts": (12, 11)}
    (whole,) = call("conv", x, w, None, **attrs)
    for i in range(9):
        (alone,) = call("conv", x[i : i + 1], w, None, **attrs)
        np.testing.assert_array_equal(whole[i], alone[0])


def test_a_nan_reaches_only_the_windows_that_see_it():
    x = np.zeros((1, 1, 9, 9), np.float32)
    x[0, 0, 4, 4] = np.nan
    (y,) = call("conv", x, np.ones((20, 1, 3, 3), np.float32), None, **attributes(padding=1), counts=(9, 9))
    assert np.isnan(y[0, :, 3:6, 3:6]).all()
    assert np.isnan(y).sum() == 20 * 9


def test_what_has_no_native_code_is_left_to_numpy():
    def declines(*inputs, counts=(4, 4), **options):
        return bind("conv", (*inputs, None), {**attributes(**options), "counts": counts}) is None

    x, w = np.zeros((2, 2, 4, 4), np.float32), np.zeros((3, 2, 1, 1), np.float32)
    assert not declines(x, w)
    assert declines(x.astype(np.int64), w.astype(np.int64))
    assert declines(x.astype(np.float16), w.astype(np.float16))
    assert declines(x[:0], w)
    assert declines(x[:, :, :0], w, counts=(0, 4))
    huge = np.broadcast_to(np.float32(0), (1, 1, 4, 4))
    assert declines(huge, np.zeros((1, 1, 2, 2), np.float32), dilation=1 << 16, padding=1 << 16, counts=(4, 4))


def _step(n_threads):
    """The results and gradients of two convolutions with pooling between them."""
    before = ex.get_num_threads()
    ex.set_num_threads(n_threads)
    try:
        rng = np.random.default_rng(0)
        x, w1, b1, w2 = (
            ex.tensor(draw(rng, s, np.float32), requires_grad=True)
            for s in ((16, 3, 24, 24), (16, 3, 3, 3), (16,), (16, 1, 5, 5))
        )
        y = ex.nn.functional.max_pool2d(ex.conv2d(x, w1, b1, padding=1), 2)
        y = ex.nn.functional.avg_pool2d(ex.conv2d(y, w2, padding=2, groups=16), 3, 2, 1)
        (y * y).sum().backward()
        return [t.numpy() for t in (y.detach(), x.grad, w1.grad, b1.grad, w2.grad)]
    finally:
        ex.set_num_threads(before)


@pytest.mark.skipif(native() is None, reason="the native backend is not in use")
def test_the_number_of_threads_changes_no_bit():
    for one, two in zip(_step(1), _step(2), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.skipif(native() is None, reason="the native backend is not in use")
def test_a_training_step_of_convolutions_falls_back_to_numpy_nowhere():
    before = dict(FALLBACKS)
    _step(1)
    fell = {name for name, n in FALLBACKS.items() if n > before.get(name, 0)}
    assert not [name for name in fell if "conv" in name or "pool" in name]
