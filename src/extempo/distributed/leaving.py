"""How a process of a group ends: together with the others, or so that they hear of it and do not wait for ever.

A process that is done waits for the others at its end, so one that leaves early is an error that names it. A process
that ends by an error of its own takes the job down; where all have the same error, each shows it and ends.
"""

from __future__ import annotations

import atexit
import os
import sys
from types import TracebackType
from typing import Any

import numpy as np

from ..errors import DistributedError
from .engine import HEADER, LostPeer, PeersMissing
from .groups import ENDED_BY_ERROR, current_world

_GRACE = 3.0  # seconds for other ranks to end by an error, too
_state: dict[str, Any] = {"watching": False, "failed": False}


def watch_exit() -> None:
    """From now on, the end of this process is one of a group's."""
    die_with_parent()
    if not _state["watching"]:
        _state["watching"] = True
        _state["hook"] = sys.excepthook
        sys.excepthook = _ended_by_error
        atexit.register(_end)


def die_with_parent() -> None:
    """On Linux, this process is killed when the one that started it dies, so that no launcher leaves orphans."""
    if sys.platform == "linux":
        import ctypes
        import signal

        parent = os.getppid()
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # it died in between
            os.kill(os.getpid(), signal.SIGKILL)


def _ended_by_error(kind: type[BaseException], error: BaseException, frames: TracebackType | None) -> None:
    _state["hook"](kind, error, frames)
    sys.stderr.flush()
    sys.stdout.flush()
    _state["failed"] = True
    world = current_world()
    if world is not None:
        try:  # all ranks with the same error end by it, each by itself
            table = world.engine.meet(np.full(HEADER, ENDED_BY_ERROR, np.int64), _GRACE)
        except (PeersMissing, LostPeer, DistributedError):
            abort()
        else:
            if (table[:, 0] != ENDED_BY_ERROR).any():
                abort()


def _end() -> None:
    """The last thing that a process of a group does."""
    world = current_world()
    if world is None or _state["failed"]:
        return
    try:
        world.together("the end of the program", lambda _: None)
    except DistributedError as error:
        print(f"extempo: {error}", file=sys.stderr, flush=True)
        _state["failed"] = True
        os._exit(1) if world.engine.survives else abort()


def abort() -> None:
    """End the whole job, now."""
    from . import mpi

    mpi.load().COMM_WORLD.Abort(1)
