"""Tracing in native code: it puts on the trace what Python puts there, and leaves to Python whatever does not fit."""

import gc
import math
import sys
import threading
import weakref

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import extempo as ex
import extempo.nn.functional as F
from extempo.backends.selection import native
from extempo.core.context import CONTEXT
from extempo.core.op import REGISTRY
from extempo.dispatch.dispatcher import apply
from extempo.tracing import tracer
from extempo.tracing.executor import TraceExecutor

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

LISTS = ("leaves", "arrays", "nodes", "memories", "versions", "numbers", "results", "makers")
SLOTS = ("_data", "_memory", "_alias", "_type", "_history", "_grad_barrier", "_source", "_value_id")


pytestmark = pytest.mark.usefixtures("always_planned")


def draw(*shape, seed=0, grad=False, dtype=ex.float32):
    return ex.tensor(np.random.default_rng([seed, *shape]).normal(size=shape), dtype=dtype, requires_grad=grad)


@pytest.fixture
def by_python(monkeypatch):
    """The names of the ops that came to `TraceExecutor.apply`."""
    names = []
    recorded = TraceExecutor.apply

    def counted(self, op, *rest):
        names.append(op.name)
        return recorded(self, op, *rest)

    monkeypatch.setattr(TraceExecutor, "apply", counted)
    return names


def seen(result):
    if isinstance(result, list | tuple):
        return [seen(r) for r in result]
    array = result.numpy(force=True)
    return array.dtype, array.shape, array.tobytes(), result.requires_grad


class Compared:
    """A function, compiled; every call is compared with eager mode and says which ops Python had to record."""

    def __init__(self, fn, by_python):
        self.fn, self.compiled, self.by_python = fn, ex.compile(fn), by_python

    def __call__(self, *args):
        self.by_python.clear()
        found = self.compiled(*args)
        names = list(self.by_python)
        assert seen(found) == seen(self.fn(*args))
        return names


@pytest.fixture
def compared(by_python):
    return lambda fn: Compared(fn, by_python)


def is_native_from_the_second_call_on(run, *args):
    assert run(*args)
    for _ in range(3):
        assert run(*args) == []


# ---- what is on the tape


def contents(executor):
    """Everything on the trace, with the executor and its marks by name."""
    trace = executor.trace
    names = {id(executor): "executor", id(trace.token): "token", id(trace.proxy): "proxy"}

    def named(o):
        return names.get(id(o), o if isinstance(o, int | float | bool | tuple) else id(o))

    traced = [[named(getattr(t, slot)) for slot in SLOTS] for t in trace.results]
    marks = [(named(x._source), x._value_id) for x in trace.leaves]
    return {
        "results": [(type(t), row) for t, row in zip(trace.results, traced, strict=True)],
        "marks": marks,
        "cursor": id(trace.cursor),
        "numbers": [(type(n), n) for n in trace.numbers],
        **{name: [named(o) for o in getattr(trace, name)] for name in LISTS if name not in ("results", "numbers")},
    }


def test_the_tape_holds_what_python_puts_there(by_python):
    x, w = draw(3, 4), ex.nn.Parameter(draw(4, 4, seed=1))
    strided, mask = draw(4, 3).t(), draw(3, 4) > 0
    tapes = []

    def fn(scale):
        y = x @ w + strided * scale
        with ex.no_grad():
            y = y + (y * 2).where(mask, 1.0)
        values, places = y.max(dim=1)
        part = F.layer_norm(y, (4,))[1:3]
        out = part.sum(dim=-1) + values[:2] * places[:2] + (x + x).sum() + w.t()[0, :2]
        tapes.append(contents(CONTEXT.get().recording))
        return out

    compiled = ex.compile(fn)
    for k in range(4):
        by_python.clear()
        compiled(0.5)
        assert bool(by_python) == (k == 0)
    assert tapes[0] == tapes[1] == tapes[2] == tapes[3]


# ---- leaves


def test_new_known_and_repeated_leaves(compared):
    a, b, c = draw(8), draw(8, seed=1), draw(8, seed=2)
    run = compared(lambda a, b, c: (a + b) * a - (c * c) * b)
    is_native_from_the_second_call_on(run, a, b, c)
    assert run(draw(8, seed=3), b, c) == []
    assert run(a, a, c)  # one leaf where there were two
    assert run(a, b, c)
    assert run(a, b, c) == []


