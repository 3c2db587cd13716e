"""The gradients of convolutions as functions."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.compat.torch_namespace import conv_gradients
from extempo.nn import functional as F


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_they_are_those_of_backward(n_dims):
    x = ex.randn(2, 4, *[6] * n_dims, requires_grad=True)
    weight = ex.randn(6, 2, *[3] * n_dims, requires_grad=True)
    options = {"stride": 2, "padding": 1, "groups": 2}
    result = getattr(F, f"conv{n_dims}d")(x, weight, **options)
    upstream = ex.randn_like(result)
    result.backward(upstream)
    in_input = getattr(conv_gradients, f"conv{n_dims}d_input")(x.shape, weight, upstream, **options)
    in_weight = getattr(conv_gradients, f"conv{n_dims}d_weight")(x, weight.shape, upstream, **options)
    ex.testing.assert_close(in_input, x.grad)
    ex.testing.assert_close(in_weight, weight.grad)
