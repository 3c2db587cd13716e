"""Devices, layouts and memory formats, by PyTorch's names. Extempo has the CPU and strided memory.

The names of other devices can be spoken (`x.device == ex.device("cuda")` is False); only putting a tensor there is an
error. A memory format is a way to order elements in memory and nothing else: it never changes a value or a shape.
"""

from __future__ import annotations

from typing import Any

from ..errors import DtypeError, ShapeError, UnsupportedError
from .public_names import shown_name

_DEVICE_TYPES = ("cpu", "cuda", "mps", "xpu", "meta", "xla", "hip", "hpu", "mtia", "vulkan", "privateuseone")


class device:
    """The name of a device: `ex.device("cpu")`. As a context manager it makes the device that of new tensors.

    >>> ex.device("cpu") == ex.zeros(2).device
    True
    """

    __slots__ = ("index", "type")

    def __init__(self, type: Any = "cpu", index: int | None = None) -> None:
        if isinstance(type, device):
            type, index = type.type, type.index if index is None else index
        if isinstance(type, int):
            raise UnsupportedError(f"device: {type} names an accelerator, and there is none; use ex.device('cpu')")
        if not isinstance(type, str):
            raise DtypeError(f"device: expected a name such as 'cpu', got {type!r}")
        name, colon, number = type.partition(":")
        if name not in _DEVICE_TYPES or (colon and not number.isdecimal()):
            raise DtypeError(f"device: expected one of {', '.join(_DEVICE_TYPES)} with an optional index, got {type!r}")
        if colon and index is not None:
            raise DtypeError(f"device: {type!r} has an index already; leave index={index} out")
        self.type: str = name
        self.index: int | None = int(number) if colon else index

    def __repr__(self) -> str:
        return (
            f"device(type={self.type!r})" if self.index is None else f"device(type={self.type!r}, index={self.index})"
        )

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.type, self.index)

    def __enter__(self) -> device:
        require_cpu(self, "device")
        return self

    def __exit__(self, *exception: object) -> None:
        return None


CPU = device("cpu")


def require_cpu(place: Any, op: str) -> None:
    """Accept what means the CPU (or None); say why anything else is not there."""
    if place is None or place is CPU:
        return
    if getattr(place, "type", place) == "cpu":
        return
    named = device(place) if isinstance(place, str | int | device) else device(str(place))
    if named.type == "meta":
        raise UnsupportedError(f"{op}: Extempo has no tensors without memory (device 'meta'); make it on the CPU")
    if named.type != "cpu":
        raise UnsupportedError(f"{op}: Extempo runs on the CPU, there is no device {str(named)!r}; leave device out")


def get_default_device() -> device:
    """The device of new tensors: the CPU.

    >>> ex.get_default_device()
    device(type='cpu')
    """
    return CPU


def set_default_device(device: Any) -> None:
    """Accepts the CPU; there is no other device that new tensors could be on.

    >>> ex.set_default_device("cpu")
    >>> ex.zeros(2).device
    device(type='cpu')
    """
    require_cpu(device, "set_default_device")


class _Named:
    """The one object of its name in this module: `is` compares it, also after pickling."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"{shown_name()}.{self._name}"

    def __reduce__(self) -> str:
        return self._name


class layout(_Named):
    """How a tensor's elements are kept: `ex.strided`, or `ex.jagged` for ragged tensors.

    >>> ex.zeros(2).layout, ex.ragged([[1, 2], [3]]).layout
    (extempo.strided, extempo.jagged)
    """

    __slots__ = ()


strided = layout("strided")
jagged = layout("jagged")


def require_strided(wanted: Any, op: str) -> None:
    """Accept `ex.strided` and None."""
    if wanted is jagged:
        raise UnsupportedError(f"{op}: an ordinary tensor is not jagged; make a ragged one with ex.ragged(rows)")
    if wanted is not None and wanted is not strided:
        raise UnsupportedError(f"{op}: Extempo has strided tensors only, got layout {wanted!r}; leave layout out")


class memory_format(_Named):
    """An order of the elements in memory: `ex.contiguous_format`, `ex.channels_last`, ...

    >>> x = ex.zeros(1, 2, 3, 4).to(memory_format=ex.channels_last)
    >>> x.stride(), x.is_contiguous(memory_format=ex.channels_last)
    ((24, 1, 8, 2), True)
    """

    __slots__ = ()


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")


def memory_order(wanted: Any, ndim: int, op: str) -> tuple[int, ...] | None:
    """The dimensions from the slowest to the fastest in memory; None for "as it is" (`preserve_format`)."""
    if wanted is None or wanted is preserve_format:
        return None
    if wanted is contiguous_format:
        return tuple(range(ndim))
    if wanted is not channels_last and wanted is not channels_last_3d:
        raise DtypeError(f"{op}: expected a memory format such as ex.contiguous_format, got {wanted!r}")
    needed = 4 if wanted is channels_last else 5
    if ndim != needed:
        raise ShapeError(f"{op}: {wanted._name} orders {needed}-dim tensors, this one has {ndim} dimensions")
    return (0, *range(2, ndim), 1)