def test_leaves_of_another_type_or_layout_or_history_fall_to_python(compared):
    run = compared(lambda x: (x * 2.0).sum() + x.max())
    plain = draw(4, 4)
    unaligned = ex.from_numpy(
        np.frombuffer(b"\0" + plain.numpy().tobytes(), np.uint8)[1:].view(np.float32).reshape(4, 4)
    )
    others = [draw(4, 5), draw(4, 4, dtype=ex.float64), draw(4, 4).t(), draw(8, 8)[::2, ::2], draw(4, 4, grad=True)]
    is_native_from_the_second_call_on(run, plain)
    for x in others:
        assert run(x), x._type
        assert run(plain)  # that way again
        assert run(plain) == []
    assert run(unaligned)  # its product runs at once, so that way begins with another op
    assert run(plain) == []


def test_strided_leaves_are_known_by_their_strides(compared):
    run = compared(lambda x: x * 2.0 + 1.0)
    is_native_from_the_second_call_on(run, draw(4, 6).t())
    assert run(draw(4, 6, seed=1).t()) == []
    assert run(draw(4, 12).t()[::2])


def test_a_parameter_is_a_leaf_like_any_other(compared):
    layer = ex.nn.Linear(4, 3)
    is_native_from_the_second_call_on(compared(lambda x: layer(x).tanh().sum()), draw(2, 4))


def test_a_leaf_that_was_written_is_another_leaf(compared):
    def fn(x):
        y = x * 2.0
        x.data = draw(5, seed=9)
        z = x * 2.0
        x.data = draw(5)
        return y, z

    run = compared(fn)
    for _ in range(3):
        run(draw(5))


def test_a_view_whose_base_was_written_catches_up(compared):
    def fn(x):
        base = draw(2, 3)
        row = base[0]
        before = row * x
        base.add_(1.0)
        return before, row * x

    run = compared(fn)
    for _ in range(4):
        run(draw(3, grad=True))


def test_more_new_leaves_in_one_op_than_native_code_counts(compared):
    few, many = [draw(3, seed=k) for k in range(12)], [draw(3, seed=k) for k in range(20)]
    is_native_from_the_second_call_on(compared(lambda: ex.stack(few) * 2.0))
    run = compared(lambda: ex.stack(many) * 2.0)
    for _ in range(2):
        run()
    assert run() == ["stack"]
    is_native_from_the_second_call_on(compared(lambda: ex.stack([x * 2.0 for x in many]).sum()))


def test_a_tensor_that_was_never_filled_raises_as_in_eager_mode():
    hollow = object.__new__(ex.Tensor)
    compiled = ex.compile(lambda x, y: x * 2.0 + y)
    for _ in range(3):
        compiled(draw(3), draw(3))
    with pytest.raises(AttributeError):
        compiled(draw(3), hollow)
    with pytest.raises(AttributeError):
        ex.compile(lambda x: (x * 2.0, hollow.t()))(draw(3))


# ---- modes


def test_tracked_and_untracked_are_different_ways(compared):
    run = compared(lambda x: (x * x).tanh() + 1.0)
    is_native_from_the_second_call_on(run, draw(4, grad=True))
    is_native_from_the_second_call_on(run, draw(4))


def test_no_grad_inside_and_around(compared):
    def fn(x, off):
        y = x * 2.0
        with ex.set_grad_enabled(not off):
            y = y + y.sigmoid()
        return y * x

    run = compared(fn)
    is_native_from_the_second_call_on(run, draw(4, grad=True), True)
    assert run(draw(4, grad=True), False)
    with ex.no_grad():
        assert run(draw(4, grad=True), False)
        assert run(draw(4, grad=True), False) == []
    with ex.inference_mode():
        assert run(draw(4), False)
        assert run(draw(4), False) == []


def test_gradients_of_what_was_recorded_natively(by_python):
    layer, x = ex.nn.Linear(4, 3), draw(5, 4)

    def loss_of(x):
        return (layer(x).tanh() ** 2).mean()

    def gradients(fn):
        layer.zero_grad()
        fn(x).backward()
        return [seen(p.grad) for p in layer.parameters()]

    compiled, expected = ex.compile(loss_of), gradients(loss_of)
    for k in range(4):
        by_python.clear()
        assert gradients(compiled) == expected
        assert bool(by_python) == (k == 0)


