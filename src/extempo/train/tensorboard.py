"""Event files that TensorBoard reads: scalars over steps, written without TensorBoard.

A file is a sequence of records: length, a checksum of it, the bytes of an `Event` message, a checksum of them. The few
fields that scalars need are encoded here; the checksum is CRC-32C, masked as TensorFlow does.
"""

from __future__ import annotations

import math
import os
import socket
import struct
import time
from pathlib import Path
from typing import BinaryIO

from ..core.files import telling_of_full_disk

_POLYNOMIAL = 0x82F63B78


def _table() -> list[int]:
    entries = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        entries.append(value)
    return entries


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """The Castagnoli checksum."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, data: bytes) -> bytes:
    """A field of bytes."""
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


def _float32(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))


class EventWriter:
    """Writes scalars into an event file of its own in `folder`."""

    def __init__(self, folder: str | Path) -> None:
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard reads the files of a folder in the order of their names, so the time comes first, and is fine.
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}"
        self.path = folder / name
        self._file: BinaryIO | None
        with telling_of_full_disk(self.path):
            self._file = self.path.open("wb")
        self._write(_field(3, b"brain.Event:2"), 0)

    def scalar(self, tag: str, value: float, step: int) -> None:
        """One number at one step."""
        summary = _field(1, _field(1, tag.encode()) + b"\x15" + _float32(value))
        self._write(_field(5, summary), step)

    def restart(self, step: int) -> None:
        """Training goes on from this step: what other files of the folder have of it and later ones is void."""
        self._write(_field(7, b"\x08\x01"), step)

    def flush(self) -> None:
        if self._file is not None:
            with telling_of_full_disk(self.path):
                self._file.flush()

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with telling_of_full_disk(self.path):
                file.close()

    def _write(self, what: bytes, step: int) -> None:
        if self._file is None:
            raise ValueError(f"the event file {self.path} is closed")
        event = b"\x09" + struct.pack("<d", time.time()) + b"\x10" + _varint(step) + what
        length = struct.pack("<Q", len(event))
        with telling_of_full_disk(self.path):
            self._file.write(length + _masked(length) + event + _masked(event))
