"""How batches travel from a worker to the main process.

A batch is pickled with its large buffers left out; those lie in a segment of shared memory, which the receiver copies
into memory of its own. Segments are reused: a worker has about as many as it may be ahead, the receiver says which it
is done with, and pages stay warm. A segment is a file without a name whose descriptor travels over the socket, so there
is nothing to clean up after a crash, no limit by the size of /dev/shm, and no descriptor for each tensor that is kept.
Where descriptors cannot travel (Windows), everything is pickled.
"""

from __future__ import annotations

import mmap
import os
import pickle
import socket
import tempfile
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

_SMALL = 1 << 12  # bytes up to which a buffer is cheaper inside the pickle
_LARGE_STREAM = 1 << 16  # bytes from which the pickle itself is cheaper in a segment than through the socket
_ALIGNMENT = 64
_CAN_SHARE = hasattr(socket, "AF_UNIX") and hasattr(socket, "send_fds")


class Packed(NamedTuple):
    """A pickled value before it is sent. A stream of None is the last of the buffers."""

    stream: bytes | None
    buffers: list[memoryview]


class Parcel(NamedTuple):
    """A value as it is sent. A stream of None lies in the segment, as the last of the buffers."""

    stream: bytes | None
    sizes: tuple[int, ...]  # of the buffers in the segment
    segment: int | None  # its number
    new_size: int | None = None  # set when the segment is new: its descriptor follows
    dropped: tuple[int, ...] = ()  # segments that are not used any more


class Segment:
    """Shared memory on a file without a name."""

    def __init__(self, descriptor: int, size: int, access: int) -> None:
        self.size = size
        self.memory = mmap.mmap(descriptor, size, access=access)


def _nameless_file(size: int) -> int:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("extempo-batches")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


def _offsets(sizes: tuple[int, ...]) -> tuple[list[int], int]:
    """Where each buffer starts, and the end of all."""
    starts, end = [], 0
    for size in sizes:
        starts.append(end)
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return starts, end


class Sender:
    """The worker's side."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._free: dict[int, Segment] = {}
        self._in_use: dict[int, Segment] = {}
        self._next_number = 0

    def release(self, numbers: list[int]) -> None:
        """The receiver is done with these segments."""
        for number in numbers:
            self._free[number] = self._in_use.pop(number)

    def pack(self, value: Any) -> Packed:
        """Pickle the value."""
        buffers: list[memoryview] = []

        def stays_inside(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes < _SMALL:
                return True
            buffers.append(raw)
            return False

        if not _CAN_SHARE:
            return Packed(pickle.dumps(value, 5), [])
        stream = pickle.dumps(value, 5, buffer_callback=stays_inside)
        if len(stream) < _LARGE_STREAM:
            return Packed(stream, buffers)
        return Packed(None, [*buffers, memoryview(stream)])

    def send(self, label: Any, packed: Packed) -> None:
        """Send a packed value. Raises OSError when the receiver is gone."""
        if packed.buffers:
            self._send_through_segment(label, packed.stream, packed.buffers)
        else:
            self._connection.send((label, Parcel(packed.stream, (), None)))

    def _send_through_segment(self, label: Any, stream: bytes | None, buffers: list[memoryview]) -> None:
        sizes = tuple(raw.nbytes for raw in buffers)
        starts, total = _offsets(sizes)
        number, descriptor, dropped = self._segment_for(total)
        segment = self._in_use[number]
        for start, raw in zip(starts, buffers, strict=True):
            segment.memory[start : start + raw.nbytes] = raw
        new_size = None if descriptor is None else segment.size
        self._connection.send((label, Parcel(stream, sizes, number, new_size, dropped)))
        if descriptor is not None:
            with socket.fromfd(self._connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as channel:
                socket.send_fds(channel, [b"s"], [descriptor])
            os.close(descriptor)

    def _segment_for(self, total: int) -> tuple[int, int | None, tuple[int, ...]]:
        """A segment of at least that size, now in use; its descriptor if it is new; those that were too small."""
        dropped: list[int] = []
        for number in sorted(self._free, key=lambda n: self._free[n].size):
            segment = self._free.pop(number)
            if segment.size >= total:
                self._in_use[number] = segment
                return number, None, tuple(dropped)
            dropped.append(number)
        size = max(mmap.PAGESIZE, 1 << (total - 1).bit_length())  # pages that nobody touches take no memory
        descriptor = _nameless_file(size)
        number = self._next_number
        self._next_number += 1
        self._in_use[number] = Segment(descriptor, size, mmap.ACCESS_WRITE)
        return number, descriptor, tuple(dropped)


class Receiver:
    """The main process's side. `released` collects the numbers to tell the sender with the next task."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._segments: dict[int, Segment] = {}
        self.released: list[int] = []

    def receive(self) -> tuple[Any, Parcel]:
        """The next label and its parcel. Raises EOFError or OSError when the sender is gone."""
        label, parcel = self._connection.recv()
        for number in parcel.dropped:
            del self._segments[number]
        if parcel.new_size is not None:
            with socket.fromfd(self._connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as channel:
                _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
            if not descriptors:
                raise EOFError("the worker ended between a batch and the memory that it lies in")
            self._segments[parcel.segment] = Segment(descriptors[0], parcel.new_size, mmap.ACCESS_READ)
            os.close(descriptors[0])
        return label, parcel

    def open(self, parcel: Parcel) -> Any:
        """The value, in memory of its own. Every parcel must be opened or discarded, once."""
        buffers: list[Any] = []
        if parcel.segment is not None:
            memory = np.frombuffer(self._segments[parcel.segment].memory, np.uint8)
            starts, _ = _offsets(parcel.sizes)
            buffers = [memory[s : s + size].copy() for s, size in zip(starts, parcel.sizes, strict=True)]
        self.discard(parcel)
        stream = buffers.pop() if parcel.stream is None else parcel.stream
        return pickle.loads(stream, buffers=buffers)

    def discard(self, parcel: Parcel) -> None:
        """Give the parcel's memory back unread."""
        if parcel.segment is not None:
            self.released.append(parcel.segment)