# ---- numbers, attributes, several results


def test_numbers_are_inputs_and_their_kinds_are_not(compared):
    run = compared(lambda x, a, b: (x * a + b) / a)
    is_native_from_the_second_call_on(run, draw(4), 0.5, 3)
    for a, b in ((0.25, 7), (-0.0, 0), (math.nan, 1 << 40), (math.inf, -1)):
        assert run(draw(4), a, b) == []
    for a, b in ((2, 3), (0.5, 1.0), (True, 3), (np.float32(0.5), 3)):
        run(draw(4), a, b)
        run(draw(4), a, b)
    run(draw(4), 0.5, 3)
    assert run(draw(4), 0.5, 3) == []


def test_starts_of_slices_are_part_of_the_key_until_they_change(compared):
    run = compared(lambda x, k: (x * 2.0)[k : k + 2] + 1.0)
    is_native_from_the_second_call_on(run, draw(9), 3)
    assert "slice" in run(draw(9), 4)
    for k in (2, 5, 0, 7, 3):
        run(draw(9), k)
    run(draw(9), 6)
    assert run(draw(9), 6) == []


def test_attributes_are_compared_by_value(compared):
    run = compared(lambda x, dim: (x + 1.0).sum(dim=dim))
    is_native_from_the_second_call_on(run, draw(3, 3), 0)
    assert run(draw(3, 3), 1) == ["sum"]
    assert run(draw(3, 3), 0) == ["sum"]
    assert run(draw(3, 3), 0) == []


def test_several_results(compared):
    def fn(x):
        values, places = (x * 2.0).max(dim=1)
        return values + 1.0, places, values * places

    is_native_from_the_second_call_on(compared(fn), draw(3, 4))
    is_native_from_the_second_call_on(compared(fn), draw(3, 4, grad=True))


def test_inputs_that_are_none(compared):
    run = compared(lambda x, low, high: (x * 2.0).clamp(low, high) + 1.0)
    is_native_from_the_second_call_on(run, draw(6), 0.0, None)
    assert run(draw(6), None, 0.0) == ["clamp", "add"]


# ---- ways


def test_the_last_two_ways_are_native_and_others_are_found_by_python(compared):
    run = compared(lambda x, way: getattr(x, way)() * x + 1.0)
    is_native_from_the_second_call_on(run, draw(4), "tanh")
    assert "sigmoid" in run(draw(4), "sigmoid")
    for way in ("tanh", "sigmoid", "tanh"):
        assert run(draw(4), way) == []
    assert "relu" in run(draw(4), "relu")
    assert run(draw(4), "sigmoid") == []
    assert run(draw(4), "tanh") == ["tanh"]
    for way in ("relu", "tanh"):
        assert run(draw(4), way) == []


def test_lengths_that_vary(compared):
    def fn(x, n):
        for _ in range(n):
            x = x.tanh() + 0.5
        return x

    run = compared(fn)
    for n in (3, 5, 2, 5, 3):
        run(draw(4), n)
    for n in (3, 2, 5, 4, 1):
        assert run(draw(4), n) == []


def test_recording_goes_on_natively_after_a_value_was_read(compared):
    def fn(x):
        while float(x.sum()) < 20.0:
            x = x * 1.5 + 1.0
        return x

    is_native_from_the_second_call_on(compared(fn), ex.ones(4))


# ---- what runs at once


def test_views_of_what_is_there_and_ops_without_tensors_are_made_at_once(compared):
    def fn(x):
        out = x[0] * 2.0
        for k in range(3):
            out = out + x[k] * x.t()[k, :1] + x.reshape(-1)[k : k + 4]
        return out + ex.zeros(4) + ex.arange(4) + ex.full((4,), 0.5)

    is_native_from_the_second_call_on(compared(fn), draw(4, 4))


def test_views_of_tracked_leaves_are_made_at_once_where_no_gradient_passes(compared, by_python):
    def fn(x):
        with ex.no_grad():
            row = x[1]
            assert row._data is not None
            return row * 2.0 + x.t()[1]

    is_native_from_the_second_call_on(compared(fn), draw(4, 4, grad=True))


