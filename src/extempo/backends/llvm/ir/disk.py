"""Compiled kernels on disk: bytes in under a key, the same bytes out in a later process, or nothing.

One file per kernel, `<directory>/<2 hex digits>/<62 hex digits>`: a header, a checksum over key and content, the
content. A kernel is machine code, so what this module promises is mostly about what it does NOT return:

- An entry that is truncated, altered or stored under another name fails its checksum: `get` returns None, and the
  `put` that follows replaces it.
- Nothing is read unless directory and file belong to this user and nobody else can write them. The check of the file is
  made on the open file, so nothing can be swapped in after it.
- A file gets its name only when complete (`os.replace`), so any number of processes may read and write at once, and a
  killed one leaves a temporary file that no one reads.
- Nothing here stops a program: a directory that cannot be made, trusted or written costs one warning, and the time to
  compile anew.

Size is bounded without looking at the directory at each write: the LENGTH of the file `meter` counts the blocks that
all processes have stored, each appending as many bytes as it stores blocks. Only when the meter passes the limit are
files listed, those used longest ago removed, and the meter set right. "Used" is the file's modification time, renewed
by every hit; a wrong clock only changes which entries go first.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shlex
import stat
import struct
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ....core.files import TEMPORARY, is_abandoned, open_regular, replacing

VARIABLE = "EXTEMPO_CACHE_DIR"
FORMAT = 2  # of keys and entries: a new number makes every older entry unknown
LIMIT_BYTES = 256 * 2**20
BLOCK = 4096  # what file systems hand out: ten files of 100 bytes take ten of these
KEPT = 3 / 4  # of the limit, after making room: so that room is made rarely

_HEADER = b"extempo" + bytes([FORMAT])
_N_CHECKSUM = 32
_N_BEFORE_CONTENT = len(_HEADER) + _N_CHECKSUM
_COUNTS = struct.Struct("<4q")  # hits, misses, rejected, evicted
_LARGEST_COUNTS_FILE = 2**16

_SUBDIRECTORY = re.compile(r"[0-9a-f]{2}")
_ENTRY = re.compile(r"[0-9a-f]{62}")

_REMEDY = f"set {VARIABLE} to a directory of your own, or to off"
_OWNERS_ARE_KNOWN = hasattr(os, "geteuid")  # not on Windows, where a user's own directories are closed to others anyway
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_TOUCHES_OPEN_FILES = os.utime in os.supports_fd


def key_of(*parts: str) -> str:
    """The key of a kernel: 64 hex digits that differ when any part, or the place where one part ends, differs."""
    digest = hashlib.blake2b(digest_size=32, person=b"extempo key %d" % FORMAT)
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()


def chosen_directory(environment: Mapping[str, str]) -> Path | None:
    """Where the user wants kernels kept: EXTEMPO_CACHE_DIR, or the platform's place for caches; None for nowhere."""
    chosen = environment.get(VARIABLE)
    if chosen is None:
        return _platform_directory(environment)
    chosen = chosen.strip()
    return None if chosen.lower() in ("", "off") else Path(os.path.abspath(os.path.expanduser(chosen)))


def _platform_directory(environment: Mapping[str, str]) -> Path | None:
    if sys.platform == "win32":
        candidates = [os.path.join(environment.get("LOCALAPPDATA", ""), "extempo", "cache")]
    elif sys.platform == "darwin":
        candidates = ["~/Library/Caches/extempo"]
    else:
        candidates = [os.path.join(environment.get("XDG_CACHE_HOME", ""), "extempo"), "~/.cache/extempo"]
    # A relative XDG_CACHE_HOME is to be ignored, says its specification; a "~" stays where there is no home.
    expanded = (os.path.expanduser(candidate) for candidate in candidates)
    return next((Path(path) for path in expanded if os.path.isabs(path)), None)


class _File(NamedTuple):
    """A file of the cache; sorted, the one used longest ago comes first."""

    used: int
    path: str
    n_blocks: int
    complete: bool


