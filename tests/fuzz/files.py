"""Files that are damaged, cut short or crafted: a value or a clear error, soon, and in bounded memory.

Files of every format that `ex.load` knows or names, and entries of the kernel cache, are changed in ways that accidents
and attackers would: bits, lengths, cuts, parts of other files; below checksums, too, which are made right again. What
loads is used, so that memory outside of a file would be seen.

Cases run in children, which are ended when one takes too long, and have a limit of memory.
"""

from __future__ import annotations

import importlib.util
import io
import itertools
import json
import os
import random
import select
import signal
import struct
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import extempo as ex
from extempo.backends.llvm.ir.disk import DiskCache, key_of
from extempo.errors import ExtempoError

_TESTS = Path(__file__).parents[1]
_SECONDS_FOR_A_CASE = 60.0
_MOST_MEMORY = 1 << 30  # bytes beyond what the process had before its first case
_MOST_USED = 1 << 20  # elements of a tensor that are looked at: expanded ones have any number


def module_at(path: str) -> ModuleType:
    """A module of the tests by its path: they are no package."""
    spec = importlib.util.spec_from_file_location(path.replace("/", "_").removesuffix(".py"), _TESTS / path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


hostile = module_at("serialization/raw_files.py")
torch_files = module_at("serialization/pickles.py")


# ---- files to begin with


def _saved(value: Any) -> bytes:
    file = io.BytesIO()
    ex.save(value, file)
    return file.getvalue()


def _plain_safetensors() -> bytes:
    table = {
        "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
        "b": {"dtype": "BOOL", "shape": [3], "data_offsets": [16, 19]},
        "c": {"dtype": "I64", "shape": [0, 4], "data_offsets": [19, 19]},
    }
    return hostile.raw_file(table, bytes(19))


def _pickles() -> list[bytes]:
    """The structure of files of torch.save."""
    t = torch_files
    flags = t.tensor(t.storage("0", "BoolStorage", 4), (2,), (1,))
    return [
        t.dict_of(w=t.tensor(t.storage("0")), step=t.number(3)),
        t.dict_of(n=t.call(t.name("builtins", "set"), b"](" + t.number(1) + b"e"), flags=flags),
        t.dict_of(wide=t.tensor(t.storage("0"), (2**40, 6), (0, 1)), part=t.tensor(t.storage("0"), (2,), (2,), 1)),
    ]


def _by_pytorch() -> list[bytes]:
    """Files of PyTorch itself, of its zip format and the one before."""
    try:
        import torch
    except ImportError:
        return []
    made = []
    for is_zip in (True, False):
        file = io.BytesIO()
        state = {"w": torch.ones(3, 2), "flags": torch.zeros(1, dtype=torch.bool).expand(5), "lr": 0.1, "names": ["a"]}
        torch.save(state, file, _use_new_zipfile_serialization=is_zip)
        made.append(file.getvalue())
    return made


def _whole_files() -> list[bytes]:
    ragged = ex.ragged([ex.ones(2), ex.ones(3)])
    own = [
        hostile.sample(),
        _saved({"r": ragged, "s": {1, 2}, "b": b"bytes", "n": [10**30, float("nan"), None], "t": (ex.float32, (1,))}),
        _saved([ex.ones(3).expand(4, 3), np.arange(5), ex.nn.Parameter(ex.ones(2))]),
    ]
    zips = [torch_files.archive(code, torch_files.SIX) for code in _pickles()]
    return [*own, _plain_safetensors(), *zips, *_by_pytorch(), b"\x93NUMPY\x01\x00v\x00{'descr'", b"\x80\x04N."]


# ---- changes

_EXTREMES = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**45, 2**62, 2**63 - 1, 2**64 - 1)


def _flip(data: bytearray, draws: random.Random) -> None:
    data[draws.randrange(len(data))] ^= 1 << draws.randrange(8)