def test_views_that_a_gradient_passes_are_on_the_tape(compared):
    def fn(x):
        row = x[1]
        assert row._data is None or CONTEXT.get().recording is None
        return row * 2.0 + x.t()[2] + x.reshape(2, 8)[0, :4]

    is_native_from_the_second_call_on(compared(fn), draw(4, 4, grad=True))


@pytest.fixture
def went_on(monkeypatch):
    """Which ops on tapes that were left are put there natively: (name, whether it was)."""
    names = []
    go_on = tracer._extend_escaped

    def watched(recording, op, *rest):
        made = go_on(recording, op, *rest)
        names.append((op.name, made is not None))
        return made

    monkeypatch.setattr(tracer, "_extend_escaped", watched)
    return names


def left_contents(executor):
    """Everything on a trace that has escaped, as far as calls have it in common."""
    assert executor.is_left
    tape = executor.trace
    assert {type(ref) for ref in tape.results} == {weakref.ref}
    taped = [None if t is None else (t._value_id, t._type, t._grad_barrier) for t in [ref() for ref in tape.results]]
    numbers = [number for _, number in tape.clocks]
    assert numbers == sorted(set(numbers))
    leaves = [(id(x), id(m), version) for x, m, version in zip(tape.leaves, tape.memories, tape.versions, strict=True)]
    return taped, tape.makers, leaves, tape.numbers, [place for place, _ in tape.clocks], tape.cursor


def test_a_tape_that_was_left_goes_on_natively(went_on):
    x, w, b = draw(5, 4), draw(4, 3, seed=1, grad=True), draw(3, seed=2, grad=True)
    compiled = ex.compile(lambda x: x @ w)
    tapes, results = [], []
    for _ in range(6):
        went_on.clear()
        y = compiled(x)
        other = y * 0.5
        loss = ((y + b).tanh() * other).sum()
        tapes.append(left_contents(loss._source))
        loss.backward()
        results.append(seen([y, other, loss, w.grad, b.grad]))
        w.grad = b.grad = None
    assert went_on == [("mul", True), ("add", True), ("tanh", True), ("mul", True), ("sum", True)]
    assert all(tape == tapes[0] for tape in tapes)
    assert all(result == results[0] for result in results)


def test_what_goes_on_natively_is_not_kept(went_on):
    w = draw(4, grad=True)
    compiled = ex.compile(lambda x: x * w)
    for _ in range(5):
        y = compiled(draw(4))
        dropped = weakref.ref(y.exp())
        assert dropped() is None
        z = y.tanh()
        assert z._source.trace.results[2]() is z
        del y, z
    assert went_on[-2:] == [("exp", True), ("tanh", True)]


def test_ops_of_several_results_go_on_by_python(went_on):
    w = draw(4, 4, grad=True)
    compiled = ex.compile(lambda x: x * w)
    for k in range(5):
        x = draw(4, 4, seed=k)
        assert seen(compiled(x).max(dim=1)) == seen((x * w).max(dim=1))
    assert went_on[-1] == ("max_with_index", False)


def test_no_memory_on_a_tape_that_was_left_changes_nothing():
    testcapi = pytest.importorskip("_testcapi")
    w, b, fails = draw(4, grad=True), draw(4, seed=1, grad=True), []
    compiled = ex.compile(lambda x: x * w)
    x = draw(4, seed=2)
    expected = seen(x * w * b)
    for k in [None, None, None, *range(16), None]:
        y = compiled(x)
        tape = y._source.trace
        before = [len(getattr(tape, name)) for name in (*LISTS, "clocks")], tape.cursor, b._source
        if k is not None:
            testcapi.set_nomemory(k, k + 1)
        try:
            z = y * b
        except MemoryError:
            z = None
        finally:
            testcapi.remove_mem_hooks()
        if z is None:
            fails.append(k)
            assert ([len(getattr(tape, name)) for name in (*LISTS, "clocks")], tape.cursor, b._source) == before
            z = y * b
        assert seen(z) == expected, k
    assert len(fails) > 5


# ---- references, memory, other people's code


