"""autograd.Function: what forward keeps, what backward returns, and what is refused."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import extempo as ex
from extempo import autograd
from extempo.errors import AutogradError, DtypeError, GraphFreedError, LeafWriteError, OverwrittenError, ShapeError


def draw(*shape: int, requires_grad: bool = True) -> ex.Tensor:
    values = np.random.default_rng(sum(shape) + len(shape)).normal(size=shape)
    return ex.tensor(values, dtype=ex.float64, requires_grad=requires_grad)


class Cube(autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: ex.Tensor) -> ex.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: ex.Tensor) -> ex.Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


class Scaled(autograd.Function):
    """Several inputs, one of them no tensor, and two results."""

    @staticmethod
    def forward(ctx: Any, x: ex.Tensor, y: ex.Tensor, scale: float, note: str) -> tuple[ex.Tensor, ex.Tensor]:
        product, total = x * y * scale, x + y
        ctx.save_for_backward(x, y, product)
        ctx.scale = scale
        assert note == "note"
        return product, total

    @staticmethod
    def backward(ctx: Any, g_product: ex.Tensor, g_total: ex.Tensor) -> tuple[Any, ...]:
        x, y, product = ctx.saved_tensors
        assert product.shape == x.shape
        return g_product * y * ctx.scale + g_total, g_product * x * ctx.scale + g_total, None, None


def test_first_and_second_order_agree_with_finite_differences() -> None:
    x = draw(3)
    assert autograd.gradcheck(Cube.apply, (x,))
    assert autograd.gradgradcheck(Cube.apply, (x,))


def test_the_users_backward_runs_once_per_backward_and_on_values() -> None:
    class Twice(autograd.Function):
        kept: list[ex.Tensor] = []  # noqa: RUF012 # of this test alone

        @staticmethod
        def forward(ctx: Any, x: ex.Tensor) -> ex.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: ex.Tensor) -> ex.Tensor:
            Twice.kept += [g, g * 2]
            return Twice.kept[-1]

    x = draw(2)
    for _ in range(3):
        Twice.apply(x).sum().backward()
    assert [g.tolist() for g in Twice.kept] == [[1.0, 1.0], [2.0, 2.0]] * 3
    assert x.grad.tolist() == [6.0, 6.0]


def test_several_inputs_and_results_and_arguments_that_are_no_tensors() -> None:
    def fn(x: ex.Tensor, y: ex.Tensor) -> Any:
        return Scaled.apply(x, y, 2.5, "note")

    assert autograd.gradcheck(fn, (draw(2, 3), draw(2, 3) + 1))
    assert autograd.gradgradcheck(fn, (draw(2, 3), draw(2, 3) + 1))


def test_the_node_has_the_name_of_the_function_and_one_input_per_tensor() -> None:
    product, total = Scaled.apply(draw(2), draw(2), 1.0, "note")
    assert Cube.apply(draw(2)).grad_fn.name() == "CubeBackward"
    node = product.grad_fn.next_functions[0][0]
    assert node.name() == "ScaledBackward"
    assert node is total.grad_fn.next_functions[0][0]
    assert len(node.next_functions) == 2


def test_a_result_without_gradient_gives_backward_zeros() -> None:
    x, y = draw(2), draw(2)
    product, _ = Scaled.apply(x, y, 1.0, "note")
    product.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), y.detach().numpy())


def test_set_materialize_grads_false_gives_none_instead() -> None:
    seen = []

    class Pair(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: ex.Tensor) -> tuple[ex.Tensor, ex.Tensor]:
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            seen.append((a, b))
            return b * 3

    x = draw(2)
    Pair.apply(x)[1].sum().backward()
    assert seen[0][0] is None
    np.testing.assert_allclose(x.grad.numpy(), 3.0)


def test_needs_input_grad_says_which_gradients_are_wanted() -> None:
    seen = []

    class Mul(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: ex.Tensor, y: ex.Tensor, n: int) -> ex.Tensor:
            seen.append(ctx.needs_input_grad)
            return x * y

        @staticmethod
        def backward(ctx: Any, g: ex.Tensor) -> Any:
            seen.append(ctx.needs_input_grad)
            return g, None, None

    Mul.apply(draw(2), draw(2, requires_grad=False), 3).sum().backward()
    assert seen == [(True, False, False)] * 2


def test_setup_context_stands_beside_a_forward_without_ctx() -> None:
    class Square(autograd.Function):
        @staticmethod
        def forward(x: ex.Tensor, factor: float = 2.0) -> ex.Tensor:
            return x * x * factor

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: ex.Tensor) -> None:
            x, ctx.factor = inputs
            ctx.save_for_backward(x, output)

        @staticmethod
        def backward(ctx: Any, g: ex.Tensor) -> Any:
            x, y = ctx.saved_tensors
            assert y is not None
            return 2 * ctx.factor * x * g, None

    assert autograd.gradcheck(Square.apply, (draw(3),))
    assert autograd.gradgradcheck(lambda x: Square.apply(x, 3.0), (draw(3),))


def test_an_intermediate_result_can_be_saved_and_is_a_constant_then() -> None:
    class Sigmoid(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: ex.Tensor) -> ex.Tensor:
            e = (-x).exp()
            ctx.save_for_backward(e, None)
            return 1 / (1 + e)

        @staticmethod
        def backward(ctx: Any, g: ex.Tensor) -> Any:
            e, nothing = ctx.saved_tensors
            assert nothing is None
            return g * e / (1 + e) ** 2

    assert autograd.gradcheck(Sigmoid.apply, (draw(4),))


def test_a_saved_result_keeps_its_place_in_the_graph() -> None:
    class Exp(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: ex.Tensor) -> ex.Tensor:
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, g: ex.Tensor) -> Any:
            (y,) = ctx.saved_tensors
            return g * y

    assert autograd.gradgradcheck(Exp.apply, (draw(3),))


def test_saved_tensors_are_handed_back_as_part_of_their_graph() -> None:
    weight = ex.tensor([2.0, 3.0], requires_grad=True)
    seen: list[Any] = []

    class Looking(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: ex.Tensor, scale: ex.Tensor) -> tuple[ex.Tensor, ex.Tensor]:
            y, sign = x * scale, x.sign()
            ctx.mark_non_differentiable(sign)
            ctx.save_for_backward(x, scale, y, sign, weight, y[:1])
            return y, sign

        @staticmethod
        def backward(ctx: Any, g: ex.Tensor, g_sign: ex.Tensor) -> Any:
            x, scale, *rest = ctx.saved_tensors
            seen.append((x, scale, rest[2], [t.requires_grad for t in (x, scale, *rest)], rest[0].grad_fn.name()))
            with ex.enable_grad():
                inner = autograd.grad((x * x * weight).sum(), (x, rest[2], scale), allow_unused=True)
            seen.append([None if t is None else t.tolist() for t in inner])
            return g * scale, None

    leaf = ex.tensor([1.0, -1.0], requires_grad=True)
    for x in (leaf, leaf * 2):
        scale = ex.tensor([4.0, 5.0])
        Looking.apply(x, scale)[0].sum().backward()
        (saved, saved_scale, saved_weight, requires_grad, name), inner = seen
        assert saved is x
        assert saved_scale is scale
        assert saved_weight is weight
        assert requires_grad == [True, False, True, False, True, False]
        assert name == "PickBackward"
        assert inner == [(2 * x * weight).tolist(), (x * x).tolist(), None]
        seen.clear()
    assert leaf.grad.tolist() == [12.0, 15.0]


def test_a_saved_input_that_was_dropped_or_packed_still_has_its_history() -> None:
    class Square(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: ex.Tensor) -> ex.Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: ex.Tensor) -> Any:
            (x,) = ctx.saved_tensors
            with ex.enable_grad():
                (inner,) = autograd.grad((x * x).sum(), x)
            return g * inner

    def packed(x: ex.Tensor) -> ex.Tensor:
        with autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), lambda v: ex.tensor(v, dtype=ex.float64)):
            return Square.apply(x * 2)

    def checkpointed(x: ex.Tensor) -> ex.Tensor:
        return ex.utils.checkpoint.checkpoint(lambda x: Square.apply(x * 2), x, use_reentrant=False)

    for run in (packed, checkpointed, ex.compile(lambda x: Square.apply(x * 2)), lambda x: Square.apply(x * 2)):
        for _ in range(3):
            x = draw(3)
            run(x).sum().backward()
            np.testing.assert_allclose(x.grad.numpy(), 8 * x.detach().numpy())


class Adjoint(autograd.Function):
    """An ordinary differential equation solved by Euler's steps; its backward solves the adjoint one, backwards."""

    @staticmethod
    def forward(ctx: Any, field: Any, steps: int, y: ex.Tensor, *weights: ex.Tensor) -> ex.Tensor:
        with ex.no_grad():
            path = [y]
            for _ in range(steps):
                path.append(path[-1] + field(path[-1]) / steps)
        ctx.field, ctx.steps = field, steps
        ctx.save_for_backward(ex.stack(path), *weights)
        return path[-1]

    @staticmethod
    def backward(ctx: Any, g: ex.Tensor) -> Any:
        path, *weights = ctx.saved_tensors
        totals = [ex.zeros_like(w) for w in weights]
        for y in reversed(path[:-1].unbind()):
            with ex.enable_grad():
                y = y.detach().requires_grad_(True)
                slope = ctx.field(y)
                of_y, *of_weights = autograd.grad(slope, (y, *weights), g / ctx.steps, allow_unused=True)
            g = g + of_y
            totals = [t if w is None else t + w for t, w in zip(totals, of_weights, strict=True)]
        return None, None, g, *totals


