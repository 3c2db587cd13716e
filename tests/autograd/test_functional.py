"""autograd.functional: Jacobians, Hessians and products with them, against closed forms and each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import extempo as ex
from extempo.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp
from extempo.errors import AutogradError, DtypeError, ShapeError


def draw(*shape: int) -> ex.Tensor:
    return ex.tensor(np.random.default_rng(len(shape)).normal(size=shape))


def two(x: ex.Tensor, y: ex.Tensor) -> tuple[ex.Tensor, ex.Tensor]:
    return x.sin() * y.sum(), (x * x).sum() * y


@pytest.mark.parametrize("vectorize", [False, True])
@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_jacobian_of_several_inputs_and_outputs(vectorize: bool, strategy: str) -> None:
    x, y = draw(3), draw(2, 2)
    table = jacobian(two, (x, y), vectorize=vectorize, strategy=strategy)
    a, b = x.numpy(), y.numpy()
    expected = (
        (np.diag(np.cos(a) * b.sum()), np.broadcast_to(np.sin(a)[:, None, None], (3, 2, 2))),
        (np.einsum("i,jk->jki", 2 * a, b), np.einsum("ac,bd->abcd", np.eye(2), np.eye(2)) * (a * a).sum()),
    )
    for row, wanted in zip(table, expected, strict=True):
        for got, want in zip(row, wanted, strict=True):
            np.testing.assert_allclose(got.numpy(), want, atol=1e-12)
            assert not got.requires_grad


def test_jacobian_of_one_tensor_is_one_tensor() -> None:
    x = draw(3)
    assert jacobian(ex.sin, x).shape == (3, 3)
    assert jacobian(lambda x: x.sum(), x).shape == (3,)
    assert jacobian(lambda x: x * 0 + 1, ex.zeros(0)).shape == (0, 0)


def test_create_graph_makes_the_jacobian_differentiable() -> None:
    x = draw(3).requires_grad_()
    jacobian(lambda x: x**3, x, create_graph=True).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * x.detach().numpy())


@pytest.mark.parametrize("vectorize", [False, True])
def test_hessian_is_the_jacobian_of_the_gradient(vectorize: bool) -> None:
    x, y = draw(3), draw(2)

    def fn(x: ex.Tensor, y: ex.Tensor) -> ex.Tensor:
        return (x**3).sum() * y.prod()

    table = hessian(fn, (x, y), vectorize=vectorize)
    a, b = x.numpy(), y.numpy()
    np.testing.assert_allclose(table[0][0].numpy(), np.diag(6 * a) * b.prod())
    np.testing.assert_allclose(table[0][1].numpy(), np.outer(3 * a**2, b[::-1]))
    np.testing.assert_allclose(table[1][0].numpy(), table[0][1].numpy().T)
    np.testing.assert_allclose(hessian(lambda x: (x**3).sum(), x).numpy(), np.diag(6 * a))


def test_products_with_the_jacobian_from_both_sides() -> None:
    x, y = draw(3), draw(2, 2)
    full = jacobian(two, (x, y))
    v = (draw(3) + 1, draw(2, 2) - 1)
    outputs, pulled = vjp(two, (x, y), v)
    np.testing.assert_allclose(outputs[0].numpy(), two(x, y)[0].numpy())
    pushed = jvp(two, (x, y), v)[1]
    expected_pull = np.einsum("a,ai->i", v[0], full[0][0]) + np.einsum("ab,abi->i", v[1], full[1][0])
    np.testing.assert_allclose(pulled[0].numpy(), expected_pull)
    expected_push = np.einsum("ai,i->a", full[0][0], v[0]) + np.einsum("aij,ij->a", full[0][1], v[1])
    np.testing.assert_allclose(pushed[0].numpy(), expected_push)


def test_products_with_the_hessian() -> None:
    x, v = draw(4), draw(4) + 1

    def fn(x: ex.Tensor) -> ex.Tensor:
        return (x**3).sum() * x[0]

    full = hessian(fn, x).numpy()
    np.testing.assert_allclose(hvp(fn, x, v)[1].numpy(), full @ v.numpy())
    np.testing.assert_allclose(vhp(fn, x, v)[1].numpy(), v.numpy() @ full)
    np.testing.assert_allclose(vhp(fn, x, v)[0].numpy(), fn(x).numpy())


def test_a_vector_may_be_left_out_for_one_element_only() -> None:
    assert vjp(lambda x: x.sum(), draw(3))[1].tolist() == [1.0] * 3
    with pytest.raises(ShapeError, match="v may be left out only for one output with one element"):
        vjp(ex.sin, draw(3))
    with pytest.raises(ShapeError, match=r"v has shapes \[\(2,\)\], the outputs have \[\(3,\)\]"):
        vjp(ex.sin, draw(3), draw(2))


def test_strict_refuses_outputs_that_do_not_depend_on_an_input() -> None:
    def first(x: ex.Tensor, y: ex.Tensor) -> ex.Tensor:
        return x * 2

    calls: list[Any] = [jacobian, lambda f, i, strict: vjp(f, i, draw(2), strict=strict)]
    for call in calls:
        assert call(first, (draw(2), draw(2)), strict=False)
        with pytest.raises(AutogradError, match="does not depend on input 1"):
            call(first, (draw(2), draw(2)), strict=True)
    with pytest.raises(AutogradError, match="does not depend on any input"):
        jacobian(lambda x: ex.ones(2), draw(2), strict=True)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(DtypeError, match="inputs: expected a tensor or a tuple"):
        jacobian(ex.sin, 3.0)
    with pytest.raises(ShapeError, match="hessian: func must return a tensor with one element"):
        hessian(ex.sin, draw(3))
    with pytest.raises(AutogradError, match="strategy"):
        jacobian(ex.sin, draw(3), strategy="sideways")
    with pytest.raises(AutogradError, match="strict=True is not available with vectorize=True"):
        jacobian(ex.sin, draw(3), strict=True, vectorize=True)
