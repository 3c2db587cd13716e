"""Bytes in and out: a file that is replaced whole or not at all, and reading by position with checked bounds."""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from ..core.files import open_regular, replacing
from ..core.interrupts import block
from ..core.storage import Array
from ..errors import DtypeError, ExtempoError, UnsupportedError

FILE_LIKE = str | os.PathLike[str] | BinaryIO  # what save and load take


class FileFormatError(ExtempoError, ValueError):
    """A file that is damaged, cut short, or of another format than `ex.load` reads. Nothing of it was used."""


# ---- writing


@block
def writing(f: Any) -> Iterator[BinaryIO]:
    """Where to write. A path gets its new contents in one step at the end; on an error it keeps its old ones."""
    if hasattr(f, "write"):
        yield f
        return
    path = os.path.realpath(_path(f, "save"))  # through symbolic links: the file is replaced, not the link
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or device cannot be replaced, only written to
        with open(path, "wb") as file:
            yield file
        return
    with replacing(path) as file:
        yield file


def _path(f: Any, op: str) -> str:
    try:
        return os.fsdecode(f)
    except TypeError:
        raise DtypeError(f"{op}: expected a path or a binary file object, got {type(f).__name__}") from None


# ---- reading


def checksum(data: Array, start: int = 0) -> int:
    """The CRC-32 of an array of bytes, going on from that of what stood before."""
    return zlib.crc32(data.data, start)


class Reader:
    """The bytes of a file from where it stands to its end, by position; nothing is allocated beyond its size."""

    mapped = False

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.file = file
        self.name = name
        self.start = file.tell()
        self.size = max(0, file.seek(0, os.SEEK_END) - self.start)
        file.seek(self.start)

    def array(self, position: int, count: int) -> Array:
        """That many bytes, as an array of their own that can be written to."""
        self._require(position, count)
        out = np.empty(count, np.uint8)
        self.file.seek(self.start + position)
        filled, view = 0, out.data
        while filled < count:
            piece = self.file.read(min(count - filled, 1 << 24))
            if not piece:
                raise self.damaged(f"it ended at byte {position + filled} while it was read")
            view[filled : filled + len(piece)] = piece
            filled += len(piece)
        return out

    def bytes(self, position: int, count: int) -> bytes:
        """That many bytes."""
        return self.array(position, count).tobytes()

    def _require(self, position: int, count: int) -> None:
        if not 0 <= position <= position + count <= self.size:
            raise self.damaged(f"bytes {position} to {position + count} are asked for and it has {self.size}")

    def damaged(self, why: str) -> FileFormatError:
        """The error for a file that is not what it should be."""
        return FileFormatError(f"load: {self.name} is damaged or cut short: {why}; use another copy of the file")


class MappedReader(Reader):
    """The same over a private map of the file: pages are read when they are used, and writes stay in memory."""

    mapped = True

    def __init__(self, file: BinaryIO, name: str) -> None:
        super().__init__(file, name)
        # An empty file cannot be mapped.
        self._map = np.memmap(file, np.uint8, "c") if self.size else np.empty(0, np.uint8)

    def array(self, position: int, count: int) -> Array:
        self._require(position, count)
        return self._map.view(np.ndarray)[position : position + count]


@block
def reading(f: Any, mmap: bool) -> Iterator[Reader]:
    """A reader of a path or of a seekable binary file object."""
    if not hasattr(f, "read"):
        path = _path(f, "load")
        with open(_opened(path), "rb") as file:
            yield (MappedReader if mmap else Reader)(file, repr(path))
        return
    if mmap:
        raise DtypeError("load: mmap=True maps a file by its path, and got a file object; pass the path")
    if not (hasattr(f, "seek") and hasattr(f, "tell")):
        raise DtypeError(
            f"load: expected a file object that can seek, got {type(f).__name__}; pass io.BytesIO(file.read())"
        )
    yield Reader(f, "the file object")


def _opened(path: str) -> int:
    try:
        return open_regular(path, links=True)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise UnsupportedError(
            f"load: {path!r} is {error.strerror}, and loading goes back and forth; read it first: "
            f"ex.load(io.BytesIO(open({path!r}, 'rb').read()))"
        ) from None
