"""gradcheck and gradgradcheck find wrong gradients and say where they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import extempo as ex
from extempo.autograd import Function, gradcheck, gradgradcheck
from extempo.errors import AutogradError


def draw(*shape: int) -> ex.Tensor:
    return ex.tensor(np.random.default_rng(0).normal(size=shape), requires_grad=True)


class Wrong(Function):
    """x * y with a gradient for y that is off in one element."""

    @staticmethod
    def forward(ctx: Any, x: ex.Tensor, y: ex.Tensor) -> ex.Tensor:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, g: ex.Tensor) -> Any:
        x, y = ctx.saved_tensors
        bump = np.zeros(y.shape)
        bump[1, 2] = 0.5
        return g * y, g * x + g * ex.tensor(bump)


def test_right_gradients_pass() -> None:
    assert gradcheck(lambda x, y: (x @ y, x.sum()), (draw(2, 3), draw(3, 2)))
    assert gradcheck(ex.sin, draw(3))
    assert gradgradcheck(lambda x, y: (x @ y).tanh(), (draw(2, 3), draw(3, 2)))
    assert gradgradcheck(ex.exp, draw(3), ex.ones(3, dtype=ex.float64, requires_grad=True))
    assert gradgradcheck(ex.exp, draw(3), gen_non_contig_grad_outputs=True)


def test_a_wrong_gradient_is_located() -> None:
    inputs = (draw(2, 3), draw(2, 3))
    with pytest.raises(AutogradError) as caught:
        gradcheck(Wrong.apply, inputs)
    text = str(caught.value)
    assert "d output 0 / d input 1 differs in 1 of 36 elements" in text
    assert "output element (1, 2), input element (1, 2)" in text
    assert gradcheck(Wrong.apply, inputs, raise_exception=False) is False


def test_inputs_of_empty_and_zero_dim_shapes() -> None:
    assert gradcheck(lambda x: x * 2, ex.zeros(0, 3, dtype=ex.float64, requires_grad=True))
    assert gradcheck(lambda x: x * x, ex.tensor(2.0, dtype=ex.float64, requires_grad=True))


def test_inputs_that_need_no_gradient_and_other_arguments_are_passed_on() -> None:
    fixed = ex.arange(3)
    assert gradcheck(lambda x, index, scale: x[index] * scale, (draw(4), fixed, 2.0))


def test_values_that_are_in_the_closure_move_with_the_input() -> None:
    x = draw(3)
    assert gradcheck(lambda y: x * y, (x,))


def test_the_other_checks() -> None:
    x = draw(2, 2)
    assert gradcheck(ex.sin, x, check_forward_ad=True, check_batched_grad=True, check_grad_dtypes=True)
    with pytest.raises(AutogradError, match="differ"):
        gradcheck(Wrong.apply, (draw(2, 3), draw(2, 3)), check_backward_ad=False, check_forward_ad=True)


def test_a_gradient_that_is_not_deterministic_is_refused() -> None:
    calls = [0.0]

    class Drifting(Function):
        @staticmethod
        def forward(ctx: Any, x: ex.Tensor) -> ex.Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: ex.Tensor) -> Any:
            calls[0] += 1e-7
            return g + calls[0]

    with pytest.raises(AutogradError, match="not deterministic"):
        gradcheck(Drifting.apply, draw(2))
    assert gradcheck(Drifting.apply, draw(2), nondet_tol=1e-3)


def test_misuse_is_named() -> None:
    with pytest.raises(AutogradError, match="no input requires grad"):
        gradcheck(ex.sin, ex.ones(2))
    with pytest.warns(UserWarning, match="float64"):
        gradcheck(lambda x: x * 2, ex.ones(2, requires_grad=True), eps=1e-2)
    expanded = ex.ones(1, dtype=ex.float64).expand(3).requires_grad_()
    with pytest.raises(AutogradError, match="share memory"):
        gradcheck(ex.sin, expanded)