class DiskCache:
    """Kernels by key in one directory, at most `limit_bytes` of them; `directory=None` keeps nothing.

    Holds no lock and no open file, so a fork at any moment leaves both processes with a working cache.
    """

    def __init__(self, directory: Path | None, limit_bytes: int = LIMIT_BYTES) -> None:
        self.directory = directory
        self.limit_bytes = limit_bytes
        self.hits = self.misses = self.rejected = self.evicted = 0
        self._n_blocks_limit = limit_bytes // BLOCK
        self._root = ""  # the directory once it was found fit for use
        self._unfit = directory is None
        self._warned = False

    def get(self, key: str) -> bytes | None:
        """What was stored under the key of `key_of`, checked; None if nothing was, or nothing to be trusted."""
        if not (self._root or self._open()):
            return None
        try:
            file = open_regular(f"{self._root}/{key[:2]}/{key[2:]}")
        except FileNotFoundError:
            self.misses += 1
            return None
        except OSError:  # a symbolic link, a pipe, or a file that may not be read
            self.rejected += 1
            return None
        try:
            content = self._read(file, key)
        except OSError:
            content = None
        finally:
            os.close(file)
        if content is None:
            self.rejected += 1
        else:
            self.hits += 1
        return content

    def _read(self, file: int, key: str) -> bytes | None:
        """The content of an open entry, if the entry is to be trusted and whole."""
        status = os.fstat(file)
        if why := _distrust(status):
            self._warn_once(f"a file in {self.directory} {why}; it is not loaded. Should this come again, {_REMEDY}")
            return None
        if status.st_size > self.limit_bytes:
            return None
        entry = os.read(file, status.st_size)
        checksum, content = entry[len(_HEADER) : _N_BEFORE_CONTENT], entry[_N_BEFORE_CONTENT:]
        if not entry.startswith(_HEADER) or checksum != _checksum(key, content):
            return None
        with suppress(OSError):  # a read-only directory serves as well
            os.utime(file if _TOUCHES_OPEN_FILES else f"{self._root}/{key[:2]}/{key[2:]}")
        return content

    def put(self, key: str, data: bytes) -> None:
        """Store the data, if that is possible; what was used longest ago makes room."""
        n_blocks = _blocks(_N_BEFORE_CONTENT + len(data))
        if n_blocks > self._n_blocks_limit * (1 - KEPT) or not (self._root or self._open()):
            return
        try:
            self._reserve(n_blocks)
            self._write(key, data)
        except FileNotFoundError:
            # Someone cleared the cache in between. The kernel is in memory; later ones find a new directory.
            self._root = ""
        except OSError as error:
            # Windows does not replace a file that another process has open, but then it need not be replaced.
            if not os.path.exists(f"{self._root}/{key[:2]}/{key[2:]}"):
                self._warn_once(f"{self.directory} cannot be written ({os.strerror(error.errno or 0)}); {_REMEDY}")

    def _write(self, key: str, data: bytes) -> None:
        path = f"{self._root}/{key[:2]}/{key[2:]}"
        with suppress(FileExistsError):
            os.mkdir(os.path.dirname(path), 0o700)
        # Not durable: an entry that a power cut leaves incomplete fails its checksum.
        with replacing(path, 0o600, durable=False) as stream:
            stream.write(_HEADER + _checksum(key, data) + data)

    # Trust

    def _open(self) -> bool:
        """Make the directory if need be, and say whether it may be used."""
        if self._unfit or self.directory is None:
            return False
        try:
            os.makedirs(self.directory.parent, 0o700, exist_ok=True)
            with suppress(FileExistsError):
                os.mkdir(self.directory, 0o700)
        except OSError as error:
            why = f"{self.directory} cannot be made ({error.strerror}); {_REMEDY}"
        else:
            why = _examine(self.directory)
        if why:
            self._unfit = True
            self._warn_once(why)
            return False
        self._root = str(self.directory)
        return True

    def why_unused(self) -> str:
        """Why nothing is kept, and what to do about it; empty if the cache can be used. Changes nothing on disk."""
        if self.directory is None:
            return f"{VARIABLE} switches it off, or there is no home directory"
        why = _examine(self.directory)
        if not why and self.directory.exists() and not os.access(self.directory, os.W_OK | os.X_OK):
            why = f"{self.directory} cannot be written; {_REMEDY}"
        return why

    def _warn_once(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(f"kernel cache: {why}. Without it every process compiles its kernels anew.", stacklevel=3)

    # Size

    def _reserve(self, n_blocks: int) -> None:
        """Count the blocks of a new entry, and make room for it if the meter passes the limit."""
        meter = open_regular(f"{self._root}/meter", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(meter, bytes(n_blocks))
            n_counted = os.fstat(meter).st_size
            if n_counted == n_blocks or n_counted > self._n_blocks_limit:  # a new meter knows nothing yet
                n_too_many = n_counted - n_blocks - self._shrink(n_blocks)
                n_now = os.fstat(meter).st_size  # with what others have stored meanwhile
                if n_now >= n_counted:  # or else another process was faster in setting it right
                    os.ftruncate(meter, n_now - n_too_many)
        finally:
            os.close(meter)

    def _shrink(self, n_new_blocks: int) -> int:
        """Remove what was used longest ago, unless there is room for the new blocks; return how many blocks are left.

        The temporary files of killed processes go too.
        """
        files = sorted(self._files())
        n_blocks = sum(file.n_blocks for file in files if file.complete)
        if n_blocks + n_new_blocks <= self._n_blocks_limit:
            return n_blocks
        for file in files:
            if not file.complete:
                if is_abandoned(file.path):
                    _remove(file.path)
            elif n_blocks > self._n_blocks_limit * KEPT and _remove(file.path):
                n_blocks -= file.n_blocks
                self.evicted += 1
        return n_blocks

    def _files(self) -> Iterator[_File]:
        """Every file that this module made, and no other; links are not followed."""
        with suppress(OSError), os.scandir(self.directory) as subdirectories:
            for subdirectory in subdirectories:
                if not _SUBDIRECTORY.fullmatch(subdirectory.name) or not subdirectory.is_dir(follow_symlinks=False):
                    continue
                with suppress(OSError), os.scandir(subdirectory.path) as entries:
                    for entry in entries:
                        complete = _ENTRY.fullmatch(entry.name) is not None
                        if complete or _is_temporary(entry.name):
                            with suppress(FileNotFoundError):
                                status = entry.stat(follow_symlinks=False)
                                yield _File(status.st_mtime_ns, entry.path, _blocks(status.st_size), complete)

    # Numbers

    def stats(self) -> dict[str, int]:
        """What is on disk, by listing it, and what this process has found there."""
        complete = [file.n_blocks for file in self._files() if file.complete] if self.directory else []
        return {
            "entries": len(complete),
            "bytes": sum(complete) * BLOCK,
            "limit_bytes": self.limit_bytes,
            "hits": self.hits,
            "misses": self.misses,
            "rejected": self.rejected,
            "evicted": self.evicted,
        }

    def clear(self) -> dict[str, int]:
        """Remove every entry, temporary file and count; return how many entries and bytes went.

        A directory that may not be used is left as it is; `why_unused` tells.
        """
        removed = {"entries": 0, "bytes": 0}
        if self.directory is None or _examine(self.directory):
            return removed
        for file in list(self._files()):
            if _remove(file.path) and file.complete:
                removed["entries"] += 1
                removed["bytes"] += file.n_blocks * BLOCK
        for name in ("meter", "counts"):
            _remove(f"{self.directory}/{name}")
        with suppress(OSError), os.scandir(self.directory) as subdirectories:
            for subdirectory in list(subdirectories):
                if _SUBDIRECTORY.fullmatch(subdirectory.name):
                    with suppress(OSError):  # another process has just stored something there
                        os.rmdir(subdirectory.path)
        return removed

    def history(self) -> dict[str, int]:
        """What all processes that have ended found here since the last `clear`."""
        sums = self._saved_counts() if self.directory else (0, 0, 0, 0)
        return dict(zip(("hits", "misses", "rejected", "evicted"), sums, strict=True))

    def _saved_counts(self) -> tuple[int, ...]:
        try:
            with os.fdopen(open_regular(f"{self.directory}/counts"), "rb") as file:
                records = file.read(_COUNTS.size * _LARGEST_COUNTS_FILE)
        except OSError:
            records = b""
        whole = records[: len(records) // _COUNTS.size * _COUNTS.size]
        return tuple(map(sum, zip((0, 0, 0, 0), *_COUNTS.iter_unpack(whole), strict=True)))

    def _save_counts(self) -> None:
        """Append what this process has counted; a file of many records becomes one of a single record."""
        counts: tuple[int, ...] = (self.hits, self.misses, self.rejected, self.evicted)
        if not self._root or not any(counts):
            return
        with suppress(OSError):
            opened = open_regular(f"{self._root}/counts", os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(opened, "a+b") as file:
                if file.tell() > _LARGEST_COUNTS_FILE:
                    counts = tuple(map(sum, zip(counts, self._saved_counts(), strict=True)))
                    file.truncate(0)
                file.write(_COUNTS.pack(*counts))


def _examine(directory: Path) -> str:
    """Why the directory may not be used, and what to do about it; empty if it may, or is yet to be made."""
    try:
        link, target = os.lstat(directory), os.stat(directory)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{directory} cannot be read ({error.strerror}); {_REMEDY}"
    if not stat.S_ISDIR(target.st_mode):
        return f"{directory} is not a directory; {_REMEDY}"
    if stat.S_ISLNK(link.st_mode) and _OWNERS_ARE_KNOWN and link.st_uid not in (0, os.geteuid()):
        return f"{directory} is a link that another user made, so no code is loaded from there; {_REMEDY}"
    if why := _distrust(target):
        mine = target.st_uid == os.geteuid()
        remedy = f"run chmod go-w {shlex.quote(str(directory))}, or {_REMEDY}" if mine else _REMEDY
        return f"{directory} {why}, so no code is loaded from it; {remedy}"
    return ""


def _distrust(status: os.stat_result) -> str:
    """What makes a file or directory unfit to load code from; empty if nothing does."""
    if not _OWNERS_ARE_KNOWN:
        return ""
    if status.st_uid != os.geteuid():
        return "belongs to another user"
    if status.st_mode & _OTHERS_WRITE:
        return f"can be written by other users (mode {stat.S_IMODE(status.st_mode):04o})"
    return ""


def _is_temporary(name: str) -> bool:
    found = TEMPORARY.fullmatch(name)
    return found is not None and _ENTRY.fullmatch(found["name"]) is not None


def _checksum(key: str, content: bytes) -> bytes:
    return hashlib.blake2b(content, key=key.encode(), digest_size=_N_CHECKSUM).digest()


def _blocks(n_bytes: int) -> int:
    return -(-n_bytes // BLOCK)


def _remove(path: str) -> bool:
    """Remove a file; False if it could not be (on Windows: another process has it open)."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


_DEFAULT: dict[str, DiskCache] = {}


def default() -> DiskCache:
    """The cache of this process; the environment is read when this is first called."""
    if cache := _DEFAULT.get("cache"):
        return cache
    made = DiskCache(chosen_directory(os.environ))
    cache = _DEFAULT.setdefault("cache", made)  # two threads may be here: one cache is taken, and used by both
    if cache is made:
        owner = os.getpid()
        # A forked child that runs exit functions would count its parent's hits again.
        atexit.register(lambda: cache._save_counts() if os.getpid() == owner else None)
    return cache
