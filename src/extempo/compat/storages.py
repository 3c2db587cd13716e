"""`x.storage()` and `x.untyped_storage()`: what libraries ask about the memory behind a tensor, its address and size.

They answer, and hold the memory; it is read and written through tensors only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.absent_names import RefusedName
from ..core.device import device
from ..core.storage import Storage
from ..core.tensor import Tensor
from ..core.tensor_methods import method
from ..core.types import dtype


class FileBytes(np.memmap):
    """The bytes of a file."""

    def untyped(self) -> FileBytes:
        """They have no other type."""
        return self


class UntypedStorage:
    """The memory behind a tensor and its views, as bytes."""

    def __init__(self, storage: Storage) -> None:
        if not isinstance(storage, Storage):
            raise RefusedName("UntypedStorage: a storage is that of a tensor; use ex.empty(n, dtype=ex.uint8)")
        self._storage = storage

    @staticmethod
    def from_file(filename: str, shared: bool = False, nbytes: int = 0) -> Any:
        """The bytes of a file, to be cut and handed to `asarray`, as readers of safetensors do."""
        return FileBytes(filename, np.uint8, "r+" if shared else "c", shape=(nbytes,))

    def nbytes(self) -> int:
        """How many bytes there are, those of no element of the tensor included."""
        return self._storage.nbytes

    def element_size(self) -> int:
        """Bytes of an element."""
        return 1

    def size(self) -> int:
        """How many elements there are."""
        return self.nbytes() // self.element_size()

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return self._storage.address

    @property
    def device(self) -> device:
        """Where it is."""
        return device("cpu")

    def is_shared(self) -> bool:
        """Whether other processes see it: they do not."""
        return False

    def __sizeof__(self) -> int:
        """With the memory, so that `sys.getsizeof` tells what the tensor takes."""
        return object.__sizeof__(self) + self.nbytes()

    is_cuda = False
    __len__ = size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self._storage is other._storage

    def __hash__(self) -> int:
        return hash(self._storage)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        raise RefusedName(
            f"{type(self).__name__}.{name}: a storage says where memory is and how much; read and write it through "
            "the tensor",
            name,
        )


class TypedStorage(UntypedStorage):
    """The memory behind a tensor and its views, as elements of its dtype."""

    def __init__(self, storage: Storage, kind: dtype) -> None:
        super().__init__(storage)
        self.dtype = kind

    def element_size(self) -> int:
        return self.dtype.itemsize

    def untyped(self) -> UntypedStorage:
        """The same as bytes."""
        return UntypedStorage(self._storage)


@method
def untyped_storage(input: Tensor) -> UntypedStorage:
    """The memory behind the tensor and its views: `nbytes()`, `size()`, `data_ptr()`.

    >>> x = ex.zeros(3, 4)
    >>> x[1:].untyped_storage().nbytes(), x[1:].untyped_storage() == x.untyped_storage()
    (48, True)
    """
    input._handed_out()
    return UntypedStorage(input._storage)


@method
def storage(input: Tensor) -> TypedStorage:
    """The memory behind the tensor and its views, as elements of its dtype.

    >>> x = ex.zeros(3, 4)
    >>> x[1:].storage().size(), x[1:].storage().data_ptr() == x.data_ptr()
    (12, True)
    """
    input._handed_out()
    return TypedStorage(input._storage, input.dtype)
