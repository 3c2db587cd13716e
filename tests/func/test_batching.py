"""vmap: equal to a loop over samples, in every mixture of mapped and shared arguments, transforms and writes."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import extempo as ex
from extempo.errors import DtypeError, ShapeError
from extempo.func import grad, jacrev, jvp, vmap

from .loops import assert_close, draw, loop


def test_arguments_can_be_mapped_along_any_dimension_or_shared() -> None:
    a, b, c = draw(2, 3, 4), draw(4, 5), draw(3)
    got = vmap(lambda a, b, c, k: (a @ b) * k + c.sum(), in_dims=(1, None, None, None), out_dims=-1)(a, b, c, 2.0)
    want = ex.stack([(a[:, i] @ b) * 2.0 + c.sum() for i in range(3)], -1)
    assert_close(got, want)


class Pair(NamedTuple):
    first: ex.Tensor
    second: ex.Tensor


def test_arguments_and_results_may_be_nested() -> None:
    def fn(tree: dict[str, Any], pair: Pair) -> dict[str, Any]:
        return {"sum": tree["x"] + pair.first, "rest": [pair.second * tree["w"], Pair(tree["w"], pair.first)]}

    tree, pair = {"x": draw(3, 2), "w": draw(2)}, Pair(draw(2, 3), draw(3, 2))
    out = vmap(fn, in_dims=({"x": 0, "w": None}, (1, 0)), out_dims={"sum": 1, "rest": 0})(tree, pair)
    assert_close(out["sum"], (tree["x"] + pair.first.T).T)
    assert_close(out["rest"][0], pair.second * tree["w"])
    assert isinstance(out["rest"][1], Pair)
    assert_close(out["rest"][1].first, tree["w"].expand(3, 2))


def test_results_that_samples_share_can_stay_so() -> None:
    xs, w = draw(3, 2), draw(2)
    out, same = vmap(lambda x: (x * w, w * 2), out_dims=(0, None))(xs)
    assert out.shape == (3, 2)
    assert same.shape == (2,)
    with pytest.raises(ShapeError, match="out_dims is None for a result that differs"):
        vmap(lambda x: x, out_dims=None)(xs)


def test_vmap_can_be_nested() -> None:
    a, b = draw(3), draw(4)
    outer = vmap(vmap(lambda x, y: x * y + x.sin(), in_dims=(None, 0)), in_dims=(0, None))(a, b)
    assert_close(outer, a.unsqueeze(1) * b + a.sin().unsqueeze(1))
    table = vmap(vmap(grad(lambda x, y: (x * y).sin()), in_dims=(None, 0)), in_dims=(0, None))(a, b)
    assert_close(table, (a.unsqueeze(1) * b).cos() * b)


def test_an_inner_function_may_use_what_the_outer_one_maps() -> None:
    xs, ys = draw(3, 2), draw(4, 2)
    got = vmap(lambda x: vmap(lambda y: grad(lambda z: (z * x * y).sum().exp())(x))(ys))(xs)
    want = ex.stack([ex.stack([grad(lambda z: (z * x * y).sum().exp())(x) for y in ys]) for x in xs])  # noqa: B023
    assert_close(got, want)


def test_per_sample_gradients_of_shared_parameters() -> None:
    params = {"w": draw(4, 2), "b": draw(2)}
    xs, ys = draw(5, 4), draw(5, 2)

    def loss(params: dict[str, ex.Tensor], x: ex.Tensor, y: ex.Tensor) -> ex.Tensor:
        return ((x @ params["w"] + params["b"]).tanh() - y).pow(2).sum()

    got = vmap(grad(loss), in_dims=(None, 0, 0))(params, xs, ys)
    for name in params:
        assert not got[name].requires_grad
        assert_close(got[name], ex.stack([grad(loss)(params, x, y)[name] for x, y in zip(xs, ys, strict=True)]))


def test_captured_parameters_get_their_gradient() -> None:
    w, xs = draw(4, requires_grad=True), draw(5, 4)
    vmap(lambda x: (x * w).sum().sin())(xs).sum().backward()
    got = w.grad
    w.grad = None
    loop(lambda x: (x * w).sum().sin(), xs).sum().backward()
    assert_close(got, w.grad)


def test_gradients_through_per_sample_gradients() -> None:
    w, xs = draw(4, requires_grad=True), draw(5, 4)

    def penalty(x: ex.Tensor) -> ex.Tensor:
        return grad(lambda x: (x * w).sum().sin())(x).pow(2).sum()

    vmap(penalty)(xs).sum().backward()
    got = w.grad
    w.grad = None
    loop(penalty, xs).sum().backward()
    assert_close(got, w.grad)


def test_jvp_and_jacobians_inside() -> None:
    xs, ts = draw(3, 4), draw(3, 4) + 1

    def fn(x: ex.Tensor) -> ex.Tensor:
        return x.exp().cumsum(0) * x[0]

    def push(x: ex.Tensor, t: ex.Tensor) -> ex.Tensor:
        return jvp(fn, (x,), (t,))[1]

    assert_close(vmap(push)(xs, ts), loop(push, xs, ts))
    assert_close(jvp(vmap(fn), (xs,), (ts,))[1], loop(push, xs, ts))
    assert_close(vmap(jacrev(fn))(xs), loop(jacrev(fn), xs))


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 100])
def test_chunks_give_the_same_results(chunk_size: int) -> None:
    xs, w = draw(2, 5), draw(2)
    fn = vmap(lambda x, w: (x * w, {"s": x.sum()}), in_dims=(1, None), out_dims=(1, 0), chunk_size=chunk_size)
    a, b = fn(xs, w)
    assert_close(a, xs * w.unsqueeze(1))
    assert_close(b["s"], xs.sum(0))


def test_no_samples_give_empty_results() -> None:
    assert vmap(lambda x: x.sin().sum())(ex.zeros(0, 3)).shape == (0,)
    assert vmap(lambda x: x.as_strided((2, 2), (1, 1)))(ex.zeros(0, 3)).shape == (0, 2, 2)


def test_wrong_arguments_are_named() -> None:
    xs = draw(3, 4)
    for call, error, text in (
        (lambda: vmap(ex.sin, in_dims=None)(xs), ShapeError, "no argument is mapped"),
        (lambda: vmap(ex.add)(xs, draw(2, 4)), ShapeError, r"different sizes, \[3, 2\]"),
        (lambda: vmap(ex.add)(xs, 2.0), DtypeError, "which has none; give None"),
        (lambda: vmap(ex.sin, in_dims=2)(xs), ShapeError, r"dimension 2 of an argument with shape \(3, 4\)"),
        (lambda: vmap(ex.add, in_dims=(0,))(xs, xs), ShapeError, "does not fit the structure"),
        (lambda: vmap(ex.sin, in_dims="all")(xs), DtypeError, "in_dims must be"),
        (lambda: vmap(lambda x: 3)(xs), DtypeError, "must return tensors, got int"),
        (lambda: vmap(ex.sin, out_dims=3)(xs), ShapeError, "out_dims says dimension 3"),
        (lambda: vmap(ex.sin, chunk_size=0)(xs), ShapeError, "chunk_size"),
    ):
        with pytest.raises(error, match=text):
            call()