@pytest.mark.parametrize("compiled", [False, True])
def test_an_adjoint_method_finds_the_gradients_of_the_weights_it_has_saved(compiled: bool) -> None:
    inner = ex.nn.Linear(3, 3, dtype=ex.float64)
    unused = ex.nn.Parameter(ex.ones(2, dtype=ex.float64))
    weights = [*inner.parameters(), unused]
    y = draw(2, 3)

    def field(y: ex.Tensor) -> ex.Tensor:
        return inner(y).tanh()

    def by_adjoint() -> ex.Tensor:
        return Adjoint.apply(field, 4, y, *weights).square().sum()

    state = y
    for _ in range(4):
        state = state + field(state) / 4
    expected = autograd.grad(state.square().sum(), [y, *weights[:-1]])
    solve = ex.compile(by_adjoint) if compiled else by_adjoint
    for _ in range(3):
        found = autograd.grad(solve(), [y, *weights])
        for f, e in zip(found, [*expected, ex.zeros(2)], strict=True):
            np.testing.assert_allclose(f.numpy(), e.numpy(), atol=1e-12)


def test_mark_dirty_gives_an_input_written_in_place_its_new_history() -> None:
    class Double(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: ex.Tensor) -> ex.Tensor:
            ctx.mark_dirty(x)
            with ex.no_grad():
                x.mul_(2)
            return x

        @staticmethod
        def backward(ctx: Any, g: ex.Tensor) -> Any:
            return 2 * g

    x = draw(3)
    y = x * 1
    view = y[1:]
    assert Double.apply(y) is y
    (y.sum() + view.sum()).backward()
    np.testing.assert_allclose(x.grad.numpy(), [2, 4, 4])
    base = draw(3) * 1
    Double.apply(base[1:])
    assert base.grad_fn.name() == "WriteThroughBackward"
    with pytest.raises(LeafWriteError, match="leaf"):
        Double.apply(draw(3))


