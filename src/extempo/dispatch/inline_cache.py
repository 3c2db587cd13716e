"""Inline caches for functions that check arguments and run one op, such as conv2d, softmax and cross_entropy.

The second call with the same tensor types and other arguments is watched; later ones run the op directly, by one native
call. Equal is not enough: 1, 1.0 and True are told apart. The function must depend on nothing else and have no other
effect.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..backends import entry_points
from ..backends.llvm.calls.entries import ALL, CONSTANT, LATELY, Entry
from ..core.cache import Cache
from ..core.context import CONTEXT, ExecutionContext, set_context
from ..core.tensor import Tensor
from ..core.types import DEFAULT_DTYPE_LISTENERS, dtype
from .dispatcher import apply
from .fast_path import is_plain, launcher
from .inplace import write

_KNOWN: Cache[Any, Any] = Cache("what functions make of their arguments", 4_000)
_NUMBERS = frozenset((bool, float, int, type(None)))
_HASHED = _NUMBERS | {str, dtype}
_CACHES: list[InlineCache] = []
_NEW, _MET = object(), object()  # of a kind of arguments: never seen, and once
_ITSELF = Entry((), (), (), None, {}, ALL)  # the function is to be called


class InlineCache:
    """A function, and what it made of such arguments before. It is called by position alone."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.call: Any = functools.partial(fn)
        self._lately: list[Entry | None] = [None] * LATELY
        self._next = 0
        name = f"kinds of arguments of {fn.__name__.strip('_')}"
        self._entries: Cache[tuple[Any, ...], Entry] = Cache(name, _KNOWN.limit)  # by what they expect
        self.binding = entry_points.INLINE_CACHE.bind(self.call, "func", self._native_call)
        _CACHES.append(self)

    def _native_call(self) -> Callable[..., Any]:
        return launcher().front(self.fn, self._slow, self._lately, self._entries)

    def forget(self) -> None:
        self._lately[:] = [None] * LATELY
        self._entries.clear()

    def _slow(self, *args: Any) -> Any:
        mode = CONTEXT.get()
        expected = tuple([x._type if isinstance(x, Tensor) else x for x in args])
        key = _key(args, expected) if _runs_ops(mode) else None
        if key is None:
            return self.fn(*args)
        key = (self, *key)
        found = _KNOWN.get(key, _NEW)
        if found is _NEW:
            _KNOWN.put(key, _MET)
        elif found is _MET and not _repeats_one(args):
            return self._learn(key, args, expected, mode)
        elif isinstance(found, Entry):
            self._put(found, expected)
            if found.op is not None:
                inputs = [c if s == CONSTANT else args[s] for s, c in zip(found.sources, found.constants, strict=True)]
                made = apply(found.op, tuple(inputs), found.attrs)
                return made if found.pick == ALL else made[found.pick]
        return self.fn(*args)

    def _learn(self, key: Any, args: tuple[Any, ...], expected: tuple[Any, ...], mode: ExecutionContext) -> Any:
        spy = _Spy(mode.interceptor)
        try:
            try:
                set_context(mode.but(interceptor=spy))
                result = self.fn(*args)
            finally:
                spy.end(mode)
        except BaseException:  # an interrupt may have come before that was done
            spy.end(mode)
            raise
        found = _KNOWN.put(key, spy.entry(args, result) or _ITSELF)
        self._put(found, expected)
        return result

    def _put(self, found: Entry, expected: tuple[Any, ...]) -> None:
        """Know it by these very objects."""
        entry = self._lately[self._next] = found._replace(expected=expected)
        self._next = (self._next + 1) % LATELY
        self._entries.put(expected, entry)


class _Spy:
    """An interceptor that sees which ops run, and lets them run as they would."""

    def __init__(self, outer: Any) -> None:
        self._outer = outer  # who intercepts otherwise: nobody, or a sample of a batch
        self._seen: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []
        self._writes = False

    def apply(self, op: Any, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        made = self._outside(apply, op, inputs, attrs)
        self._seen.append((op, inputs, attrs, made))
        return made

    def write(self, *args: Any) -> Any:
        self._writes = True
        return self._outside(write, *args)

    def made(self, t: Tensor) -> None:
        if self._outer is not None:
            self._outer.made(t)

    def _outside(self, fn: Callable[..., Any], *args: Any) -> Any:
        try:
            set_context(CONTEXT.get().but(interceptor=self._outer))
            return fn(*args)
        finally:
            set_context(CONTEXT.get().but(interceptor=self))  # a trace may have given up meanwhile

    def end(self, before: ExecutionContext) -> None:
        """The context as it was `before`, but for a trace that has given up."""
        now = CONTEXT.get()
        set_context(before if now.recording is before.recording else now.but(interceptor=self._outer))

    def entry(self, args: tuple[Any, ...], result: Any) -> Entry | None:
        """What the function did, if that is all that there is to it."""
        if len(self._seen) != 1 or self._writes:
            return None
        op, inputs, attrs, made = self._seen[0]
        results = made if type(made) is tuple else ()
        picks = [k for k, one in enumerate(results) if one is result]
        if result is not made and not picks:
            return None
        places = {id(x): k for k, x in enumerate(args) if isinstance(x, Tensor)}
        sources = tuple([places.get(id(x), CONSTANT) for x in inputs])
        if not set(sources).issuperset(places.values()):  # a tensor was taken for its number, which is not always this
            return None
        if any(s == CONSTANT and type(x) not in _NUMBERS for s, x in zip(sources, inputs, strict=True)):
            return None
        constants = tuple([x if s == CONSTANT else None for s, x in zip(sources, inputs, strict=True)])
        return Entry((), sources, constants, op, attrs, picks[0] if result is not made else ALL)


def _runs_ops(mode: ExecutionContext) -> bool:
    """Whether ops run, or are recorded by a sample of a batch: a function then makes the same op of its arguments."""
    return mode.interceptor is None or type(mode.interceptor) is launcher().sample


def _key(args: tuple[Any, ...], expected: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """What arguments must have in common for a function to make the same of them; None: nobody knows."""
    key: list[Any] = []
    for x, known_by in zip(args, expected, strict=True):
        kind = type(x)
        if is_plain(kind):
            key.append(known_by)
        elif kind in _HASHED:
            key += (kind, x) if x != 0 or kind is not float else (kind, repr(x))  # there are two zeros
        elif (kind is tuple and {int}.issuperset(map(type, x))) or isinstance(x, type):
            key.append(x)
        else:
            return None
    return tuple(key)


def _repeats_one(args: tuple[Any, ...]) -> bool:
    """Whether a tensor is there twice: then it is not known which of both an op got."""
    tensors = [id(x) for x in args if isinstance(x, Tensor)]
    return len(set(tensors)) < len(tensors)


def cached_by_types(fn: Callable[..., Any]) -> Any:
    """`fn`, a function of tensors' types and of other arguments, to be called by position."""
    return InlineCache(fn).call


def _forget() -> None:
    _KNOWN.clear()
    for cache in _CACHES:
        cache.forget()


DEFAULT_DTYPE_LISTENERS.append(_forget)
