"""Static functions whose calls are done op by op, and how the way is chosen that takes less time."""

from __future__ import annotations

import gc
import weakref

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.errors import IndexRangeError, OverwrittenError
from extempo.tracing.policy import CountingPolicy, choose

from ..agreement import draw, grads, needs_native_code
from .static_agreement import CALLS, WAYS, agree, going, state, static

pytestmark = needs_native_code


# ---- the choice


def chosen_for(fn, *args):
    """Which way calls of a static function are done, by the policy that users have."""
    before = choose(CountingPolicy)
    run = static(fn)
    choose(before)
    run(*args)
    run(*args)
    stats = [f for f in ex.compile.stats()["functions"] if f["name"] == fn.__qualname__]
    return "op by op" if stats[0]["aside"] else "by plans"


def test_a_few_small_ops_run_op_by_op():
    def small(x):
        return x * 2 + 1

    assert chosen_for(small, draw(0, 3)) == "op by op"


def test_many_ops_and_a_backward_run_by_plans():
    w = draw(0, 3, grad=True)

    def many(x):
        for _ in range(20):
            x = (x * w).tanh()
        w.grad = None
        x.sum().backward()

    assert chosen_for(many, draw(0, 3)) == "by plans"


def test_large_arrays_run_by_plans():
    def large(x):
        return (x * 2 + 1).exp() - x

    assert chosen_for(large, ex.ones(1 << 20)) == "by plans"


@pytest.mark.parametrize("way", WAYS)
def test_results_do_not_depend_on_the_choice(way):
    w = draw(0, 3, grad=True)

    def f(x):
        (x * w).tanh().sum().backward()
        return w.grad * 2

    with going(way):
        run = static(f)
        for i in range(30):
            w.grad = None
            found = run(draw(i, 3)).tolist()
            w.grad = None
            assert found == f(draw(i, 3)).tolist()


def test_what_has_no_ops_for_plans_does_not_run_by_plans():
    model = nn.Linear(3, 3)
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def only_zero():
        optimizer.zero_grad()

    assert chosen_for(only_zero) == "op by op"
    run = static(only_zero)
    for _ in range(3):
        model(draw(0, 2, 3)).sum().backward()
        run()
        assert model.weight.grad is None


# ---- op by op


@pytest.mark.parametrize("way", WAYS)
def test_nodes_name_the_lines_that_recorded_them(way):
    w = draw(0, 3, grad=True)

    def f(x):
        y = x * w
        return y.exp()

    first = f.__code__.co_firstlineno
    with going(way):
        run = static(f)
        for i in range(4):
            node = run(draw(i, 3)).grad_fn
            assert node.line.endswith(f"test_python_codegen.py:{first + 2}")
            assert node.inputs[0].line.endswith(f"test_python_codegen.py:{first + 1}")


@pytest.mark.parametrize("way", WAYS)
def test_an_error_names_the_line_that_recorded_the_op(way):
    def f(x, i):
        y = x * 2
        return y.index_select(0, i)

    place = f"test_python_codegen.py:{f.__code__.co_firstlineno + 2}"
    with going(way):
        run = static(f)
        for _ in range(3):
            assert run(ex.ones(4), ex.tensor([1])).tolist() == [2]
            with pytest.raises(IndexRangeError) as caught:
                run(ex.ones(4), ex.tensor([7]))
            assert any(place in note for note in caught.value.__notes__)


def test_grad_modes_change_in_the_middle():
    def scenario(wrap):
        w = draw(0, 4, grad=True)

        def f(x):
            y = x * w
            with ex.no_grad():
                z = y * w
                w.mul_(0.5)
            a = z * w + x
            with ex.inference_mode():
                b = (a * 2).sin()
            return a, z.requires_grad, b.requires_grad, a.sum()

        run = wrap(f)
        for i in range(CALLS):
            out = run(draw(i, 4))
            out[-1].backward()
            yield out, w, w.grad, ex.is_grad_enabled()

    agree(scenario)


def test_a_backward_that_no_plan_can_have():
    def scenario(wrap):
        w, places = draw(0, 4, 5, grad=True), ex.tensor([[0, 1, 2, 3, 0]] * 4)
        w.register_hook(lambda g: g * 2)

        def f(x):
            w.grad = None
            y = ex.zeros(4, 5).scatter_add(0, places, (x * w).tanh())
            (g,) = ex.autograd.grad(ex.lgamma(y.abs() + 1).sum(), w, create_graph=True)
            (g * g).sum().backward()
            return y, w.grad.norm()

        run = wrap(f)
        for i in range(CALLS):
            yield run(draw(i, 4, 5)), w.grad

    agree(scenario)


