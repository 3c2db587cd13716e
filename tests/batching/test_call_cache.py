"""Calls that native code records are what Python would have recorded."""

from __future__ import annotations

import contextlib
import gc
import random
import sys
import threading
from typing import NamedTuple

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.backends import selection
from extempo.backends.entry_points import python_defaults
from extempo.batching import run, sample_tracer
from extempo.batching.sizes import together
from extempo.core.context import CONTEXT
from extempo.core.graph import describe_where
from extempo.errors import ExtempoError

SIZE = 4


class Pair(NamedTuple):
    first: ex.Tensor
    second: ex.Tensor


class Pickier(tuple):
    """A tuple that sometimes cannot be made."""

    refuses = False

    def __new__(cls, parts=()):
        if cls.refuses:
            raise RuntimeError("not now")
        return super().__new__(cls, parts)


factor = 2.0


@ex.cell
def gate(x, y, *, scale=1.0, plus=None):
    out = ex.sigmoid(x) * y * scale
    return out if plus is None else out + plus


@ex.cell
def paired(x, y):
    return Pair(x + y, x - y)


@ex.cell
def listed(parts, name):
    return [part * (1.0 if name == "one" else 2.0) for part in parts]


@ex.cell
def named(x, flag):
    return {"sum": (x + 1.0) if flag else x, "all": (x, [x * 2.0])}


@ex.cell
def with_global(x):
    return x * factor


@ex.cell
def nested(state):
    (x, (y, z)), n = state
    return x + y * z + n


@pytest.fixture(autouse=True)
def models():
    ex.manual_seed(0)
    made = {
        "embedding": nn.Embedding(10, SIZE),
        "linear": nn.Linear(SIZE, SIZE),
        "lstm": nn.LSTMCell(SIZE, SIZE),
        "weight": nn.Parameter(ex.ones(SIZE, SIZE)),
    }
    yield made
    Pickier.refuses = False


@contextlib.contextmanager
def in_python():
    """Nothing is recorded or arranged natively."""
    if selection.native() is None:
        yield
        return
    ex.batch(lambda x: x * 2)([ex.ones(1)])
    with python_defaults():
        yield


@contextlib.contextmanager
def noting(monkeypatch):
    """What runs have recorded when they are flushed."""
    noted = []
    flush = run.BatchExecutor.flush

    def note(self):
        noted.append(
            [
                self.n_values,
                list(self._numbers),
                self._parts._words[:],
                [(value, array.ravel().tolist()) for value, _, array in self._met],
                list(map(describe_where, self.notes.reads)),
                [
                    (
                        (c.kind.name, c.kind.family) if c.kinds else c.kind,
                        c.kinds[:],
                        c.refs[:],
                        c.firsts[:],
                        c.samples[:],
                        list(map(describe_where, c.wheres)),
                    )
                    for c in self._waiting.values()
                ],
            ]
        )
        batches = len(self.notes.batches)
        flush(self)
        noted[-1].append([members.tolist() for _, members, _ in self.notes.batches[batches:]])

    with monkeypatch.context() as patch:
        patch.setattr(run.BatchExecutor, "flush", note)
        yield noted


