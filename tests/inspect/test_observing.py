"""Watchers: every op is told of, in forward and backward, compiled and batched, with the same bits as without."""

from __future__ import annotations

import gc
import threading

import pytest

import extempo as ex
from extempo import nn
from extempo.core.context import CONTEXT, ExecutionContext
from extempo.inspect.observing import Watcher, watch_ops


class Noting(Watcher):
    def __init__(self):
        self.ops, self.nodes, self.writes, self.failures = [], [], [], []

    def ran(self, event):
        self.ops.append(event)

    def differentiated(self, event):
        self.nodes.append(event)

    def wrote(self, target, value, event):
        self.writes.append(event)

    def failed(self, event, error):
        self.failures.append((event, error))

    def names(self, phase="forward"):
        return [event.op.name for event in self.ops if event.phase == phase]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 4), nn.Linear(4, 2)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        return self.block(x).exp()


@pytest.fixture
def noting():
    watcher = Noting()
    registered = watch_ops(watcher)
    yield watcher
    registered.remove()


def test_ops_are_told_of_with_module_line_and_phase(noting):
    net = Net()
    net(ex.randn(5, 3)).sum().backward()
    forward = [(e.op.name, e.module) for e in noting.ops if e.phase == "forward" and e.op.name != "random_normal"]
    layers = [("linear", "block.layers.0"), ("tanh", "block"), ("linear", "block.layers.1"), ("tanh", "block")]
    assert forward[-6:] == [*layers, ("exp", ""), ("sum", "")]
    nodes = [(e.op.name, e.module) for e in noting.nodes]
    assert nodes == [("sum", ""), ("exp", ""), *reversed(layers)]
    assert noting.nodes[1].line == next(e.line for e in noting.ops if e.op.name == "exp")
    assert __file__ in noting.nodes[1].line


def test_watching_changes_no_bit_of_results_and_gradients():
    net, x = Net(), ex.randn(5, 3)
    plain = net(x)
    plain.sum().backward()
    gradients = [p.grad for p in net.parameters()]
    net.zero_grad()
    registered = watch_ops(Noting())
    seen = net(x)
    seen.sum().backward()
    registered.remove()
    assert ex.equal(plain, seen)
    assert all(ex.equal(p.grad, g) for p, g in zip(net.parameters(), gradients, strict=True))


@pytest.mark.parametrize("how", [ex.compile, lambda f: ex.compile(f, static=True)], ids=["compile", "static"])
def test_a_compiled_function_that_has_its_plan_runs_op_by_op_while_watched(how):
    @how
    def f(x):
        return (x * 2).exp().sum()

    x = ex.ones(3)
    for _ in range(4):
        plain = f(x)
    watcher = Noting()
    registered = watch_ops(watcher)
    seen = f(x)
    registered.remove()
    assert watcher.names() == ["mul", "exp", "sum"]
    assert ex.equal(plain, seen)
    f(x)
    assert len(watcher.ops) == 3


def test_samples_of_a_batch_are_told_of_one_after_the_other(noting):
    f = ex.batch(lambda x: (x * 2).sum())
    assert [t.item() for t in f([ex.ones(2), ex.ones(3)])] == [4.0, 6.0]
    assert [name for name in noting.names() if name in ("mul", "sum")] == ["mul", "sum"] * 2


def test_an_op_that_raises_and_a_write_are_told_of(noting):
    x = ex.zeros(2)
    x.add_(1)
    with pytest.raises(ex.errors.ShapeError):
        ex.ones(2) + ex.ones(3)
    assert [e.attrs["name"] for e in noting.writes] == ["add_"]
    assert [e.op.name for e, _ in noting.failures] == ["add"]


def test_blocks_that_are_open_and_other_threads_are_watched_too():
    watcher = Noting()
    with ex.no_grad(), ex.enable_grad():
        registered = watch_ops(watcher)
    x = ex.ones(2)
    x.exp()  # outside of the blocks in which it was registered
    thread = threading.Thread(target=lambda: x.log())
    thread.start()
    thread.join()
    registered.remove()
    assert [name for name in watcher.names() if name in ("exp", "log")] == ["exp", "log"]


def test_a_removed_watcher_leaves_no_context_changed():
    first, second = watch_ops(Noting()), watch_ops(Noting())
    first.remove()
    assert CONTEXT.get().interceptor is not None
    second.remove()
    second.remove()
    kept = [c for c in gc.get_objects() if type(c) is ExecutionContext and type(c.interceptor).__name__ == "Observing"]
    assert not kept


def test_what_a_watcher_computes_is_not_told_of():
    class Computing(Noting):
        def ran(self, event):
            super().ran(event)
            event.results[0].isnan().any()

    watcher = Computing()
    registered = watch_ops(watcher)
    ex.ones(2).exp()
    registered.remove()
    assert watcher.names()[-1:] == ["exp"]
    assert "isnan" not in watcher.names()


def test_ops_inside_vmap_and_checkpoint_are_told_of(noting):
    x = ex.ones(2, 3, requires_grad=True)
    ex.func.vmap(lambda row: row.exp())(x)
    assert "exp" in noting.names()
    ex.utils.checkpoint.checkpoint(lambda t: t.sin(), x).sum().backward()
    assert noting.names().count("sin") == 2  # once more for backward


def test_a_watcher_of_this_context_alone_is_told_of_it_and_leaves_nothing():
    import extempo as ex
    from extempo.core.context import CONTEXT
    from extempo.inspect.observing import Watcher, watch_ops

    class Counting(Watcher):
        watches_backward = False
        n_ops = 0

        def ran(self, event):
            self.n_ops += 1

    counting = Counting()
    watching = watch_ops(counting, here=True)
    x = ex.ones(2, requires_grad=True) * 2
    with ex.no_grad():
        x.exp()
    before = counting.n_ops
    counting.is_idle = True
    x.exp()
    assert counting.n_ops == before >= 2
    watching.remove()
    watching.remove()
    assert CONTEXT.get().interceptor is None
    counting.is_idle = False
    x.exp()
    assert counting.n_ops == before


def test_a_watcher_that_ends_within_a_block_is_gone_after_it():
    import extempo as ex
    from extempo.core.context import CONTEXT
    from extempo.inspect.observing import Watcher, watch_ops

    watching = watch_ops(Watcher(), here=True)
    with ex.no_grad():
        watching.remove()
        assert CONTEXT.get().interceptor is None
    assert CONTEXT.get().interceptor is None
