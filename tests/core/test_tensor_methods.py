"""Functions become methods of Tensor."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.core.tensor_methods import TensorMethods, method


@pytest.fixture
def names():
    """Methods of these names are gone after the test."""
    made = ["thrice_for_a_test", "thrice_by_another_name"]
    yield made
    for name in made:
        if name in vars(TensorMethods):
            delattr(TensorMethods, name)


def test_a_function_becomes_a_method_of_its_own_or_another_name(names):
    def thrice_for_a_test(x):
        """Three times x."""
        return x * 3

    assert method(thrice_for_a_test) is thrice_for_a_test
    method(thrice_for_a_test, names[1])
    x = ex.tensor([1.0, 2.0])
    assert x.thrice_for_a_test().tolist() == x.thrice_by_another_name().tolist() == [3.0, 6.0]
    assert ex.Tensor.thrice_for_a_test.__doc__ == "Three times x."


def test_methods_of_a_subclass_are_its_own(names):
    method(lambda x: "tensor", names[0])

    class Own(ex.Tensor):
        def thrice_for_a_test(self):
            return "own"

    assert ex.ones(1).thrice_for_a_test() == "tensor"
    assert Own.thrice_for_a_test(ex.ones(1)) == "own"


def test_backward_is_a_method_although_autograd_stands_above_tensors():
    x = ex.tensor([1.0, 2.0], requires_grad=True)
    (x * x).backward(ex.tensor([1.0, 10.0]))
    assert x.grad.tolist() == [2.0, 40.0]
    assert ex.Tensor.backward.__name__ == "backward"
    assert "inputs" in ex.Tensor.backward.__code__.co_varnames