def program(seed, models, outside):
    """A function of one sample that does this and that."""
    embedding, linear, lstm, weight = models.values()

    def body(number):
        chance = random.Random(seed * 100 + number)
        values = [linear(ex.zeros(SIZE)), outside[number % len(outside)]]

        def pick():
            return chance.choice(values)

        def step():
            what = chance.randrange(17)
            if what == 0:
                values.append(embedding(chance.randrange(10)))
            elif what == 1:
                values.append(linear(pick()))
            elif what == 2:
                values.extend(lstm(pick(), (pick(), pick())))
            elif what == 3:
                values.append(gate(pick(), pick(), scale=chance.choice([0.5, 3.0, 2])))
            elif what == 4:
                values.append(gate(pick(), pick(), plus=pick()))
            elif what == 5:
                made = paired(pick(), pick())
                assert type(made) is Pair
                values.extend(made)
            elif what == 6:
                made = listed([pick() for _ in range(chance.randrange(1, 4))], chance.choice(["one", "two"]))
                assert type(made) is list
                values.extend(made)
            elif what == 7:
                made = named(pick(), chance.random() < 0.5)
                assert list(made) == ["sum", "all"]
                values.append(made["all"][1][0])
            elif what == 8:
                values.append(pick() + pick())
            elif what == 9:
                values.append(pick() * chance.choice([0.5, 2, 0.25]))
            elif what == 10:
                values.append(weight @ pick())
            elif what == 11:
                values.append(pick() - ex.stack([pick().sum(), *pick()[1:]]))
            elif what == 12:
                with ex.no_grad():
                    values.append(linear(pick()) + pick())
            elif what == 13:
                values.append(outside[chance.randrange(len(outside))][0] * pick())
            elif what == 14:
                values.append(nested(((pick(), (pick(), pick())), chance.choice([1, 1.5]))))
            elif what == 15:
                values.append(ex.cat(pick().chunk(2)[::-1]))
            elif what == 16 and chance.random() < 0.3 and pick().sum().item() > 0:
                values.append(-pick())

        for _ in range(chance.randrange(5, 40)):
            step()
            if len(values) > 8:
                del values[:2]
        return ex.stack(values).tanh().sum()

    return body


@pytest.mark.parametrize("seed", range(12))
def test_native_code_records_what_python_records(seed, models, monkeypatch):
    outside = [ex.ones(SIZE, SIZE, requires_grad=True) * (i + 1) for i in range(3)]
    outside = [outside[0][0], outside[1].detach()[1], outside[2][2].clone()]
    body = program(seed, models, outside)
    for _ in range(20):  # kinds that have been called often are treated otherwise
        ex.batch(body)(range(9))
    made = []
    for around in (in_python, contextlib.nullcontext, contextlib.nullcontext, in_python):
        together.forget()  # which calls at several sizes were recorded together
        for _ in range(2):
            ex.batch(body)(range(9))
        with around(), noting(monkeypatch) as noted:
            losses = ex.batch(body)(range(9))
        parameters = [p for m in models.values() for p in (m.parameters() if isinstance(m, nn.Module) else [m])]
        gradients = ex.autograd.grad(ex.stack(losses).sum(), parameters, allow_unused=True)
        values = [loss.item() for loss in losses] + [None if g is None else g.tolist() for g in gradients]
        made.append((noted, values))
    first, *others = made
    for noted, values in others:
        assert noted == first[0]
        assert values == first[1]


def calls_of(function, *args):
    """How many calls of Python a batch makes, by the names of the functions."""
    counts: dict[str, int] = {}

    def watch(frame, event, arg):
        if event == "call":
            counts[frame.f_code.co_name] = counts.get(frame.f_code.co_name, 0) + 1

    def watched(x):
        sys.setprofile(watch)
        try:
            return function(x)
        finally:
            sys.setprofile(None)

    ex.batch(watched)(*args)
    return counts


def test_tensors_from_outside_lie_as_they_like():
    square = ex.arange(16.0).reshape(SIZE, SIZE)
    weight = ex.ones(SIZE, SIZE, requires_grad=True) * 2.0
    outside = [square[1], square[:, 2], square.flip(0)[3], weight[0], weight[:, 1], ex.ones(SIZE)]

    def body(x):
        return (x * x + square[:, 3]).sum()

    batched = ex.batch(body)
    for _ in range(2):
        assert ex.equal(ex.stack(batched(outside)), ex.stack([body(x) for x in outside]))
        assert batched.stats()["launches"] == 6  # of x that is tracked, and of x that is not


def test_there_may_be_more_kinds_than_a_word_has_bits():
    def body(scale):
        return ex.stack([(ex.arange(100.0) * scale).roll(n)[0] for n in range(1, 70)])

    scales = [2.0, 3.0, 4.0, 5.0, 6.0]
    for around in (in_python, contextlib.nullcontext):
        with around():
            batched = ex.batch(body)
            for scale, rolled in zip(scales, batched(scales), strict=True):
                assert rolled.tolist() == [scale * (100 - n) for n in range(1, 70)]
            assert batched.stats()["launches"] == 1 + 69 + 1


