"""load: which format is it, and the safetensors files of `ex.save` and of others."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable
from typing import Any

from ..core.device import device, require_cpu
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import bool_, from_numpy_dtype
from ..errors import DtypeError, UnsupportedError
from ..ops import from_numpy
from .files import FileFormatError, Reader, checksum, reading
from .header import (
    KEY,
    KEY_CHECKSUM,
    NUMPY_DTYPES,
    VERSION,
    Entry,
    parse_json,
    read_header,
    require_little_endian,
    type_checksum,
)
from .memory import Booleans, Window, fits, tensor_at

_RESAVE = "open it with PyTorch and save it again: torch.save(torch.load(path), path)"
_PICKLE_ARGS = {"encoding", "errors", "fix_imports", "buffers"}  # of pickle.load, which is not called
# What `map_location` may be: all of it means the CPU.
MAP_LOCATION = Callable[[Any, str], Any] | device | str | dict[str, str] | None
# How files begin that are something else.
_FOREIGN: tuple[tuple[bytes, str, str], ...] = (
    (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "PyTorch's format from before version 1.6", _RESAVE),
    (b"\x80", "a bare pickle, and unpickling runs code", "save its contents with ex.save"),
    (b"\x93NUMPY", "a NumPy array", "use ex.from_numpy(numpy.load(path))"),
    (b"\x89HDF", "an HDF5 file", "read it with h5py and pass the arrays to ex.from_numpy"),
    (b"\x1f\x8b", "compressed with gzip", "unpack it first"),
)
_TAR_AT, _TAR = 257, b"ustar"


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read what `ex.save` wrote to a path or a seekable binary file object.

    Also reads safetensors files of other programs (a dict of tensors) and the `.pt` files of `torch.save`, whose
    modules come back as Extempo's. No file can make it execute anything, so `weights_only`, `pickle_module` and its
    arguments change nothing. Tensors saved on other devices come to the CPU, which is also all that `map_location` can
    ask for; a function there is not called.

    Objects come back without their `__init__`, by the path of their class, if the program has imported it and it is a
    subclass of `nn.Module` or `Dataset`, a dataclass or a namedtuple, with no code of its own for being restored
    (`__reduce__`, `__setstate__`, `__new__`, `__del__`); other classes and functions only if `safe_globals` lists them.

    With `mmap=True` tensors lie in a private map of the file: loading takes no time and no memory until values are
    used; do not write into the file meanwhile (replacing it, as `ex.save` does, is fine).

    >>> import io
    >>> file = io.BytesIO()
    >>> ex.save([ex.zeros(2), float("inf")], file)
    >>> ex.load(io.BytesIO(file.getvalue()), map_location="cpu")
    [tensor([0., 0.]), inf]

    >>> file = io.BytesIO()
    >>> ex.save(nn.Sequential(nn.Linear(2, 1), nn.Tanh()), file)
    >>> ex.load(io.BytesIO(file.getvalue()))
    Sequential(
      (0): Linear(in_features=2, out_features=1, bias=True)
      (1): Tanh()
    )
    """
    if pickle_load_args.keys() - _PICKLE_ARGS:
        raise TypeError(f"load() got an unexpected keyword argument {min(pickle_load_args.keys() - _PICKLE_ARGS)!r}")
    require_little_endian("load")
    _check_location(map_location)
    with reading(f, bool(mmap)) as reader:
        if reader.size == 0:
            raise FileFormatError(
                f"load: {reader.name} has nothing to read; a file object that was written to needs seek(0)"
            )
        if reader.bytes(0, min(4, reader.size)) == b"PK\x03\x04":
            from .torch_archive import load_archive  # only these files need it, and the layers that it makes

            return load_archive(reader)
        _refuse_foreign(reader)
        return _load_safetensors(reader)


def _check_location(wanted: Any) -> None:
    """Accept every way to say "the CPU"; a function of PyTorch's storages is not called."""
    if callable(wanted):
        return
    if isinstance(wanted, dict):
        for target in wanted.values():
            _check_location(target)
    elif wanted is None or isinstance(wanted, str | device) or hasattr(wanted, "type"):
        require_cpu(wanted, "load")
    else:
        raise DtypeError(f"load: map_location should be 'cpu' or None, got {type(wanted).__name__}")