def test_a_dirty_tensor_must_be_returned() -> None:
    class Lost(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: ex.Tensor) -> ex.Tensor:
            ctx.mark_dirty(x)
            return x + 1

        @staticmethod
        def backward(ctx: Any, g: ex.Tensor) -> Any:
            return g

    with pytest.raises(AutogradError, match="mark_dirty must be returned"):
        Lost.apply(draw(2) * 1)


def test_results_that_are_integers_or_marked_have_no_gradient() -> None:
    class Split(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: ex.Tensor) -> tuple[Any, ...]:
            whole = x.floor()
            ctx.mark_non_differentiable(whole)
            return x * 2, whole, x.long(), "text"

        @staticmethod
        def backward(ctx: Any, g: Any, g_whole: Any, g_long: Any, g_text: Any) -> Any:
            assert g_text is None
            return g * 2

    x = draw(3)
    doubled, whole, integers, text = Split.apply(x)
    assert doubled.requires_grad
    assert not whole.requires_grad
    assert not integers.requires_grad
    assert text == "text"
    doubled.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2.0)


def test_returning_an_input_gives_an_alias_of_it() -> None:
    class Reverse(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: ex.Tensor) -> ex.Tensor:
            return x

        @staticmethod
        def backward(ctx: Any, g: ex.Tensor) -> Any:
            return -g

    x = draw(2)
    y = Reverse.apply(x)
    assert y is not x
    assert x.is_leaf
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), -1.0)