@pytest.mark.parametrize("n_inputs", [63, 64, 65, 200])
def test_calls_of_many_inputs(n_inputs):
    def body(x):
        return ex.stack([x * k for k in range(n_inputs)]).sum(1)

    for _ in range(2):
        for k, y in enumerate(ex.batch(body)([ex.ones(SIZE), 2.0 * ex.ones(SIZE)]), start=1):
            assert y.tolist() == [float(SIZE * k * i) for i in range(n_inputs)]


needs_native = pytest.mark.skipif(selection.native() is None, reason="needs native code")


@needs_native
def test_calls_like_others_run_no_python(models):
    embedding, linear, lstm, weight = models.values()

    def body(n):
        h = c = linear(ex.zeros(SIZE))
        for i in range(n):
            h, c = lstm(embedding(i % 10), (h, c))
            h = gate(h, c, scale=0.5) + weight @ c
            h = h * 2 - h.tanh()
        return h.sum()

    ex.batch(body)([3, 3])
    few, many = calls_of(body, [3]), calls_of(body, [53])
    more = {name: many[name] - few.get(name, 0) for name in many}
    assert {name: n for name, n in more.items() if n > 5} == {"__call__": 150, "run1": 50}  # run1: tanh


@needs_native
def test_nothing_is_leaked(models):
    embedding, linear, lstm, weight = models.values()
    view = ex.ones(3, SIZE)

    def body(n):
        h = c = linear(view[1])
        for i in range(n):
            h, c = lstm(embedding(i % 10), (h, c))
            a, _ = paired(h, c)
            h = gate(a, c, scale=0.5 + i) + weight @ c
            h = listed([h, view[2]], "one")[0] * 2.5
        return h.sum()

    for n in (3, 100, 100):  # what is made once for such calls is no leak
        ex.batch(body)([n] * 4)
    state = (None, True, False, weight, view, embedding, lstm, ex.float32)
    held = [*(cached.kind for m in (embedding, lstm, linear) for cached in sample_tracer.find(m).cached_calls), *state]
    held += [cached.kind.results[0] for cached in sample_tracer.find(lstm).cached_calls]

    def counts():
        gc.collect()
        tensors = sum(type(o) is ex.Tensor for o in gc.get_objects())
        return [sys.getrefcount(o) for o in held], tensors

    before = counts()
    for _ in range(2):
        ex.batch(body)([100] * 4)
    after = counts()
    assert after[1] <= before[1] + 5
    assert all(abs(b - a) < 60 for a, b in zip(before[0], after[0], strict=True))


@needs_native
def test_a_call_that_does_not_fit_changes_nothing(models):
    linear, lstm = models["linear"], models["lstm"]
    seen = []

    def state():
        one = CONTEXT.get().interceptor.run
        return len(one._numbers), [(c.refs[:], c.firsts[:], c.samples[:]) for c in one._waiting.values()]

    def body(x):
        h = linear(x)
        lstm(h, (h, h))
        before = state()
        for wrong in ((h, "text"), (h, h, h), (h, None), (h, 1.5), (h, ex.ones(SIZE + 1))):
            with pytest.raises(ExtempoError):
                lstm(h, wrong)
        seen.append((before, state()))
        return h

    ex.batch(body)([ex.ones(SIZE)] * 3)
    assert len(seen) == 3
    for before, after in seen:
        assert before == after


@needs_native
def test_what_makes_the_result_may_fail():
    @ex.cell
    def picky(x):
        return Pickier((x + 1, x * 2))

    def body(x):
        x = x * 1.0
        a, b = picky(x)
        Pickier.refuses = True
        with pytest.raises(RuntimeError, match="not now"):
            picky(a)
        Pickier.refuses = False
        a, b = picky(b)
        return a + b

    for _ in range(2):
        (out,) = ex.batch(body)([ex.tensor([1.0])])
        assert out.tolist() == [7.0]


