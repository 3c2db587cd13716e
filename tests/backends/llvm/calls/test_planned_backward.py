"""A planned backward in native code: gradients, freed nodes and failures are those of the engine."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import extempo as ex
from extempo.backends.selection import native
from extempo.tracing.materialize import materialize_freed_nodes

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

from .test_segment import BACKWARD, by_python, draw, seen, use  # noqa: F401 - by_python is a fixture

pytestmark = pytest.mark.usefixtures("always_planned")


# ---- backward


def gradients(leaves):
    return [None if x.grad is None else (seen(x.grad), x.grad._source, x.grad._grad_barrier) for x in leaves]


def both_ways(monkeypatch, fn, leaves, times=6):
    """Eager, by Python and natively: what the function returns and the gradients of the leaves are the same."""
    compiled = ex.compile(fn)

    def called(run):
        for x in leaves:
            x.grad = None
        return run(), gradients(leaves)

    expected = called(fn)
    for k in range(times):
        use(monkeypatch, natively=k % 2)
        assert called(compiled) == expected, k


def test_gradients_are_those_of_the_engine(monkeypatch, by_python):  # noqa: F811 - the fixture
    x, w, b = draw(5, 4), draw(4, 3, seed=1, grad=True), draw(3, seed=2, grad=True)

    def fn():
        hidden = (x @ w + b).tanh()
        loss = (hidden * hidden).mean()
        loss.backward()
        return loss.item(), loss.grad_fn.name(), loss.is_leaf, loss._source is None, seen(hidden)

    both_ways(monkeypatch, fn, [w, b])
    use(monkeypatch, natively=True)
    compiled = ex.compile(fn)
    for _ in range(3):
        compiled()
    by_python[0] = 0
    compiled()
    assert by_python[0] == 0


def test_gradients_are_added_to_those_that_are_there(monkeypatch):
    w, b = draw(4, grad=True), draw(4, seed=1, grad=True)

    def fn():
        (w * b).sum().backward()
        b.grad = None
        for factor in (2.0, 3.0):
            (w * b * factor).tanh().sum().backward()
        return w.grad._storage.version

    both_ways(monkeypatch, fn, [w, b])


def test_a_backward_after_values_were_read(monkeypatch):
    x, w = draw(4, 4), draw(4, 4, seed=1, grad=True)

    def fn():
        y, kept = x, []
        while len(kept) < 5 and y.norm().item() < 1e9:
            y = (y @ w).tanh()
            kept.append(y)
        loss = (y * kept[0]).mean()
        loss.backward()
        return loss.item(), [(seen(t), t.grad_fn.name()) for t in kept]

    both_ways(monkeypatch, fn, [w])


def test_views_and_several_results_that_are_held_over_a_backward(monkeypatch):
    x, w = draw(4, 4), draw(4, 4, seed=1, grad=True)

    def fn():
        part = (x * w).tanh()[1:]
        values, places = (part * 2.0).max(dim=1)
        loss = values.sum()
        loss.backward()
        base = part._alias.base
        names = [t.grad_fn.name() for t in (part, values, loss, base)]
        with pytest.raises(ex.errors.GraphFreedError):
            loss.backward()
        return seen([part, values, places, base]), names, base._source is None

    both_ways(monkeypatch, fn, [w])


def test_hooks_and_nodes_from_before_are_left_to_the_engine(monkeypatch):
    x, w, b = draw(4), draw(4, seed=1, grad=True), draw(4, seed=2, grad=True)
    told = []
    b.register_post_accumulate_grad_hook(lambda t: told.append(seen(t.grad)))

    def fn():
        told.clear()
        (w * b).tanh().sum().backward()
        return list(told)

    both_ways(monkeypatch, fn, [w, b])
    before = w * 2.0

    def of_nodes():
        (before * x).sum().backward(ex.tensor(2.0), retain_graph=False)
        return

    compiled = ex.compile(of_nodes)
    for natively in (False, True, False, True):
        use(monkeypatch, natively)
        before, w.grad = w * 2.0, None
        compiled()
        assert seen(w.grad) == seen((2.0 * x) * 2.0)
    handle = w.register_hook(lambda g: g * 10.0)
    both_ways(monkeypatch, fn, [w, b])
    handle.remove()
    both_ways(monkeypatch, fn, [w, b])


def test_two_leaves_with_one_gradient(monkeypatch):
    w = draw(4, grad=True)

    def fn():
        y = w * 2.0
        w.data = w.data.clone()
        (y * w).sum().backward()
        return

    both_ways(monkeypatch, fn, [w])


def test_no_memory_at_any_moment_of_a_backward():
    testcapi = pytest.importorskip("_testcapi")
    x, w = draw(4), draw(4, seed=1, grad=True)
    fails, k = [], None

    def fn():
        w.grad = None
        y = (x * w).tanh()
        part = y[1:]
        loss = y.sum() + part.sum()
        seed = np.ones((), np.float32)
        r = loss._source
        if k is not None:
            testcapi.set_nomemory(k, k + 1)
            try:
                rest = BACKWARD(r, loss._value_id, seed)
            except MemoryError:
                rest = None
            finally:
                testcapi.remove_mem_hooks()
            assert rest in (None, [])
            if rest is None:
                fails.append(k)
                assert [w.grad, y._data, part._data] == [None] * 3
                assert loss._source is r
            else:
                materialize_freed_nodes(r.trace, frozenset(s.place for s in r.trace.makers))
                r.end_trace(r.trace.cursor)
        if w.grad is None:
            loss.backward()
        return loss.item(), seen([w.grad, y, part])

    compiled = ex.compile(fn)
    expected = fn()
    for k in [None, None, None, *range(50)]:
        assert compiled() == expected, k
    assert len(fails) > 3
