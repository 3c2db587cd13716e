"""Data sets on files of arrays that may be larger than memory: NumPy's .npy and safetensors.

A sample is read when it is asked for, into memory of its own. The files are memory-mapped: what the system keeps of
them in its cache it can drop again. Each process opens a file for itself, so that the data sets pickle as a path and
survive a fork.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import ml_dtypes
import numpy as np

from .. import ops
from ..core.tensor import Tensor
from ..errors import ExtempoError, IndexRangeError, ShapeError
from .datasets import Dataset, position

Array = np.ndarray[Any, Any]
Path = str | os.PathLike[str]
H = TypeVar("H")

# Kinds that files have and tensors do not, and the smallest kind that holds all their values.
_WIDER: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.uint16): np.dtype(np.int32),
    np.dtype(np.uint32): np.dtype(np.int64),
}


class PerProcess(Generic[H]):
    """Something that every process opens for itself, when it first needs it."""

    def __init__(self, opened: Callable[[], H]) -> None:
        self._open = opened
        self._owner: int | None = None
        self._handle: H

    def get(self) -> H:
        """The handle of this process."""
        if self._owner != os.getpid():
            self._handle = self._open()
            self._owner = os.getpid()
        return self._handle

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._open,)


def own_tensor(array: Array) -> Tensor:
    """A tensor with a copy of the values, which may be of a kind that only files have."""
    native: np.dtype[Any] = array.dtype.newbyteorder("=")
    return ops.from_numpy(np.array(array, _WIDER.get(native, native), order="C"))


def _open_npy(path: str) -> Array:
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise ExtempoError(f"NpyDataset: {path} cannot be mapped: {error}") from error
    if not isinstance(mapped, np.memmap):
        raise ExtempoError(f"NpyDataset: {path} is an archive of several arrays (.npz); save each with np.save")
    if not mapped.ndim:
        raise ShapeError(f"NpyDataset: {path} holds a single number, and so no rows")
    return mapped.view(np.ndarray)  # NumPy's class for mapped arrays makes every index several times slower


class NpyDataset(Dataset[Tensor]):
    """The rows of an array in a .npy file; a slice of the data set is a tensor of several rows.

    Several files side by side are a `StackDataset` of several of these. np.lib.format.open_memmap writes such a file
    piece by piece.

    >>> import numpy as np
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/x.npy", np.arange(6).reshape(3, 2))
    ...     rows = ex.utils.data.NpyDataset(f"{folder}/x.npy")
    ...     print(len(rows), rows[2])
    3 tensor([4, 5])
    """

    def __init__(self, path: Path) -> None:
        self.path = os.fspath(path)
        self._array = PerProcess(functools.partial(_open_npy, self.path))
        self._length = len(self._array.get())

    def __getitem__(self, index: Any) -> Tensor:
        if isinstance(index, slice):
            return own_tensor(self._array.get()[index])
        return own_tensor(self._array.get()[position(index, self._length, "NpyDataset")])

    def __len__(self) -> int:
        return self._length


def _open_safetensors(path: str, names: tuple[str, ...] | None) -> dict[str, Any]:
    """A handle for slices of each tensor."""
    from safetensors import SafetensorError, safe_open

    try:
        file: Any = safe_open(path, framework="np")
    except SafetensorError as error:
        raise ExtempoError(f"SafetensorsDataset: {path} is not a safetensors file: {error}") from error
    present = list(file.keys())
    for name in names or ():
        if name not in present:
            raise IndexRangeError(f"SafetensorsDataset: {path} has no tensor {name!r}, only {', '.join(present)}")
    return {name: file.get_slice(name) for name in names or present}


class SafetensorsDataset(Dataset[Any]):
    """The rows of the tensors in a .safetensors file, each sample a dict by name.

    `names` chooses some of the tensors, which must have the same first size; a single name as a string gives samples
    that are tensors, not dicts. A slice of the data set has several rows.

    >>> import numpy as np
    >>> import tempfile
    >>> from safetensors.numpy import save_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_file({"x": np.arange(6).reshape(3, 2), "y": np.arange(3)}, f"{folder}/xy.safetensors")
    ...     ex.utils.data.SafetensorsDataset(f"{folder}/xy.safetensors")[1]
    {'x': tensor([2, 3]), 'y': tensor(1)}
    """

    def __init__(self, path: Path, names: Sequence[str] | str | None = None) -> None:
        self.path = os.fspath(path)
        self._alone = isinstance(names, str)
        wanted = (names,) if isinstance(names, str) else tuple(names) if names is not None else None
        self._slices = PerProcess(functools.partial(_open_safetensors, self.path, wanted))
        shapes = {name: tuple(part.get_shape()) for name, part in self._slices.get().items()}
        if not shapes or () in shapes.values() or len({shape[0] for shape in shapes.values()}) > 1:
            raise ShapeError(
                f"SafetensorsDataset: the tensors must have the same first size, {self.path} has {shapes}; choose some "
                "with names=[...]"
            )
        self._length = int(next(iter(shapes.values()))[0])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step != 1:
                raise IndexRangeError(f"SafetensorsDataset: slices have a step of 1, got {step}")
            rows = {name: _read(part, start, max(start, stop)) for name, part in self._slices.get().items()}
        else:
            place = position(index, self._length, "SafetensorsDataset")
            rows = {name: _read(part, place, place + 1).squeeze(0) for name, part in self._slices.get().items()}
        return next(iter(rows.values())) if self._alone else rows

    def __len__(self) -> int:
        return self._length


def _read(part: Any, start: int, stop: int) -> Tensor:
    array = np.asarray(part[start:stop])
    if part.get_dtype() == "BF16" and array.dtype == np.uint16:  # as some versions of safetensors return it
        array = array.view(ml_dtypes.bfloat16)
    return own_tensor(array)
