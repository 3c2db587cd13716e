"""Bodies of requests as samples for a program, and results as bodies: JSON, npz, Arrow.

A sample is a dict from the names of inputs to arrays. In JSON it is `{"inputs": {name: nested lists}}`, and several are
`{"instances": [{name: ...}, ...]}`, of which each is answered by itself; an npz archive of numpy.savez is one sample;
in an Arrow stream every row is one (`arrow_bodies`). What is read is never executed and never larger than its body, but
for compressed npz members, whose sizes are limited before they are unpacked.
"""

from __future__ import annotations

import functools
import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.storage import Array
from ..exporting.calls import ProgramInput
from .arrow_bodies import read_arrow, write_arrow
from .refusals import BadRequest

JSON, NPZ, ARROW = "application/json", "application/x-npz", "application/vnd.apache.arrow.stream"
SYNONYMS = {
    JSON: JSON,
    NPZ: NPZ,
    "application/npz": NPZ,
    "application/zip": NPZ,
    ARROW: ARROW,
    "application/vnd.apache.arrow": ARROW,
}
_UNPACKED = 4  # an npz archive may become so many times as large as a body may be
_NAMED = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}

Sample = dict[str, Array]
Result = Mapping[str, Array] | BadRequest  # what became of one sample


class Samples:
    """What a request asks for: samples, and whether it names one or a list of them."""

    __slots__ = ("listed", "of")

    def __init__(self, of: list[Sample | BadRequest], listed: bool) -> None:
        self.of = of
        self.listed = listed


# ---- requests


def read_body(media: str, body: bytes, inputs: Sequence[ProgramInput], max_body: int, max_samples: int) -> Samples:
    """The samples in a body; BadRequest says what is wrong with it, or with all of it but for samples in a list."""
    if media == NPZ:
        return Samples([_checked(_read_npz(body, _UNPACKED * max_body), inputs)], listed=False)
    if media == ARROW:
        rows = read_arrow(body, max_samples)
        return Samples([_attempt(_checked, row, inputs) for row in rows], listed=True)
    return _read_json(body, inputs, max_samples)


def _attempt(
    read: Callable[[Any, Sequence[ProgramInput]], Sample], given: Any, inputs: Sequence[ProgramInput]
) -> Sample | BadRequest:
    """One of several samples: what is wrong with it is its own answer."""
    if isinstance(given, BadRequest):
        return given
    try:
        return read(given, inputs)
    except BadRequest as refused:
        return refused


def _checked(arrays: Mapping[str, Array], inputs: Sequence[ProgramInput]) -> Sample:
    """Each input's array, converted to its dtype where that loses nothing but digits."""
    _check_names(arrays, inputs)
    return {spec.name: _converted(arrays[spec.name], spec) for spec in inputs}


def _check_names(given: Mapping[str, Any], inputs: Sequence[ProgramInput]) -> None:
    names = [spec.name for spec in inputs]
    unknown = [name for name in given if name not in names]
    if unknown:
        raise BadRequest(422, f"there is no input {unknown[0]!r}; the inputs are {_signature(inputs)}")
    missing = [spec for spec in inputs if spec.name not in given]
    if missing:
        raise BadRequest(422, f"the input {missing[0].name!r} is missing; expected {missing[0]}")


def _signature(inputs: Sequence[ProgramInput]) -> str:
    return ", ".join(map(str, inputs))


def _converted(array: Array, spec: ProgramInput) -> Array:
    wanted = spec.type.dtype.numpy
    if array.size == 0 and array.ndim < len(spec.type.shape):  # nested lists do not say what is inside an empty one
        sizes = [n if isinstance(n, int) else 0 for n in spec.type.shape[array.ndim :]]
        array = array.reshape(*array.shape, *sizes) if 0 in (*array.shape, *sizes) else array
    if array.dtype != wanted:
        kinds = {"b": "b", "i": "iu", "u": "iu", "f": "fiu", "c": "cfiu"}.get(_kind(wanted), "")
        if array.size and _kind(array.dtype) not in kinds:
            raise BadRequest(422, f"expected {spec}, got numbers of type {array.dtype}{_hint(array)}")
        if _kind(wanted) in "iu" and array.size:
            bounds = np.iinfo(wanted)
            if int(array.min()) < bounds.min or int(array.max()) > bounds.max:
                raise BadRequest(422, f"expected {spec}, got numbers outside {bounds.min} to {bounds.max}")
    with np.errstate(over="ignore", invalid="ignore"):  # 1e300 is infinite in float32
        return np.array(array, wanted, order="C")


def _kind(dtype: Any) -> str:
    """NumPy's letter, and "f" for the short floats that it does not have itself."""
    kind = str(np.dtype(dtype).kind)
    return "f" if kind == "V" and "float" in np.dtype(dtype).name else kind


def _hint(array: Array) -> str:
    return ", among them no whole ones" if array.dtype.kind == "f" else ""


# ---- JSON


