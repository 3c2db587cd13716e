"""Where backward begins: the gradients that come in, given or not."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.autograd.seeds import as_list, incoming, like_inputs, roots_of, values_of
from extempo.errors import DtypeError, NoGradientPathError, ShapeError


def test_backward_of_a_non_scalar_says_what_to_do():
    x = ex.ones(3, requires_grad=True)
    with pytest.raises(ShapeError, match=r"shape \(3,\).*loss.sum\(\)"):
        (x * 2).backward()
    with pytest.raises(ShapeError, match=r"gradient has shape \(2,\), the tensor \(3,\)"):
        (x * 2).backward(ex.ones(2))


def test_a_gradient_that_is_no_tensor_is_refused_in_words():
    x = ex.ones(2, requires_grad=True)
    with pytest.raises(DtypeError, match="the gradient must be a tensor, got float"):
        (x * 2).backward(1.0)


def test_a_gradient_comes_in_with_the_dtype_of_its_tensor():
    y = ex.ones(2, dtype=ex.float64, requires_grad=True) * 2
    assert incoming(y, ex.ones(2), "backward").dtype is ex.float64
    one = incoming(ex.ones((), requires_grad=True) * 2, None, "backward")
    assert one.tolist() == 1.0
    with pytest.raises(NoGradientPathError, match="does not require grad"):
        incoming(ex.ones(2), ex.ones(2), "backward")


def test_one_gradient_is_expected_for_each_tensor():
    x = ex.ones(2, requires_grad=True)
    ends = [x * 2, x * 3]
    with pytest.raises(ShapeError, match="2 tensors but 1 gradient;"):
        roots_of(ends, [ex.ones(2)], "backward", create_graph=False)
    roots = roots_of(ends, [ex.ones(2), ex.zeros(2)], "backward", create_graph=False)
    assert [node for node, _ in roots] == [y.grad_fn for y in ends]


def test_a_recorded_backward_keeps_the_history_of_incoming_gradients():
    y, g = ex.ones(2, requires_grad=True) * 2, ex.ones(2, requires_grad=True)
    assert roots_of([y], g, "grad", create_graph=True)[0][1] is g
    assert not roots_of([y], g, "grad", create_graph=False)[0][1].requires_grad


def test_of_ragged_tensors_the_values_are_differentiated():
    r = ex.ragged([ex.ones(2), ex.ones(3)])
    assert as_list(r, "outputs")[0].shape == (5,)
    assert values_of([r, None])[0].shape == (5,)
    (back,) = like_inputs(r, [ex.ones(5)])
    assert type(back) is type(r)
    assert back.shape == r.shape
    with pytest.raises(ShapeError, match="same rows"):
        values_of(ex.ragged([ex.ones(1), ex.ones(4)]), r)
    with pytest.raises(DtypeError, match="outputs: expected tensors, got str"):
        as_list(["loss"], "outputs")
