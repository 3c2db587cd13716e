"""Recursive functions of a tree that do more than compute between their ops, and note what they do in `LOG`.

Each has enough ops in a row for regions, and something in the middle that must happen as often, and in the same order,
as in a plain loop. A tree is an int or a pair of trees.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import logging
import random
import warnings
from typing import Any

import numpy as np

import extempo as ex
from extempo import nn
from extempo.nn import functional as F

LOG: list[Any] = []
OUT = io.StringIO()
COUNTER = 0
TICKS = itertools.count()
TABLE = ex.tensor(np.random.default_rng(0).normal(size=(10, 4)), dtype=ex.float32)
WEIGHT = nn.Parameter(ex.tensor(np.random.default_rng(1).normal(size=(4, 4)), dtype=ex.float32))
FUNCTIONS: list[Any] = []


def impure(fn: Any) -> Any:
    FUNCTIONS.append(fn)
    return fn


def reset() -> None:
    global COUNTER, TICKS, mixed
    LOG.clear()
    OUT.truncate(0)
    OUT.seek(0)
    COUNTER, TICKS, mixed = 0, itertools.count(), mixed_at_first
    cached.cache_clear()
    random.seed(0)
    np.random.seed(0)
    Holder.combine = Holder.combine_at_first


def effects() -> Any:
    return [*LOG, OUT.getvalue(), COUNTER, next(TICKS), random.random(), np.random.rand()]


def note(x: Any, what: Any = "noted") -> Any:
    LOG.append(what)
    return x


def mixed_at_first(a: Any, b: Any) -> Any:
    return ex.tanh(a @ WEIGHT) + ex.sigmoid(b)


mixed = mixed_at_first


def leaf(n: int) -> Any:
    return ex.tanh(TABLE[n] @ WEIGHT)


@functools.cache
def cached(n: int) -> int:
    LOG.append(n)
    return n


class Holder:
    """An object that notes what is done with it."""

    count = 0

    def __init__(self, value: Any = None) -> None:
        self.value = value
        self.kept: Any = None

    @property
    def watched(self) -> Any:
        LOG.append("watched")
        return self.value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("made_up"):
            LOG.append(name)
            return self.value
        raise AttributeError(name)

    def __getitem__(self, key: Any) -> Any:
        LOG.append(("element", key))
        return self.value

    def __add__(self, other: Any) -> Any:
        LOG.append("added")
        return self.value + other

    def __iter__(self) -> Any:
        for i in range(2):
            LOG.append(("turn", i))
            yield self.value

    def __len__(self) -> int:
        LOG.append("length")
        return 2

    def __format__(self, spec: str) -> str:
        LOG.append("formatted")
        return "holder"

    def __enter__(self) -> Any:
        LOG.append("entered")
        return self.value

    def __exit__(self, *error: Any) -> None:
        LOG.append("left")

    def __call__(self, x: Any) -> Any:
        LOG.append("called")
        return ex.tanh(x) * 2

    def combine(self, a: Any, b: Any) -> Any:
        return ex.tanh(a) * ex.sigmoid(b)

    combine_at_first = combine

    def other(self, a: Any, b: Any) -> Any:
        return a - ex.exp(ex.tanh(b))


@impure
def prints(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = prints(t[0]), prints(t[1])
    x = ex.tanh(a @ WEIGHT)
    print("node", t, file=OUT)
    y = ex.sigmoid(x) * b
    return x + y


@impure
def appends_to_global(t):
    if isinstance(t, int):
        LOG.append(t)
        return leaf(t)
    a, b = appends_to_global(t[0]), appends_to_global(t[1])
    x = ex.tanh(a @ WEIGHT) + b
    LOG.append(len(LOG))
    return ex.sigmoid(x) * a


@impure
def appends_to_argument(t, found=None):
    found = [] if found is None else found
    if isinstance(t, int):
        found.append(leaf(t) * 2)
        return found[-1]
    a, b = appends_to_argument(t[0], found), appends_to_argument(t[1], found)
    found.append(ex.tanh(a @ WEIGHT) + b)
    LOG.append(len(found))
    return ex.stack(found).mean(0) + ex.tanh(found[0]) * found[-1]


@impure
def adds_to_global(t):
    global COUNTER
    if isinstance(t, int):
        return leaf(t)
    a, b = adds_to_global(t[0]), adds_to_global(t[1])
    x = ex.tanh(a @ WEIGHT) + b
    COUNTER += 1
    return ex.sigmoid(x) * COUNTER


@impure
def counts_in_nested_function(t):
    n = 0

    def visit(t):
        nonlocal n
        n += 1
        if isinstance(t, int):
            return leaf(t) * n
        a, b = visit(t[0]), visit(t[1])
        return ex.tanh(a @ WEIGHT) + b * n

    x = visit(t)
    LOG.append(n)
    return ex.tanh(x) * n + x


@impure
def counts_in_attribute(t, holder=None):
    holder = Holder() if holder is None else holder
    if isinstance(t, int):
        return leaf(t)
    a, b = counts_in_attribute(t[0], holder), counts_in_attribute(t[1], holder)
    x = ex.tanh(a @ WEIGHT) + b
    holder.count += 1
    y = ex.sigmoid(x) * holder.count
    LOG.append(holder.count)
    return y + x


@impure
def counts_in_dict(t, counts=None):
    counts = {} if counts is None else counts
    if isinstance(t, int):
        return leaf(t)
    a, b = counts_in_dict(t[0], counts), counts_in_dict(t[1], counts)
    x = ex.tanh(a @ WEIGHT) + b
    counts["n"] = counts.get("n", 0) + 1
    LOG.append(counts["n"])
    return ex.sigmoid(x) * counts["n"]


@impure
def draws_random(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = draws_random(t[0]), draws_random(t[1])
    return ex.tanh(a @ WEIGHT) * random.random() + ex.sigmoid(b)


@impure
def draws_numpy(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = draws_numpy(t[0]), draws_numpy(t[1])
    x = ex.tanh(a @ WEIGHT) + b
    return ex.sigmoid(x) * float(np.random.rand()) + x


@impure
def draws_tensor(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = draws_tensor(t[0]), draws_tensor(t[1])
    x = ex.tanh(a @ WEIGHT) + b
    return ex.sigmoid(x) * ex.rand(4) + x


@impure
def drops_out(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = drops_out(t[0]), drops_out(t[1])
    x = ex.tanh(a @ WEIGHT) + b
    return ex.sigmoid(F.dropout(x, 0.5)) * x


@impure
def reads_clock(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = reads_clock(t[0]), reads_clock(t[1])
    return ex.tanh(a @ WEIGHT) * (1 + next(TICKS)) + ex.sigmoid(b)


@impure
def calls_cached(t):
    if isinstance(t, int):
        return leaf(t) * cached(t)
    a, b = calls_cached(t[0]), calls_cached(t[1])
    return ex.tanh(a @ WEIGHT) * cached(len(t)) + ex.sigmoid(b)


@impure
def logs_and_warns(t):
    logger = logging.Logger("impure")
    handler = logging.Handler()
    handler.emit = lambda record: LOG.append(record.getMessage())
    logger.addHandler(handler)
    if isinstance(t, int):
        return leaf(t)
    a, b = logs_and_warns(t[0]), logs_and_warns(t[1])
    x = ex.tanh(a @ WEIGHT) + b
    logger.warning("node")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("node", stacklevel=1)
        y = ex.sigmoid(x) * a
    LOG.append(len(caught))
    return ex.tanh(y) + x


@impure
def reads_property(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = reads_property(t[0]), reads_property(t[1])
    holder = Holder(b)
    x = note(ex.tanh(a @ WEIGHT), "before") + holder.watched
    return ex.sigmoid(x) * holder.watched + holder.made_up_1


@impure
def reads_elements(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = reads_elements(t[0]), reads_elements(t[1])
    holder = Holder(b)
    x = note(ex.tanh(a @ WEIGHT), "before") + holder["k"]
    y = ex.sigmoid(x) * holder[1]
    return y + len(holder) * x


@impure
def has_operators(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = has_operators(t[0]), has_operators(t[1])
    holder = Holder(b)
    x = holder + ex.tanh(a @ WEIGHT)
    return ex.sigmoid(x) * (holder + a)


@impure
def goes_through(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = goes_through(t[0]), goes_through(t[1])
    p, q = Holder(b)
    x = ex.tanh(a @ WEIGHT) + p
    return ex.sigmoid(x) * q + sum([ex.tanh(y) * 2 for y in Holder(x)])


@impure
def calls_object(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = calls_object(t[0]), calls_object(t[1])
    f = Holder()
    x = f(ex.tanh(a @ WEIGHT)) + b
    return ex.sigmoid(x) * f(x) + x


@impure
def evaluates_in_order(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = evaluates_in_order(t[0]), evaluates_in_order(t[1])
    x = mixed(note(a, "first"), b=note(b, "second")) * note(ex.tanh(a), "third")
    return {note("k", "key"): note(x, "value"), "l": ex.tanh(note(x, "last")) + b}["l"] + x


@impure
def short_cuts(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = short_cuts(t[0]), short_cuts(t[1])
    x = ex.tanh(a @ WEIGHT) if note(len(t) > 1) else note(ex.exp(b), "never")
    n = (note(0, "or") or note(3, "taken")) + (note(0, "and") and note(1, "never"))
    ordered = 1 < note(2, "middle") < note(3, "end")
    return ex.sigmoid(x) * n + x * ordered


@impure
def passes_on(t):
    if isinstance(t, int):
        return leaf(t)
    args = [passes_on(child) for child in note(t, "children")]
    x = mixed(*note(args, "args"))
    y = mixed(**note({"a": args[0], "b": x}, "named"))
    return ex.tanh(x) * y


@impure
def rebinds_function(t):
    global mixed
    if isinstance(t, int):
        if t == 3:
            mixed = Holder().other
        return leaf(t)
    x = mixed(rebinds_function(t[0]), rebinds_function(t[1]))
    return ex.tanh(x) * x + mixed(x, x)


class Rebinding:
    """Its method is another one once the arguments of its call were evaluated."""

    def visit(self, t):
        if isinstance(t, int):
            if t == 3:
                Holder.combine = Holder.other
            elif t == 4:
                Holder.combine = Holder.combine_at_first
            return leaf(t)
        return HOLDER.combine(self.visit(t[0]), self.visit(t[1]))


HOLDER = Holder()
FUNCTIONS.append(Rebinding().visit)


@impure
def writes_in_place(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = writes_in_place(t[0]), writes_in_place(t[1])
    x = ex.tanh(a @ WEIGHT) + b
    same = x
    x += ex.sigmoid(b) * a
    x.mul_(2.0)
    LOG.append(same is x)
    return ex.tanh(same) + x * b


@impure
def keeps_identity(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = keeps_identity(t[0]), keeps_identity(t[1])
    x = y = ex.tanh(a @ WEIGHT) + b
    z = x
    pair = (x, z)
    w = ex.sigmoid(x) * 2
    LOG.append((x is y, x is z, pair[0] is pair[1], w is x))
    return w + pair[1] * z


@impure
def reads_values(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = reads_values(t[0]), reads_values(t[1])
    x = ex.tanh(a @ WEIGHT) + b
    if x.sum().item() > 0:
        x = ex.sigmoid(x) * a
    elif (x * 2).mean().item() < -0.5:
        x = ex.exp(ex.tanh(x)) * b
    return x + b


@impure
def catches(t):
    if isinstance(t, int):
        return leaf(t)
    try:
        a, b = catches(t[0]), catches(t[1])
        x = ex.tanh(a @ WEIGHT) + b
        if t[0] == 1:
            x = x + ex.zeros(7)
        LOG.append("no error")
    except ValueError as error:
        LOG.append(type(error).__name__)
        x = ex.sigmoid(a) * b
    finally:
        LOG.append("finally")
    return ex.tanh(x) * 2


@impure
def returns_from_try(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = returns_from_try(t[0]), returns_from_try(t[1])
    try:
        x = ex.tanh(a @ WEIGHT) + b
        return ex.sigmoid(x) * a
    finally:
        LOG.append(tuple(x.shape))


@impure
def enters(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = enters(t[0]), enters(t[1])
    with Holder(b) as c, contextlib.suppress(KeyError):
        x = ex.tanh(a @ WEIGHT) + c
        y = ex.sigmoid(x) * a
    with ex.no_grad():
        z = ex.tanh(y) * x
    LOG.append((x.requires_grad, z.requires_grad))
    return y + z


@impure
def deletes(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = deletes(t[0]), deletes(t[1])
    x = ex.tanh(a @ WEIGHT) + b
    y = ex.sigmoid(x) * a
    del x
    try:
        LOG.append(x)  # noqa: F821 # it is gone
    except UnboundLocalError:
        LOG.append("deleted")
    return ex.tanh(y) * b


@impure
def formats(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = formats(t[0]), formats(t[1])
    x = ex.tanh(a @ WEIGHT) + b
    LOG.append(f"{Holder()} of {x.shape[0]}")
    return ex.sigmoid(x) * a


@impure
def generates(t):
    def children(t):
        for child in t:
            LOG.append("child")
            yield generates(child)

    if isinstance(t, int):
        return leaf(t)
    a, b = children(t)
    total = sum(note(ex.tanh(x) * 2, "turn") for x in (a, b))
    return ex.sigmoid(total) * a


@impure
def looks_at_itself(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = looks_at_itself(t[0]), looks_at_itself(t[1])
    x = ex.tanh(a @ WEIGHT) + b
    y = ex.sigmoid(x) * a
    LOG.append(sorted(locals()))
    return y + x


@impure
def walrus(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = walrus(t[0]), walrus(t[1])
    y = ex.sigmoid(x := ex.tanh(a @ WEIGHT)) * b
    LOG.append(x.shape[0])
    return x + y


@impure
def loops_and_leaves(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = loops_and_leaves(t[0]), loops_and_leaves(t[1])
    x = a
    for i in range(5):
        y = ex.tanh(x @ WEIGHT) + b
        if i == 3:
            break
        LOG.append(i)
        x = ex.sigmoid(y) * x
    else:
        LOG.append("never")
    while len(LOG) % 3:
        LOG.append("while")
        x = ex.tanh(x) + y * 0.5
    return x + y


@impure
def calls_what_is_impure(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = calls_what_is_impure(t[0]), calls_what_is_impure(t[1])
    x = ex.tanh(a @ WEIGHT) + b
    y = note(ex.sigmoid(x) * a, "inside")
    return ex.tanh(y) + x


@impure
def has_views(t):
    if isinstance(t, int):
        return leaf(t)
    a, b = has_views(t[0]), has_views(t[1])
    x = ex.tanh(a @ WEIGHT) + b
    p, q = x.chunk(2)
    v = x.view(2, 2)
    LOG.append((p.shape[0], tuple(v.shape)))
    return ex.cat([p, ex.tanh(q) * 2]) + v.reshape(4)
