"""Backward: order, accumulation, freeing, depth, memory, threads, and errors that name cause and place."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

import extempo as ex
from extempo.errors import (
    GraphFreedError,
    LeafWriteError,
)

HERE = Path(__file__).name


def line_of(text: str) -> str:
    """`file:line` of the first line of this file that contains the text after a marker comment."""
    for number, line in enumerate(Path(__file__).read_text().splitlines(), 1):
        if f"# {text}" in line:
            return f"{HERE}:{number}"
    raise AssertionError(text)


# ---- values


def test_a_value_used_many_times_collects_every_contribution():
    x = ex.tensor([2.0], requires_grad=True)
    y = x * x + x * x * x + x
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), [2 * 2 + 3 * 4 + 1])


# ---- modes


def test_no_grad_and_enable_grad_nest_and_decorate():
    x = ex.ones(1, requires_grad=True)

    @ex.no_grad()
    def silent():
        with ex.enable_grad():
            loud = x * 2
        return x * 2, loud

    quiet, loud = silent()
    assert not quiet.requires_grad
    assert loud.requires_grad
    assert ex.is_grad_enabled()


def test_no_grad_around_a_generator_holds_only_while_it_runs():
    x = ex.ones(1, requires_grad=True)

    @ex.no_grad()
    def values():
        for _ in range(2):
            yield x * 2

    for v in values():
        assert not v.requires_grad
        assert (x * 2).requires_grad


def test_set_grad_enabled_as_function_and_block():
    ex.set_grad_enabled(False)
    assert not ex.is_grad_enabled()
    ex.set_grad_enabled(True)
    with ex.set_grad_enabled(False):
        assert not ex.is_grad_enabled()
    assert ex.is_grad_enabled()


def test_modes_belong_to_the_thread():
    seen = []
    with ex.no_grad():
        thread = threading.Thread(target=lambda: seen.append(ex.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_an_exception_leaves_the_mode_as_it_was():
    with pytest.raises(ZeroDivisionError), ex.no_grad():
        raise ZeroDivisionError
    assert ex.is_grad_enabled()


# ---- what is saved


def test_relu_in_place_after_a_product_is_fine():
    x, w = ex.randn(4, 3), ex.randn(3, 2, requires_grad=True)
    h = x @ w
    h.clamp_(min=0.0)
    h.sum().backward()
    mask = (x.numpy() @ w.detach().numpy()) > 0
    np.testing.assert_allclose(w.grad.numpy(), x.numpy().T @ mask, rtol=1e-6)


# ---- freeing


def test_backward_twice_through_ops_that_keep_nothing_works():
    x = ex.ones(2, requires_grad=True)
    y = (x + 1).sum()
    y.backward()
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2, 2])


def test_retained_graph_goes_backward_again():
    x = ex.ones(2, requires_grad=True)
    y = x.exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp([1, 1]), rtol=1e-6)


def test_a_failed_second_backward_changes_nothing():
    x = ex.ones(2, requires_grad=True)
    shared = x.exp()
    shared.sum().backward()
    before = x.grad.numpy().copy()
    with pytest.raises(GraphFreedError):
        (shared * x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), before)


def test_no_reference_cycles_are_left_behind():
    gc.collect()
    gc.disable()
    try:
        x = ex.ones(4, requires_grad=True)
        y = (x.exp() * x).tanh()
        node = weakref.ref(y.grad_fn)
        y[1:].sum().backward()
        del y
        assert node() is None
    finally:
        gc.enable()


def test_a_chain_of_200_000_ops_goes_backward_and_is_freed():
    x = ex.ones(1, requires_grad=True)
    y = x
    for _ in range(200_000):
        y = y + 1.0
    y.backward()
    assert x.grad.item() == 1.0
    y = x
    for _ in range(200_000):
        y = y * 1.0
    del y  # freed without ever going backward


def resident_kb() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to read the resident memory")
def test_memory_is_flat_over_10_000_graphs_of_random_structure():
    rng = random.Random(0)
    w = ex.randn(16, 16, requires_grad=True)

    def iteration() -> None:
        x = ex.randn(rng.randint(1, 8), 16)
        for _ in range(rng.randint(1, 6)):
            pick = rng.randrange(4)
            x = (
                (x @ w).tanh()
                if pick == 0
                else x * x
                if pick == 1
                else x[:, rng.sample(range(16), 16)]
                if pick == 2
                else x + w[0]
            )
        if x.requires_grad and rng.random() < 0.7:
            x.mean().backward()
            w.grad = None

    gc.disable()  # cycles would show
    try:
        for _ in range(1000):
            iteration()
        start = resident_kb()
        for _ in range(10_000):
            iteration()
        grown = resident_kb() - start
    finally:
        gc.enable()
    assert grown < 3000, f"{grown} KB more after 10,000 iterations"


@pytest.mark.alone
def test_threads_run_forward_and_backward_at_the_same_time():
    results: dict[int, np.ndarray] = {}
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            rng = np.random.default_rng(seed)
            w = ex.tensor(rng.normal(size=(20, 20)), requires_grad=True)
            for _ in range(100):
                x = ex.tensor(rng.normal(size=(5, 20)))
                ((x @ w).exp().log() / 3.0).tanh().sum().backward()
            results[seed] = w.grad.numpy().copy()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []
    together = dict(results)
    for s in range(4):
        work(s)
        np.testing.assert_array_equal(results[s], together[s])


# ---- errors


def test_in_place_writes_to_leaves_are_refused():
    w = ex.ones(3, requires_grad=True)
    with pytest.raises(LeafWriteError, match="no_grad"):
        w.add_(1)
    with pytest.raises(LeafWriteError, match="view of a leaf"):
        w[0].add_(1)
    with pytest.raises(LeafWriteError):
        w[0] = 1.0
    with ex.no_grad():
        w += 1
    np.testing.assert_array_equal(w.numpy(force=True), [2, 2, 2])


def test_integer_tensors_cannot_require_grad():
    with pytest.raises(TypeError, match="only floating"):
        ex.tensor([1, 2]).requires_grad_()


def test_lines_inside_composites_are_the_users():
    x = ex.ones(3, requires_grad=True)
    y = ex.addmm(ex.ones(1, 1), x.reshape(1, 3), x.reshape(3, 1))  # the composite call
    assert all(line_of("the composite call") in node.line for node in ex.Graph.of(y) if node.where)


# ---- in-place history


def test_writing_through_a_view_changes_the_history_of_its_base_and_of_other_views():
    x = ex.ones(4, requires_grad=True)
    base = x * 1.0
    head, tail = base[:2], base[2:]
    head.mul_(3)
    tail.copy_(head)
    (base * ex.tensor([1.0, 10.0, 100.0, 1000.0])).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [303, 3030, 0, 0])


def test_a_view_made_before_the_base_was_written_reads_the_new_history():
    w = ex.tensor(2.0, requires_grad=True)
    base = ex.ones(3)
    view = base[1]
    base.mul_(w)
    assert view.requires_grad
    view.backward()
    assert w.grad.item() == 1.0


def test_in_place_ops_that_read_the_old_value():
    x, w = ex.tensor([2.0, 3.0], requires_grad=True), ex.tensor([5.0, 7.0], requires_grad=True)
    h = x * 1.0
    h.mul_(w)
    h.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [5, 7])
    np.testing.assert_array_equal(w.grad.numpy(), [2, 3])


def test_a_write_through_a_view_made_without_grad_is_still_recorded():
    x = ex.ones(3, requires_grad=True)
    y = x * 2
    with ex.no_grad():
        v = y[0]
    v.fill_(0.0)
    (g,) = ex.autograd.grad(y.sum(), x)
    np.testing.assert_array_equal(g.numpy(), [0, 2, 2])


def test_a_retained_gradient_follows_the_tensor_through_writes():
    x = ex.ones(3, requires_grad=True)
    y = x * 2
    view = y[:2]
    y.retain_grad()
    view.retain_grad()
    y[0].mul_(3)
    (y.sum() + view.sum()).backward()
    np.testing.assert_array_equal(y.grad.numpy(), [2, 2, 1])
    np.testing.assert_array_equal(view.grad.numpy(), [1, 1])


def test_many_parts_of_one_tensor_share_one_gradient_buffer(monkeypatch):
    made = []
    zeros = np.zeros
    monkeypatch.setattr(np, "zeros", lambda *args, **options: made.append(args) or zeros(*args, **options))
    x = ex.ones(50, 3, requires_grad=True)
    total = sum((row * k).sum() for k, row in enumerate(x.unbind(0)))
    made.clear()
    total.backward()
    assert len(made) <= 2
    np.testing.assert_array_equal(x.grad.numpy(), np.repeat(np.arange(50.0)[:, None], 3, 1))


@pytest.mark.parametrize("extra", ["nothing", "one of them again", "a hook", "in another order", "one twice"])
def test_a_stack_of_all_results_of_a_node_gives_each_its_row(extra):
    found = []
    for stacked in (True, False):
        x = ex.tensor([[2.0, 0.5, 0.1], [0.3, 1.0, 0.2], [0.4, 0.6, 3.0]], requires_grad=True)
        q, r = ex.linalg.qr(x)
        seen = []
        if extra == "a hook":
            q.register_hook(lambda g, seen=seen: seen.append(g.numpy().copy()) or 2 * g)
        parts = {"in another order": [r, q], "one twice": [q, q]}.get(extra, [q, r])
        rows = ex.stack(parts) if stacked else [p * 1 for p in parts]
        loss = sum((rows[i] * (i + 2) * rows[i]).sum() for i in range(2))
        if extra == "one of them again":
            loss = loss + (q * 5).sum() + r.exp().sum()
        loss.backward()
        assert len(seen) == (extra == "a hook")
        found.append(x.grad.numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-5)


def test_a_stack_of_results_goes_backward_twice_where_its_graph_is_kept():
    x = ex.eye(3, requires_grad=True)
    loss = ex.stack(ex.linalg.qr(x * 2)).sum()
    loss.backward(retain_graph=True)
    once = x.grad.numpy().copy()
    loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * once)