def _overwrite(data: bytearray, draws: random.Random) -> None:
    at = draws.randrange(len(data))
    data[at : at + draws.randint(1, 8)] = draws.randbytes(draws.randint(1, 8))


def _cut(data: bytearray, draws: random.Random) -> None:
    del data[draws.randrange(len(data)) :]


def _drop(data: bytearray, draws: random.Random) -> None:
    at = draws.randrange(len(data))
    del data[at : at + draws.randint(1, 40)]


def _repeat(data: bytearray, draws: random.Random) -> None:
    at = draws.randrange(len(data))
    data[at:at] = data[at : at + draws.randint(1, 40)] * draws.randint(1, 30)


def _extreme(data: bytearray, draws: random.Random) -> None:
    at = draws.randrange(len(data))
    data[at : at + 8] = struct.pack("<Q", draws.choice(_EXTREMES))[: draws.choice((4, 8))]


def _other_number(data: bytearray, draws: random.Random) -> None:
    """In text: one of its digits becomes a number of another kind."""
    places = [i for i, byte in enumerate(data) if byte in b"0123456789"]
    if places:
        at = draws.choice(places)
        data[at : at + 1] = draws.choice((b"-1", b"1e99", b"NaN", b"[]", b'"a"', b"%d" % draws.choice(_EXTREMES)))


CHANGES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _flip, _overwrite, _cut, _drop, _repeat, _extreme, _other_number,
)  # fmt: skip


def changed(data: bytes, draws: random.Random) -> bytes:
    """A copy after a few changes."""
    copy = bytearray(data)
    for _ in range(draws.randint(1, 4)):
        if copy:
            draws.choice(CHANGES)(copy, draws)
    return bytes(copy)


# ---- cases


def _damaged(draws: random.Random) -> bytes:
    return changed(draws.choice(WHOLE), draws)


def _spliced(draws: random.Random) -> bytes:
    one, other = draws.choice(WHOLE), draws.choice(WHOLE)
    return one[: draws.randrange(len(one))] + other[draws.randrange(len(other)) :]


def _described_wrongly(draws: random.Random) -> bytes:
    """A file of `ex.save` whose description was changed and has the right checksum."""
    arrays = {"w": {"dtype": draws.choice(("F32", "U8", "BOOL")), "shape": [8], "data_offsets": [0, 8]}}
    arrays["w"]["shape"] = [8 // (4 if arrays["w"]["dtype"] == "F32" else 1)]
    window = {"offset": 0, "shape": [2**40, 1], "strides": [0, 4]}
    rows = [dict(hostile.W), {**hostile.W, "dtype": "F32", "window": window}, {"type": "array", "data": "w"}]
    structure = {"x": [{"$": "object", "number": i} for i in range(3)], "y": {"$": "int", "hex": "ff"}}
    text = changed(json.dumps([structure, rows]).encode(), draws)
    try:
        structure, rows = json.loads(text)
        return hostile.described(structure, rows, arrays=arrays, data=draws.randbytes(8))
    except (ValueError, TypeError, RecursionError):
        return hostile.raw_file(text)


def _pickled_wrongly(draws: random.Random) -> bytes:
    """A file of `torch.save` whose pickle was changed, with right checksums."""
    return torch_files.archive(changed(draws.choice(_pickles()), draws), torch_files.SIX)


def _use(value: Any) -> None:
    """Look at all of it, within reason."""
    todo, seen = [value], 0
    while todo and seen < 10_000:
        part, seen = todo.pop(), seen + 1
        if isinstance(part, dict):
            todo += [*part, *part.values()]
        elif isinstance(part, list | tuple | set | frozenset):
            todo += part
        elif isinstance(part, ex.Tensor) and part.numel() <= _MOST_USED:
            part.detach().numpy().tobytes()


def _check_loading(data: bytes) -> str | None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        for source in (io.BytesIO(data), file.name):
            for mmap in (False, True) if isinstance(source, str) else (False,):
                try:
                    _use(ex.load(source, mmap=mmap))
                except ExtempoError:
                    continue
                except BaseException as error:
                    return f"{type(error).__name__}: {error}, from a file of {len(data)} bytes: {data[:200]!r}"
    return None


def _check_kernel(draws: random.Random) -> str | None:
    key, kernel = key_of("fuzz"), draws.randbytes(draws.randint(0, 300))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cache = DiskCache(Path(folder) / "kernels")
        cache.put(key, kernel)
        path = Path(folder) / "kernels" / key[:2] / key[2:]
        before = path.read_bytes()
        kind = draws.randrange(4)
        if kind:
            path.write_bytes(changed(before, draws))
        else:
            path.unlink()
            draws.choice((os.mkfifo, os.mkdir, lambda p: p.symlink_to("/dev/zero")))(path)
        is_whole = kind > 0 and path.read_bytes() == before
        if cache.get(key) != (kernel if is_whole else None):
            return f"the kernel cache returned an entry that was changed: {kernel!r}"
    return None


_KINDS: tuple[Callable[[random.Random], bytes] | None, ...] = (
    *(_damaged, _spliced, _described_wrongly, _pickled_wrongly),
    None,  # an entry of the kernel cache
)
WHOLE = _whole_files()


def case(seed: int, number: int) -> str | None:
    """What went wrong with one file; None if nothing did."""
    draws = random.Random(f"{seed} {number}")
    make = _KINDS[number % len(_KINDS)]
    return _check_kernel(draws) if make is None else _check_loading(make(draws))


# ---- running


def _limit_memory() -> None:
    import resource

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MOST_MEMORY, used + _MOST_MEMORY))


