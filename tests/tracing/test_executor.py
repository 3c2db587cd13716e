"""Values read in the middle of a compiled function, and ops whose result's shape depends on values."""

from __future__ import annotations

import copy
import pickle
import weakref

import numpy as np
import pytest

import extempo as ex
from extempo.core.trace_tree import TraceNode

from .agreement import CALLS, agree, agree_on_calls, draw, needs_native_code, whole
from .by_hand import new_executor, tracing

READS = {
    "item": lambda y: y.sum().item(),
    "bool": lambda y: bool(y.sum() > 0),
    "float": lambda y: float(y.mean()),
    "int": lambda y: int(y.abs().sum()),
    "index": lambda y: [1, 2, 3, 4][(y.argmax() % 4)],
    "tolist": lambda y: y.tolist(),
    "numpy": lambda y: y.detach().numpy().copy(),
    "array": lambda y: np.asarray(y.detach()).sum(),
    "repr": lambda y: repr(y),
    "format": lambda y: f"{y.sum().detach():.3f}",
    "len and iteration": lambda y: [row.sum().item() for row in y],
    "in": lambda y: 0.5 in y,
    "equal": lambda y: ex.equal(y, y * 1),
    "allclose": lambda y: ex.allclose(y, y + 1e-9),
    "any": lambda y: bool((y > 1).any()),
    "max index": lambda y: y.max(0).indices.tolist(),
    "copy": lambda y: copy.copy(y.detach()),
    "deepcopy": lambda y: copy.deepcopy(y.detach()),
    "pickle": lambda y: pickle.loads(pickle.dumps(y.detach())),
    "data": lambda y: y.data,
    "data_ptr": lambda y: y.data_ptr() == y.detach().data_ptr(),
    "version": lambda y: y._version,
    "shares": lambda y: y[0].data_ptr() - y.data_ptr(),
    "stride": lambda y: (y.T.stride(), y[:, ::2].is_contiguous(), y.storage_offset()),
    "grad_fn": lambda y: type(y.grad_fn).__name__ if y.requires_grad else None,
    "is_leaf": lambda y: y.is_leaf,
    "graph": lambda y: len(str(ex.Graph.of(y))) > 0 if y.requires_grad else None,
    "norm": lambda y: y.norm().item() > 2,
}


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
@pytest.mark.parametrize("grad", [False, True])
def test_a_value_read_in_the_middle(read, grad):
    def scenario(wrap):
        w = draw(5, 4, grad=grad)

        def f(x):
            y = x * w + 1
            seen = read(y)
            z = (y * 2).sin()
            return seen, z, (z + y).sum()

        run = wrap(f)
        for i in range(CALLS):
            seen, z, total = run(draw(i, 3, 4))
            if grad:
                total.backward()
            yield seen, z, total, w.grad

    agree(scenario)


def test_printing(capsys):
    def f(x):
        y = x + 1
        print(y, y.sum())
        return y * 2

    run = ex.compile(f)
    for i in range(CALLS):
        x = draw(i, 3)
        run(x)
        compiled = capsys.readouterr().out
        f(x)
        assert compiled == capsys.readouterr().out


def test_branches_on_values():
    def f(x, w):
        y = (x * w).exp() if (x * w).sum() > 0 else (x - w).sin()
        if y.mean().item() > 1:
            y = y / y.max()
        y.sum().backward()
        return y

    agree_on_calls(f, lambda i: (draw(i, 4), draw(i + 30, 4, grad=True)), calls=16)


def test_a_loop_until_a_value_is_small():
    def f(x, w):
        n = 0
        while x.norm() > 0.5:
            x = (x * w.sigmoid()) * 0.9
            n += 1
        x.sum().backward()
        return x, n

    agree_on_calls(f, lambda i: (draw(i, 4, scale=1.0 + i % 3), draw(3, 4, grad=True)), calls=10)


def test_a_value_read_becomes_a_number_again():
    def f(x):
        peak = x.abs().max().item()
        y = x / peak
        k = int(y.argmax())
        return y * k, y[k], y[: k + 1].sum()

    agree_on_calls(f, lambda i: (draw(i, 5),), calls=10)


