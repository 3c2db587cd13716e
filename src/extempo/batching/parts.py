"""Parts: values that are a stretch of another value's memory, as x[t], x[a:b] and x.view(...) are.

A view of a value of the run that is contiguous where the value is row-major needs no call: its place in the table is
that of the value, moved on by some bytes, and the row of its gradient is a stretch of the value's row, so that
gradients of parts are sums before anybody adds them up. Which index was taken of which size is data, so a loop over the
rows of a sentence is the same for sentences of any length. Other views (a transpose, every second row) are calls.
"""

from __future__ import annotations

from itertools import count
from typing import Any, NamedTuple

import numpy as np

from ..core.cache import Cache
from ..core.op import Op
from ..core.storage import Array
from ..core.types import TensorType

VALUE, ROOT, OFFSET, SIZE = range(4)  # of a part: its value id, that of the value it is part of, and its bytes there
WORDS = 4


class Stretch(NamedTuple):
    """A view: its type, and where it begins."""

    type: TensorType
    offset: int  # in bytes from the beginning of the row-major value
    size: int  # in bytes


_STRETCHES: Cache[Any, Stretch | None] = Cache("stretches that views are", 10_000)
_UNKNOWN: Any = object()
# What native code finds views in that were asked for before: by op, its one attribute, the type of the value and the
# one number that it takes (None without) the type of the view, and its first byte and bytes as a part of the value.
PLACES: dict[type[Op], dict[Any, dict[TensorType, dict[Any, tuple[TensorType, int, int]]]]] = {}
_MOST_PLACES = 20_000
_n_places = count()


def stretch_of(op: type[Op], type_: TensorType, numbers: tuple[Any, ...], attrs: dict[str, Any]) -> Stretch | None:
    """What a view of a row-major value of that type is; None if it is no stretch of it."""
    key = (op, type_, numbers, *attrs.items())
    try:
        found = _STRETCHES.get(key, _UNKNOWN)
    except TypeError:  # an attribute that cannot be hashed
        return None
    return _STRETCHES.put(key, _found(op, type_, numbers, attrs)) if found is _UNKNOWN else found


def _found(op: type[Op], type_: TensorType, numbers: tuple[Any, ...], attrs: dict[str, Any]) -> Stretch | None:
    seen: TensorType = op.signature((type_, *map(type, numbers)), attrs).type
    whole = np.empty(type_.shape, type_.dtype.numpy)  # never written, so it takes no memory
    view = op.numpy(whole, *numbers, **attrs)
    if not view.size:
        return Stretch(seen, 0, 0)
    if not view.flags.c_contiguous or not np.may_share_memory(view, whole):
        return None
    stretch = Stretch(seen, _address(view) - _address(whole), view.nbytes)
    if len(attrs) == 1 and len(numbers) <= 1:
        if next(_n_places) % _MOST_PLACES == 0:
            PLACES.clear()
        ((_, attr),) = attrs.items()
        by_number = PLACES.setdefault(op, {}).setdefault(attr, {}).setdefault(type_, {})
        by_number[numbers[0] if numbers else None] = stretch.type, stretch.offset, stretch.size
    return stretch


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


class Parts:
    """The parts of a run."""

    __slots__ = ("_first_waiting", "_kept", "_roots", "_words")

    def __init__(self) -> None:
        self._words: list[int] = []  # of all parts
        self._first_waiting = 0  # words below are those of parts that the table has, or that are kept
        self._kept: Array | None = None  # parts of values that are not to be made yet
        self._roots: dict[int, tuple[int, int]] = {}  # by the value of a part: what it is part of, and where

    def add(self, value: int, whole: int, stretch: Stretch) -> None:
        """A value is a stretch of another, which may be a part itself."""
        root, offset = self._roots.get(whole, (whole, 0))
        offset += stretch.offset
        self._roots[value] = root, offset
        self._words += (value, root, offset, stretch.size)

    def take_waiting(self) -> Array | None:
        """Those that the table does not have yet: a row of words for each; None if there are none."""
        first, self._first_waiting = self._first_waiting, len(self._words)
        kept, self._kept = self._kept, None
        if first == len(self._words):
            return kept
        new = np.array(self._words[first:], np.int64).reshape(-1, WORDS)
        return new if kept is None else np.concatenate((kept, new))

    def keep(self, parts: Array) -> None:
        """These wait on: what they are parts of is not made yet."""
        self._kept = parts

    def is_waiting(self) -> bool:
        return self._kept is not None or self._first_waiting < len(self._words)