def test_saved_values_are_freed_by_backward_and_checked_for_writes() -> None:
    x = draw(3)
    y = Cube.apply(x)
    y.sum().backward()
    with pytest.raises(GraphFreedError, match="cube"):
        y.sum().backward()
    z = draw(3) * 1
    y = Cube.apply(z)
    z.add_(1)
    with pytest.raises(OverwrittenError, match="cube"):
        y.sum().backward()


class SavesAll(autograd.Function):
    """Its input, its result and a view of that."""

    @staticmethod
    def forward(ctx: Any, x: ex.Tensor) -> ex.Tensor:
        y = x * 2
        ctx.save_for_backward(x, y, y[1:])
        return y

    @staticmethod
    def backward(ctx: Any, g: ex.Tensor) -> ex.Tensor:
        return g * 2


def test_a_dropped_graph_is_freed_without_a_garbage_collection() -> None:
    gc.disable()
    try:
        for function in (Cube, SavesAll):
            y = function.apply(draw(3) * 2)
            node = weakref.ref(y.grad_fn)
            del y
            assert node() is None
    finally:
        gc.enable()


def test_mistakes_of_backward_are_named() -> None:
    def returning(value: Any) -> type[autograd.Function]:
        class Wrong(autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: ex.Tensor, y: ex.Tensor) -> ex.Tensor:
                return x + y

            @staticmethod
            def backward(ctx: Any, g: ex.Tensor) -> Any:
                return value

        return Wrong

    for value, error, text in (
        (ex.ones(2), ShapeError, "2 gradients are expected .* got 1"),
        ((ex.ones(3), None), ShapeError, r"gradient 0 has shape \(3,\), its input \(2,\)"),
        ((1.0, None), DtypeError, "gradient 0 must be a tensor or None, got float"),
    ):
        with pytest.raises(error, match=text):
            returning(value).apply(draw(2), draw(2)).sum().backward()


def test_a_gradient_that_was_broadcast_is_summed() -> None:
    class Bias(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: ex.Tensor, b: ex.Tensor) -> ex.Tensor:
            return x + b

        @staticmethod
        def backward(ctx: Any, g: ex.Tensor) -> Any:
            return g, g

    assert autograd.gradcheck(Bias.apply, (draw(3, 2), draw(2)))


def test_misuse_says_what_to_do() -> None:
    with pytest.raises(AutogradError, match=r"call Cube.apply"):
        Cube()
    kept: list[Any] = []

    class Keep(Cube):
        @staticmethod
        def forward(ctx: Any, x: ex.Tensor) -> ex.Tensor:
            kept.append(ctx)
            return Cube.forward(ctx, x)

    Keep.apply(draw(2))
    with pytest.raises(AutogradError, match="while backward runs"):
        kept[0].saved_tensors  # noqa: B018 - reading it is the test
    with pytest.raises(AutogradError, match="forward"):
        autograd.Function.apply(draw(2))


def test_nothing_is_recorded_under_no_grad() -> None:
    with ex.no_grad():
        assert not Cube.apply(draw(2)).requires_grad