def test_an_integer_result_of_an_op_that_has_gradients_besides():
    def scenario(wrap):
        w, v = draw(0, 3, 3, grad=True), draw(1, 3, 3, grad=True)

        def f(x):
            values, places = (x * w).max(1, keepdim=True)
            kept = v - places
            (v * x).sum().backward()
            return kept, values.detach()

        run = wrap(f)
        for i in range(CALLS):
            kept, values = run(draw(i, 3, 3))
            kept.sum().backward()
            yield kept, values, grads(w, v)
            w.grad = v.grad = None

    agree(scenario)


def test_ops_with_one_result_or_several():
    def scenario(wrap):
        w = draw(0, 4, 4, grad=True)

        def f(x):
            y = x * w
            (whole,), halves = y.split(4), y.chunk(2)
            (kept,) = y.detach().unbind(0)[:1]
            values, places = ex.sort(y, 1)
            return whole * 2, halves, kept, values, places, y[0, 0], ex.linalg.slogdet(y), ex.meshgrid(kept)

        run = wrap(f)
        for i in range(CALLS):
            yield run(draw(i, 4, 4))

    agree(scenario)


def test_long_functions():
    def scenario(wrap):
        def f(x):
            for i in range(1_500):
                x = (x * 1.001).sin() if i % 3 else ex.argsort(x, 0) + x
            return x

        run = wrap(f)
        for i in range(3):
            yield run(draw(i, 3))

    agree(scenario)


@pytest.mark.parametrize("way", WAYS)
def test_an_overwritten_value_is_found_as_in_eager(way):
    w = draw(0, 3, grad=True)

    def f(x):
        y = x * 1
        z = w * y
        y.add_(1.0)
        z.sum().backward()

    messages = []
    for run in (f, static(f)):
        with going(way):
            for _ in range(3):
                with pytest.raises(OverwrittenError) as caught:
                    run(ex.ones(3))
                messages.append(str(caught.value))
    assert len(set(messages)) == 1


@pytest.mark.parametrize("way", WAYS)
def test_no_memory_is_held_after_a_call(way):
    w, b = draw(0, 3, grad=True), draw(1, 3)
    with going(way):
        run = static(lambda x: (x * w + b).sum())
        for i in range(3):
            run(draw(i, 3))
    gc.collect()  # what the recorded call left
    arrays = [weakref.ref(t._data) for t in (w, b)]
    w.data, b.data = ex.ones(3), ex.ones(3)
    assert all(array() is None for array in arrays)
    assert run(ex.ones(3)).item() == 6


def test_an_optimizer_moves_parameters_as_in_eager():
    def n_blocks(wrap):
        body, heads = nn.Linear(4, 4), [nn.Linear(4, 2), nn.Linear(4, 3)]
        optimizer = optim.Adam([p for m in (body, *heads) for p in m.parameters()])

        def step(x):
            optimizer.zero_grad()
            h = body(x).tanh()
            losses = [head(h).square().mean() for head in heads]
            losses[0].backward(retain_graph=True)
            losses[1].backward()
            optimizer.step()
            return losses[0].detach()

        run = wrap(step)
        for i in range(12):
            run(draw(i, 3, 4))
        return len({id(p._data.base) for group in optimizer.param_groups for p in group["params"]})

    expected = n_blocks(lambda fn: fn)
    for way in WAYS:
        with going(way):
            assert n_blocks(static) <= expected


# ---- arguments


def test_a_view_whose_base_was_written_to():
    def scenario(wrap):
        run = wrap(lambda x: x * 2)
        base = ex.zeros(2, 3)
        row = base[0]
        for _ in range(CALLS):
            base += 1
            yield run(row), state(nn.Identity())

    agree(scenario)


def test_stats_say_that_it_runs_op_by_op():
    buffer = ex.zeros(2)

    def op_by_op_for_stats():
        return buffer[0]

    def planned_for_stats(x):
        return x * 2

    runs = [static(op_by_op_for_stats), static(planned_for_stats)]
    for _ in range(3):
        runs[0]()
        runs[1](buffer)
    for name, aside in (("op_by_op_for_stats", True), ("planned_for_stats", False)):
        (stats,) = [f for f in ex.compile.stats()["functions"] if name in f["name"]]
        assert stats["aside"] is aside
        assert ("op by op" in str(stats["why"])) is aside
        assert stats["runs"] == (0 if aside else 2)


def test_numbers_that_become_attributes():
    def scenario(wrap):
        step = wrap(lambda x, keep: ex.amin(x, keepdim=keep))
        for i in range(2 * CALLS):
            yield step(ex.tensor([3 + i, 4]), 0)

    agree(scenario)
