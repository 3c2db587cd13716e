"""vmap: equal to a loop over samples, in every mixture of mapped and shared arguments, transforms and writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import extempo as ex
from extempo import autograd
from extempo.errors import AutogradError, DtypeError, OverwrittenError, ShapeError
from extempo.func import grad, hessian, jacrev, jvp, vmap


def draw(*shape: int, requires_grad: bool = False) -> ex.Tensor:
    values = np.random.default_rng(sum(shape)).normal(size=shape)
    return ex.tensor(values, requires_grad=requires_grad)


def loop(fn: Callable[..., Any], *mapped: ex.Tensor) -> ex.Tensor:
    return ex.stack([fn(*sample) for sample in zip(*mapped, strict=True)])


def assert_close(a: Any, b: Any) -> None:
    assert a.dtype is b.dtype
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12)


FUNCTIONS: dict[str, Callable[[ex.Tensor], ex.Tensor]] = {
    "elementwise": lambda x: (x.sin() * 2 + x) / (1 + x.abs()),
    "broadcast": lambda x: x.unsqueeze(0) * x.unsqueeze(1) + x,
    "reduce": lambda x: x.sum() * x.mean(0) + x.amax(),
    "shared matrix": lambda x: draw(4, 4) @ x + x @ draw(4, 4),
    "own matrix": lambda x: x.outer(x) @ draw(4, 2),
    "views": lambda x: x.reshape(2, 2).T[1:].flip(0).expand(3, 1, 2)[..., 0],
    "index": lambda x: x[ex.tensor([0, 2, 2])] * draw(5)[x.argmax()],
    "join": lambda x: ex.cat([x, draw(2), x[:1]]).cumsum(0),
    "softmax": lambda x: x.softmax(0).log() + x.logsumexp(0),
    "sort": lambda x: x.sort(descending=True).values + x.topk(2).values.sum(),
    "where": lambda x: ex.where(x > 0, x, ex.where(x.sum() > 0, x * 2, x * 3)),
    "without a rule": lambda x: x.as_strided((2, 2), (1, 2)),
    "norm": lambda x: x / x.norm(),
    "compare": lambda x: (x > x.mean()).to(x.dtype) + ex.maximum(x, draw(4)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_a_loop(name: str) -> None:
    fn, xs = FUNCTIONS[name], draw(3, 4)
    assert_close(vmap(fn)(xs), loop(fn, xs))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_per_sample_gradients_are_those_of_a_loop(name: str) -> None:
    fn, xs = FUNCTIONS[name], draw(3, 4)

    def loss(x: ex.Tensor) -> ex.Tensor:
        return (fn(x) ** 2).sum()

    assert_close(vmap(grad(loss))(xs), loop(grad(loss), xs))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_a_vmap_are_those_of_a_loop(name: str) -> None:
    fn, xs = FUNCTIONS[name], draw(3, 4)

    def total(xs: ex.Tensor, run: Any) -> ex.Tensor:
        return (run(xs) ** 2).sum()

    assert_close(grad(lambda x: total(x, vmap(fn)))(xs), grad(lambda x: total(x, lambda xs: loop(fn, xs)))(xs))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_per_sample_second_derivatives_are_those_of_a_loop(name: str) -> None:
    fn, xs = FUNCTIONS[name], draw(3, 4)

    def loss(x: ex.Tensor) -> ex.Tensor:
        return (fn(x) ** 2).sum()

    assert_close(vmap(hessian(loss))(xs), loop(hessian(loss), xs))


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


def test_backward_inside_fills_the_gradients_of_leaves_made_inside() -> None:
    def fn(x: ex.Tensor) -> ex.Tensor:
        v = x.detach().clone().requires_grad_()
        (v**3).sum().backward()
        return v.grad

    xs = draw(3, 2)
    assert_close(vmap(fn)(xs), 3 * xs**2)


def writing(x: ex.Tensor) -> ex.Tensor:
    y = x * 2
    y[0] = x[1]
    y.mul_(x)
    tail = y[2:]
    tail += 1
    y[1:3].exp_()
    return (y * tail.sum()).sum()


@pytest.mark.parametrize(
    "change",
    [
        lambda y, w: y.addcmul_(y, w),
        lambda y, w: y.addcdiv_(w, y + 2.0),
        lambda y, w: y[0].addcmul_(y[1], y[0]),
        lambda y, w: y.addmm_(y, y),
    ],
)
def test_in_place_methods_of_several_ops_may_read_what_they_write(change: Any) -> None:
    x = ex.randn(2, 3, 3, generator=ex.Generator().manual_seed(0))
    w = ex.ones(3, 3).requires_grad_()

    def changed(x: ex.Tensor) -> ex.Tensor:
        y = x * w
        change(y, w)
        return y

    mapped = ex.vmap(changed)(x)
    (found,) = ex.autograd.grad(mapped.sum(), w)
    one_by_one = ex.stack([changed(row) for row in x])
    (expected,) = ex.autograd.grad(one_by_one.sum(), w)
    assert ex.allclose(mapped, one_by_one)
    assert ex.allclose(found, expected)


def test_in_place_writes_to_per_sample_tensors() -> None:
    xs = draw(3, 4)
    assert_close(vmap(writing)(xs), loop(writing, xs))
    assert_close(vmap(grad(writing))(xs), loop(grad(writing), xs))
    assert_close(grad(lambda xs: vmap(writing)(xs).sum())(xs), loop(grad(writing), xs))
    assert_close(vmap(hessian(writing))(xs), loop(hessian(writing), xs))
    nested = vmap(vmap(grad(writing)))(xs.reshape(1, 3, 4))
    assert_close(nested[0], loop(grad(writing), xs))


def test_a_write_reaches_the_mapped_argument_as_in_pytorch() -> None:
    xs = draw(3, 4)
    before = xs.clone()
    vmap(lambda x: x.add_(1))(xs)
    assert_close(xs, before + 1)
    vmap(lambda x: x.mul_(2), in_dims=1)(xs)
    assert_close(xs, (before + 1) * 2)


def test_a_write_of_per_sample_values_into_a_shared_tensor_is_refused() -> None:
    for fn in (lambda x: ex.zeros(4).add_(x), lambda x: ex.zeros(4).copy_(x), lambda x: ex.zeros(4).fill_(x[0])):
        with pytest.raises(AutogradError, match="values that differ between samples cannot be written"):
            vmap(fn)(draw(3, 4))


def test_a_write_that_destroys_what_backward_needs_is_noticed() -> None:
    def fn(x: ex.Tensor) -> ex.Tensor:
        y = x.sin()
        z = y * y
        y.add_(1)
        return z.sum()

    with pytest.raises(OverwrittenError, match="inside vmap"):
        vmap(grad(fn))(draw(3, 4))


def test_reading_a_value_says_what_to_do() -> None:
    for fn in (lambda x: x if x.sum() > 0 else -x, lambda x: x * x.sum().item(), lambda x: ex.tensor(x.tolist())):
        with pytest.raises(AutogradError, match=r"vmap: a value was read.*ex.where"):
            vmap(fn)(draw(3, 4))


def test_a_tensor_that_leaves_vmap_by_the_side_says_so() -> None:
    kept: list[Any] = []
    vmap(lambda x: kept.append(x) or x)(draw(3, 4))
    with pytest.raises(AutogradError, match="a vmap that has ended"):
        kept[0].sum().item()


def test_random_draws_must_be_asked_for() -> None:
    xs = draw(4, 3)

    def fn(x: ex.Tensor) -> ex.Tensor:
        return x * 0 + ex.rand(3, dtype=ex.float64)

    with pytest.raises(AutogradError, match="randomness='different'"):
        vmap(fn)(xs)
    different = vmap(fn, randomness="different")(xs).numpy()
    assert len(np.unique(different)) == 12
    for chunk_size in (None, 3):
        same = vmap(fn, randomness="same", chunk_size=chunk_size)(xs).numpy()
        np.testing.assert_array_equal(same, np.broadcast_to(same[0], (4, 3)))
    orders = vmap(lambda x: ex.randperm(20), randomness="different")(xs).numpy()
    assert len({tuple(o) for o in orders}) == 4
    np.testing.assert_array_equal(np.sort(orders), np.broadcast_to(np.arange(20), (4, 20)))
    with pytest.raises(DtypeError, match="randomness must be"):
        vmap(fn, randomness="often")


def test_draws_from_per_sample_probabilities() -> None:
    p = ex.full((200,), 0.5)
    ps = ex.stack([p, p])
    a, b = vmap(ex.bernoulli, randomness="different")(ps).numpy()
    assert (a != b).any()
    a, b = vmap(ex.bernoulli, randomness="same")(ps).numpy()
    np.testing.assert_array_equal(a, b)
    assert vmap(lambda w: ex.multinomial(w, 3), randomness="different")(ps).shape == (2, 3)


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 100])
def test_chunks_give_the_same_results(chunk_size: int) -> None:
    xs, w = draw(2, 5), draw(2)
    fn = vmap(lambda x, w: (x * w, {"s": x.sum()}), in_dims=(1, None), out_dims=(1, 0), chunk_size=chunk_size)
    a, b = fn(xs, w)
    assert_close(a, xs * w.unsqueeze(1))
    assert_close(b["s"], xs.sum(0))


def test_promotion_is_that_of_one_sample() -> None:
    doubles, floats = ex.ones(3, dtype=ex.float64), ex.ones(3, 2)
    assert vmap(lambda a, b: a * b)(doubles, floats).dtype is ex.float32
    assert vmap(lambda a: a * ex.tensor(1.0, dtype=ex.float64))(ex.ones(3)).dtype is ex.float64
    assert vmap(lambda a, b: ex.where(a > 0, b, a))(doubles, floats).dtype is ex.float32
    assert vmap(lambda a, b: a > b)(doubles, floats).dtype is ex.bool


def test_no_samples_give_empty_results() -> None:
    assert vmap(lambda x: x.sin().sum())(ex.zeros(0, 3)).shape == (0,)
    assert vmap(lambda x: x.as_strided((2, 2), (1, 1)))(ex.zeros(0, 3)).shape == (0, 2, 2)


def test_shape_errors_speak_of_one_sample() -> None:
    with pytest.raises(ShapeError, match=r"add: shapes \(4,\) and \(3,\)"):
        vmap(lambda x: x + ex.ones(3))(ex.ones(5, 4))


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


class Cube(autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: ex.Tensor, w: ex.Tensor) -> ex.Tensor:
        y = x**3 * w
        ctx.save_for_backward(x, w, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: ex.Tensor) -> Any:
        x, w, y = ctx.saved_tensors
        return 3 * x**2 * w * g, g * x**3 + y * 0


def test_autograd_functions_work_in_every_order_of_transforms() -> None:
    xs, w = draw(3, 4), draw(4)

    def custom(x: ex.Tensor, w: ex.Tensor) -> ex.Tensor:
        return Cube.apply(x, w).sum()

    def plain(x: ex.Tensor, w: ex.Tensor) -> ex.Tensor:
        return (x**3 * w).sum()

    def over(fn: Any, inner: Any) -> Any:
        return grad(lambda x, w: vmap(inner(fn), in_dims=(0, None))(x, w).pow(2).sum(), argnums=(0, 1))(xs, w)

    for transform in (
        lambda fn: vmap(grad(fn, argnums=(0, 1)), in_dims=(0, None))(xs, w),
        lambda fn: over(fn, lambda f: f),
        lambda fn: over(fn, grad),
    ):
        for a, b in zip(transform(custom), transform(plain), strict=True):
            assert_close(a, b)


def test_an_autograd_function_may_have_a_rule_of_its_own() -> None:
    class Sin(autograd.Function):
        @staticmethod
        def forward(x: ex.Tensor) -> ex.Tensor:
            return ex.from_numpy(np.sin(x.detach().numpy()))

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: ex.Tensor) -> Any:
            assert info.batch_size == 3
            return Sin.apply(x), in_dims[0]

        @staticmethod
        def backward(ctx: Any, g: ex.Tensor) -> Any:
            (x,) = ctx.saved_tensors
            return g * x.cos()

    xs = draw(3, 4)
    assert_close(vmap(Sin.apply)(xs), xs.sin())
    assert_close(vmap(grad(lambda x: Sin.apply(x).sum()))(xs), xs.cos())
    assert_close(grad(lambda xs: vmap(Sin.apply)(xs).sum())(xs), xs.cos())
