"""Native convolutions against the NumPy kernels of their ops in float64, with guards around everything written."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

import extempo as ex
from extempo.backends.llvm.routines import conv_geometry, convolution, pooling  # noqa: F401 - pooling registers routines
from extempo.backends.selection import FALLBACKS, native

from ..guarded import bind
from .convolutions import anything, attributes, check_all, draw

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


@pytest.mark.parametrize("seed", range(40))
def test_any_convolution_stays_within_its_operands(seed):
    rng = np.random.default_rng(seed)
    for _ in range(3):
        x_shape, w_shape, options = anything(rng)
        check_all(x_shape, w_shape, bool(seed % 2), (np.float32, np.float64)[seed % 3 == 0], **options)


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
