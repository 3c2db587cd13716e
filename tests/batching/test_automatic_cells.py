"""A module of the user's is a cell by itself if that is plainly safe and pays, and an ordinary function otherwise."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import warnings
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

import extempo as ex
from batching import impure_modules
from batching.agreement import check, close, leaves, rows
from extempo import nn
from extempo.backends.selection import native
from extempo.batching import sample_tracer
from extempo.batching.cells import find
from extempo.nn import functional as F
from extempo.nn import module as nn_module


def effects_of(cls, call, n_calls=4, n_samples=6):
    """Outputs of all calls, and what the module has done."""
    ex.manual_seed(0)
    module = cls()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outputs = [call(module)(rows(n_samples, 4)) for _ in range(n_calls)]
    return module, outputs, (module.effects(), len(caught))


@pytest.mark.parametrize("cls", impure_modules.IMPURE, ids=lambda cls: cls.__name__)
def test_an_impure_module_does_in_a_batch_what_it_does_in_a_loop(cls):
    batched = {}

    def batch_of(module):
        return batched.setdefault(id(module), ex.batch(module))

    _, expected, effects = effects_of(cls, lambda module: ex.batch(module, debug=True))
    module, outputs, got = effects_of(cls, batch_of)
    assert got == effects
    for a, b in zip(outputs, expected, strict=True):
        for x, y in zip(leaves(a), leaves(b), strict=True):
            close(x.detach().numpy(), y.detach().numpy(), cls.__name__)
    if not cls.becomes_pure:
        assert f"module {cls.__name__} ran as an ordinary function" in str(batched[id(module)].explain())


# ---- modules that are cells


def helper(x, factor=2.0, *more, scale=1.0, **options):
    return x * factor * scale + len(more) + len(options)


SCALES = {"half": 0.5, "one": 1.0}


class Config(NamedTuple):
    width: int
    scale: float


@dataclasses.dataclass
class Settings:
    scale: float = 0.5
    names: tuple[str, ...] = ("half", "one")

    def doubled(self):
        return self.scale * 2


class State(NamedTuple):
    h: object
    c: object


class Mode(enum.Enum):
    PLAIN = 0
    SQUARED = 1


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)


class Residual(Base):
    def forward(self, x):
        return x + self.b(F.relu(self.a(x)))


class Derived(Residual):
    def forward(self, x):
        return super().forward(x) * 2


class Layer(nn.Linear):
    def forward(self, input):
        return super().forward(input).tanh()


class Looping(Base):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Residual(), nn.Sequential(nn.Linear(4, 4), nn.Tanh()), Layer(4, 4)])
        self.named = nn.ModuleDict({"first": nn.Linear(4, 4), "second": Residual()})

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x) + i
        for layer in self.layers[1:2]:
            x = layer(x)
        for name, layer in self.named.items():
            x = layer(x) * len(name)
        return x + self.named["first"](x) + self.layers[-1](x)


class Helping(Base):
    @staticmethod
    def static(x):
        return x.sigmoid()

    factor = 3

    @classmethod
    def made(cls, x):
        return x * cls.factor

    @property
    def gain(self):
        return 1.0 + self.a.in_features

    def step(self, x, *, times=2):
        for _ in range(times):
            x = self.a(x).tanh()
        return x

    def forward(self, x):
        x = helper(x, 3.0, 1, 2, scale=0.5, other=1)
        x = self.step(x, times=3) * self.gain + self.static(x)
        options = {"scale": 2.0}
        return helper(*[self.made(x)], **options)


class Attributes(Base):
    def __init__(self):
        super().__init__()
        self.act = lambda x: x.tanh() * self.settings.scale
        self.part = functools.partial(helper, scale=3.0)
        self.settings = Settings()
        self.config = Config(4, 0.25)
        self.mode = Mode.SQUARED
        self.sizes = [1, 3]
        self.table = {"act": F.gelu}
        self.names = SimpleNamespace(scale=0.1)

    def forward(self, x):
        x = self.part(self.act(self.a(x))) * self.config.scale + self.settings.doubled()
        if self.mode == Mode.SQUARED and self.config.width >= 4 and "half" in self.settings.names:
            x = x * x * SCALES[self.settings.names[0]] * self.names.scale
        left, right = x.split(self.sizes, dim=-1)
        return ex.cat([right, left], dim=-1) + self.table["act"](x) + getattr(self, "b")(x)  # noqa: B009


class Heads(Base):
    """Attention by hand."""

    def forward(self, x):
        n = x.shape[-1] // 2
        x = ex.stack([x, x * 2, x * 3])
        parts = []
        for i in range(2):
            q, k, v = (layer(x)[..., i * n : (i + 1) * n] for layer in (self.a, self.b, self.a))
            weights = F.softmax(q @ k.transpose(-2, -1) / math.sqrt(n), dim=-1)
            parts.append(weights @ v)
        out = ex.cat(parts, dim=-1)
        return out.sum(0) if out.dim() > 1 else out


class Functional(Base):
    def forward(self, x, y=None, *, scale: float = 1.0):
        assert x.shape[-1] == 4, f"expected 4 features, got {x.shape[-1]}"
        gates = F.linear(x, self.a.weight, self.a.bias).chunk(2, -1)
        i, f = map(ex.sigmoid, gates)
        total = functools.reduce(lambda a, b: a + b, [i, f, *gates])
        first, *_, last = [total, i, f]
        counts = {name: len(name) for name in ("a", "bb")}
        counts["a"] += 1
        result = [first, last] if y is None else [y]
        result.append(first * scale if self.training else last)
        result[0] = result[0] + sum(counts.values()) + max(counts.values()) + min(1, 2)
        result.extend(z for z in (first, last) if z.ndim)
        return sum(result) + (1 if not isinstance(x, int) and hasattr(self, "a") else 0)


class Structured(Base):
    def forward(self, x):
        h = self.a(x)
        state = State(h, self.b(x))
        return {"h": h, "state": state, "pair": (h, [state.c.tanh(), 1, "text", None])}


class InPlace(Base):
    def forward(self, x):
        y = self.a(x)
        y += 1
        z = ex.zeros(4)
        z = z + y
        return z.mul_(2)


class WithTry(Base):
    def forward(self, x):
        try:
            y = self.a(x)
        except ValueError:
            y = x
        return y.relu()


class WithCell(Base):
    def __init__(self):
        super().__init__()
        self.gate = ex.cell(lambda x, y: x.sigmoid() * y)

    def forward(self, x):
        return self.gate(self.a(x), self.b(x))


class WithClosure(Base):
    def forward(self, x):
        n = 0

        def count(y, step=1):
            nonlocal n
            n += step
            return y * n

        return count(count(self.a(x)), 2) + n


class Normed(Base):
    def __init__(self):
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(4), nn.Dropout(0.0)
        self.register_buffer("mean", ex.ones(4))
        self.embed = nn.Embedding(3, 4)
        self.cell = nn.GRUCell(4, 4)

    def forward(self, x):
        x = self.norm(x + self.a(x) - self.mean) + self.embed(ex.tensor(1))
        return self.cell(x, x) * self.mean.numel() + self.mean.shape[0]


PURE = [Residual, Derived, Looping, Helping, Attributes, Heads, Functional, Structured, InPlace, WithTry, WithCell]
PURE += [WithClosure, Normed]


@pytest.mark.parametrize("cls", PURE, ids=lambda cls: cls.__name__)
def test_a_pure_module_becomes_one_call_of_a_cell(cls):
    module = cls()
    for _ in range(2):
        batched = check(module, rows(6, 4), parameters=module.parameters())
    assert not batched.explain().ordinary
    assert batched.stats()["nodes"] == 6
    assert batched.stats()["launches"] == 1


def test_a_module_of_the_users_that_inherits_from_a_layer_is_proven_too():
    layer = Layer(4, 4)
    for _ in range(2):
        batched = check(layer, rows(6, 4), parameters=layer.parameters())
    assert batched.stats()["nodes"] == 6
    assert find(layer).candidate is not None
    assert find(nn.Linear(4, 4)).candidate is None


def test_the_same_tensor_returned_twice_is_one_tensor():
    class Twice(Base):
        def forward(self, x):
            h = self.a(x)
            return h, (h, self.b(h))

    module = Twice()
    for _ in range(2):
        results = ex.batch(module)(rows(4, 4))
    assert ex.batch(module)(rows(4, 4))[0][0].shape == (4,)
    for out, (h, _) in results:
        assert out is h


# ---- when


def ordinary(batched):
    return "\n".join(batched.explain().ordinary)


def test_two_calls_run_as_their_ops_and_the_third_is_traced():
    module = Residual()
    batched = ex.batch(module)
    batched(rows(2, 4))
    assert batched.stats()["nodes"] == 2 * 4
    batched(rows(1, 4))
    assert batched.stats()["nodes"] == 1


def test_a_module_whose_inputs_have_many_sizes_runs_as_its_ops():
    module = Residual()
    batched = ex.batch(module)
    for _ in range(4):
        check(module, [x for n in (1, 2, 3) for x in rows(2, n, 4)], parameters=module.parameters())
    batched([x for n in (1, 2, 3) for x in rows(2, n, 4)])
    assert batched.stats()["nodes"] == 6
    batched(rows(2, 4, 4))
    assert batched.stats()["nodes"] == 8
    assert "another size" in ordinary(batched)
    batched(rows(2, 1, 4))  # those that were traced are not any more: they are to run with the others
    assert batched.stats()["nodes"] == 8


def test_sizes_in_evaluation_leave_the_cell_of_training_alone():
    module = Residual()
    check(module, rows(4, 4))
    module.eval()
    batched = check(module, [x for n in range(1, 6) for x in rows(1, n, 4)])
    assert "another size" in ordinary(batched)
    module.train()
    for _ in range(2):
        batched = check(module, rows(4, 4))
    assert batched.stats()["nodes"] == 4


def test_trees_of_many_shapes_are_no_signatures():
    class Tree(Base):
        def forward(self, tree):
            if isinstance(tree, int):
                return self.a(ex.ones(4) * tree)
            return self.b(self(tree[0]) + self(tree[1]))

    module = Tree()
    trees = [1, (1, 2), ((1, 2), 3), (1, (2, 3)), ((1, 2), (3, 4)), (((1, 2), 3), 4)]
    for _ in range(4):
        batched = check(module, trees, parameters=module.parameters())
    assert "module Tree ran as an ordinary function" in ordinary(batched)


def test_arguments_that_nest_without_end_are_no_signature():
    class First(Base):
        def forward(self, tree):
            while isinstance(tree, tuple):
                tree = tree[0]
            return self.a(tree)

    deep = ex.ones(4)
    for _ in range(5_000):
        deep = (deep,)
    around: list[object] = [ex.ones(4)]
    around.append(around)
    batched = check(First(), [deep] * 4)
    assert "another size or structure" in ordinary(batched)
    module = First()
    check(lambda x: module((x[0],)) + module((x[0], x)), [around] * 4)


@pytest.mark.parametrize(
    "what", [np.ones(4, np.float32), object(), np.float32(1), {1: 2}], ids=lambda x: type(x).__name__
)
def test_arguments_that_a_cell_would_see_otherwise_make_no_cell(what):
    class Two(Base):
        def forward(self, x, y):
            return self.a(x) + (1 if type(y) is type(what) else 0)

    module = Two()
    batched = check(module, rows(4, 4), [what] * 4)
    assert "module Two ran as an ordinary function: it gets a" in ordinary(batched)


def test_numbers_that_are_looked_at_make_few_traces():
    class Scaled(Base):
        def forward(self, x, n):
            for _ in range(n):
                x = x.tanh()
            return x

    module = Scaled()
    for _ in range(3):
        batched = check(module, rows(12, 4), [i % 2 + 1 for i in range(12)])
    assert batched.stats()["nodes"] == 12
    batched = check(module, rows(12, 4), [i % 6 + 1 for i in range(12)])
    assert "it looks at numbers" in ordinary(batched)


def test_attributes_that_are_others_at_each_call_make_few_traces():
    class Tempered(Base):
        temperature = 1.0

        def forward(self, x):
            return self.a(x) / self.temperature

    module = Tempered()
    for i in range(8):
        module.temperature = 1.0 + i
        batched = check(module, rows(4, 4))
    assert "something else again and again" in ordinary(batched)


def test_what_was_pure_is_proven_again_when_it_changes():
    calls = []

    class Acting(Base):
        def __init__(self):
            super().__init__()
            self.act = ex.tanh

        def forward(self, x):
            return self.act(self.a(x))

    def counting(x):
        calls.append(1)
        return x

    module = Acting()
    for _ in range(2):
        check(module, rows(4, 4))
    module.act = counting
    batched = ex.batch(module)
    batched(rows(4, 4))
    assert len(calls) == 4
    assert "it changes a list that it has not made" in ordinary(batched)
    assert "test_automatic_cells.py" in ordinary(batched)


def test_a_global_function_that_is_rebound_is_called():
    class Global(Base):
        def forward(self, x):
            return REBOUND(self.a(x))

    global REBOUND
    REBOUND = ex.tanh
    module, calls = Global(), []
    for _ in range(2):
        assert not ordinary(check(module, rows(4, 4)))
    REBOUND = ex.relu
    assert not ordinary(check(module, rows(4, 4)))
    REBOUND = lambda x: calls.append(1) or x  # noqa: E731
    ex.batch(module)(rows(4, 4))
    assert len(calls) == 4


def test_dropout_makes_an_ordinary_function_in_training_only():
    class Dropping(Base):
        def __init__(self):
            super().__init__()
            self.dropout = nn.Dropout(0.5)

        def forward(self, x):
            return self.b(self.dropout(self.a(x)))

    module = Dropping()
    for _ in range(2):
        batched = check(module, rows(4, 4))
    assert "draws random numbers" in ordinary(batched)
    module.eval()
    for _ in range(2):
        batched = check(module, rows(4, 4))
    assert batched.stats()["nodes"] == 4
    module.train()
    assert check(module, rows(4, 4)).stats()["nodes"] > 4


def test_a_marked_module_stays_what_it_was():
    @ex.cell
    class Marked(Base):
        def forward(self, x):
            print(end="")
            return self.a(x)

    class Below(Marked):
        def forward(self, x):
            print(end="")
            return self.a(x)

    batched = check(Marked(), rows(1, 4))
    assert batched.stats()["nodes"] == 1
    below = Below()
    for _ in range(3):
        batched = check(below, rows(4, 4))
    assert "module Below ran as an ordinary function: it calls print, at" in ordinary(batched)


def test_a_module_that_says_it_is_no_cell_is_none():
    class Never(Base):
        _is_cell = False

        def forward(self, x):
            return self.a(x).tanh()

    module = Never()
    for _ in range(3):
        batched = check(module, rows(4, 4))
    assert batched.stats()["nodes"] == 8
    assert find(module) is None


def test_a_run_in_which_modules_are_counted_is_not_judged(monkeypatch):
    module = Residual()
    batched = ex.batch(module)
    judged = []
    monkeypatch.setattr(type(batched._outlook), "ran", lambda self, batches, n_samples: judged.append(1))
    batched(rows(1, 4))
    batched(rows(1, 4))
    assert not judged
    batched(rows(1, 4))
    assert judged


def test_an_error_in_a_module_is_the_error_of_the_loop():
    class Wrong(Base):
        def forward(self, x):
            return self.a(x) @ ex.ones(3, 3)

    batched = ex.batch(Wrong())
    for _ in range(4):
        with pytest.raises(ex.errors.ShapeError):
            batched(rows(4, 4))


def test_a_module_that_calls_a_layer_in_a_loop_leaves_the_cell_to_the_layer():
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = Residual()

        def forward(self, x):
            for _ in range(5):
                x = self.cell(x)
            return x

    module = Reader()
    for _ in range(2):
        batched = check(module, rows(6, 4), parameters=module.parameters())
    assert batched.stats()["nodes"] == 5 * 6
    assert "it calls Residual in a loop" in ordinary(batched)


def test_a_body_of_very_many_ops_is_no_cell():
    class Long(Base):
        def forward(self, x):
            for i in range(600):
                x = x + i
            return x

    module = Long()
    for _ in range(2):
        batched = check(module, rows(3, 4))
    assert "more than 500 ops" in ordinary(batched)


RETURNED = {
    "an argument": (lambda self, x: [x, self.a(x)], "returns an argument"),
    "a view of an argument": (lambda self, x: [x.view(2, 2), self.a(x)], "returns an argument"),
    "a tensor and its view": (lambda self, x: (lambda y: [y, y[0]])(self.a(x)), "share memory"),
    "two views of one tensor": (lambda self, x: (lambda y: [y[0], y[:2]])(self.a(x)), "share memory"),
    "a weight": (lambda self, x: [self.a.weight, self.a(x)], "has not computed"),
    "a set": (lambda self, x: [self.a(x), {1}], "returns a set"),
}


@pytest.mark.parametrize(("forward", "why"), RETURNED.values(), ids=RETURNED)
def test_a_module_that_returns_what_others_have_is_no_cell(forward, why):
    module = type("Returning", (Base,), {"forward": forward})()
    for _ in range(2):
        batched = check(module, rows(4, 4))
    assert why in ordinary(batched)


def test_a_view_of_what_nobody_else_has_may_be_returned():
    module = type("Viewing", (Base,), {"forward": lambda self, x: self.a(x).view(2, 2)[0]})()
    for _ in range(2):
        batched = check(module, rows(4, 4), parameters=module.parameters())
    assert batched.stats()["nodes"] == 4


def test_an_ordinary_module_is_asked_once_in_a_run(monkeypatch):
    if native() is None:
        pytest.skip("native code passes such modules over")
    module, asked = impure_modules.AppendsToGlobal(), []
    monkeypatch.setattr(sample_tracer, "find", lambda x: asked.append(x) or find(x))
    for _ in range(4):
        asked.clear()
        ex.batch(lambda x: module(module(x)))(rows(8, 4))
    assert asked == [module]


def test_where_no_batch_runs_calls_are_shown_to_nobody(monkeypatch):
    module, shown = Residual(), []
    ex.batch(module)(rows(2, 4))
    monkeypatch.setattr(nn_module, "call_cell", lambda *args: shown.append(args) or NotImplemented)
    module(rows(1, 4)[0])
    ex.cell(helper)(1.0)
    assert not shown
    with pytest.raises(ZeroDivisionError):
        ex.batch(lambda x: 1 / 0)(rows(2, 4))
    assert not nn_module.RUNNING_BATCHES
