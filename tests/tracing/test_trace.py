"""What the user keeps or gets back has its values, whenever it is looked at."""

from __future__ import annotations

import collections
import functools
import weakref
from typing import NamedTuple

import pytest

import extempo as ex
from extempo import nn
from extempo.core.active_traces import ACTIVE
from extempo.core.trace_tree import TraceNode
from extempo.tracing.trace import WriteIndex

from .agreement import CALLS, agree, agree_on_calls, draw, error_of, grads, needs_native_code
from .by_hand import new_executor, tracing


class Pair(NamedTuple):
    first: ex.Tensor
    second: ex.Tensor


def test_intermediate_values_in_a_list():
    def scenario(wrap):
        kept = []

        def f(x):
            for k in range(4):
                x = (x * 1.5 + k).tanh()
                kept.append(x)
            return x.sum()

        run = wrap(f)
        for i in range(CALLS):
            yield run(draw(i, 3, 2))
        yield kept

    agree(scenario)


def test_values_kept_in_some_calls_only():
    def scenario(wrap):
        kept = []

        def f(x, keep):
            y = x.exp()
            z = (y * 2).sin()
            if keep:
                kept.append(y)
            return z + y

        run = wrap(f)
        for i in range(10):
            yield run(draw(i, 4), i % 3 == 0)
        yield kept

    agree(scenario)


def test_a_value_kept_by_a_closure_and_used_in_the_next_call():
    def scenario(wrap):
        state = ex.zeros(3)

        def f(x):
            nonlocal state
            state = (state * 0.5 + x).tanh()
            return state * 2

        run = wrap(f)
        for i in range(CALLS):
            yield run(draw(i, 3))
        yield state

    agree(scenario)


def test_a_value_kept_as_an_attribute_of_a_module():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 4)
            self.hidden = None

        def forward(self, x):
            self.hidden = self.linear(x).relu()
            return self.hidden.sum(1)

    def scenario(wrap):
        net = Net()
        run = wrap(lambda x: net(x))
        for i in range(CALLS):
            loss = run(draw(i, 5, 3)).sum() + net.hidden.square().mean()
            loss.backward()
            yield loss, net.hidden, grads(*net.parameters())

    agree(scenario)


def test_values_looked_at_two_calls_later():
    def scenario(wrap):
        kept = collections.deque(maxlen=3)

        def f(x):
            y = x.sigmoid() - 0.5
            kept.append(y * 3)
            return y.sum()

        run = wrap(f)
        for i in range(8):
            run(draw(i, 2, 2))
            if len(kept) == 3:
                yield kept[0]

    agree(scenario)


def test_a_view_outlives_its_base():
    def scenario(wrap):
        kept = []

        def f(x):
            y = x * 2
            kept.append(y[1:])
            kept.append(y.T)
            return

        run = wrap(f)
        for i in range(CALLS):
            yield run(draw(i, 3, 4))
        yield kept

    agree(scenario)


@pytest.mark.parametrize("first", [True, False])
def test_views_of_a_base_that_is_gone_count_the_same_writes(first):
    def scenario(wrap):
        w = draw(70, 2, 3, grad=True)

        def parts(x):
            h = x * w
            return (h.detach()[0], h[0]) if first else (h[0], h.detach()[0])

        run = wrap(parts)
        for i in range(CALLS):
            made = run(draw(i, 2, 3))
            detached, part = made if first else made[::-1]
            del made
            y = part * part
            yield detached.tolist(), y.sum().item()
            with ex.no_grad():
                detached.mul_(5.0)
            yield part, part._version
            yield error_of(y.sum().backward) is not None, w.grad

    agree(scenario)


def test_values_held_by_odd_places():
    def scenario(wrap):
        kept = []

        def f(x):
            y = x + 1
            kept.append(functools.partial(ex.mul, y, 2.0))
            kept.append({"a": (y.exp(), [y.sin()])})
            kept.append(lambda z=y * 4: z + 1)
            return (t * 2 for t in [y, y + 1])

        run = wrap(f)
        for i in range(CALLS):
            yield from run(draw(i, 2))
        for k in kept:
            yield k() if callable(k) else k

    agree(scenario)


def test_a_dropped_value_is_gone_once_something_ran():
    def scenario(wrap):
        def f(x):
            y = x * 2
            seen = weakref.ref(y)
            z = y + 1
            del y
            z.sum().item()
            return seen() is None, z

        run = wrap(f)
        for i in range(CALLS):
            yield run(draw(i, 2))

    agree(scenario)