def _refuse_foreign(reader: Reader) -> None:
    start = reader.bytes(0, min(512, reader.size))
    if start[4:9] == b"\0\0\0\0{":  # the upper half of the length of the header, and its first character
        return
    for signature, what, advice in _FOREIGN:
        if start.startswith(signature):
            raise UnsupportedError(f"load: {reader.name} is {what}; {advice}")
    if start[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        raise UnsupportedError(f"load: {reader.name} is a tar archive, PyTorch's first format; {_RESAVE}")
    raise FileFormatError(
        f"load: {reader.name} is neither a file of ex.save, nor a safetensors file, nor a zip file of torch.save; "
        "is it the right file, and complete?"
    )


# ---- safetensors


def _load_safetensors(reader: Reader) -> Any:
    entries, metadata = read_header(reader)
    if KEY not in metadata:
        for name, entry in entries.items():
            _require_tensor_dtype(name, entry, reader)
        return {name: from_numpy(stored_array(name, entry, reader, None)) for name, entry in entries.items()}
    text = metadata[KEY].encode("utf-8", "surrogatepass")
    if metadata.get(KEY_CHECKSUM) != str(zlib.crc32(text)):
        raise reader.damaged("its description is not the one that was saved")
    description = parse_json(text, reader)
    if type(description) is not dict or type(description.get("version")) is not int:
        raise reader.damaged("its description has no version")
    if description["version"] > VERSION:
        raise UnsupportedError(
            f"load: {reader.name} has version {description['version']} of the format, this Extempo reads up to "
            f"{VERSION}; update Extempo"
        )
    rows, checksums = description.get("objects"), description.get("crc32")
    if type(rows) is not list or type(checksums) is not dict or "structure" not in description:
        raise reader.damaged("its description is not complete")
    memory = Memory(entries, checksums, reader)
    try:
        return _decoded(description["structure"], [memory.restore(row) for row in rows], description.get("entries", []))
    except FileFormatError as error:
        raise error if str(error).startswith("load: ") else reader.damaged(str(error)) from None


def _decoded(structure: Any, objects: list[Any], entries: Any) -> Any:
    """What a description says. Of dicts, lists, texts, numbers and tensors alone without the rooms of classes.

    Those take longer to import than such a file, a state dict or a program, takes to read.
    """
    if entries == []:
        with contextlib.suppress(_NotPlainError):
            return _plain(structure, objects)
    from .decoding import decode

    return decode(structure, objects, entries)


class _NotPlainError(Exception):
    """There is more in it than plain values."""


def _plain(node: Any, objects: list[Any]) -> Any:
    if type(node) is list:
        return [_plain(part, objects) for part in node]
    if type(node) is not dict:
        return node
    if "$" not in node:
        return {key: _plain(part, objects) for key, part in node.items()}
    number = node.get("number")
    if node["$"] != "object" or type(number) is not int or not 0 <= number < len(objects):
        raise _NotPlainError
    return objects[number]


class Memory:
    """The stored arrays of a file, each read once, and the tensors on them."""

    def __init__(self, entries: dict[str, Entry], checksums: dict[str, Any], reader: Reader) -> None:
        self._entries = entries
        self._checksums = checksums
        self._reader = reader
        self._arrays: dict[str, Array] = {}
        self._tensors: dict[str, Tensor] = {}
        self._booleans = Booleans()

    def restore(self, row: Any) -> Any:
        """The tensor, parameter or array that one row of the table describes."""
        name = row.get("data") if type(row) is dict else None
        if type(name) is not str or name not in self._entries:
            raise self._reader.damaged(f"its description refers to a tensor {name!r} that it does not have")
        kind, window = row.get("type"), row.get("window")
        if kind == "array":
            return self._array(name)
        if kind not in ("tensor", "parameter"):
            raise self._reader.damaged(f"its description names an unknown type {kind!r}")
        memory = self._tensor(name)
        tensor = memory.detach() if window is None else self._windowed(memory, row, window)
        requires_grad = bool(row.get("requires_grad")) and tensor.dtype.is_floating_point
        if kind == "parameter":
            from ..nn.parameter import Parameter  # which brings all of nn

            return Parameter(tensor, requires_grad)
        return tensor.requires_grad_() if requires_grad else tensor

    def _windowed(self, memory: Tensor, row: Any, window: Any) -> Tensor:
        """A tensor that shares the memory of others."""
        try:
            found = Window(window["offset"], tuple(window["shape"]), tuple(window["strides"]))
            numbers = (found.offset, *found.shape, *found.strides)
            d = from_numpy_dtype(NUMPY_DTYPES[row["dtype"]])
            nbytes = memory.numel() * memory.dtype.itemsize
            if all(type(v) is int for v in numbers) and fits(found, d.itemsize, nbytes):
                made = tensor_at(memory, d, found)
                if d is not bool_ or self._booleans.has(made, memory):
                    return made
        except (TypeError, KeyError, ValueError):
            pass
        raise self._reader.damaged(f"its description of a part of {row['data']!r} does not fit")

    def _tensor(self, name: str) -> Tensor:
        if name not in self._tensors:
            _require_tensor_dtype(name, self._entries[name], self._reader)
            self._tensors[name] = from_numpy(self._array(name))
        return self._tensors[name]

    def _array(self, name: str) -> Array:
        if name not in self._arrays:
            self._arrays[name] = stored_array(name, self._entries[name], self._reader, self._checksums.get(name))
        return self._arrays[name]


def _require_tensor_dtype(name: str, entry: Entry, reader: Reader) -> None:
    try:
        from_numpy_dtype(NUMPY_DTYPES[entry.code])
    except DtypeError as error:
        raise UnsupportedError(f"load: tensor {name!r} in {reader.name}: {error}") from None


def stored_array(name: str, entry: Entry, reader: Reader, expected: Any) -> Array:
    """The array of one entry, its checksum compared where the file has one and all of it is read anyway."""
    data = reader.array(entry.start, entry.stop - entry.start)
    is_checked = expected is not None and not reader.mapped
    if is_checked and checksum(data, type_checksum(entry.code, entry.shape)) != expected:
        raise reader.damaged(f"the values of tensor {name!r} are not those that were saved")
    if entry.code == "BOOL" and data.size and data.max() > 1:
        raise reader.damaged(f"tensor {name!r} is boolean and holds other bytes than 0 and 1")
    try:
        return data.view(NUMPY_DTYPES[entry.code]).reshape(entry.shape)
    except ValueError:  # more elements in an empty shape than NumPy can count
        raise reader.damaged(f"tensor {name!r} has the shape {list(entry.shape)}") from None
