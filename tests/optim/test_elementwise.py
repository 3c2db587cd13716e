"""What optimizers share whose update treats every element alike."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import optim
from extempo.errors import ArgumentError, ShapeError
from extempo.optim.elementwise import lerp, lerp_weight

from .updates import G, run


def test_maximize_goes_the_other_way():
    for cls in (optim.SGD, optim.Adam, optim.RMSprop, optim.Rprop, optim.Adagrad, optim.Adamax, optim.NAdam):
        up, _ = run(cls, G, maximize=True)
        down, _ = run(cls, [-g for g in G])
        assert up == down


def test_the_step_count_is_a_tensor_of_the_default_dtype():
    p = ex.ones(1, requires_grad=True)
    p.grad = ex.ones(1)
    optimizer = optim.Adam([p])
    optimizer.step()
    step = optimizer.state[p]["step"]
    assert isinstance(step, ex.Tensor)
    assert step.dtype is ex.float32
    assert step.shape == ()


def test_half_precision_is_rounded_once_per_step():
    p = ex.tensor([1.0], dtype=ex.bfloat16, requires_grad=True)
    p.grad = ex.tensor([1.0], dtype=ex.bfloat16)
    optimizer = optim.Adam([p], lr=0.01)
    optimizer.step()
    assert p.item() == ex.tensor(0.99).to(ex.bfloat16).item()
    assert optimizer.state[p]["exp_avg"].dtype is ex.bfloat16


def test_huge_and_tiny_gradients_raise_no_warning():
    for cls in (optim.Adam, optim.Adagrad, optim.RMSprop, optim.Adadelta):
        values, _ = run(cls, [1e300, 0.0, 1e-300, np.inf])
        assert len(values) == 4


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (optim.Adam, {"eps": -1.0}, "Adam: eps must not be negative, got -1.0"),
        (optim.SGD, {"weight_decay": float("nan")}, "SGD: weight_decay must not be negative, got nan"),
        (optim.Adadelta, {"rho": 1.5}, "Adadelta: rho must lie between 0 and 1, got 1.5"),
        (optim.Rprop, {"etas": (0.5, 0.9)}, r"Rprop: etas must be a factor between 0 and 1 and one above 1, got"),
        (optim.NAdam, {"betas": (0.9, 1.0)}, r"NAdam: betas\[1\] must be at least 0 and below 1, got 1.0"),
    ],
)
def test_an_option_outside_of_its_range_is_named_with_its_optimizer(cls, options, message):
    with pytest.raises(ArgumentError, match=message):
        cls([ex.ones(1, requires_grad=True)], **options)


def test_betas_are_two_numbers_or_two_tensors_of_one_element():
    parameters = [ex.ones(1, requires_grad=True)]
    with pytest.raises(ArgumentError, match="AdamW: betas must be two numbers or two tensors, got one of each"):
        optim.AdamW(parameters, betas=(0.9, ex.tensor(0.99)))
    with pytest.raises(ShapeError, match="a tensor in betas must have one element"):
        optim.Adam(parameters, betas=(ex.ones(2), ex.ones(2)))


def test_a_weight_close_to_one_is_interpolated_from_the_other_end():
    for weight in (0.25, 0.75, 1.0):
        assert lerp(2.0, 4.0, *lerp_weight(weight)) == 2.0 + 2.0 * weight
    assert lerp(1e30, 0.1, *lerp_weight(1.0)) == 0.1  # exactly
