"""Modules whose forward does more than compute: each counts what it does, so that doing it twice or never is seen.

Every class computes the same, `x @ weight` and something of its own, and has `effects()`: what it has done so far.
"""

from __future__ import annotations

import functools
import io
import itertools
import logging
import random
import time
import warnings
import weakref
from collections import defaultdict, deque
from typing import Any

import numpy as np

import extempo as ex
from extempo import nn

LOG: list[Any] = []
TABLE: dict[Any, int] = {}
COUNTER = 0


def helper(x: Any) -> Any:
    LOG.append("helper")
    return x


@functools.cache
def cached(n: int) -> int:
    LOG.append(n)
    return n


class Impure(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        global COUNTER
        LOG.clear()
        TABLE.clear()
        cached.cache_clear()
        COUNTER = 0
        random.seed(0)
        np.random.seed(0)
        generator = np.random.default_rng(0)
        self.weight = nn.Parameter(ex.tensor(generator.normal(size=(4, 4)), dtype=ex.float32))

    becomes_pure = False

    def effects(self) -> Any:
        return list(LOG)


class Prints(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.out = io.StringIO()

    def forward(self, x: Any) -> Any:
        print("called", file=self.out)
        return x @ self.weight

    def effects(self) -> Any:
        return self.out.getvalue()


class DrawsRandom(Impure):
    def forward(self, x: Any) -> Any:
        return x @ self.weight * random.random()

    def effects(self) -> Any:
        return random.random()


class DrawsNumpy(Impure):
    def forward(self, x: Any) -> Any:
        return x @ self.weight * float(np.random.rand())

    def effects(self) -> Any:
        return np.random.rand()


class DrawsTensor(Impure):
    def forward(self, x: Any) -> Any:
        return x @ self.weight + ex.rand(4)


class AppendsToAttribute(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def forward(self, x: Any) -> Any:
        self.seen.append(len(x))
        return x @ self.weight

    def effects(self) -> Any:
        return self.seen


class AppendsToGlobal(Impure):
    def forward(self, x: Any) -> Any:
        LOG.append(x.shape[0])
        return x @ self.weight


class AddsToGlobal(Impure):
    def forward(self, x: Any) -> Any:
        global COUNTER
        COUNTER += 1
        return x @ self.weight

    def effects(self) -> Any:
        return COUNTER


class ExtendsInPlace(Impure):
    def forward(self, x: Any) -> Any:
        log = LOG
        log += [1, 2]
        return x @ self.weight


class Counts(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.counter = 0

    def forward(self, x: Any) -> Any:
        self.counter += 1
        return x @ self.weight + self.counter

    def effects(self) -> Any:
        return self.counter


class CountsThroughDict(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.counter = 0

    def forward(self, x: Any) -> Any:
        self.__dict__["counter"] += 1
        return x @ self.weight + self.counter

    def effects(self) -> Any:
        return self.counter


class ReadsClock(Impure):
    def __init__(self) -> None:
        super().__init__()
        ticks = itertools.count()
        self.tick = ticks.__next__

    def forward(self, x: Any) -> Any:
        now = self.tick()
        assert time.time() > 0
        return x @ self.weight + now

    def effects(self) -> Any:
        return self.tick()


class CallsCached(Impure):
    def forward(self, x: Any) -> Any:
        return x @ self.weight + cached(len(x))


class WritesFile(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.file = io.StringIO()

    def forward(self, x: Any) -> Any:
        self.file.write("x")
        return x @ self.weight

    def effects(self) -> Any:
        return self.file.getvalue()


class Logs(Impure):
    def __init__(self) -> None:
        super().__init__()
        handler = logging.Handler()
        handler.emit = lambda record: LOG.append(record.getMessage())  # type: ignore[method-assign]
        self.logger = logging.Logger("impure")
        self.logger.addHandler(handler)

    def forward(self, x: Any) -> Any:
        self.logger.warning("called")
        return x @ self.weight


class CachesInDict(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[int, int] = {}

    def forward(self, x: Any) -> Any:
        self.cache[len(self.cache)] = 1
        return x @ self.weight + len(self.cache)

    def effects(self) -> Any:
        return self.cache


class CountsInClosure(Impure):
    def __init__(self) -> None:
        super().__init__()
        counter = 0

        def count() -> int:
            nonlocal counter
            counter += 1
            return counter

        self.count = count

    def forward(self, x: Any) -> Any:
        return x @ self.weight + self.count()

    def effects(self) -> Any:
        return self.count()


class WritesClassAttribute(Impure):
    calls = 0

    def __init__(self) -> None:
        super().__init__()
        WritesClassAttribute.calls = 0

    def forward(self, x: Any) -> Any:
        type(self).calls += 1
        return x @ self.weight

    def effects(self) -> Any:
        return self.calls


class SetsByName(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Any) -> Any:
        setattr(self, "calls", self.calls + 1)  # noqa: B010
        return x @ self.weight

    def effects(self) -> Any:
        return self.calls


class HasProperty(Impure):
    @property
    def scale(self) -> float:
        LOG.append("property")
        return 2.0

    def forward(self, x: Any) -> Any:
        return x @ self.weight * self.scale


class _Lazy:
    def __getattr__(self, name: str) -> Any:
        LOG.append(name)
        return 2.0


class HasGetattr(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.lazy = _Lazy()

    def forward(self, x: Any) -> Any:
        return x @ self.weight * self.lazy.scale


class _Spy:
    def __getattribute__(self, name: str) -> Any:
        LOG.append(name)
        return 2.0


class HasGetattribute(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.spy = _Spy()

    def forward(self, x: Any) -> Any:
        return x @ self.weight * self.spy.scale


class _Descriptor:
    def __get__(self, instance: Any, owner: Any = None) -> float:
        LOG.append("descriptor")
        return 2.0


class HasDescriptor(Impure):
    scale = _Descriptor()

    def forward(self, x: Any) -> Any:
        return x @ self.weight * self.scale


class HasCachedProperty(Impure):
    becomes_pure = True  # once the value is an attribute like any other

    @functools.cached_property
    def scale(self) -> float:
        LOG.append("cached")
        return 2.0

    def forward(self, x: Any) -> Any:
        return x @ self.weight * self.scale


class Hooked(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4, bias=False)
        self.inner.weight = nn.Parameter(self.weight.detach().clone())
        self.inner.register_forward_hook(lambda module, args, output: LOG.append("hook"))

    def forward(self, x: Any) -> Any:
        return self.inner(x) + x @ self.weight


class Warns(Impure):
    def forward(self, x: Any) -> Any:
        warnings.warn("called", stacklevel=1)
        return x @ self.weight


class UpdatesBuffer(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", ex.zeros(1))

    def forward(self, x: Any) -> Any:
        self.n = self.n + 1
        return x @ self.weight

    def effects(self) -> Any:
        return self.n.item()


class RegistersBuffer(Impure):
    def forward(self, x: Any) -> Any:
        self.register_buffer("last", ex.ones(1))
        LOG.append(1)
        return x @ self.weight


class AppendsToDeque(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.recent: deque[int] = deque(maxlen=3)

    def forward(self, x: Any) -> Any:
        self.recent.append(len(self.recent))
        return x @ self.weight + len(self.recent)

    def effects(self) -> Any:
        return list(self.recent)


class _Counting:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        return x + self.calls


class CallsObject(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.counting = _Counting()

    def forward(self, x: Any) -> Any:
        return self.counting(x @ self.weight)

    def effects(self) -> Any:
        return self.counting.calls


class _Adding:
    def __radd__(self, other: Any) -> Any:
        LOG.append("add")
        return other

    def __bool__(self) -> bool:
        LOG.append("bool")
        return True

    def __len__(self) -> int:
        LOG.append("len")
        return 1

    def __iter__(self) -> Any:
        LOG.append("iter")
        return iter((1.0,))

    def __getitem__(self, i: int) -> float:
        LOG.append("item")
        return 1.0

    def __eq__(self, other: object) -> bool:
        LOG.append("eq")
        return True

    def __hash__(self) -> int:
        LOG.append("hash")
        return 1

    def __contains__(self, x: Any) -> bool:
        LOG.append("contains")
        return True

    def __format__(self, spec: str) -> str:
        LOG.append("format")
        return ""

    def __index__(self) -> int:
        LOG.append("index")
        return 1


class _Operating(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.adding = _Adding()
        LOG.clear()


class OverloadsAddition(_Operating):
    def forward(self, x: Any) -> Any:
        return x @ self.weight + 1 if 1 + self.adding else x


class OverloadsTruth(_Operating):
    def forward(self, x: Any) -> Any:
        return x @ self.weight if self.adding else x


class OverloadsLength(_Operating):
    def forward(self, x: Any) -> Any:
        return x @ self.weight + len(self.adding)


class OverloadsIteration(_Operating):
    def forward(self, x: Any) -> Any:
        for y in self.adding:
            x = x @ self.weight + y
        return x


class OverloadsUnpacking(_Operating):
    def forward(self, x: Any) -> Any:
        (y,) = self.adding
        return x @ self.weight + y


class OverloadsIndexing(_Operating):
    def forward(self, x: Any) -> Any:
        return x @ self.weight + self.adding[0]


class OverloadsEquality(_Operating):
    def forward(self, x: Any) -> Any:
        return x @ self.weight if self.adding == 1 else x


class OverloadsContains(_Operating):
    def forward(self, x: Any) -> Any:
        return x @ self.weight if 1 in self.adding else x


class OverloadsHash(_Operating):
    def forward(self, x: Any) -> Any:
        return x @ self.weight + len({self.adding: 1})


class OverloadsFormat(_Operating):
    def forward(self, x: Any) -> Any:
        return x @ self.weight + len(f"{self.adding}")


class OverloadsIndex(_Operating):
    def forward(self, x: Any) -> Any:
        return x @ self.weight + [1.0, 2.0][self.adding]


class _Key:
    pass


class FillsWeakDict(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.key = _Key()
        self.table: Any = weakref.WeakKeyDictionary()

    def forward(self, x: Any) -> Any:
        self.table[self.key] = self.table.get(self.key, 0) + 1
        return x @ self.weight

    def effects(self) -> Any:
        return self.table[self.key]


class ConsumesIterator(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.numbers = iter(range(1_000))

    def forward(self, x: Any) -> Any:
        for number in self.numbers:
            return x @ self.weight + number
        return x

    def effects(self) -> Any:
        return next(self.numbers)


class TakesNext(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.numbers = itertools.count()

    def forward(self, x: Any) -> Any:
        return x @ self.weight + next(self.numbers)

    def effects(self) -> Any:
        return next(self.numbers)


class AsksForIdentity(Impure):
    def forward(self, x: Any) -> Any:
        TABLE[id(x)] = 1
        return x @ self.weight

    def effects(self) -> Any:
        return len(TABLE) > 0


class FillsDefault(Impure):
    def forward(self, x: Any, seen: list[int] = []) -> Any:  # noqa: B006
        seen.append(1)
        LOG.append(1)
        return x @ self.weight


class FillsDefaultdict(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.counts: Any = defaultdict(int)

    def forward(self, x: Any) -> Any:
        return x @ self.weight + self.counts[len(self.counts)]

    def effects(self) -> Any:
        return dict(self.counts)


class CallsHelper(Impure):
    def forward(self, x: Any) -> Any:
        return helper(x @ self.weight)


class CallsMethod(Impure):
    def step(self, x: Any) -> Any:
        LOG.append("step")
        return x @ self.weight

    def forward(self, x: Any) -> Any:
        return self.step(x)


class CallsNested(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.ReLU(), CallsMethod())
        LOG.clear()

    def forward(self, x: Any) -> Any:
        return self.inner(x) + x @ self.weight


class CallsInComprehension(Impure):
    def forward(self, x: Any) -> Any:
        return x @ self.weight + sum([LOG.append(i) or i for i in range(3)])  # type: ignore[func-returns-value]


class CallsInGenerator(Impure):
    def forward(self, x: Any) -> Any:
        return x @ self.weight + sum(len(helper([i])) for i in range(3))


class CallsInLambda(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.act = lambda x: helper(x).tanh()

    def forward(self, x: Any) -> Any:
        return self.act(x @ self.weight)


class CallsThroughMap(Impure):
    def forward(self, x: Any) -> Any:
        return sum(map(helper, [x @ self.weight, x]))


class CallsThroughSort(Impure):
    def forward(self, x: Any) -> Any:
        order = sorted([2, 1], key=helper)
        return x @ self.weight + order[0]


class CallsThroughPartial(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.step = functools.partial(helper)

    def forward(self, x: Any) -> Any:
        return self.step(x @ self.weight)


class CallsInTry(Impure):
    def forward(self, x: Any) -> Any:
        try:
            return x @ self.weight
        finally:
            LOG.append("finally")


class _Block:
    def __enter__(self) -> None:
        LOG.append("enter")

    def __exit__(self, *error: Any) -> None:
        LOG.append("exit")


class HasWith(Impure):
    def forward(self, x: Any) -> Any:
        with _Block():
            return x @ self.weight


class Imports(Impure):
    def forward(self, x: Any) -> Any:
        import math

        LOG.append(math.pi)
        return x @ self.weight


class RaisesAndCatches(Impure):
    def forward(self, x: Any) -> Any:
        try:
            raise ValueError
        except ValueError:
            LOG.append("caught")
        return x @ self.weight


class MakesObject(Impure):
    def forward(self, x: Any) -> Any:
        class Scale:
            def __init__(self) -> None:
                LOG.append("made")

        Scale()
        return x @ self.weight


class ReadsValue(Impure):
    def forward(self, x: Any) -> Any:
        y = x @ self.weight
        if y.sum() > 0:
            y = 2 * y
        return y


class ReadsItem(Impure):
    def forward(self, x: Any) -> Any:
        y = x @ self.weight
        LOG.append(round(y.sum().item(), 3))
        return y


class ReadsWeight(Impure):
    def forward(self, x: Any) -> Any:
        return x @ self.weight * float(self.weight[0, 0].abs().item() > 0)


class ReturnsArgument(Impure):
    def forward(self, x: Any) -> Any:
        return x, x @ self.weight


class ReturnsWeight(Impure):
    def forward(self, x: Any) -> Any:
        return self.weight, x @ self.weight


class WritesMadeElsewhere(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.store: list[Any] = [0]

    def forward(self, x: Any) -> Any:
        made = [self.store]
        made[0][0] += 1
        return x @ self.weight

    def effects(self) -> Any:
        return self.store


class WrapsLayer(Impure):
    """A function that says it is one of Extempo's."""

    def __init__(self) -> None:
        super().__init__()

        @functools.wraps(ex.tanh)
        def tanh(x: Any) -> Any:
            LOG.append("tanh")
            return ex.tanh(x)

        self.act = tanh

    def forward(self, x: Any) -> Any:
        return self.act(x @ self.weight)


class ReplacesForward(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4, bias=False)
        self.inner.weight = nn.Parameter(self.weight.detach().clone())
        plain = self.inner.forward

        def forward(x: Any) -> Any:
            LOG.append("forward")
            return plain(x)

        self.inner.forward = forward  # type: ignore[method-assign]

    def forward(self, x: Any) -> Any:
        return self.inner(x) + x @ self.weight


class Drops(Impure):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Any) -> Any:
        return self.dropout(x @ self.weight)


class SpiesOnItself(Impure):
    becomes_pure = True  # it is never asked

    def __getattribute__(self, name: str) -> Any:
        if name in ("weight", "forward"):
            LOG.append(name)
        return super().__getattribute__(name)

    def forward(self, x: Any) -> Any:
        return x @ self.weight


class TrainingIsComputed(Impure):
    @property
    def training(self) -> bool:  # type: ignore[override]
        LOG.append("training")
        return True

    @training.setter
    def training(self, mode: bool) -> None:
        pass

    def forward(self, x: Any) -> Any:
        return x @ self.weight if self.training else x


IMPURE = [
    cls
    for cls in list(globals().values())
    if isinstance(cls, type) and issubclass(cls, Impure) and cls is not Impure and not cls.__name__.startswith("_")
]
