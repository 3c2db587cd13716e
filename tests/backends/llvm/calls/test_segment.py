"""Flushing in native code: tensors, tape and gradients are those that Python makes, and nothing is left behind."""

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import extempo as ex
from extempo.backends.selection import native
from extempo.core.context import CONTEXT
from extempo.tracing import executor
from extempo.tracing.segment import PLANS
from extempo.tracing.trace import Trace

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def loaded():
    """The native functions, which are loaded when they are first called."""
    w = ex.ones(2, requires_grad=True)
    step = ex.compile(lambda: (w * w).sum().backward())
    for _ in range(2):
        step()
    return executor._flush_known, executor._backward_known


FLUSH, BACKWARD = loaded()


pytestmark = pytest.mark.usefixtures("always_planned")


@pytest.fixture
def by_python(monkeypatch):
    """How often Python gave tensors their values."""
    count, fill = [0], Trace.fill

    def counted(self, places, source):
        count[0] += 1
        fill(self, places, source)

    monkeypatch.setattr(Trace, "fill", counted)
    return count


def use(monkeypatch, natively):
    monkeypatch.setattr(executor, "_flush_known", FLUSH if natively else lambda r: False)
    monkeypatch.setattr(executor, "_backward_known", BACKWARD if natively else lambda *args: None)


def draw(*shape, seed=0, grad=False):
    return ex.tensor(np.random.default_rng([seed, *shape]).normal(size=shape), dtype=ex.float32, requires_grad=grad)


def seen(result):
    if isinstance(result, list | tuple):
        return [seen(r) for r in result]
    if not isinstance(result, ex.Tensor):
        return result
    array = result.numpy(force=True)
    return array.dtype, array.shape, array.strides, array.tobytes(), array.flags.writeable, result.requires_grad


def contents(r):
    """What a trace knows after a segment has run, in words that do not depend on where objects lie."""
    trace = r.trace
    return {
        "values": {p: a.tobytes() for p, a in trace.values.items()},
        "storages": {p: s.array.tobytes() for p, s in trace.storages.items()},
        "alive": sorted(trace.alive),
        "kept": [None if t is None else (t._value_id, t._data is not None, t._source is r) for t in trace.results],
        "run": (trace.cursor.n_run, trace.cursor.n_places, id(trace.cursor)),
    }


def parts(t):
    alias = t._alias
    way = None if alias is None else ([(op.name, numbers, attrs) for op, numbers, attrs in alias.steps], alias.version)
    own = alias is None or alias.base._memory is t._memory
    return seen(t), way, own, t._memory.version, t._source is None, t._history is None


def looked(t):
    """Read it and say what the tape is then."""
    value = t.sum().item()
    return value, contents(CONTEXT.get().recording)


# ---- programs: each returns what is to be compared


def plain(x, w):
    y = (x * 1.5).tanh()
    said = [looked(y)]
    z = y + x
    said.append(looked(z))
    return said, parts(y), parts(z)


def tracked(x, w):
    y = (x @ w).tanh()
    said = [looked(y)]
    z = (y * y).exp()
    said.append(looked(z))
    z = z + 1.0
    said.append(looked(z))
    return said, parts(y), parts(z)


def dropped_and_kept(x, w):
    y = x * w
    z = y.tanh() * 2.0
    del y
    said = [looked(z)]
    a = z + 1.0
    b = a * z
    del a, z
    said.append(looked(b))
    return said, parts(b)


def views(x, w):
    y = x * 2.0
    part = y[1:3, ::2]
    turned = part.permute(1, 0)
    wide = y[0].reshape(1, 2, 2).expand(3, 2, 2)
    said = [looked(y)]
    return said, [parts(t) for t in (part, turned, wide, y)]


def views_of_what_nobody_holds(x, w):
    part = (x * w).tanh()[1:, 0]
    turned = (x * 3.0).t()[0]
    said = [looked(part)]
    return said, parts(part), parts(turned), seen(part._alias.base), part._alias.base._source is None


def views_of_what_ran_before(x, w):
    y = (x * w).tanh()
    said = [looked(y)]
    part, row = y[1], w[0]
    said.append(looked(part))
    return said, parts(part), parts(row), parts(y)


def detached(x, w):
    y = (x * w).tanh()
    bare, leaf = y.detach(), w.detach()
    again = (y * 2.0).detach()
    return [looked(y)], parts(bare), parts(again), parts(leaf), bare._memory is y._memory


def several(x, w):
    values, places = (x * w).max(dim=1)
    less, where = x.min(dim=0)
    del less
    return [looked(values)], parts(values), parts(places), parts(where)


def numbers(x, w):
    said = []
    for k in (0, 2, 1):
        y = (x * (k + 0.5)).tanh()
        said.append(y[k].sum().item())
        part = y[k:, k]
        said.append(looked(part))
        said.append(parts(part))
    return said


def untracked_inside(x, w):
    y = x * w
    with ex.no_grad():
        z = y * 2.0
    said = [looked(z)]
    return said, parts(y), parts(z)


