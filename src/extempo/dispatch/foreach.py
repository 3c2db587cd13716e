"""Foreach: scale or clamp many tensors in place by one native call, for gradient clipping."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.active_traces import before_write
from ..core.context import CONTEXT
from ..core.graph import Node
from ..core.source_location import user_line
from ..core.storage import Array
from ..core.tensor import Tensor
from .fused_update import Update, UpdateKernel, native_places, native_update


def _scaled(m: Any, numbers: Any, choices: Any, x: Any, g: Any) -> Any:
    return (x * numbers[0],)


def _clamped(m: Any, numbers: Any, choices: Any, x: Any, g: Any) -> Any:
    return (m.minimum(m.maximum(x, numbers[0]), numbers[1]),)


_SCALED, _CLAMPED = UpdateKernel(_scaled), UpdateKernel(_clamped)
_PLACES: dict[np.dtype[Any], Any] = {}


def scale_all(tensors: Sequence[Tensor], factor: Tensor) -> None:
    """Multiply each tensor by a number that one tensor holds."""
    arrays = _arrays(tensors, factor._type.dtype.numpy)
    value = None if arrays is None else factor._values()
    if value is None or not _change(tensors, arrays, Update(_SCALED, (float(value),))):
        _each(tensors, lambda x: x.mul_(factor))


def clamp_all(tensors: Sequence[Tensor], low: float, high: float) -> None:
    """Limit each element of each tensor to [low, high]."""
    is_usual = tensors and low < high  # between zeros of either sign it would be another zero than the op gives
    arrays = _arrays(tensors, tensors[0]._type.dtype.numpy) if is_usual else None
    if not _change(tensors, arrays, Update(_CLAMPED, (low, high))):
        _each(tensors, lambda x: x.clamp_(low, high))


def _each(tensors: Sequence[Tensor], change: Callable[[Any], Any]) -> None:
    for x in tensors:
        change(x)


def _arrays(tensors: Sequence[Tensor], d: np.dtype[Any]) -> list[Array] | None:
    """The memory of each tensor, if all of it is of one dtype, known by now and nobody's history."""
    if CONTEXT.get().interceptor is not None or len({id(x._memory) for x in tensors}) < len(tensors):
        return None
    for x in tensors:
        plain = type(x) is Tensor and x._data is not None and x._alias is None and type(x._history) is not Node
        if not plain or x._data.dtype is not d or not x._data.flags.writeable:
            return None
    return [x._data for x in tensors]


def _change(tensors: Sequence[Tensor], arrays: list[Array] | None, update: Update) -> bool:
    """False: nothing was changed."""
    if not arrays:
        return False
    d = arrays[0].dtype
    kernel = native_update(update, 0, d)
    if kernel is None:
        return False
    before_write([x._storage for x in tensors])
    if d not in _PLACES:
        _PLACES[d] = native_places(d, arrays[0], ())  # without moments it does not matter where the first value is
    if not kernel(_PLACES[d], update.numbers, arrays, arrays):
        return False
    where = user_line()
    for x in tensors:
        x._storage.version += 1
        x._storage.written_at = where
    return True