def test_recordings_leave_no_references_behind():
    x, w, unrelated = draw(3, 4), draw(3, 4, grad=True), draw(3, 4)
    number = 0.123
    steps = []

    def fn(turn):
        y = (x * w + number).sum(dim=0) + x[0]
        values, places = (x + unrelated).max(dim=1)
        steps[:] = CONTEXT.get().recording.trace.makers
        return y if turn else (values, places)

    compiled = ex.compile(fn)
    for k in range(6):
        compiled(k % 2)
    known = list(steps)
    held = [x, w, x._data, w._data, w._history, w._memory, x._type, number, None, True, False, 0, *known]
    held += [part for s in known for part in (s.op, s.type, s.refs, s.attrs, s.kinds, s.place, s.following)]

    def counts():
        gc.collect()
        return [sys.getrefcount(o) for o in held], len(gc.get_objects())

    counts()
    before, n_before = counts()
    for k in range(400):
        compiled(k % 2)
    after, n_after = counts()
    assert max(abs(a - b) for a, b in zip(after, before, strict=True)) < 50
    assert abs(n_after - n_before) < 50


def test_a_recording_ends_with_its_function():
    recordings = []

    def fn(x):
        recordings.append(weakref.ref(CONTEXT.get().recording))
        return x * 2.0 + 1.0

    compiled = ex.compile(fn)
    for _ in range(4):
        kept = compiled(draw(3))
    assert kept._data is not None
    assert len({r() for r in recordings} - {None}) <= 1  # one may serve the next call
    assert all(r() is None or r().is_empty for r in recordings)
    del compiled
    assert [r() for r in recordings] == [None] * 4


def test_no_memory_in_the_middle_changes_nothing():
    testcapi = pytest.importorskip("_testcapi")
    b, w, fails = draw(3, 4), draw(3, 4, seed=1, grad=True), []

    def tape():
        trace = CONTEXT.get().recording.trace
        sizes = [len(getattr(trace, name)) for name in LISTS]
        return sizes, id(trace.cursor), [id(x._source) for x in (b, w)]

    def attempt(fn, *args):
        if k is None:
            return fn(*args)
        before = tape()
        testcapi.set_nomemory(k, k + 1)
        try:
            made = fn(*args)
        except MemoryError:
            made = None
        finally:
            testcapi.remove_mem_hooks()
        if made is None:
            fails.append(k)
            assert tape() == before
            made = fn(*args)
        return made

    attrs = {"dim": (1,), "keepdim": False}

    def fn():
        y = attempt(ex.Tensor.__mul__, w, b)
        z = attempt(ex.Tensor.__mul__, y, 2.5)
        values, places = attempt(apply, REGISTRY["max_with_index"], (z,), attrs)
        return z, values, places

    compiled = ex.compile(fn)
    k = None
    expected = seen(fn())
    for k in [None, None, None, *range(24), None]:
        assert seen(compiled()) == expected, k
    assert len(set(fails)) >= 8  # five lists of leaves, numbers, results, makers; tensors and a tuple may be kept ones


class Garbage:
    """Goes away when the collector runs, and then calls a function."""

    def __init__(self, last_words):
        self.cycle, self.last_words = self, last_words

    def __del__(self):
        self.last_words()


def test_a_finalizer_may_record_while_a_result_is_made():
    x, other, said = draw(4), draw(4, seed=1), []

    def fn(with_garbage):
        y = x * 2.0
        if with_garbage:
            Garbage(lambda: said.append(other * 3.0))
            gc.set_threshold(1)
        y = ex.tanh(y)  # the collector runs where its result is made
        gc.set_threshold(100_000)
        return y * 2.0 + 1.0

    threshold = gc.get_threshold()
    try:
        expected, compiled = seen(fn(False)), ex.compile(fn)
        for k in range(8):
            gc.collect()
            assert seen(compiled(k > 2)) == expected
            assert len(said) == max(0, k - 2)
    finally:
        gc.set_threshold(*threshold)
    assert [seen(made) for made in said] == [seen(other * 3.0)] * 5


@pytest.mark.alone
def test_threads_record_the_same_function_at_once():
    def fn(x, n):
        for _ in range(n):
            x = (x * 1.01).tanh() + x[0]
        return x

    compiled = ex.compile(fn)
    wrong = []

    def work(seed):
        for turn in range(60):
            x, n = draw(4, seed=seed), 3 + (turn + seed) % 4
            if seen(compiled(x, n)) != seen(fn(x, n)):
                wrong.append((seed, turn))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong
