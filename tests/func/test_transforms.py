"""func.grad, vjp, jvp, Jacobians and Hessians: right values, nesting, and what stays in the graph."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import extempo as ex
from extempo.errors import AutogradError, DtypeError, ShapeError
from extempo.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap


def draw(*shape: int, requires_grad: bool = False) -> ex.Tensor:
    return ex.tensor(np.random.default_rng(sum(shape)).normal(size=shape), requires_grad=requires_grad)


def assert_close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(np.asarray(a.detach()), np.asarray(b.detach()), rtol=1e-9, atol=1e-12)


def test_grad_of_one_and_of_several_arguments() -> None:
    x, y = draw(3), draw(3) + 1

    def fn(x: ex.Tensor, y: ex.Tensor, *, power: int = 2) -> ex.Tensor:
        return (x**power * y).sum()

    assert_close(grad(fn)(x, y), 2 * x * y)
    assert_close(grad(fn, argnums=1)(x, y, power=3), x**3)
    a, b = grad(fn, argnums=(0, -1))(x, y)
    assert_close(a, 2 * x * y)
    assert_close(b, x**2)


def test_grad_of_nested_arguments_has_their_structure() -> None:
    tree = {"a": draw(2), "b": [draw(3), (draw(1),)]}
    g = grad(lambda t: (t["a"] ** 2).sum() + t["b"][0].sum() * t["b"][1][0].sum())(tree)
    assert_close(g["a"], 2 * tree["a"])
    assert_close(g["b"][1][0], tree["b"][0].sum().reshape(1))


def test_value_and_aux_come_along() -> None:
    x = draw(3)
    g, (value, aux) = grad_and_value(lambda x: ((x * x).sum(), {"twice": x * 2, "n": 3}), has_aux=True)(x)
    assert_close(value, (x * x).sum())
    assert_close(aux["twice"], 2 * x)
    assert aux["n"] == 3
    assert not value.requires_grad
    assert not aux["twice"].requires_grad
    assert_close(grad(lambda x: ((x * x).sum(), x), has_aux=True)(x)[0], g)


def test_grad_can_be_nested() -> None:
    x = ex.tensor(2.0, dtype=ex.float64)
    assert grad(grad(grad(lambda x: x**4)))(x).item() == 48.0


def test_nested_variables_are_not_confused() -> None:
    one = ex.tensor(1.0)
    assert grad(lambda x: x * grad(lambda y: x + y)(one))(one).item() == 1.0
    assert grad(lambda x: grad(lambda y: x * y)(x))(ex.tensor(3.0)).item() == 1.0
    assert grad(lambda x: x * jvp(lambda y: x * y, (one,), (one,))[1])(ex.tensor(3.0)).item() == 6.0


def test_results_are_outside_the_graph_unless_the_caller_records() -> None:
    x = draw(3)
    assert not grad(lambda x: (x**3).sum())(x).requires_grad
    w = draw(3, requires_grad=True)
    g = grad(lambda x: (w * x**2).sum())(x)
    assert g.requires_grad
    g.sum().backward()
    assert_close(w.grad, 2 * x)
    y = draw(3, requires_grad=True)
    grad(lambda x: (x**3).sum())(y).sum().backward()
    assert_close(y.grad, 6 * y)


def test_no_grad_outside_and_inside() -> None:
    w = draw(3, requires_grad=True)
    with ex.no_grad():
        g, value = grad_and_value(lambda w: (w**2).sum())(w)
        assert_close(g, 2 * w)
        assert not g.requires_grad
        assert not value.requires_grad
        assert not ex.is_grad_enabled()

    def half(x: ex.Tensor) -> ex.Tensor:
        with ex.no_grad():
            fixed = x**2
        return (x * fixed).sum()

    assert_close(grad(half)(w.detach()), w**2)


def test_the_graph_of_a_gradient_is_freed_at_once() -> None:
    nodes: list[Any] = []

    def fn(x: ex.Tensor) -> ex.Tensor:
        y = (x * x).exp()
        nodes.append(weakref.ref(y.grad_fn))
        return y.sum()

    gc.disable()
    try:
        grad(fn)(draw(3))
        assert nodes[0]() is None
    finally:
        gc.enable()


def test_an_argument_without_influence_has_zeros() -> None:
    a, b = grad(lambda x, y: (x * 2).sum(), argnums=(0, 1))(draw(2), draw(3))
    assert a.tolist() == [2.0, 2.0]
    assert b.tolist() == [0.0] * 3
    assert grad(lambda x: ex.tensor(3.0))(draw(2)).tolist() == [0.0, 0.0]


def test_vjp_can_be_pulled_many_times_and_under_vmap() -> None:
    x = draw(3)
    y, pull = vjp(lambda x: (x.sin(), x**2), x)
    assert_close(y[0], x.sin())
    v = (draw(3) + 1, draw(3) - 1)
    (g,) = pull(v)
    assert_close(g, v[0] * x.cos() + v[1] * 2 * x)
    assert_close(pull(v)[0], g)
    (rows,) = vmap(vjp(ex.sin, x)[1])(ex.eye(3, dtype=ex.float64))
    assert_close(rows, x.cos().diag())
    value, pull, aux = vjp(lambda x: (x * 2, x.sum()), x, has_aux=True)
    assert_close(aux, x.sum())
    assert pull(ex.ones(3))[0].tolist() == [2.0] * 3
    assert value.shape == (3,)


def test_vjp_is_differentiable_by_its_vector() -> None:
    x, v = draw(3), draw(3, requires_grad=True)
    vjp(ex.sin, x)[1](v)[0].sum().backward()
    assert_close(v.grad, x.cos())


def test_jvp_of_nested_arguments() -> None:
    x, y, t, s = draw(3), draw(3) + 1, draw(3) - 1, draw(3) + 2

    def fn(tree: dict[str, ex.Tensor], z: ex.Tensor) -> dict[str, ex.Tensor]:
        return {"product": tree["x"] * z, "constant": ex.ones(2)}

    value, pushed = jvp(fn, ({"x": x}, y), ({"x": t}, s))
    assert_close(value["product"], x * y)
    assert_close(pushed["product"], t * y + x * s)
    assert pushed["constant"].tolist() == [0.0, 0.0]
    value, pushed, aux = jvp(lambda x: (x * x, 5), (x,), (t,), has_aux=True)
    assert_close(pushed, 2 * x * t)
    assert aux == 5


def test_linearize_runs_the_function_once() -> None:
    calls: list[int] = []

    def fn(x: ex.Tensor) -> ex.Tensor:
        calls.append(1)
        return x.exp()

    x = draw(3)
    value, push = linearize(fn, x)
    assert_close(value, x.exp())
    for t in (draw(3), draw(3) + 1):
        assert_close(push(t), x.exp() * t)
    assert calls == [1]


def test_jacobians_by_rows_and_by_columns() -> None:
    x, y = draw(3), draw(2, 2)

    def fn(x: ex.Tensor, y: ex.Tensor) -> dict[str, ex.Tensor]:
        return {"a": x.sin() * y.sum(), "b": (x * x).sum() * y}

    rows, columns = jacrev(fn, argnums=(0, 1))(x, y), jacfwd(fn, argnums=(0, 1))(x, y)
    for name in ("a", "b"):
        for r, c in zip(rows[name], columns[name], strict=True):
            assert r.shape == c.shape
            assert_close(r, c)
    assert rows["b"][1].shape == (2, 2, 2, 2)
    assert_close(rows["a"][0], (x.cos() * y.sum()).diag())
    assert_close(jacrev(ex.sin, chunk_size=2)(x), x.cos().diag())
    jacobian, aux = jacrev(lambda x: (x**2, x.sum()), has_aux=True)(x)
    assert_close(jacobian, (2 * x).diag())
    assert_close(aux, x.sum())
    assert_close(jacfwd(lambda x: (x**2, x.sum()), has_aux=True)(x)[0], jacobian)


def test_hessians_of_every_make() -> None:
    x = draw(3)

    def fn(x: ex.Tensor) -> ex.Tensor:
        return (x**3).sum() * x[0]

    wanted = jacrev(jacrev(fn))(x)
    assert_close(hessian(fn)(x), wanted)
    assert_close(jacfwd(jacfwd(fn))(x), wanted)
    assert_close(jacrev(jacfwd(fn))(x), wanted)
    two = hessian(lambda x, y: (x * y).sum() ** 2, argnums=(0, 1))(x, x + 1)
    assert two[0][1].shape == (3, 3)
    assert_close(two[0][1], two[1][0].T)


def test_a_jacobian_can_be_differentiated_by_what_was_captured() -> None:
    w = draw(3, requires_grad=True)
    jacrev(lambda x: w * x**2)(draw(3)).sum().backward()
    assert_close(w.grad, 2 * draw(3))


def test_mistakes_are_named() -> None:
    x = draw(3)
    for call, error, text in (
        (lambda: grad(ex.sin)(x), ShapeError, r"must return a 0-dim tensor, got shape \(3,\)"),
        (lambda: grad(lambda x: 3.0)(x), ShapeError, "got float"),
        (lambda: grad(lambda x: x.sum())(ex.arange(3)), DtypeError, "only floating tensors"),
        (lambda: grad(lambda x: x)(3.0), DtypeError, "expected tensors to differentiate by, got float"),
        (lambda: grad(lambda x: x.sum(), argnums=1)(x), ShapeError, "argnums says 1"),
        (lambda: grad(lambda x: x.sum(), argnums=(0, 0))(x), ShapeError, "twice"),
        (lambda: grad(lambda x: x.sum(), has_aux=True)(x), DtypeError, r"\(output, aux\)"),
        (lambda: vjp(ex.sin, x)[1](draw(2)), ShapeError, r"shape \(2,\), its output \(3,\)"),
        (lambda: vjp(ex.sin), ShapeError, "at least one primal"),
        (lambda: jvp(ex.sin, x, x), DtypeError, r"did you mean \(x,\)"),
        (lambda: jvp(ex.sin, (x,), (x, x)), ShapeError, "expected 1 vectors"),
        (lambda: jvp(lambda x: ex.ones(2), (x,), (x,), strict=True), AutogradError, "does not depend on primal 0"),
        (lambda: jacrev(lambda x: "text")(x), DtypeError, "must return tensors, got str"),
    ):
        with pytest.raises(error, match=text):
            call()
