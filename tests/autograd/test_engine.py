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
    AutogradError,
    GraphFreedError,
    LeafWriteError,
    NoGradientPathError,
    OverwrittenError,
    ShapeError,
)

HERE = Path(__file__).name


def line_of(text: str) -> str:
    """`file:line` of the first line of this file that contains the text after a marker comment."""
    for number, line in enumerate(Path(__file__).read_text().splitlines(), 1):
        if f"# {text}" in line:
            return f"{HERE}:{number}"
    raise AssertionError(text)


# ---- values


def test_gradients_accumulate_until_they_are_cleared():
    x = ex.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [5, 5, 5])
    x.grad = None
    assert x.grad is None


def test_a_value_used_many_times_collects_every_contribution():
    x = ex.tensor([2.0], requires_grad=True)
    y = x * x + x * x * x + x
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), [2 * 2 + 3 * 4 + 1])


def test_two_leaves_never_share_their_gradient():
    a, b = ex.ones(2, requires_grad=True), ex.ones(2, requires_grad=True)
    (a + b).sum().backward()
    a.grad.zero_()
    np.testing.assert_array_equal(b.grad.numpy(), [1, 1])


def test_the_gradient_given_to_backward_is_not_taken_over():
    x = ex.ones(2, requires_grad=True)
    g = ex.tensor([1.0, 2.0])
    y = x + 0.0
    y.backward(g, retain_graph=True)
    y.backward(g)
    np.testing.assert_array_equal(g.numpy(), [1, 2])
    np.testing.assert_array_equal(x.grad.numpy(), [2, 4])


def test_grad_returns_without_accumulating():
    x, w = ex.ones(2, requires_grad=True), ex.ones(2, requires_grad=True)
    (gx,) = ex.autograd.grad((x * w).sum(), [x])
    np.testing.assert_array_equal(gx.numpy(), [1, 1])
    assert x.grad is None
    assert w.grad is None


def test_unused_inputs_are_an_error_unless_allowed():
    x, w = ex.ones(2, requires_grad=True), ex.ones(2, requires_grad=True)
    with pytest.raises(AutogradError, match="does not depend on input 1"):
        ex.autograd.grad(x.sum(), [x, w])
    assert ex.autograd.grad(x.sum(), [x, w], allow_unused=True)[1] is None
    zeros = ex.autograd.grad(x.sum(), [x, w], materialize_grads=True)[1]
    np.testing.assert_array_equal(zeros.numpy(), [0, 0])


def test_third_derivative():
    x = ex.tensor(2.0, requires_grad=True)
    y = x**4
    for factor in (32.0, 48.0, 48.0):
        (y,) = ex.autograd.grad(y, x, create_graph=True)
        assert y.item() == pytest.approx(factor)


def test_backward_into_chosen_inputs_only():
    x, w = ex.ones(2, requires_grad=True), ex.ones(2, requires_grad=True)
    (x * w).sum().backward(inputs=[w])
    assert x.grad is None
    np.testing.assert_array_equal(w.grad.numpy(), [1, 1])


def test_grad_of_an_intermediate_value():
    x = ex.ones(2, requires_grad=True)
    h = x * 3
    (g,) = ex.autograd.grad((h * h).sum(), h)
    np.testing.assert_array_equal(g.numpy(), [6, 6])


def test_mixed_dtypes_give_each_input_a_gradient_of_its_own_dtype():
    a = ex.ones(2, dtype=ex.float64, requires_grad=True)
    b = ex.ones(2, dtype=ex.float32, requires_grad=True)
    (a * b).sum().backward()
    assert a.grad.dtype is ex.float64
    assert b.grad.dtype is ex.float32


def test_broadcast_dimensions_are_summed_away():
    a, b = ex.ones(3, 1, requires_grad=True), ex.ones(2, 1, 4, requires_grad=True)
    (a * b).sum().backward()
    np.testing.assert_array_equal(a.grad.numpy(), np.full((3, 1), 8))
    np.testing.assert_array_equal(b.grad.numpy(), np.full((2, 1, 4), 3))


@pytest.mark.parametrize("d", [ex.float16, ex.bfloat16, ex.float32, ex.float64])
def test_every_floating_dtype_goes_backward(d):
    x = ex.ones(3, dtype=d, requires_grad=True)
    (x * x * 2.5).tanh().sum().backward()
    assert x.grad.dtype is d


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


def saved_bytes(t: ex.Tensor) -> int:
    return sum(entry[1].nbytes for node in ex.Graph.of(t) for entry in node.saved or ())


def test_only_what_a_gradient_reads_is_kept():
    x = ex.ones(1000, requires_grad=True)
    constant = ex.ones(1000)
    assert saved_bytes(x + constant) == 0
    assert saved_bytes(x * constant) == 4000  # the constant; x itself has no one to read it
    assert saved_bytes(x * 2.0) == 0
    assert saved_bytes(x.sum()) == 0
    assert saved_bytes(x.tanh()) == 4000


def test_an_intermediate_value_nobody_needs_is_freed_at_once():
    x = ex.ones(10, requires_grad=True)
    h = x + 1
    array = weakref.ref(h._storage)
    y = h + 1
    del h
    assert array() is None
    y.sum().backward()


def test_relu_in_place_after_a_product_is_fine():
    x, w = ex.randn(4, 3), ex.randn(3, 2, requires_grad=True)
    h = x @ w
    h.clamp_(min=0.0)
    h.sum().backward()
    mask = (x.numpy() @ w.detach().numpy()) > 0
    np.testing.assert_allclose(w.grad.numpy(), x.numpy().T @ mask, rtol=1e-6)


# ---- freeing


def test_saved_values_are_freed_as_backward_passes():
    x = ex.ones(10, requires_grad=True)
    h = x.exp()
    storage = weakref.ref(h._storage)
    loss = h.sum()
    del h
    assert storage() is not None
    loss.backward()
    assert storage() is None


def test_backward_twice_is_an_error_that_tells_how():
    x = ex.ones(2, requires_grad=True)
    y = x.exp().sum()
    y.backward()
    with pytest.raises(GraphFreedError, match="retain_graph=True"):
        y.backward()


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


def test_backward_of_a_non_scalar_says_what_to_do():
    x = ex.ones(3, requires_grad=True)
    with pytest.raises(ShapeError, match=r"shape \(3,\).*loss.sum\(\)"):
        (x * 2).backward()
    with pytest.raises(ShapeError, match=r"gradient has shape \(2,\), the tensor \(3,\)"):
        (x * 2).backward(ex.ones(2))


def test_overwritten_value_names_the_op_that_needs_it_and_the_line_that_overwrote_it():
    x = ex.ones(3, requires_grad=True)
    h = x * 2  # made here
    y = h.sin()  # needed here
    h.add_(1)  # overwritten here
    with pytest.raises(OverwrittenError) as caught:
        y.sum().backward()
    message = str(caught.value)
    assert "input 0 of sin" in message
    assert line_of("needed here") in message
    assert "made by mul" in message
    assert line_of("made here") in message
    assert f"overwritten in place at {Path(__file__)}" in message
    assert line_of("overwritten here") in message


@pytest.mark.parametrize("kind", ["detach", "no_grad", "integer", "item"])
def test_a_loss_without_a_path_says_where_it_was_cut(kind):
    w = ex.ones(3, requires_grad=True)
    if kind == "detach":
        y = (w.detach() * 2).sum()  # cut by detach
    elif kind == "no_grad":
        with ex.no_grad():
            h = w * 2  # cut by no_grad
        y = (h + 1).sum()
    elif kind == "integer":
        y = (w > 0).float().sum()  # cut by integer
    else:
        y = ex.tensor(w.sum().item()) * 2  # cut by item
    with pytest.raises(NoGradientPathError) as caught:
        y.backward()
    assert line_of(f"cut by {kind}") in str(caught.value)
    words = {"detach": "detach()", "no_grad": "no_grad()", "integer": "gt", "item": "Python number"}
    assert words[kind] in str(caught.value)


def test_a_forgotten_requires_grad_is_suggested():
    code = (
        "import extempo as ex\n"
        "try: (ex.ones(2) * 2).sum().backward()\n"
        "except ex.errors.NoGradientPathError as e: print(e)"
    )
    import subprocess
    import sys

    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "did you forget requires_grad=True" in out


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


def test_broadcasting_to_no_elements_gives_zero_gradients():
    x = ex.ones(1, 3, requires_grad=True)
    (x + ex.ones(0, 3)).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[0, 0, 0]])


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
