"""Runs that stay open: the results of the plain loop, errors that stay with their sample, and memory that is freed."""

from __future__ import annotations

import gc
import os
import signal
import threading
import tracemalloc
from concurrent.futures import CancelledError, wait

import pytest

import extempo as ex
from extempo import nn
from extempo.batching import open_run
from extempo.batching.open_run import Generation, OpenRun
from extempo.errors import ArgumentError, AutogradError, DtypeError, GraphError, IndexRangeError, ShapeError

from .agreement import close, draw, leaves, rows


@pytest.fixture
def short_generations(monkeypatch):
    """A new generation begins at every second flush or so."""
    monkeypatch.setattr(open_run, "MOST_VALUES", 20)


class Decoder(nn.Module):
    """Stops by the value of what it has chosen."""

    def __init__(self, n_words=23, size=8):
        super().__init__()
        self.embed = nn.Embedding(n_words, size)
        self.cell = nn.GRUCell(size, size)
        self.out = nn.Linear(size, n_words)

    def forward(self, state, most=30):
        word, words = 1, []
        while len(words) < most:
            state = self.cell(self.embed(word), state)
            word = int(self.out(state).argmax())
            words.append(word)
            if word % 5 == 0:
                break
        return words, state


class Tagger(nn.Module):
    """Sequences of any length through a layer."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4)
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        scores = self.out(self.lstm(x)[0])
        return {"scores": scores, "best": scores.argmax(1), "n": len(x)}


def numbers_of(tree):
    if isinstance(tree, dict):
        return [x for value in tree.values() for x in numbers_of(value)]
    if isinstance(tree, list | tuple):
        return [x for value in tree for x in numbers_of(value)]
    return [] if isinstance(tree, ex.Tensor) else [tree]


def agree(got, expected):
    assert numbers_of(got) == numbers_of(expected)
    for a, b in zip(leaves(got), leaves(expected), strict=True):
        assert a._source is None
        assert not a.requires_grad
        close(a.numpy(), b.detach().numpy(), "result")


def check(fn, samples, most_running=None, n_first=3):
    """Submits some samples, and another one after each step; all agree with the plain loop."""
    with ex.no_grad():
        expected = [fn(*sample) for sample in samples]
    run = OpenRun(fn, most_running)
    futures = [run.submit(*sample) for sample in samples[:n_first]]
    for sample in samples[n_first:]:
        run.step()
        futures.append(run.submit(*sample))
    run.drain()
    for future, one in zip(futures, expected, strict=True):
        agree(future.result(0), one)
    return run


# ---- results


@pytest.mark.parametrize("most_running", [None, 1, 4])
def test_a_loop_that_ends_by_a_value(most_running):
    ex.manual_seed(1)
    run = check(Decoder(), [(x * 3,) for x in rows(40, 8)], most_running, n_first=10)
    stats = run.stats()
    assert stats["samples"] == 40
    assert stats["running"] == stats["waiting"] == 0
    assert most_running == 1 or stats["nodes"] > 2 * stats["launches"]


def test_results_do_not_depend_on_generations(short_generations):
    ex.manual_seed(1)
    run = check(Decoder(), [(x * 3,) for x in rows(40, 8)], 6, n_first=10)
    assert run.stats()["generations"] > 10


def test_layers_on_sequences_of_any_length(short_generations):
    check(Tagger(), [(draw(n, 1 + n % 7, 3),) for n in range(20)])


def test_marked_cells():
    w = draw(0, 4, 4)

    @ex.cell
    def turn(x):
        return (x @ w).tanh()

    def run(x, n):
        for _ in range(n):
            x = turn(x)
        return x

    check(run, [(draw(i, 4), i % 5) for i in range(12)])


def test_values_that_samples_keep_over_generations(short_generations):
    def run(x, n):
        states, total = [x * 2], 0.0
        for _ in range(n):
            states.append(states[-1] + states[0][0])
            total += states[-1].sum().item()
        return ex.stack(states), states[0], total

    check(run, [(draw(i, 3), 1 + i % 9) for i in range(20)])


def test_samples_write_to_their_own_tensors_in_every_generation(short_generations):
    def run(x, n):
        total, mine = x * 1, ex.zeros(3)
        for _ in range(n):
            total += x
            mine += total.sum().item()
            total *= 2
        return total, mine

    check(run, [(draw(i, 3), 1 + i % 9) for i in range(20)])


def test_a_write_through_a_view_is_refused_in_every_generation(short_generations):
    def run(x, n):
        whole = x * 1
        part = whole[0]
        for _ in range(n):
            (x + 1).sum().item()
        part += 1
        return whole

    run = OpenRun(run)
    futures = [run.submit(draw(i, 3), i) for i in range(12)]
    run.drain()
    for future in futures:
        assert isinstance(future.exception(0), AutogradError)


def test_samples_inside_samples_join_the_run(short_generations):
    def inner(x, y):
        s = (x * y).sum()
        return s + (1 if s.item() > 0 else 2) * y.mean()

    def run(x, n):
        parts = ex.batch(inner)([x * i for i in range(n)], [x + 1] * n)
        return ex.stack(parts).sum() if parts else x.sum()

    run = check(run, [(draw(i, 3), i % 5) for i in range(15)])
    assert run.stats()["nodes"] > 2 * run.stats()["launches"]


def test_draws_belong_to_samples():
    def run(x, n):
        for _ in range(n):
            x = x + ex.rand(2)
            x.sum().item()
        return x

    def results(most_running):
        ex.manual_seed(3)
        with OpenRun(run, most_running) as opened:
            futures = [opened.submit(draw(i, 2), i % 4) for i in range(9)]
        return [future.result(0) for future in futures]

    for a, b in zip(results(1), results(None), strict=True):
        close(a.numpy(), b.numpy(), "draws")


def test_keyword_arguments_and_results_that_are_no_tensors():
    run = OpenRun(lambda x, *, scale, name: (name, x * scale))
    name, value = run.submit(draw(0, 2), scale=2.0, name="a"), run.submit(draw(1, 2), scale=3.0, name=None)
    run.drain()
    agree(name.result(0), ("a", draw(0, 2) * 2))
    agree(value.result(0), (None, draw(1, 2) * 3))


def test_a_result_has_memory_of_its_own():
    run = OpenRun(lambda x: x * 2)
    futures = [run.submit(draw(i, 50)) for i in range(20)]
    run.drain()
    for future in futures:
        memory = future.result(0).numpy()
        while memory.base is not None and hasattr(memory.base, "nbytes"):
            memory = memory.base
        assert memory.nbytes == 200


def test_samples_leave_when_they_are_done_and_others_join():
    order = []

    def run(x, n):
        for _ in range(n):
            (x * 2).sum().item()
        return n

    run = OpenRun(run)
    for n in (3, 1, 2):
        run.submit(draw(n, 2), n).add_done_callback(lambda future: order.append(future.result()))
    run.step()
    assert order == [1]
    late = run.submit(draw(9, 2), 1)
    run.step()
    assert order == [1, 2]
    assert late.done()
    run.drain()
    assert order == [1, 2, 3]


def test_callbacks_of_futures_run_outside_of_samples():
    seen = []
    run = OpenRun(lambda x: x * 2)
    run.submit(draw(0, 2)).add_done_callback(lambda future: seen.append((future.result() + 1)._source))
    run.drain()
    assert seen == [None]


def test_what_context_variables_hold_is_that_of_who_submits():
    from contextvars import ContextVar

    request = ContextVar("request")

    def run(x):
        x.sum().item()
        return request.get()

    run, futures = OpenRun(run), []
    for i in range(3):
        request.set(i)
        futures.append(run.submit(draw(i, 2)))
    run.drain()
    assert [future.result(0) for future in futures] == [0, 1, 2]


def test_weights_change_between_samples():
    layer = nn.Linear(3, 2)
    run = OpenRun(lambda x: layer(x))
    for i in range(3):
        with ex.no_grad():
            layer.weight += 1
        future = run.submit(draw(i, 3))
        run.drain()
        agree(future.result(0), layer(draw(i, 3)))


# ---- errors


def check_one_bad(fn, good, bad, error, runs=None):
    """Of many samples some fail, in themselves only."""
    samples = [bad if i % 7 == 3 else good(i) for i in range(30)]
    run = runs or OpenRun(fn, 10)
    futures = [run.submit(*sample) for sample in samples]
    run.drain()
    for i, (future, sample) in enumerate(zip(futures, samples, strict=True)):
        if sample is bad:
            assert isinstance(future.exception(0), error), i
        else:
            with ex.no_grad():
                agree(future.result(0), fn(*sample))
    return [future.exception(0) for future in futures if future.exception(0) is not None]


def test_an_error_of_python_in_one_of_many():
    def run(x, n):
        x = x * 2
        if x.sum().item() < 1e9:
            x = x + 1 / n
        return x.sum()

    check_one_bad(run, lambda i: (draw(i, 3), 1 + i), (draw(1, 3), 0), ZeroDivisionError)


def test_an_error_while_a_call_is_recorded():
    check_one_bad(lambda x: (x @ ex.ones(3)).sum() * 2, lambda i: (draw(i, 3),), (draw(1, 4),), ShapeError)


def test_an_index_out_of_range_in_one_of_many(short_generations):
    table = draw(0, 5, 3)

    def run(x, index):
        row = nn.functional.embedding(index + 1, table)[0] + x
        again = (row * 2).sum()
        return again.item(), row

    errors = check_one_bad(
        run, lambda i: (draw(i, 3), ex.tensor([i % 4])), (draw(1, 3), ex.tensor([9])), IndexRangeError
    )
    for error in errors:
        assert any("embedding was recorded at" in note for note in error.__notes__)


def test_an_error_inside_a_cell_on_many_levels():
    embed = nn.Embedding(6, 3)

    @ex.cell
    def step(x, index):
        return (x + embed(index)).tanh(), index + 1

    def run(x, index, n):
        for _ in range(n):
            x, index = step(x, index)
        return x

    check_one_bad(run, lambda i: (draw(i, 3), ex.tensor(0), 6), (draw(1, 3), ex.tensor(2), 6), IndexRangeError)


def test_a_sample_that_fails_ends_with_its_finally_blocks():
    embed, ended = nn.Embedding(6, 3), []

    def run(index, i):
        try:
            embed(index + 1).sum().item()
            return i
        finally:
            ended.append(i)

    run = OpenRun(run)
    futures = [run.submit(ex.tensor(9 if i == 1 else 2), i) for i in range(3)]
    run.drain()
    assert sorted(ended) == [0, 1, 2]
    assert isinstance(futures[1].exception(0), IndexRangeError)
    assert futures[0].result(0) == 0
    assert futures[2].result(0) == 2


def test_a_sample_inside_a_sample_that_fails_fails_the_outer_one():
    embed = nn.Embedding(6, 3)

    def run(indices):
        return ex.stack(ex.batch(lambda i: embed(i + 1).sum())(indices)).sum()

    check_one_bad(run, lambda i: (ex.tensor([0, i % 5]),), (ex.tensor([0, 7, 1]),), IndexRangeError)


def test_a_sample_that_reads_what_a_failing_one_has_shared_fails_too():
    embed, shared = nn.Embedding(6, 3), []

    def run(index):
        if not shared:
            shared.append(embed(index + 1))
        return (shared[0] * 2).sum().item()

    run = OpenRun(run)
    futures = [run.submit(ex.tensor(9)), run.submit(ex.tensor(1))]
    run.drain()
    assert all(isinstance(future.exception(0), IndexRangeError) for future in futures)


@pytest.mark.parametrize("read", [lambda x: x * 2, lambda x: x[0] * 2, lambda x: x[0]])
def test_results_of_a_failing_sample_on_many_levels_are_nobodys(read):
    embed, shared = nn.Embedding(6, 3), []

    @ex.cell
    def step(x, index):
        return (x + embed(index)).tanh(), index + 1

    def run(x, index):
        for _ in range(6):
            x, index = step(x, index)
        shared.append(x)
        return read(shared[1]).sum().item() if len(shared) > 1 else x.sum()

    run = OpenRun(run)
    futures = [run.submit(draw(i, 3), ex.tensor(2 if i == 1 else 0)) for i in range(4)]
    run.drain()
    assert [type(future.exception(0)) for future in futures] == [type(None), *[IndexRangeError] * 3]


def test_an_error_that_is_kept_does_not_keep_the_values_of_samples():
    embed = nn.Embedding(6, 3)
    run = OpenRun(lambda i: embed(i + 1).sum())
    futures = [run.submit(ex.tensor(9 if i == 1 else 2)) for i in range(4)]
    run.drain()
    gc.collect()
    assert isinstance(futures[1].exception(0), IndexRangeError)
    assert not [x for x in gc.get_objects() if type(x) is Generation]


def test_gradients_are_refused():
    w = draw(0, 3).requires_grad_()

    def run(x):
        with ex.enable_grad():
            return x * w

    run = OpenRun(run)
    future = run.submit(draw(1, 3))
    run.drain()
    with pytest.raises(AutogradError, match="no gradients"):
        future.result(0)


def test_misuse_is_named():
    with pytest.raises(DtypeError, match="a function or a module"):
        OpenRun(3)
    with pytest.raises(ArgumentError, match="at least 1"):
        OpenRun(len, 0)
    run = OpenRun(lambda x: run.step())
    future = run.submit(draw(0, 2))
    run.drain()
    with pytest.raises(GraphError, match="driven inside"):
        future.result(0)


def test_a_value_that_is_not_there_yet_is_not_read_outside_of_samples():
    kept, caught = [], []

    def run(x):
        x.sum().item()
        kept.append(x * 2)

    def read(_):
        with pytest.raises(GraphError, match="outside of all samples") as found:
            kept[0].sum().item()
        caught.append(found)

    run = OpenRun(run)
    run.submit(draw(0, 2)).add_done_callback(read)
    run.submit(draw(1, 2))
    run.drain()
    assert caught


def test_a_sample_that_never_ends_can_be_ended_between_two_steps():
    ended = []

    def endless(x):
        try:
            while x.sum() < 100:
                x = x + 1 if x[0] > 0 else x - 1
            return x
        finally:
            ended.append(True)

    run = OpenRun(endless)
    bad, good = run.submit(-ex.ones(2)), run.submit(ex.ones(2))
    run.step()
    assert run.end(bad, TimeoutError("too long"))
    assert ended == [True]
    assert not run.end(bad, TimeoutError("again"))
    run.drain()
    assert good.result().tolist() == [50, 50]
    with pytest.raises(TimeoutError, match="too long"):
        bad.result()


# ---- threads, cancelling, closing, interrupts


def test_threads_submit_while_another_one_serves():
    ex.manual_seed(1)
    model = Decoder()
    run = OpenRun(model, most_running=8)
    server = threading.Thread(target=run.serve)
    server.start()
    found = {}

    def submit(first):
        futures = {i: run.submit(draw(i, 8) * 3) for i in range(first, first + 20)}
        found.update({i: future.result(60) for i, future in futures.items()})

    threads = [threading.Thread(target=submit, args=(20 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run.close()
    server.join()
    with ex.no_grad():
        for i in range(80):
            agree(found[i], model(draw(i, 8) * 3))
    with pytest.raises(GraphError, match="closed"):
        run.submit(draw(0, 8))


def test_a_tensor_of_a_trace_is_submitted_with_its_values():
    run = OpenRun(lambda x: x * 2)

    @ex.compile
    def step(x):
        y = x + 1
        future = run.submit(y)
        assert y._source is None
        return future

    for i in range(4):
        future = step(draw(i, 3))
        thread = threading.Thread(target=run.drain)
        thread.start()
        thread.join()
        agree(future.result(0), (draw(i, 3) + 1) * 2)


def test_what_has_not_started_can_be_cancelled():
    run = OpenRun(lambda x: (x * 2).sum().item(), most_running=1)
    futures = [run.submit(draw(i, 2)) for i in range(3)]
    assert futures[1].cancel()
    run.drain()
    assert futures[0].done()
    assert futures[1].cancelled()
    assert futures[2].result(0) == pytest.approx((draw(2, 2) * 2).sum().item())


def endless(ended, i):
    try:
        x = draw(i, 2)
        while True:
            x = x + 1
            x.sum().item()
    finally:
        ended.append(i)


def test_closing_ends_what_runs_and_cancels_what_has_not_started():
    ended = []
    run = OpenRun(endless, most_running=2)
    futures = [run.submit(ended, i) for i in range(4)]
    for _ in range(3):
        assert run.step()
    run.close()
    run.close()
    assert sorted(ended) == [0, 1]
    for future in futures[:2]:
        with pytest.raises(GraphError, match="closed before"):
            future.result(0)
    for future in futures[2:]:
        with pytest.raises(CancelledError):
            future.result(0)
    assert not run.step()


def test_closing_while_another_thread_serves():
    ended = []
    run = OpenRun(endless)
    server = threading.Thread(target=run.serve)
    server.start()
    futures = [run.submit(ended, i) for i in range(3)]
    run.close()
    server.join()
    assert len(wait(futures, 0).done) == 3
    assert all(future.cancelled() or isinstance(future.exception(), GraphError) for future in futures)


def test_closing_in_a_callback():
    run = OpenRun(lambda x, n: [(x * 2).sum().item() for _ in range(n)])
    futures = [run.submit(draw(i, 2), n) for i, n in enumerate((1, 5))]
    futures[0].add_done_callback(lambda _: run.close())
    run.drain()
    assert isinstance(futures[1].exception(0), GraphError)


def test_only_the_thread_that_drives_goes_on():
    run = OpenRun(lambda x: [(x * 2).sum().item() for _ in range(3)])
    future = run.submit(draw(0, 2))
    run.step()
    caught = []

    def elsewhere():
        for call in (run.step, run.serve, run.close):
            try:
                call()
            except GraphError as error:
                caught.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(caught) == 3
    run.drain()
    assert future.done()


@pytest.mark.parametrize("in_sample", [True, False])
def test_an_interrupt_closes_the_run(in_sample):
    ended = []

    def interrupt(x):
        (x * 2).sum().item()
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(100):
            (x * 2).sum().item()

    run = OpenRun(lambda fn, *args: fn(*args), most_running=3)
    futures = [run.submit(endless, ended, i) for i in range(2)]
    if in_sample:
        futures.append(run.submit(interrupt, draw(0, 2)))
    else:
        run.submit(lambda: None).add_done_callback(lambda _: os.kill(os.getpid(), signal.SIGINT))
    late = run.submit(draw, 0, 2)
    with pytest.raises(KeyboardInterrupt):
        run.drain()
    assert sorted(ended) == [0, 1]
    for future in futures:
        with pytest.raises(GraphError, match="driving thread was stopped"):
            future.result(0)
    assert late.done()
    with pytest.raises(GraphError, match="closed"):
        run.submit(draw, 0, 2)
    assert ex.batch(lambda x: x.sum())(rows(2, 2))[0].item() == pytest.approx(draw(0, 2).sum().item())


# ---- memory


def test_memory_stays_flat_over_many_samples_that_overlap(monkeypatch):
    monkeypatch.setattr(open_run, "MOST_VALUES", 4_000)
    ex.manual_seed(1)
    w = draw(0, 16, 16) * 0.3

    def run(x, n):
        states = [x * 1]
        while states[-1].sum().item() < 100 and len(states) <= n:
            states.append((states[-1] @ w + states[0]).tanh())
        return states[-1]

    opened = OpenRun(run, most_running=32)
    n_live, used = [], []
    gc.collect()
    tracemalloc.start()
    try:
        for i in range(100):
            futures = [opened.submit(ex.zeros(16) + k, 1 + (7 * k + i) % 9) for k in range(100)]
            while opened.stats()["waiting"]:
                opened.step()
            assert opened.stats()["running"] > 1  # so some of them overlap with the next ones
            del futures
            if i % 10 == 9:
                gc.collect()
                n_live.append(sum(type(x) is Generation for x in gc.get_objects()))
                used.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    opened.drain()
    stats = opened.stats()
    assert stats["samples"] == 10_000
    assert stats["generations"] > 10
    assert max(n_live) <= 2
    # A generation that has just begun takes less than one that is about to end, and no more than that.
    assert max(used[5:]) - max(used[:5]) < 1_000_000


def test_a_sample_that_lasts_does_not_keep_the_values_of_others(short_generations):
    def run(x, n):
        first = x * 2
        for _ in range(n):
            (first + 1).sum().item()
        return first

    opened = OpenRun(run, most_running=4)
    long = opened.submit(draw(0, 3), 200)
    for i in range(60):
        opened.submit(draw(i, 3), 3)
    while opened.stats()["waiting"]:
        for _ in range(8):
            opened.step()
        gc.collect()
        assert sum(type(x) is Generation for x in gc.get_objects()) <= 2
    opened.drain()
    agree(long.result(0), draw(0, 3) * 2)
