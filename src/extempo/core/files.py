"""Files that several processes may touch at once: whole at every moment, one writer for a run, no waiting.

    with replacing(path) as file:     its new contents in one step at the end; on an error it keeps the old ones
    with Claim(path, "log_dir=...")   says that a path is this run's; a second one gets an error
    remove_abandoned(folder)          what killed processes left unfinished
    open_regular(path, flags)         a file and nothing else: to open a pipe can take for ever

A temporary file names the process that writes it, and is locked by it: others remove it only if that one is gone. Locks
are the system's own, so they end with their process, however that ends.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from ..errors import DiskFullError, ExtempoError
from .interrupts import block

_BINARY = getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}

# .<name>.<process>-<when it was started>.<random digits>.tmp
TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<process>\d+)-(?P<started>\d+)\.[0-9a-f]{12}\.tmp", re.DOTALL)
_LONGEST_NAME = 180  # bytes that a temporary file's name has of the file's own; most systems allow 255 in all


# ---- writing


@block
def replacing(path: str, permissions: int | None = None, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Where to write the new contents of a file. `durable`: they are on the disk before the old ones are gone.

    permissions: those of the old file unless given, or what the user's umask gives.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, _temporary_name(name))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY | _NO_LINK
    with telling_of_full_disk(path):
        try:  # an interrupt may come right after the file is made
            descriptor = os.open(temporary, flags, 0o666 if permissions is None else permissions)
            with open(descriptor, "wb") as file:
                _try_lock(descriptor)
                yield file
                file.flush()
                if durable:
                    os.fsync(descriptor)
            if permissions is None:
                with contextlib.suppress(FileNotFoundError):
                    os.chmod(temporary, stat.S_IMODE(os.stat(path).st_mode))
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    if durable:
        _make_durable(folder)


def write_text(path: str | Path, text: str) -> None:
    """Write a small file, whole or not at all; a pipe or device is written to as it is."""
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        Path(target).write_text(text, encoding="utf-8")
        return
    with replacing(target, durable=False) as file:
        file.write(text.encode())


def _make_durable(folder: str) -> None:
    """The rename reaches the disk too, where directories can be synchronised."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder or os.curdir, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with contextlib.suppress(OSError):  # some file systems cannot, and the data itself is safe
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


@block
def telling_of_full_disk(path: str | Path) -> Iterator[None]:
    """A disk without space, or a quota that is used up, is an error that names the file."""
    try:
        yield
    except DiskFullError:
        raise
    except OSError as error:
        if error.errno is None or error.errno not in _FULL:
            raise
        told = DiskFullError(
            f"{os.fspath(path)} could not be written: {os.strerror(error.errno)}. A file that stood there before is "
            "as it was; make room, or write to another disk, and go on from there"
        )
        told.errno = error.errno
        raise told from error


# ---- what others left


def _temporary_name(name: str) -> str:
    kept = os.fsdecode(os.fsencode(name)[:_LONGEST_NAME])
    return f".{kept}.{os.getpid()}-{_started(os.getpid()) or 0}.{secrets.token_hex(6)}.tmp"


def remove_abandoned(folder: str | Path) -> None:
    """Remove the unfinished files of processes that are gone."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if is_abandoned(entry.path):
                with contextlib.suppress(OSError):  # another process was faster
                    os.unlink(entry.path)


def is_abandoned(path: str) -> bool:
    """Whether it is an unfinished file that nobody writes any more.

    The process may live where its number says nothing, in another container or on another machine: there the lock does.
    """
    found = TEMPORARY.fullmatch(os.path.basename(path))
    if found is None or _started(int(found["process"])) == int(found["started"]):
        return False
    try:
        descriptor = open_regular(path, os.O_RDWR)
    except OSError:
        return False
    try:
        return _try_lock(descriptor)
    finally:
        os.close(descriptor)


def _started(process: int) -> int | None:
    """When a process was started, as its system counts; 0 where systems do not tell. None: there is no such process."""
    if sys.platform == "win32":
        return None  # a file that is open cannot be removed there
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        if os.path.exists("/proc/self/stat"):
            return None
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass
    return 0


# ---- locks of the system


def _try_lock(descriptor: int) -> bool:
    """Lock an open file until it is closed; False if another has it locked. File systems without locks say True."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)
    return True


_CLAIMS: set[int] = set()  # descriptors that are open


def _give_up_claims() -> None:
    """A child has copies of them, which would keep the locks of a parent that was killed."""
    for descriptor in _CLAIMS:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _CLAIMS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_give_up_claims)


class Claim:
    """A context manager: inside, this process alone writes to what the lock file stands for.

    The file is there as long as somebody is inside, and says who. One that a killed process left is free to take.
    """

    def __init__(self, path: Path, what: str) -> None:
        self._path = path
        self._what = what
        self._descriptor = -1
        self._owner = 0

    def __enter__(self) -> Claim:
        with telling_of_full_disk(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            while not self._take(open_regular(self._path, os.O_RDWR | os.O_CREAT)):
                pass  # somebody left meanwhile, and took the file away
        return self

    def _take(self, descriptor: int) -> bool:
        """Lock the open file, if it is still there."""
        try:
            if not _try_lock(descriptor):
                raise self._refusal(descriptor)
            if self._is_there(descriptor):
                self._descriptor, self._owner = descriptor, os.getpid()
                _CLAIMS.add(descriptor)
                with contextlib.suppress(OSError):  # it is locked, whatever it says
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"process {self._owner} on {socket.gethostname()}".encode())
                return True
        except BaseException:  # an interrupt, perhaps: the block is never entered, and so never left
            _CLAIMS.discard(descriptor)
            os.close(descriptor)
            raise
        os.close(descriptor)
        return False

    def _is_there(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self._path))
        except FileNotFoundError:
            return False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owner != os.getpid():  # a forked child has no claim
            return
        with contextlib.suppress(OSError):  # while it is locked: who locks it later sees that it is gone
            os.unlink(self._path)
        _CLAIMS.discard(self._descriptor)
        os.close(self._descriptor)
        with contextlib.suppress(OSError):  # where files that are open stay
            if sys.platform == "win32":
                os.unlink(self._path)

    def _refusal(self, descriptor: int) -> ExtempoError:
        who = b""
        with contextlib.suppress(OSError):
            who = os.read(descriptor, 200)
        told = who.decode(errors="replace") or "another process"
        return ExtempoError(
            f"{self._what} is in use by {told}, and two runs would write over each other's files; wait until that "
            "one ends, end it, or give this one a place of its own"
        )


# ---- opening


def open_regular(path: str | Path, flags: int = os.O_RDONLY, permissions: int = 0o666, *, links: bool = False) -> int:
    """Open a file, without waiting; an OSError if it is anything else. `links`: symbolic ones are followed."""
    descriptor = os.open(path, flags | _BINARY | _NO_WAIT | (0 if links else _NO_LINK), permissions)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    kind = "a named pipe" if stat.S_ISFIFO(mode) else "a device"
    raise OSError(errno.EINVAL, f"{kind}, not a file", os.fspath(path))