PROGRAMS = [
    *(plain, tracked, dropped_and_kept, views, views_of_what_nobody_holds, views_of_what_ran_before, detached),
    *(several, numbers, untracked_inside),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_tensors_and_tape_are_those_that_python_makes(program, monkeypatch, by_python):
    x, w = draw(4, 4), draw(4, 4, seed=1, grad=True)
    compiled = ex.compile(program)
    for _ in range(5):  # the numbers program sees slices that vary only later
        compiled(x, w)
    for _ in range(3):
        use(monkeypatch, natively=False)
        expected = compiled(x, w)
        assert by_python[0]
        use(monkeypatch, natively=True)
        by_python[0] = 0
        assert compiled(x, w) == expected
        assert by_python[0] == 0


def test_a_view_that_only_numpy_makes(by_python):
    x = draw(3, 1)

    def fn():
        row = (x * 2.0).expand(3, 4)[1]  # the source cannot be written
        return row.sum().item(), parts(row)

    compiled, expected = ex.compile(fn), fn()
    assert [compiled() for _ in range(3)] == [expected] * 3
    before = ex.compile.stats()["runs"]
    by_python[0] = 0
    assert compiled() == expected
    assert by_python[0] == 1
    assert ex.compile.stats()["runs"] == before + 1


def test_what_is_live_decides(by_python):
    x = draw(3, 4)

    def fn(keep):
        y = x * 2.0
        z = y.tanh()
        kept = [y] if keep & 1 else []
        if keep & 2:
            kept.append(z[0])
        del y
        total = z.sum().item()
        return total, [parts(t) for t in kept]

    compiled = ex.compile(fn)
    expected = [fn(keep) for keep in range(4)]
    for turn in range(4):
        by_python[0] = 0
        assert [compiled(keep) for keep in range(4)] == expected
        assert bool(by_python[0]) == (turn < 2)


def test_a_function_within_a_function():
    inner = ex.compile(lambda x: (x * 2.0).tanh())

    @ex.compile
    def outer(x):
        y = inner(x)
        if y.sum().item() > 1e9:
            return y
        return inner(y + 1.0).sum().item()

    x = draw(4)
    expected = ((x * 2.0).tanh() + 1.0).mul(2.0).tanh().sum().item()
    assert [outer(x) for _ in range(5)] == [expected] * 5


def test_runs_are_counted():
    compiled = ex.compile(lambda x: (x * 2.0).sum().item())
    x = draw(4)
    for _ in range(2):
        compiled(x)
    before = ex.compile.stats()["runs"]
    for _ in range(10):
        compiled(x)
    assert ex.compile.stats()["runs"] == before + 10


# ---- what native code leaves to Python


def with_plans(wrapped):
    """Let every plan run through a function; returns what puts them back."""
    plans = [(f.plan, f.plan.run) for f in PLANS]
    for plan, run in plans:
        plan.run = wrapped(run)

    def restore():
        for plan, run in plans:
            plan.run = run

    return restore


@pytest.fixture
def reading():
    """A compiled function that has its plans, and what it returns."""
    PLANS.clear()
    x, w = draw(3, 4), draw(3, 4, seed=1, grad=True)

    def fn(extra=lambda: CONTEXT.get().recording.flush()):
        y = (x * w).tanh()
        part = y[0]
        extra()
        total = y.sum().item()
        return total, parts(part), seen(y * part)

    compiled = ex.compile(fn)
    for _ in range(4):
        compiled()
    return compiled, compiled()


def test_a_plan_that_fails_is_replayed(reading):
    compiled, expected = reading
    restore = with_plans(lambda run: lambda *args: -1)
    assert compiled() == expected
    restore()
    assert compiled() == expected


def test_an_error_of_a_plan_changes_nothing(reading):
    compiled, expected = reading

    def broken(run):
        def raising(*args):
            raise MemoryError("no more")

        return raising

    def extra():
        r = CONTEXT.get().recording
        before = contents(r)
        restore = with_plans(broken)
        try:
            with pytest.raises(MemoryError, match="no more"):
                r.flush()
        finally:
            restore()
        assert contents(r) == before

    assert compiled(extra) == expected


def test_plans_that_are_forgotten_while_they_run(reading):
    compiled, expected = reading

    def forgetting(run):
        def running(*args):
            PLANS.clear()
            gc.collect()
            return run(*args)

        return running

    with_plans(forgetting)
    for _ in range(5):
        assert compiled() == expected


@pytest.mark.parametrize("natively", [False, True])
@pytest.mark.parametrize("reads", [False, True])
def test_someone_records_or_reads_while_a_plan_runs(reading, monkeypatch, natively, reads):
    use(monkeypatch, natively)
    compiled, expected = reading
    other, said, busy = draw(5, seed=3), [], []

    def interrupted(run):
        def running(*args):
            if not busy:
                busy.append(True)
                said.append(other * 3.0)
                if reads:
                    said[-1].sum().item()
            return run(*args)

        return running

    restore = with_plans(interrupted)
    for _ in range(4):
        busy.clear()
        assert compiled() == expected
    restore()
    assert [seen(made) for made in said] == [seen(other * 3.0)] * 4
    assert compiled() == expected


class Garbage:
    """Goes away when the collector runs, and then calls a function."""

    def __init__(self, last_words):
        self.cycle, self.last_words = self, last_words

    def __del__(self):
        self.last_words()


@pytest.mark.parametrize("natively", [False, True])
@pytest.mark.parametrize("reads", [False, True])
def test_finalizers_wherever_the_collector_runs(reading, monkeypatch, natively, reads):
    use(monkeypatch, natively)
    compiled, expected = reading
    other, said, counts = draw(5, seed=3), [], []
    threshold = gc.get_threshold()

    def last_words():
        counts.append(other * 3.0)
        gc.set_threshold(100_000)
        said.append(counts[-1].sum().item() if reads else counts[-1])

    def extra():
        r = CONTEXT.get().recording
        gc.collect()
        Garbage(last_words)
        gc.set_threshold(k)
        r.flush()
        gc.set_threshold(100_000)

    try:
        for k in range(1, 25):
            assert compiled(extra) == expected, k
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    made = other * 3.0
    assert [seen(t) for t in counts] == [seen(made)] * 24
    assert [seen(t) for t in said] == [seen(made.sum().item() if reads else made)] * 24


def test_what_a_dropped_tensor_holds_may_do_anything():
    x, said = draw(3), []

    def fn():
        y = x * 2.0
        y.note = Garbage(lambda: said.append((x + 1.0).sum().item()))
        y.note.cycle = None
        z = y.tanh()
        del y
        return z.sum().item(), (z * 2.0).sum().item()

    compiled, expected = ex.compile(fn), fn()
    for _ in range(6):
        assert compiled() == expected
    assert said == [said[0]] * 7


def test_no_memory_at_any_moment(reading):
    testcapi = pytest.importorskip("_testcapi")
    compiled, expected = reading
    fails = []

    def extra():
        r = CONTEXT.get().recording
        before = contents(r)
        testcapi.set_nomemory(k, k + 1)
        try:
            FLUSH(r)
        except MemoryError:
            failed = True
        else:
            failed = False
        finally:
            testcapi.remove_mem_hooks()
        if failed:
            fails.append(k)
            assert contents(r) == before

    for k in range(40):
        assert compiled(extra) == expected, k
    assert len(fails) > 3


# ---- references and threads


def test_thousands_of_flushes_leave_nothing_behind():
    x, w = draw(3, 4), draw(3, 4, seed=1, grad=True)
    start = [0]

    def fn():
        y = (x * w).tanh()
        part, bare = y[start[0]], y.detach()
        values, places = (x * 2.0).max(dim=1)
        total = part.sum().item() + values.sum().item() + places.sum().item() + bare.sum().item()
        loss = (y * total).mean()
        w.grad = None
        loss.backward()
        return loss

    compiled = ex.compile(fn)

    def many(n):
        for k in range(n):
            start[0] = k % 3
            compiled()

    many(30)
    flushes = list(PLANS)
    held = [x, w, x._data, w._data, w._history, w._memory, x._type, None, True, False, (), 0, *flushes]
    held += [part for f in flushes for part in (f.plan, f.binding, f.following, f.wanted, f.plan.run)]

    def counts():
        gc.collect()
        return [sys.getrefcount(o) for o in held], len(gc.get_objects()), sys.getallocatedblocks()

    counts()
    before = counts()
    many(2_000)
    after = counts()
    assert max(abs(a - b) for a, b in zip(after[0], before[0], strict=True)) < 50
    assert abs(after[1] - before[1]) < 50
    assert abs(after[2] - before[2]) < 1_500


def test_what_was_let_go_is_gone():
    x, refs, memory = draw(3, 4), [], []

    def fn():
        y = x * 2.0
        refs.append(weakref.ref(y))
        z = y.tanh()
        del y
        total = z.sum().item()
        memory.append([r() for r in refs])
        return total

    compiled = ex.compile(fn)
    for _ in range(5):
        compiled()
    assert all(alive == [None] * len(alive) for alive in memory)


@pytest.mark.alone
def test_threads_flush_the_same_function_at_once():
    def fn(x, w, n):
        y = x
        for _ in range(n):
            y = (y * w).tanh() + x[0]
            if y[0].sum().item() > 1e9:
                break
        loss = (y * y).sum()
        loss.backward()
        return loss.item()

    compiled = ex.compile(fn)
    wrong = []

    def work(seed):
        x = draw(4, 4, seed=seed)
        for turn in range(30):
            n, found = 2 + (turn + seed) % 3, []
            for run in (fn, compiled):
                w = draw(4, 4, seed=seed + 1, grad=True)
                found.append((run(x, w, n), seen(w.grad)))
            if found[0] != found[1]:
                wrong.append((seed, turn))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
