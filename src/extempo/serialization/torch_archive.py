"""PyTorch's zip files: one pickle of the structure (`data.pkl`), one record of raw bytes for each storage.

Records are stored, not compressed, so no record is larger than the file; all that is read together is not either.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable
from typing import Any

from ..core.storage import Array
from ..core.tensor import Tensor
from ..errors import UnsupportedError
from ..ops import from_numpy
from .files import FileFormatError, Reader, checksum
from .pickle_machine import Callee, Machine
from .torch_names import StorageOfFile, TorchNames

_LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, length of the name, length of the extra field
_PICKLE = "data.pkl"


def load_archive(reader: Reader) -> Any:
    """The object that `torch.save` wrote."""
    archive = Archive(reader)
    try:
        names = TorchNames(archive.memory)
        made = Machine(archive.record(_PICKLE).tobytes(), names.find, names.persistent, names.build, names.make).run()
        _refuse_leftovers([made, *names.states])
        return made
    except FileFormatError as error:
        raise error if str(error).startswith("load: ") else reader.damaged(str(error)) from None


class Archive:
    """The records of a zip file by the name below its top folder."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        try:
            # Only its table is used: records are read by position, so that they can be mapped and are bounded.
            with zipfile.ZipFile(reader.file) as archive:
                found = archive.infolist()
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, OverflowError, struct.error) as error:
            raise reader.damaged(f"its table of records cannot be read ({error})") from None
        self._top = next((i.filename.removesuffix(_PICKLE) for i in found if _is_pickle(i.filename)), None)
        self._records = {i.filename: i for i in found}
        self._check_kind()
        self._memories: dict[str, Tensor] = {}
        self._left = reader.size  # bytes that records can still have; overlapping ones would have more

    def _check_kind(self) -> None:
        name = self._reader.name
        if self._top is None:
            raise UnsupportedError(f"load: {name} is a zip file without data.pkl, so not one of torch.save")
        if f"{self._top}constants.pkl" in self._records:
            raise UnsupportedError(
                f"load: {name} is a TorchScript archive, which is code; save model.state_dict() in PyTorch"
            )
        if f"{self._top}byteorder" in self._records and self.record("byteorder", counted=False).tobytes() != b"little":
            raise UnsupportedError(f"load: {name} was saved on a big-endian machine; save it again on another one")

    def record(self, name: str, counted: bool = True) -> Array:
        """The bytes of a record, checked against its checksum where it has one."""
        info = self._records.get(f"{self._top}{name}")
        if info is None:
            raise self._reader.damaged(f"it has no record {name!r}")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size or info.flag_bits & 1:
            raise UnsupportedError(
                f"load: record {name!r} of {self._reader.name} is compressed or encrypted, "
                "which torch.save does not do; use the file as it was saved"
            )
        if counted:
            self._left -= info.file_size
            if self._left < 0:
                raise self._reader.damaged("its records overlap")
        position = info.header_offset - self._reader.start
        signature, name_length, extra_length = _LOCAL_HEADER.unpack(
            self._reader.bytes(position, _LOCAL_HEADER.size),
        )
        if signature != b"PK\x03\x04":
            raise self._reader.damaged(f"record {name!r} is not where its table says")
        data = self._reader.array(position + _LOCAL_HEADER.size + name_length + extra_length, info.file_size)
        # PyTorch can be told to write no checksums; then they are 0.
        if info.CRC and not self._reader.mapped and checksum(data) != info.CRC:
            raise self._reader.damaged(f"the bytes of record {name!r} are not those that were saved")
        return data

    def memory(self, key: str, nbytes: int) -> Tensor:
        """The bytes of a storage, at least as many as asked for, as a tensor that all tensors on it share."""
        if key not in self._memories:
            self._memories[key] = from_numpy(self.record(f"data/{key}"))
        found = self._memories[key]
        if found.numel() < nbytes:
            raise self._reader.damaged(f"storage {key!r} has {found.numel()} bytes and should have {nbytes}")
        return found


def _is_pickle(name: str) -> bool:
    folder, _, last = name.rpartition("/")
    return last == _PICKLE and "/" not in folder


def _refuse_leftovers(made: Any) -> None:
    """Names and storages are means to make tensors; on their own they have no meaning here."""
    todo, seen = [made], set()
    while todo:
        value = todo.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, StorageOfFile | Callee):
            what = value.path if isinstance(value, Callee) else "a storage without a tensor"
            raise UnsupportedError(f"load: the file holds {what}, which is not plain data; save tensors and numbers")
        todo.extend(_parts(value))


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values(), getattr(value, "_metadata", None)]
    return value if isinstance(value, list | tuple | set | frozenset) else ()
