"""Gradients of elementwise ops derived from their vjp: what they read, and kernels with the bits of single ops."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.autograd.derive import derived_vjp
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType
from extempo.errors import GraphError

F32, F64 = TensorType((3,), ex.float32), TensorType((3,), ex.float64)


def test_what_is_saved_is_what_the_vjp_makes_use_of():
    both = derived_vjp(REGISTRY["mul"], 0b11, (F32, F32))
    assert (both.needed, both.reads) == ((0, 1), (1, 2))
    assert derived_vjp(REGISTRY["mul"], 0b01, (F32, F32)).reads == (2,)
    assert derived_vjp(REGISTRY["tanh"], 0b1, (F32,)).reads == (0,)  # the result
    assert derived_vjp(REGISTRY["add"], 0b11, (F32, F32)).reads == ()


def test_shapes_share_one_gradient_and_dtypes_do_not():
    other = TensorType((5, 2), ex.float32)
    assert derived_vjp(REGISTRY["exp"], 1, (F32,)) is derived_vjp(REGISTRY["exp"], 1, (other,))
    assert derived_vjp(REGISTRY["exp"], 1, (F32,)) is not derived_vjp(REGISTRY["exp"], 1, (F64,))


def test_a_number_is_handed_in_and_baked_into_no_kernel():
    derived = derived_vjp(REGISTRY["mul"], 1, (F64, float))
    assert derived.numbers == (1,)
    g = np.array([1.0, 2.0, 3.0])
    for number in (2.0, -0.5):
        (made,) = derived.kernel(g, number)
        np.testing.assert_array_equal(made, g * number)


def test_memory_that_is_handed_on_is_not_fresh():
    assert derived_vjp(REGISTRY["add"], 0b11, (F32, F32)).fresh == (False, False)  # both are the incoming gradient
    assert derived_vjp(REGISTRY["mul"], 0b11, (F32, F32)).fresh == (True, True)
    g = np.ones(3, np.float32)
    first, second = derived_vjp(REGISTRY["add"], 0b11, (F32, F32)).kernel(g)
    assert first is g
    assert second is g


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "gelu", "sqrt"])
def test_the_kernel_has_the_bits_of_the_ops_one_by_one(name):
    derived = derived_vjp(REGISTRY[name], 1, (F64,))
    x = np.array([0.3, 1.5, 40.0])
    y = REGISTRY[name].numpy(x) if name != "gelu" else ex.nn.functional.gelu(ex.tensor(x)).numpy()
    read = [(y, x)[p] for p in derived.reads]
    g = np.array([1.0, -2.0, 0.5])
    (fused,) = derived.kernel(g, *read)
    (one_by_one,) = derived.replay(*map(ex.tensor, (g, *read)))
    assert fused.tobytes() == one_by_one.numpy().tobytes()


def test_a_vjp_without_a_tensor_is_refused_in_words():
    class Wrong(REGISTRY["exp"], abstract=True):
        @staticmethod
        def vjp(g, y, x):
            return (None,)

    with pytest.raises(GraphError, match="gradient of input 0 is None, expected a tensor"):
        derived_vjp(Wrong, 1, (F32,))