def test_reading_the_same_value_again_and_again():
    def f(x):
        y = x * 2
        a = y.sum().item()
        b = y.sum().item()
        z = y + 1
        return a, b, z.tolist(), z.tolist(), y.tolist()

    agree_on_calls(f, lambda i: (draw(i, 3),))


SHAPED = {
    "nonzero": lambda x: (x > 0).nonzero(),
    "mask": lambda x: x[x > 0],
    "masked_select": lambda x: x.masked_select(x > 0.5),
    "unique": lambda x: ex.unique((x * 2).round()),
    "where": lambda x: ex.where(x > 0),
    "repeat_interleave": lambda x: x.reshape(-1).repeat_interleave((x.reshape(-1).abs() * 2).long()),
    "argwhere": lambda x: ex.argwhere(x > 0),
    "bincount": lambda x: ex.bincount(x.reshape(-1).abs().long()),
}


@pytest.mark.parametrize("op", SHAPED.values(), ids=SHAPED.keys())
def test_results_whose_shape_depends_on_values(op):
    def f(x):
        y = x * 2 + 0.25
        found = op(y)
        parts = found if isinstance(found, tuple) else (found,)
        return parts, [p.sum() * 2 for p in parts], y.sum()

    agree_on_calls(f, lambda i: (draw(i, 3, 4),), calls=8)


def test_gradients_through_masks():
    def f(x, w):
        y = (x * w).tanh()
        picked = y[y > 0]
        z = picked.exp().sum() + y.sum()
        y2 = y.clone()
        y2[x > 0] = 0.0
        loss = z + y2.sum() + y.masked_fill(x < 0, 2.0).sum()
        loss.backward()
        return loss, picked

    agree_on_calls(f, lambda i: (draw(i, 3, 4), draw(i + 5, 4, grad=True)), calls=8)


def test_sorting_and_selecting_with_indices_found_inside():
    def f(x, w):
        y = x * w
        order = y.argsort(1, descending=True)
        top = y.topk(2, 1)
        picked = y.gather(1, order[:, :2])
        loss = picked.sum() + top.values.sum() + y[ex.arange(3), y.argmax(1)].sum()
        loss.backward()
        return loss, order, top, ex.sort(y, 0), y.cumsum(1), y.median(1)

    agree_on_calls(f, lambda i: (draw(i, 3, 4), draw(i + 5, 4, grad=True)))


def test_embeddings_and_index_arithmetic():
    def f(table, words):
        rows = table[words]
        other = ex.index_select(table, 0, words)
        loss = (rows * 2).sum() + (other * rows).sum() + table[words[0]].sum() + table[2, 1:].sum()
        loss.backward()
        return loss, rows, words + 1, words // 2

    agree_on_calls(f, lambda i: (draw(i, 6, 3, grad=True), whole(i, 5, high=6)))


def test_random_offsets_into_a_long_tensor():
    def scenario(wrap):
        data = draw(0, 100)
        w = draw(1, 8, grad=True)

        def f(k):
            x = data[k : k + 8]
            y = (x * w).tanh()
            loss = (y[:-1] * data[k + 1 : k + 8]).sum() + data[k] * y[k % 8]
            loss.backward()
            return loss

        run = wrap(f)
        for i in range(12):
            yield run(i * 37 % 90), w.grad

    agree(scenario)


def test_offsets_into_recorded_values_that_change():
    def f(x, k, n):
        y = x * 2
        part = y[k : k + n]
        row = y[k]
        return part + 1, row * 2, y[-1 - k], y[:, k % 2], part.sum()

    agree_on_calls(f, lambda i: (draw(i, 9, 2), i * 5 % 7, 2), calls=12)
    agree_on_calls(f, lambda i: (draw(i, 9, 2), i * 5 % 7, i % 3), calls=16)


def test_offsets_out_of_range_are_clipped_or_refused():
    def f(x, k):
        y = x * 2
        return y[k:], y[k : k + 3], y[k]

    agree_on_calls(f, lambda i: (draw(i, 4), [0, 1, 2, 3, 5, -1, 4, -9, 1, 2][i]), calls=10)


