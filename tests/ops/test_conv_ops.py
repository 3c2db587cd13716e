"""The convolution and its transpose by definition, and gradients to second order."""

import numpy as np
import pytest

import extempo as ex
from extempo.autograd.numerical import gradcheck, gradgradcheck

from .helpers import by_definition, normal


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_conv2d_is_what_its_definition_says(stride, padding, dilation, groups):
    x, w = normal(2, 4, 7, 6), normal(8, 4 // groups, 3, 2, seed=1)
    y = ex.conv2d(x, w, None, stride, padding, dilation, groups)
    np.testing.assert_allclose(
        y.numpy(), by_definition(x.numpy(), w.numpy(), stride, padding, dilation, groups), atol=1e-12
    )


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_transposed_convolution_is_the_adjoint_of_the_convolution(n):
    conv, transposed = getattr(ex, f"conv{n}d"), getattr(ex, f"conv_transpose{n}d")
    x, w = normal(2, 4, *(7, 5, 5)[:n]), normal(6, 2, *(3, 2, 1)[:n], seed=1)
    y = conv(x, w, stride=2, padding=1, groups=2)
    z = normal(*y.shape, seed=2)
    missing = [
        a - b for a, b in zip(x.shape[2:], transposed(z, w, stride=2, padding=1, groups=2).shape[2:], strict=True)
    ]
    back = transposed(z, w, stride=2, padding=1, groups=2, output_padding=missing)
    assert (y * z).sum().item() == pytest.approx((x * back).sum().item())


@pytest.mark.parametrize(
    ("function", "shape", "options"),
    [
        (ex.conv1d, (4, 1, 3), {"padding": "same", "groups": 2}),
        (ex.conv1d, (2, 2, 3), {"stride": 2, "dilation": 2, "padding": 3}),
        (ex.conv_transpose1d, (2, 3, 3), {"stride": 3, "output_padding": 1, "padding": 1}),
        (ex.conv_transpose1d, (2, 2, 2), {"groups": 2, "dilation": 2}),
    ],
)
def test_gradients_of_first_and_second_order_are_right(function, shape, options):
    x, w = normal(2, 2, 5, requires_grad=True), normal(*shape, requires_grad=True, seed=1)
    assert gradcheck(lambda x, w: function(x, w, **options), (x, w))
    assert gradgradcheck(lambda x, w: function(x, w, **options), (x, w))