@pytest.mark.parametrize(
    "result",
    [
        lambda x, y: None,
        lambda x, y: (),
        lambda x, y: y,
        lambda x, y: x,
        lambda x, y: x[1:],
        lambda x, y: x.T,
        lambda x, y: y.T,
        lambda x, y: y[0, 1],
        lambda x, y: (y, y),
        lambda x, y: (x, y, x),
        lambda x, y: {"y": y, "more": [y.sum(), {"z": (x * y, 3, None, "text")}]},
        lambda x, y: Pair(y, y.sum(0)),
        lambda x, y: y.detach(),
        lambda x, y: [t * 2 for t in y],
        lambda x, y: y.sum().item(),
        lambda x, y: y.numpy(),
        lambda x, y: y.tolist(),
        lambda x, y: x.shape,
        lambda x, y: y.max(1),
        lambda x, y: y.expand(2, 3, 4),
        lambda x, y: y.reshape(4, 3),
        lambda x, y: y.T.reshape(-1),
        lambda x, y: iter([y, x]).__next__(),
    ],
)
def test_whatever_is_returned(result):
    agree_on_calls(lambda x: result(x, x * 3 + 1), lambda i: (draw(i, 3, 4),))


def test_the_argument_itself_and_views_of_it_stay_what_they_are():
    x = draw(0, 3, 4)
    same = ex.compile(lambda t: t)
    part = ex.compile(lambda t: t[1:])
    for _ in range(CALLS):
        assert same(x) is x
        p = part(x)
        p.zero_()
        assert x[1:].abs().sum().item() == 0
        x = draw(1, 3, 4)


def test_results_of_different_calls_do_not_share_memory():
    double = ex.compile(lambda t: t * 2)
    results = [double(ex.full((4,), float(i))) for i in range(8)]
    assert [r[0].item() for r in results] == [0, 2, 4, 6, 8, 10, 12, 14]
    results[3].zero_()
    assert [r[0].item() for r in results] == [0, 2, 4, 0, 8, 10, 12, 14]


def test_a_tracked_value_that_is_kept_can_be_differentiated_later():
    def scenario(wrap):
        w = draw(9, 4, grad=True)
        kept = []

        def f(x):
            h = (x * w).tanh()
            kept.append(h)
            return (h * h).sum()

        run = wrap(f)
        for i in range(CALLS):
            run(draw(i, 4))
        for h in kept:
            h.sum().backward()
            yield w.grad, h

    agree(scenario)


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("shares", [False, True])
def test_a_tracked_value_that_a_backward_does_not_pass_can_be_differentiated_after_it(shares, read):
    def scenario(wrap):
        w, v = draw(50, 4, 3, grad=True), draw(51, 3, grad=True)

        def f(x):
            h = (x @ w).tanh()
            base = h if shares else x @ w
            other = (base * v).exp()
            parts = other.chunk(3, -1)
            view = other[1:]
            if read:
                other.sum().item()
            more = (other * h.detach()).sin()
            loss = (h * h).sum()
            loss.backward()
            return loss, other, parts[1], view, more

        run = wrap(f)
        for i in range(CALLS):
            loss, other, part, view, more = run(draw(i, 5, 4))
            yield loss, other, part, view, more, grads(w, v), [t.grad_fn.name() for t in (loss, other, view, more)]
            yield [t.grad_fn.next_functions[0][0].name() for t in (other, view, more)]
            rest = (part * 2).sum() + view.sum() * 0.5 + (more * more).sum()
            yield error_of(rest.backward)
            yield error_of(loss.backward), grads(w, v)

    agree(scenario)


@needs_native_code
def test_a_backward_that_leaves_tracked_values_behind_runs_by_a_plan():
    w = draw(50, 4, 3, grad=True)

    @ex.compile
    def leaving_some(x):
        h = (x @ w).tanh()
        unused = (h * 2).exp()
        (h * h).sum().backward()
        return unused.shape

    for i in range(6):
        leaving_some(draw(i, 5, 4))
    (stats,) = [s for s in ex.compile.stats()["functions"] if s["name"].endswith("leaving_some")]
    assert stats["runs"] >= 4
    assert sum(stats["closed"].values()) <= 2


def test_a_value_returned_without_ever_being_read_costs_nothing_later():
    run = ex.compile(lambda t: t + 1)
    for i in range(CALLS):
        run(draw(i, 2))
    assert run(ex.zeros(2)).tolist() == [1, 1]


def test_values_are_those_of_the_arguments_at_the_time_of_the_call():
    def scenario(wrap):
        run = wrap(lambda x: x * 2 + 1)
        w = draw(0, 3, grad=True)
        tracked = wrap(lambda x: (x * w).sin())
        for i in range(CALLS):
            x = draw(i, 3)
            y, z = run(x), tracked(x)
            x.zero_()
            with ex.no_grad():
                w.add_(1.0)
            yield y, z, x

    agree(scenario)


def test_a_tensor_looks_the_same_before_it_has_values():
    def scenario(wrap):
        seen = []

        def f(x, w):
            y = (x @ w).relu()
            seen.append((y.shape, y.dtype, y.ndim, y.numel(), y.requires_grad, y.is_floating_point(), len(y)))
            seen.append((y.size(), y.size(0), y.dim(), y.device, y.stride(), y.is_contiguous(), y.element_size()))
            return y

        run = wrap(f)
        for i in range(CALLS):
            y = run(draw(i, 2, 3), draw(i, 3, 4, grad=True))
            yield y, y.is_leaf, type(y.grad_fn).__name__, y.grad
        yield seen

    agree(scenario)