def test_a_breakpoint_in_the_middle():
    """What a debugger does: look at locals, evaluate expressions, go on."""
    seen = []

    def f(x):
        y = x * 2
        frame_locals = {name: value for name, value in locals().items() if name != "seen"}
        seen.append({name: repr(value) for name, value in frame_locals.items()})
        seen.append(eval("(x + y).sum().item()", {}, frame_locals))
        return y + 1

    agree_on_calls(f, lambda i: (draw(i, 3),))
    assert seen[: 2 * CALLS] == seen[2 * CALLS :]


# ---- an executor by itself


@needs_native_code
def test_asking_for_a_value_runs_everything_and_gives_live_tensors_theirs():
    x = draw(0, 3)
    expected = (x.exp() * 2.0).neg().tolist()
    with tracing(new_executor()) as executor:
        y = x.exp()
        z = (y * 2.0).neg()
        assert (y._data, z._data) == (None, None)
        assert z.tolist() == expected
    assert y._data is not None
    assert executor.trace.cursor.n_run == 3
    assert executor.counters.replays == 1
    assert (y._source, z._source) == (None, None)  # they are not tracked: nothing more can come


@needs_native_code
def test_the_second_time_a_segment_is_met_it_runs_by_a_plan_if_that_is_decided():
    x, root, asked = draw(0, 3), TraceNode(), []

    def decide(segment, n_ops, is_range=False, is_loop=False):
        asked.append(n_ops)
        return len(asked) > 1

    counts, expected = [], x.exp().neg().tolist()
    for _ in range(3):
        with tracing(new_executor(root, decide)) as executor:
            y = x.exp().neg()
            assert y.tolist() == expected
        counts.append((executor.counters.replays, executor.counters.runs))
    assert counts == [(1, 0), (0, 1), (0, 1)]
    assert asked == [2, 2]


@needs_native_code
def test_replaying_may_take_so_long_and_then_the_rest_runs_eagerly():
    x = draw(0, 3)
    executor = new_executor(most_replaying=lambda: 0.0)
    with tracing(executor):
        x.exp().tolist()
        assert executor.counters.given_up == 1
        assert x.exp()._data is not None


@needs_native_code
def test_memory_that_is_written_is_read_before_and_closes_what_a_gradient_reads_of_it():
    x, w = draw(0, 3), draw(1, 3, grad=True)
    with tracing(new_executor()) as executor:
        y = w * x
    executor.before_write([draw(2, 3)._memory])
    assert y._data is not None
    assert executor.counters.closed == {}
    executor.before_write([x._memory])
    assert executor.counters.closed == {"memory that it reads was written to": 1}
    assert y._history.op.name == "mul"


@needs_native_code
def test_memory_that_is_handed_out_is_read_before_if_something_will_read_it():
    x = draw(0, 3)
    with tracing(new_executor()) as executor:
        y = x.exp()
    executor.before_sharing(draw(1, 3)._memory)
    assert y._data is None
    executor.before_sharing(x._memory)
    assert y._data is not None


@needs_native_code
def test_the_strides_and_views_of_values_to_come_are_known():
    x = draw(0, 2, 3, grad=True)
    with tracing(new_executor()) as executor:
        y = x.exp()
        turned = y.t()
    assert (executor.strides_of(y), executor.strides_of(turned)) == (None, (4, 12))
    assert (executor.is_view(y), executor.is_view(turned)) == (False, True)
    assert y._data is None


@needs_native_code
def test_an_executor_that_has_escaped_goes_with_its_last_tensor():
    w = draw(0, 3, grad=True)
    with tracing(new_executor()) as executor:
        y = w.exp()
    executor.leave()
    assert executor.is_left
    assert not executor.is_empty
    gone = weakref.ref(executor)
    del executor
    assert gone() is not None
    del y
    assert gone() is None


@needs_native_code
def test_what_is_not_tracked_is_run_when_the_function_returns():
    x = draw(0, 3)
    with tracing(new_executor()) as executor:
        y = x.exp()
    executor.leave()
    assert y._data is not None
    assert executor.is_empty
