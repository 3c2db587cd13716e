"""Tensor types from the time when a dtype was a class: `ex.FloatTensor`, `ex.LongTensor`, ...

Calling one makes a tensor, as `ex.Tensor(...)` does: ints are sizes, a sequence holds values. `isinstance` asks the
dtype.
"""

from __future__ import annotations

from typing import Any

from ..core.device import layout, require_cpu, strided
from ..core.tensor import Tensor
from ..core.types import dtype
from ..ops.convert import TYPE_NAMES
from ..ops.creation import legacy_tensor

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
]


class tensortype(type):
    """The class of `ex.FloatTensor` and its fellows."""

    dtype: dtype
    layout: layout = strided
    is_cuda = False
    is_sparse = False

    def __call__(cls, *data: Any, device: Any = None) -> Tensor:
        require_cpu(device, cls.__name__)
        return legacy_tensor(data, cls.dtype)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype

    def __repr__(cls) -> str:
        return f"<class 'extempo.{cls.__name__}'>"


def _of(name: str) -> tensortype:
    d = TYPE_NAMES[name]
    text = f"Tensors of {d}.\n\n>>> ex.{name}([1, 0]).dtype\n{d}"
    return tensortype(name, (), {"dtype": d, "__doc__": text, "__module__": "extempo"})


FloatTensor = _of("FloatTensor")
DoubleTensor = _of("DoubleTensor")
HalfTensor = _of("HalfTensor")
BFloat16Tensor = _of("BFloat16Tensor")
LongTensor = _of("LongTensor")
IntTensor = _of("IntTensor")
ShortTensor = _of("ShortTensor")
CharTensor = _of("CharTensor")
ByteTensor = _of("ByteTensor")
BoolTensor = _of("BoolTensor")