def test_identity_and_hashing_of_recorded_tensors():
    def scenario(wrap):
        def f(x):
            y = x + 1
            z = y
            table = {y: 1, x: 2}
            return z is y, table[z], y in table, x in [x], len({y, z, x})

        run = wrap(f)
        for i in range(CALLS):
            yield run(draw(i, 2))

    agree(scenario)


# ---- a trace by itself


def traced(fn, *args):
    """(The executor of a traced function, its results): nothing has run yet."""
    with tracing(new_executor()) as executor:
        return executor, fn(*args)


@needs_native_code
def test_a_loop_of_writes_looks_at_each_leaf_once(monkeypatch):
    looked_at = []
    leaves_since = WriteIndex.leaves_since

    def counted(self, storage, memories):
        if any(self is r.trace.write_index for r in ACTIVE.recordings):  # others are of traces that tests left behind
            looked_at.append(len(memories) - self._n_seen.get(storage, 0))
        return leaves_since(self, storage, memories)

    monkeypatch.setattr(WriteIndex, "leaves_since", counted)
    steps = [draw(k, 4) for k in range(100)]

    def walk(q):
        q = q.clone()
        for step in steps:
            q.sub_(step * ex.dot(step, q))
        return q

    compiled = ex.compile(walk)
    for k in range(CALLS):
        looked_at.clear()
        start = draw(1000 + k, 4)
        assert compiled(start).tolist() == walk(start).tolist()
        assert len(looked_at) == 100
        assert sum(looked_at) < 10 * 100


@needs_native_code
def test_a_value_is_live_while_someone_else_refers_to_its_tensor():
    executor, kept = traced(lambda x: [x.exp(), x.exp().neg()], draw(0, 3))
    trace = executor.trace
    assert list(trace.live_from(0)) == [1, 0, 1]
    assert trace.live_tensor(0) is kept[0]
    del kept[0]
    assert list(trace.live_from(0)) == [0, 0, 1]
    assert trace.live_tensor(0) is None
    trace.results, trace.inside = trace.references(), False
    assert list(trace.live_from(0)) == [0, 0, 1]
    assert trace.live_tensor(2) is kept[0]
    kept.clear()
    assert list(trace.live_from(0)) == [0, 0, 0]


@needs_native_code
def test_what_a_value_depends_on_is_followed_through_tracked_inputs_only():
    w = draw(0, 3, grad=True)
    executor, _kept = traced(lambda x: (x.exp() * w).tanh() + x.neg(), draw(1, 3))
    trace = executor.trace
    assert [step.op.name for step in trace.makers] == ["exp", "mul", "tanh", "neg", "add"]
    assert sorted(step.place for step in trace.reached([4])) == [1, 2, 4]
    assert sorted(step.place for step in trace.reached([4], first=2)) == [2, 4]
    assert trace.reached([0]) == []
    assert trace.passed(4, None) == {1, 2, 4}
    assert trace.passed(4, (1,)) == {2, 4}  # from the product on


@needs_native_code
def test_the_base_of_a_view_of_a_view_is_what_has_the_memory():
    executor, _kept = traced(lambda x: (x.exp().t()[0], x.t()[0]), draw(0, 2, 3, grad=True))
    trace = executor.trace
    views = [step.place for step in trace.makers if step.view is not None]
    assert [trace.base(place) for place in views] == [0, 0, -1, -1]


@needs_native_code
def test_a_trace_looks_at_memory_until_what_reads_it_has_run():
    x, other = draw(0, 3), draw(1, 3)
    executor, _kept = traced(lambda x: x.exp(), x)
    assert executor.trace.looks_at(x._memory)
    assert not executor.trace.looks_at(other._memory)
    executor.flush()
    assert not executor.trace.looks_at(x._memory)


@needs_native_code
def test_a_trace_reads_memory_as_long_as_a_gradient_may():
    x, w = draw(0, 3), draw(1, 3, grad=True)
    executor, _kept = traced(lambda: (w * x).exp() + draw(2, 3))
    executor.flush()
    assert executor.trace.reads_memory(x._memory)  # the gradient of w
    assert executor.trace.reads_memory(w._memory)  # a tracked leaf
    assert not executor.trace.reads_memory(draw(2, 3)._memory)


@needs_native_code
def test_an_empty_trace_begins_again_where_it_is_told():
    executor, _ = traced(lambda: None)
    root, before = TraceNode(), executor.trace.clocks
    executor.trace.set_gate()
    assert executor.trace.position is not executor.trace.cursor
    executor.trace.begin_again(root)
    assert executor.trace.cursor is executor.trace.position is root
    assert executor.trace.clocks > before


@needs_native_code
def test_live_tensors_of_a_trace_that_ends_forget_it_and_others_find_it_nowhere():
    w = draw(0, 3, grad=True)
    executor, kept = traced(lambda: w.exp())
    trace, state = executor.trace, executor.trace.cursor
    executor.close("a test")
    assert executor.trace is not trace
    assert trace.cursor is not state
    assert kept._source is None
    assert kept._history.op.name == "exp"
