"""A function whose calls of itself are forks does what it does in a loop, in fewer waves."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import extempo as ex
from batching.agreement import close, draw, gradients_of, leaves
from batching.outlining import forked_functions as functions
from extempo.batching.outlining import outlines

N_SAMPLES = 8


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """Nothing is known of functions from tests before, and few samples are a batch, too."""
    monkeypatch.setenv("EXTEMPO_POLICY", "always")
    for table in (outlines._KNOWN, outlines._OUTLINES, outlines._MET, outlines._TAUGHT):
        table.clear()
    functions.SEEN.clear()


def samples(depth=3, n_children=3):
    rng = np.random.default_rng(0)
    limits = [rng.uniform(0.2, 0.55, (depth, n_children)).tolist() for _ in range(N_SAMPLES)]
    return [draw(i, functions.N) for i in range(N_SAMPLES)], limits


def both(fn, *columns, n_calls=4):
    """Results and gradients of the last call, in a loop and batched, and the batched function."""
    found = []
    for debug in (True, False):
        functions.SEEN.clear()
        ex.manual_seed(0)
        batched = ex.batch(fn, debug=debug)
        for _ in range(n_calls):
            outputs = batched(*columns)
        found.append((outputs, gradients_of(outputs, functions.PARAMETERS), len(functions.SEEN)))
    return *found, batched


def agree(got, expected):
    for a, b in zip(leaves(got[0]), leaves(expected[0]), strict=True):
        close(a.detach().numpy(), b.detach().numpy(), "results")
    for a, b in zip(got[1], expected[1], strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            close(a, b, "gradients")
    assert got[2] == expected[2]


@pytest.mark.parametrize("fn", functions.FORKING, ids=lambda fn: getattr(fn, "__name__", "module"))
def test_all_branches_of_a_sample_ask_at_once(fn):
    expected, got, batched = both(fn, *samples())
    agree(got, expected)
    most = max(len(tree[-1] if isinstance(tree, tuple) else tree) for tree in got[0])
    assert most > 12
    assert batched.stats()["waves"] <= 11, batched.stats()  # three levels of three children, and the end


def in_a_list(grow):
    def fn(h, limits):
        nodes = []
        grow(h, limits, nodes)
        return ex.stack(nodes)

    return fn


@pytest.mark.parametrize("grow", [f for f in functions.IN_ORDER if f is not functions.counts], ids=lambda f: f.__name__)
def test_what_does_more_does_it_in_order(grow):
    expected, got, _ = both(in_a_list(grow), *samples())
    agree(got, expected)


def test_one_list_for_both_is_filled_in_order():
    def fn(h, limits):
        both = []
        functions.grow(h, limits, both, both)
        return ex.cat([x.reshape(-1) for x in both])

    expected, got, _ = both(fn, *samples())
    agree(got, expected)


class Noting(list):
    def append(self, x):
        functions.SEEN.append(len(self))
        super().append(x)


def test_a_list_of_the_users_own_class_is_filled_where_it_stands():
    def fn(h, limits):
        nodes = Noting()
        functions.grow(h, limits, nodes, [])
        return ex.stack(nodes)

    expected, got, _ = both(fn, *samples())
    agree(got, expected)


def test_a_layer_that_is_exchanged_for_one_that_draws_is_seen(monkeypatch):
    drawing = ex.nn.Sequential(ex.nn.Linear(functions.N, 1), ex.nn.Dropout(0.2))
    found = []
    for debug in (True, False):
        monkeypatch.undo()
        monkeypatch.setenv("EXTEMPO_POLICY", "always")
        ex.manual_seed(0)
        batched = ex.batch(functions.by_appending, debug=debug)
        for _ in range(3):
            batched(*samples())
        monkeypatch.setattr(functions, "MORE", drawing)
        found.append(batched(*samples()))
    for a, b in zip(leaves(found[0]), leaves(found[1]), strict=True):
        close(b.detach().numpy(), a.detach().numpy(), "results")


def failing_grow(h, limits, nodes, at):
    nodes.append(h)
    for limit in limits[0] if limits else []:
        h = functions.CELL(h, h)
        if ex.sigmoid(functions.MORE(h)).item() < limit:
            break
        failing_grow(h, limits[1:], nodes, at)
        if len(limits) == at:
            nodes.append(h + ex.zeros(functions.N + len(limits)))


def test_the_first_error_of_the_order_in_the_program_is_raised():
    kept = []

    def fn(h, limits, at):
        nodes = []
        kept.append(nodes)
        failing_grow(h, limits, nodes, at)
        return ex.stack(nodes)

    hs, _ = samples()
    limits = [[[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]] for _ in hs]
    batched = ex.batch(fn)
    for _ in range(3):
        batched(hs, limits, [9] * len(hs))
    found = []
    for call in (lambda: fn(hs[0], limits[0], 2), lambda: batched(hs, limits, [2] * len(hs))):
        kept.clear()
        with pytest.raises(ex.errors.ShapeError) as caught:
            call()
        found.append((str(caught.value), len(kept[0])))
    assert found[0] == found[1]


def test_an_error_ends_all_forks():
    def fn(h, limits):
        nodes = []
        functions.grow(h, limits, nodes, [])
        if h.sum().item() > -100.0:
            raise ValueError("no")
        return ex.stack(nodes)

    batched = ex.batch(fn)
    for _ in range(4):
        with pytest.raises(ValueError, match="no"):
            batched(*samples())
    expected, got, _ = both(functions.by_appending, *samples())
    agree(got, expected)


def test_an_interrupt_inside_of_a_fork_arrives(monkeypatch):
    batched = ex.batch(functions.by_appending)
    for _ in range(3):
        batched(*samples())
    monkeypatch.setattr("extempo.core.tensor.remember_value_read", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        batched(*samples())
    monkeypatch.undo()
    monkeypatch.setenv("EXTEMPO_POLICY", "always")
    expected, got, _ = both(functions.by_appending, *samples())
    agree(got, expected)


def test_deep_recursion_is_as_deep_as_in_a_loop():
    def visit(h, n, nodes):
        nodes.append(h)
        if ex.tanh(h).sum().item() < 100.0 and n > 0:
            visit(h * 0.99, n - 1, nodes)

    def fn(h, n):
        nodes = []
        visit(h, n, nodes)
        return ex.stack(nodes)

    depth = sys.getrecursionlimit() // 8
    expected, got, _ = both(fn, [draw(0, 3), draw(1, 3)], [depth, 5], n_calls=3)
    agree(got, expected)


def test_forks_in_an_open_run():
    from extempo.batching.open_run import OpenRun

    hs, limits = samples()
    for _ in range(3):
        ex.batch(functions.by_appending)(hs, limits)
    run = OpenRun(functions.by_appending)
    with ex.no_grad():
        futures = [run.submit(h, limit) for h, limit in zip(hs, limits, strict=True)]
        run.drain()
        for future, h, limit in zip(futures, hs, limits, strict=True):
            for a, b in zip(future.result(), functions.by_appending(h, limit), strict=True):
                close(a.numpy(), b.numpy(), "open run")