def test_what_a_cell_reads_may_change_between_calls(monkeypatch):
    def body(x):
        made = [with_global(x)]
        globals()["factor"] = 3.0
        made.append(with_global(x))
        globals()["factor"] = 2.0
        made.append(with_global(x))
        return made

    try:
        for _ in range(3):
            (out,) = ex.batch(body)([ex.tensor([1.0])])
            assert [t.item() for t in out] == [2.0, 3.0, 2.0]
    finally:
        globals()["factor"] = 2.0


def test_modules_may_change_between_calls(models, monkeypatch):
    linear = models["linear"]
    x = ex.ones(SIZE)

    def body(_):
        made = [linear(x), linear(x)]
        with monkeypatch.context() as patch:
            patch.setattr(nn.Linear, "forward", lambda self, x: x * 7)
            made += [linear(x), linear(x)]
        made.append(linear(x))
        weight = linear.weight
        linear.weight = nn.Parameter(ex.zeros(SIZE, SIZE))
        made += [linear(x), linear(x)]
        linear.weight = weight
        made.append(linear(x))
        weight.requires_grad_(False)
        made.append(linear(x).detach())
        weight.requires_grad_(True)
        made.append(linear(x))
        return made

    with ex.eager():
        (wanted,) = ex.batch(body)([0])
    for _ in range(2):
        for out in ex.batch(body)([0, 1]):
            for got, want in zip(out, wanted, strict=True):
                np.testing.assert_allclose(got.tolist(), want.tolist(), rtol=1e-6)
                assert got.requires_grad == want.requires_grad


def test_objects_among_arguments_are_known_by_what_they_are():
    class Setting:
        def __init__(self, by):
            self.by = by

    @ex.cell
    def scaled(x, setting):
        return x * setting.by

    def body(x):
        made = []
        for by in (2.0, 3.0, 4.0, 5.0):
            setting = Setting(by)  # often where the last one was
            made += [scaled(x, setting), scaled(x, setting)]
            del setting
        return made

    for _ in range(3):
        (out,) = ex.batch(body)([ex.tensor([1.0])])
        assert [t.item() for t in out] == [2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 5.0]


def test_views_of_what_was_written_since(models):
    linear = models["linear"]
    base = ex.zeros(2, SIZE)
    view = base[1]

    def body(_):
        return linear(view), linear(view)

    ex.batch(body)([0])
    base.add_(1.0)
    (out,) = ex.batch(body)([0])
    np.testing.assert_allclose(out[1].tolist(), linear(ex.ones(SIZE)).tolist(), rtol=1e-6)


def test_weights_go_with_those_who_hold_them():
    import weakref

    def use():
        weight = nn.Parameter(ex.ones(SIZE, SIZE))
        layer = nn.Linear(SIZE, SIZE)

        def body(x):
            x = layer(x)
            return (weight @ x + weight @ x).sum()

        ex.stack(ex.batch(body)([ex.ones(SIZE)] * 2)).sum().backward()
        return weakref.ref(weight), weakref.ref(layer)

    for ref in use():
        gc.collect()
        assert ref() is None


@pytest.mark.alone
def test_batches_in_threads(models):
    embedding, linear, lstm, weight = models.values()

    def body(n):
        h = c = linear(ex.zeros(SIZE))
        for i in range(n):
            h, c = lstm(embedding(i % 10), (h, c))
            h = gate(h, c, scale=i) + weight @ c
        return h.sum()

    wanted = [t.item() for t in ex.batch(body)([3, 9, 4, 12])]
    got = {}

    def use(k):
        got[k] = [[t.item() for t in ex.batch(body)([3, 9, 4, 12])] for _ in range(10)]

    threads = [threading.Thread(target=use, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(got) == 4
    for found in got.values():
        for one in found:
            np.testing.assert_allclose(one, wanted, rtol=1e-6)


def test_lines_of_calls(models):
    linear = models["linear"]

    def body(x):
        x = linear(x)
        for _ in range(2):
            x = linear(x)
            x = linear(x)
        return x

    batched = ex.batch(body)
    for _ in range(2):
        batched([ex.ones(SIZE)] * 3)
        lines = sorted((line.where.rpartition(":")[2], line.calls) for line in batched.explain().lines)
        first = body.__code__.co_firstlineno
        assert lines == [(str(first + 1), 3), (str(first + 3), 6), (str(first + 4), 6)]