def _read_json(body: bytes, inputs: Sequence[ProgramInput], max_samples: int) -> Samples:
    how = 'send {"inputs": {' + ", ".join(f'"{spec.name}": ...' for spec in inputs) + "}}"
    try:
        read = json.loads(body)
    except (ValueError, RecursionError) as error:
        text = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise BadRequest(400, f"the body is no JSON: {text}; {how}") from None
    if not isinstance(read, dict) or set(read) not in ({"inputs"}, {"instances"}):
        raise BadRequest(400, f'expected an object with the one key "inputs", or "instances" for a list; {how}')
    if "inputs" in read:
        return Samples([_json_sample(read["inputs"], inputs)], listed=False)
    listed = read["instances"]
    if not isinstance(listed, list) or not 1 <= len(listed) <= max_samples:
        raise BadRequest(400, f'"instances" must be a list of 1 to {max_samples} objects, each with the inputs by name')
    return Samples([_attempt(_json_sample, one, inputs) for one in listed], listed=True)


def _json_sample(given: Any, inputs: Sequence[ProgramInput]) -> Sample:
    if not isinstance(given, dict):
        raise BadRequest(422, f"expected an object with the inputs by name, {_signature(inputs)}")
    _check_names(given, inputs)
    return {spec.name: _converted(_json_array(given[spec.name], spec), spec) for spec in inputs}


def _json_array(value: Any, spec: ProgramInput) -> Array:
    try:
        array = np.array(value)
        if array.dtype.kind == "U":
            array = np.array(_with_named(value, 0))
    except (ValueError, OverflowError, RecursionError) as error:
        text = "rows of one array must be equally long" if "inhomogeneous" in str(error) else str(error)
        raise BadRequest(422, f"{spec.name}: {text}; expected {spec}") from None
    if array.dtype.kind not in "biufc":
        raise BadRequest(422, f"expected {spec}, got something that is no nested lists of numbers")
    return array


def _with_named(value: Any, depth: int) -> Any:
    """ "NaN", "Infinity" and "-Infinity", for which JSON has no numbers."""
    if isinstance(value, list) and depth < 64:
        return [_with_named(v, depth + 1) for v in value]
    if isinstance(value, str):
        if value not in _NAMED:
            raise ValueError(f'{value[:40]!r} is no number (of texts, "NaN", "Infinity" and "-Infinity" are)')
        return _NAMED[value]
    return value


# ---- npz


def _read_npz(body: bytes, most: int) -> Sample:
    """The arrays of an archive; NumPy's own reader would make an array as large as a header says before it reads."""
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > most:
                raise BadRequest(413, f"the archive unpacks to more than {most} bytes")
            return {member.filename.removesuffix(".npy"): _read_npy(archive.read(member)) for member in members}
    except BadRequest:
        raise
    except Exception as error:  # zipfile, NumPy's reader of headers, zlib, lzma and bz2 have many of their own
        raise BadRequest(400, f"the body is no archive of numpy.savez: {error}") from None


def _read_npy(data: bytes) -> Array:
    shape, fortran, dtype, start = _npy_header(data[: _header_bytes(data)])
    rest = len(data) - start
    count = 1
    for size in shape:
        count *= size
    if dtype.hasobject or dtype.kind not in "biufc":
        raise ValueError(f"an array has elements of type {dtype}; expected numbers")
    if count * dtype.itemsize != rest or any(size < 0 for size in shape):
        raise ValueError(f"an array of shape {shape} and type {dtype} has {rest} bytes")
    array = np.frombuffer(data, dtype, count, start)
    return array.reshape(shape[::-1]).T if fortran else array.reshape(shape)


def _header_bytes(data: bytes) -> int:
    """Where an array's header ends: after its magic, version and length, which version 1 has in two bytes."""
    n_length = 2 if data[6:7] == b"\x01" else 4
    return 8 + n_length + int.from_bytes(data[8 : 8 + n_length], "little")


@functools.lru_cache(maxsize=256)
def _npy_header(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, whether it is in Fortran's order, dtype, and where numbers begin. NumPy parses it as Python's text."""
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return (*read(file), file.tell())


# ---- answers


def write_body(media: str, results: Sequence[Result], listed: bool) -> bytes:
    """The results of a request's samples; those in a list that failed say why. One that stands alone has not."""
    if media == ARROW:
        return write_arrow(results)
    if media == NPZ:
        if len(results) != 1 or isinstance(results[0], BadRequest):
            raise BadRequest(406, f"an npz archive holds one sample; accept {JSON} or {ARROW} for a list of them")
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **{name: _for_numpy(array) for name, array in results[0].items()})
        return file.getvalue()
    made = [_json_result(result) for result in results]
    whole = {"predictions": made} if listed else made[0]
    return json.dumps(whole, allow_nan=False, separators=(",", ":")).encode()


def _for_numpy(array: Array) -> Array:
    """Short floats that NumPy does not have itself are read back as bytes; they go as float32."""
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def _json_result(result: Result) -> dict[str, Any]:
    if isinstance(result, BadRequest):
        return {"error": {"status": result.status, "message": result.message}}
    return {"outputs": {name: _json_value(array) for name, array in result.items()}}


def _json_value(array: Array) -> Any:
    array = _for_numpy(array)
    if array.dtype.kind == "c":
        raise BadRequest(406, f"JSON has no complex numbers; accept {NPZ} instead")
    value = array.tolist()
    return value if array.dtype.kind != "f" or np.isfinite(array).all() else _named(value)


def _named(value: Any) -> Any:
    if isinstance(value, list):
        return [_named(v) for v in value]
    if value != value:
        return "NaN"
    return value if abs(value) != float("inf") else ("Infinity" if value > 0 else "-Infinity")
