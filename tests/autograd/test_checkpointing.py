"""utils.checkpoint: less memory, the same gradients, and a clear error where the second run differs."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import extempo as ex
from extempo import autograd
from extempo.core.graph import Node
from extempo.errors import AutogradError, CheckpointError, GraphFreedError, OverwrittenError
from extempo.utils.checkpoint import checkpoint, checkpoint_sequential


def draw(*shape: int) -> ex.Tensor:
    return ex.tensor(np.random.default_rng(1).normal(size=shape), requires_grad=True)


def block(x: ex.Tensor, w: ex.Tensor | None = None) -> ex.Tensor:
    h = (x.sin() * x.exp()).tanh()
    return h * x if w is None else (h @ w).tanh()


def saved_bytes(*outputs: ex.Tensor) -> int:
    """The memory that the graph behind tensors keeps for backward."""
    seen: set[Node] = set()
    storages: dict[int, int] = {}
    stack = [y._own_node() for y in outputs]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        for entry in node.saved or ():
            if entry[2] is not None:
                storages[id(entry[2])] = entry[2].nbytes
        stack += [i for i in node.inputs if isinstance(i, Node)]
    return sum(storages.values())


def gradients(fn: Callable[..., Any], *inputs: ex.Tensor) -> list[Any]:
    return [g.detach().numpy() for g in autograd.grad(fn(*inputs).sum(), inputs)]


def assert_same(fn: Callable[..., Any], plain: Callable[..., Any], *inputs: ex.Tensor) -> None:
    for a, b in zip(gradients(fn, *inputs), gradients(plain, *inputs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_gradients_are_the_same_bit_by_bit() -> None:
    assert_same(lambda x: checkpoint(block, x), block, draw(3, 4))
    assert_same(lambda x, w: checkpoint(block, x, w), block, draw(3, 4), draw(4, 4))
    assert_same(lambda x, w: checkpoint(block, x, w=w), block, draw(3, 4), draw(4, 4))


def test_first_and_second_derivatives_are_right() -> None:
    x = draw(3)
    for use_reentrant in (True, False, None):
        assert autograd.gradcheck(lambda x: checkpoint(block, x, use_reentrant=use_reentrant), (x,))  # noqa: B023
        assert autograd.gradgradcheck(lambda x: checkpoint(block, x, use_reentrant=use_reentrant), (x,))  # noqa: B023


def test_only_the_inputs_are_kept() -> None:
    x = draw(100, 100)
    kept = checkpoint(block, x)
    assert saved_bytes(kept) == 0
    assert saved_bytes(block(x)) >= 4 * x.nbytes


def test_intermediate_values_are_gone_after_the_first_run() -> None:
    inner: list[Any] = []

    def fn(x: ex.Tensor) -> ex.Tensor:
        h = x.exp()
        inner.append(weakref.ref(h._storage))
        return h * h

    gc.disable()
    try:
        y = checkpoint(fn, draw(10))
        assert inner[0]() is None
        y.sum().backward()
        assert inner[1]() is None
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()


def test_a_chain_of_checkpoints_keeps_memory_for_one_at_a_time() -> None:
    x = draw(50, 50)
    alive: list[int] = []

    def layer(x: ex.Tensor) -> ex.Tensor:
        y = block(x)
        y.register_hook(lambda g: alive.append(saved_bytes(out)))
        return y

    out = x
    for _ in range(5):
        out = checkpoint(layer, out)
    plain = x
    for _ in range(5):
        plain = block(plain)
    (out * 1).sum().backward(retain_graph=False)
    assert max(alive) <= saved_bytes(plain) / 4


def test_a_parameter_in_the_closure_gets_its_gradient() -> None:
    w = draw(4, 4)
    x = draw(3, 4).detach()
    checkpoint(lambda x: (x @ w).tanh(), x).sum().backward()
    got = w.grad
    w.grad = None
    (x @ w).tanh().sum().backward()
    np.testing.assert_array_equal(got.numpy(), w.grad.numpy())


def test_random_numbers_are_replayed_and_the_stream_goes_on() -> None:
    def noisy(x: ex.Tensor) -> ex.Tensor:
        return (x * ex.rand(1000, dtype=ex.float64)).exp()

    x = draw(1000)
    ex.manual_seed(3)
    y = checkpoint(noisy, x)
    y.sum().backward()
    after = ex.rand(3)
    ex.manual_seed(3)
    noise = ex.rand(1000, dtype=ex.float64)
    np.testing.assert_array_equal(after.numpy(), ex.rand(3).numpy())
    np.testing.assert_allclose(x.grad.numpy(), (noise * y.detach()).numpy())


def test_without_preserving_the_random_state_the_second_run_draws_anew() -> None:
    x = draw(1000)
    y = checkpoint(lambda x: (x * ex.rand(1000, dtype=ex.float64)).exp(), x, preserve_rng_state=False)
    y.sum().backward()
    noise = y.detach().log() / x.detach()
    assert not np.allclose(x.grad.numpy(), (noise * y.detach()).numpy())


def test_checkpoints_can_be_nested() -> None:
    runs = {"inner": 0, "outer": 0}

    def inner(x: ex.Tensor) -> ex.Tensor:
        runs["inner"] += 1
        return block(x)

    def outer(x: ex.Tensor) -> ex.Tensor:
        runs["outer"] += 1
        x = checkpoint(inner, x) * 2
        return checkpoint(inner, x).sin()

    assert_same(lambda x: checkpoint(outer, x), lambda x: outer(x), draw(3, 4))
    runs.update(inner=0, outer=0)
    checkpoint(outer, draw(3)).sum().backward()
    assert runs == {"outer": 2, "inner": 6}
    assert autograd.gradgradcheck(lambda x: checkpoint(outer, x), (draw(2),))


def test_nested_checkpoints_are_freed_without_a_garbage_collection() -> None:
    inner: list[Any] = []

    def fn(x: ex.Tensor) -> ex.Tensor:
        h = x.exp()
        inner.append(weakref.ref(h._storage))
        return h * h

    gc.collect()
    gc.disable()
    try:
        checkpoint(lambda x: checkpoint(fn, x).sin(), draw(3)).sum().backward()
        assert [r() for r in inner] == [None] * 3
    finally:
        gc.enable()


def test_in_place_writes_inside_are_repeated() -> None:
    def writing(x: ex.Tensor) -> ex.Tensor:
        h = x * 2
        h[0] = x[1] * x[2]
        h.mul_(x)
        return h.exp_()

    assert_same(lambda x: checkpoint(writing, x), writing, draw(4))


def test_a_function_with_several_results_and_ops_with_several() -> None:
    def fn(x: ex.Tensor) -> Any:
        values, indices = (x * x).sort()
        return {"values": values.exp(), "rest": [indices, x.sin()]}

    def total(made: Any) -> ex.Tensor:
        return made["values"].sum() + made["rest"][1].prod()

    assert_same(lambda x: total(checkpoint(fn, x)), lambda x: total(fn(x)), draw(5))


def test_an_autograd_function_inside_is_stripped_and_repeated() -> None:
    class Cube(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: ex.Tensor) -> ex.Tensor:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: ex.Tensor) -> ex.Tensor:
            (x,) = ctx.saved_tensors
            return 3 * x**2 * g

    def fn(x: ex.Tensor) -> ex.Tensor:
        return Cube.apply(x.sin()).exp()

    x = draw(100)
    assert saved_bytes(checkpoint(fn, x)) == 0
    assert_same(lambda x: checkpoint(fn, x), fn, x)
    assert autograd.gradgradcheck(lambda x: checkpoint(fn, x), (draw(2),))


def test_a_gradient_computed_inside_works() -> None:
    def penalty(x: ex.Tensor) -> ex.Tensor:
        (g,) = autograd.grad((x**3).sum(), x, create_graph=True)
        return (g * g).sum()

    assert_same(lambda x: checkpoint(penalty, x), penalty, draw(3))


def test_hooks_registered_inside_run_once() -> None:
    seen: list[Any] = []

    def fn(x: ex.Tensor) -> ex.Tensor:
        h = x.exp()
        h.register_hook(lambda g: seen.append(g.tolist()))
        return h * 2

    checkpoint(fn, draw(2)).sum().backward()
    assert seen == [[2.0, 2.0]]


def test_backward_twice_needs_retain_graph_as_ever() -> None:
    x = draw(3)
    y = checkpoint(block, x)
    y.sum().backward(retain_graph=True)
    once = x.grad.numpy().copy()
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * once)
    with pytest.raises(GraphFreedError, match="freed"):
        y.sum().backward()


def test_another_path_in_the_second_run_is_named_with_both_lines() -> None:
    runs: list[int] = []

    def fickle(x: ex.Tensor) -> ex.Tensor:
        runs.append(1)
        h = x.exp()
        if len(runs) == 1:
            return h.sin()
        return h.cos()

    y = checkpoint(fickle, draw(2))
    with pytest.raises(CheckpointError) as caught:
        y.sum().backward()
    text = str(caught.value)
    assert "Its op 1 was sin(f64[2]) at" in text
    assert "is cos(f64[2]) at" in text
    assert text.count("test_checkpointing.py:") == 2
    assert "\n" not in text


def test_debug_lists_every_op_of_both_runs() -> None:
    runs: list[int] = []

    def shorter(x: ex.Tensor) -> ex.Tensor:
        runs.append(1)
        h = x.exp()
        return h.sin() if len(runs) == 1 else h

    with pytest.raises(CheckpointError, match=r"(?s)ended after 1 ops.*first  1: sin.*second 0: exp"):
        checkpoint(shorter, draw(2), debug=True).sum().backward()


def test_other_shapes_and_lost_gradients_in_the_second_run_are_refused() -> None:
    state = {"size": 3, "grad": True}

    def sized(x: ex.Tensor) -> ex.Tensor:
        return (x[: state["size"]] * 2).exp().sum()

    y = checkpoint(sized, draw(4))
    state["size"] = 2
    with pytest.raises(CheckpointError, match=r"mul\(f64\[3\], int\).* mul\(f64\[2\], int\)|slice"):
        y.backward()

    def sometimes(x: ex.Tensor) -> ex.Tensor:
        with ex.set_grad_enabled(state["grad"]):
            return x.exp()

    y = checkpoint(sometimes, draw(4))
    state["grad"] = False
    with pytest.raises(CheckpointError, match="recorded for backward in the first run but not in the second"):
        y.sum().backward()


def test_an_input_that_was_overwritten_is_noticed() -> None:
    x = draw(3) * 1
    y = checkpoint(block, x)
    x.add_(1)
    with pytest.raises(
        OverwrittenError, match=r"input of the checkpointed function was overwritten .*test_checkpointing.py"
    ):
        y.sum().backward()


def test_without_grad_mode_the_function_just_runs() -> None:
    with ex.no_grad():
        assert not checkpoint(block, draw(3)).requires_grad
    assert not checkpoint(block, draw(3).detach()).requires_grad


def test_reentrant_without_inputs_that_require_grad_warns_as_pytorch_does() -> None:
    with pytest.warns(UserWarning, match="none of the inputs requires grad"):
        checkpoint(block, draw(3).detach(), use_reentrant=True)


def test_context_fn_wraps_both_runs() -> None:
    seen: list[str] = []

    @contextlib.contextmanager
    def note(name: str) -> Any:
        seen.append(name)
        yield

    checkpoint(block, draw(2), context_fn=lambda: (note("first"), note("second"))).sum().backward()
    assert [s for s in seen if s] == ["first", "second"]
    with pytest.raises(AutogradError, match="determinism_check"):
        checkpoint(block, draw(2), determinism_check="maybe")


def test_checkpoint_sequential_runs_groups() -> None:
    steps = [ex.sin, ex.exp, lambda x: x * x, ex.tanh, ex.cos]

    def plain(x: ex.Tensor) -> ex.Tensor:
        for step in steps:
            x = step(x)
        return x

    x = draw(100)
    for segments in (1, 2, 5):
        assert_same(lambda x: checkpoint_sequential(steps, segments, x), plain, x)  # noqa: B023
    assert saved_bytes(checkpoint_sequential(steps, 2, x)) < saved_bytes(plain(x))
    with pytest.raises(AutogradError, match="segments"):
        checkpoint_sequential(steps, 6, x)


def test_checkpoint_inside_vmap() -> None:
    from extempo.func import grad, vmap

    xs = draw(5, 3).detach()
    plain = vmap(grad(lambda x: block(x).sum()))(xs)
    kept = vmap(grad(lambda x: checkpoint(block, x).sum()))(xs)
    np.testing.assert_allclose(kept.numpy(), plain.numpy())
    x = draw(5, 3)
    assert_same(lambda x: checkpoint(vmap(block), x), vmap(block), x)