def _start(seed: int, first: int, end: float, run_case: Callable[[int, int], str | None]) -> tuple[int, int]:
    """A child that tells each case before it begins, and what came of it; its process and where it tells it."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child:
        os.close(theirs)
        return child, ours
    os.close(ours)
    try:
        if Path("/proc/self/statm").exists():
            _limit_memory()
        for number in itertools.count(first):
            os.write(theirs, f"{number}\n".encode())
            wrong = run_case(seed, number)
            if wrong is not None:
                os.write(theirs, f"! {wrong}"[:2000].replace("\n", " ").encode() + b"\n")
            if time.monotonic() > end:
                break
        os.write(theirs, b".\n")
    finally:
        os._exit(0)


def watch(
    seed: int,
    first: int,
    end: float,
    run_case: Callable[[int, int], str | None] | None = None,
    name: str = "files",
) -> tuple[int, int]:
    """Run cases from the first on in one child, until the time is up or one ends it: how many failed, and the last.

    run_case, name: of another fuzzer that needs such children.
    """
    child, ours = _start(seed, first, end, run_case or case)
    number, n_failures, rest, is_over = first, 0, b"", False
    with os.fdopen(ours, "rb", buffering=0) as told:
        while not is_over:
            ready, _, _ = select.select([told], [], [], _SECONDS_FOR_A_CASE)
            piece = told.read(65536) if ready else b""
            if not piece:
                n_failures += 1
                print(f"{name}.case({seed}, {number}) {'crashes' if ready else 'hangs'}", flush=True)
                os.kill(child, signal.SIGKILL)
                break
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                is_over = line == b"."
                if line.startswith(b"!"):
                    n_failures += 1
                    print(f"{name}.case({seed}, {number}){line[1:].decode(errors='replace')}", flush=True)
                elif not is_over:
                    number = int(line)
    os.waitpid(child, 0)
    return n_failures, number


def run(seed: int, seconds: float) -> int:
    """Load files until the time is up; returns how many cases failed."""
    end, number, n_failures = time.monotonic() + seconds, -1, 0
    while time.monotonic() < end:
        n_more, number = watch(seed, number + 1, end)
        n_failures += n_more
    return n_failures
