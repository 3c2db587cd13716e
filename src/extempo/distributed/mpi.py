"""The MPI engine: collectives are those of the MPI library, by mpi4py; nothing is computed here.

Waiting is polling, so that Ctrl-C arrives and a deadline can pass: ranks first meet (32 bytes each), then carry data by
the library's blocking calls, which are its fastest. With Open MPI's ULFM a lost rank is an error here, not the end.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.storage import Array
from ..errors import DistributedError
from .engine import HEADER, Done, LostPeer, PeersMissing, Request

_SPINS = 100  # looks without a pause: most waits are over by then
_PAUSE, _LONGEST_PAUSE = 2e-5, 5e-4  # seconds between two looks after that
_SAY_AFTER = 0.5  # seconds until a rank that waits tells the others where it is
_WAITING = 7  # the tag of such messages
# What starts processes for MPI leaves one of these behind.
_SIGNS = ("OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE", "PMI_RANK", "MV2_COMM_WORLD_SIZE")
_WITH_ULFM = "OMPI_MCA_mpi_ft_enable"  # what `mpirun --with-ft ulfm` sets


def is_started_by_mpi() -> bool:
    """Whether a launcher of MPI (mpirun, srun, `extempo launch`) has started this process."""
    return any(sign in os.environ for sign in _SIGNS)


def load() -> Any:
    """mpi4py.MPI, initialised."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise DistributedError(
            f"init_process_group: several processes need mpi4py and an MPI library ({error}); "
            "pip install 'extempo[mpi]' brings both"
        ) from None
    return MPI


class MpiRequest:
    """A transfer of MPI's, with the arrays that it reads and writes."""

    def __init__(self, engine: MpiEngine, request: Any, arrays: tuple[Any, ...]) -> None:
        self._engine = engine
        self._request = request
        self._arrays = arrays
        self._status = engine.MPI.Status()
        self._is_done = False

    def done(self) -> bool:
        if not self._is_done:
            self._is_done = self._engine.call(self._request.Test, self._status)
        return self._is_done

    def wait(self, seconds: float | None = None) -> int:
        deadline = None if seconds is None else time.monotonic() + seconds
        pause = 0.0
        spins = 0
        while not self.done():
            spins += 1
            if spins > _SPINS:
                pause = min(max(_PAUSE, pause * 1.5), _LONGEST_PAUSE)
                time.sleep(pause)
                if deadline is not None and time.monotonic() > deadline:
                    raise PeersMissing([])
        return int(self._status.Get_source())


class MpiEngine:
    """A communicator for data, one for meeting, and one for what does not wait."""

    name = "mpi"

    def __init__(self, communicator: Any, MPI: Any) -> None:
        self.MPI = MPI
        self._operations = {
            "sum": MPI.SUM,
            "product": MPI.PROD,
            "min": MPI.MIN,
            "max": MPI.MAX,
            "band": MPI.BAND,
            "bor": MPI.BOR,
            "bxor": MPI.BXOR,
        }
        self.survives = os.environ.get(_WITH_ULFM) == "1" and hasattr(communicator, "Shrink")
        self._take(communicator)

    def _take(self, communicator: Any) -> None:
        """Communicators of our own, on which an error is raised instead of ending the job."""
        self._data = communicator
        self._data.Set_errhandler(self.MPI.ERRORS_RETURN)
        made = []
        for _ in range(2):
            made.append(self._data.Dup())
            made[-1].Set_errhandler(self.MPI.ERRORS_RETURN)
        self._meeting, self._started = made
        self._n_meetings = 0  # the same on all ranks
        self.rank: int = self._data.Get_rank()
        self.size: int = self._data.Get_size()

    def call(self, function: Any, *args: Any) -> Any:
        """A call of MPI's; a lost peer by our name."""
        try:
            return function(*args)
        except self.MPI.Exception as error:
            kind = error.Get_error_class()
            lost = {
                getattr(self.MPI, name, -1) for name in ("ERR_PROC_FAILED", "ERR_PROC_FAILED_PENDING", "ERR_REVOKED")
            }
            if kind in lost:
                raise LostPeer(str(error)) from None
            raise DistributedError(f"MPI: {error}") from None

    # ---- meeting

    def meet(self, header: Array, seconds: float) -> Array:
        table = np.empty((self.size, HEADER), np.int64)
        self._n_meetings += 1
        request = MpiRequest(self, self.call(self._meeting.Iallgather, header, table), (header, table))
        first = min(_SAY_AFTER, seconds / 4)
        try:
            request.wait(first)
            return table
        except PeersMissing:
            told = self._tell_others()
        try:
            request.wait(seconds - first)
        except PeersMissing:
            raise PeersMissing(self._absent()) from None
        del told
        return table

    def _tell_others(self) -> list[Any]:
        """Say where this rank waits; whoever gives up first can then name those that said nothing."""
        others = [rank for rank in range(self.size) if rank != self.rank]
        count = np.array([self._n_meetings], np.int64)
        return [(count, self.call(self._started.Isend, count, rank, _WAITING)) for rank in others]

    def _absent(self) -> list[int]:
        came = {self.rank}
        status = self.MPI.Status()
        while self.call(self._started.Iprobe, self.MPI.ANY_SOURCE, _WAITING, status):
            count = np.empty(1, np.int64)
            self.call(self._started.Recv, count, status.Get_source(), _WAITING)
            if count[0] == self._n_meetings:
                came.add(status.Get_source())
        return [rank for rank in range(self.size) if rank not in came]

    # ---- carrying

    def _carry(self, name: str, wait: bool, *args: Any) -> Request:
        if wait:
            self.call(getattr(self._data, name), *args)
            return Done()
        return MpiRequest(self, self.call(getattr(self._started, f"I{name.lower()}"), *args), args)

    def all_reduce(self, array: Array, op: str, wait: bool = True) -> Request:
        return self._carry("Allreduce", wait, self.MPI.IN_PLACE, array, self._operations[op])

    def reduce(self, array: Array, op: str, root: int, wait: bool = True) -> Request:
        own, result = (self.MPI.IN_PLACE, array) if self.rank == root else (array, None)
        return self._carry("Reduce", wait, own, result, self._operations[op], root)

    def broadcast(self, array: Array, root: int, wait: bool = True) -> Request:
        return self._carry("Bcast", wait, array, root)

    def all_gather(self, array: Array, parts: Array, wait: bool = True) -> Request:
        return self._carry("Allgather", wait, array, parts)

    def gather(self, array: Array, parts: Array | None, root: int, wait: bool = True) -> Request:
        return self._carry("Gather", wait, array, parts, root)

    def scatter(self, parts: Array | None, array: Array, root: int, wait: bool = True) -> Request:
        return self._carry("Scatter", wait, parts, array, root)

    def reduce_scatter(self, parts: Array, array: Array, op: str, wait: bool = True) -> Request:
        return self._carry("Reduce_scatter_block", wait, parts, array, self._operations[op])

    def all_to_all(self, parts: Array, received: Array, wait: bool = True) -> Request:
        return self._carry("Alltoall", wait, parts, received)

    def send(self, array: Array, to: int, tag: int) -> Request:
        return MpiRequest(self, self.call(self._data.Isend, array, to, tag), (array,))

    def receive(self, array: Array, source: int | None, tag: int) -> Request:
        who = self.MPI.ANY_SOURCE if source is None else source
        return MpiRequest(self, self.call(self._data.Irecv, array, who, tag), (array,))

    # ---- surviving

    def agree(self, succeeded: bool) -> bool:
        if not self.survives:
            return succeeded
        if not succeeded:  # whoever still waits for the lost rank is let go
            for communicator in (self._data, self._meeting, self._started):
                communicator.Revoke()
        try:
            return bool(self._data.Agree(int(succeeded)))
        except self.MPI.Exception:  # a rank was lost meanwhile: all that are left are told so
            return False

    def recover(self) -> list[int]:
        before = self._data.Get_group()
        left = self._data.Shrink()
        mine = left.Get_group()
        numbers = before.Translate_ranks(list(range(before.Get_size())), mine)
        # The old communicators are left alone: a transfer that was broken off may still be on them.
        self._take(left)
        return [rank for rank, now in enumerate(numbers) if now == self.MPI.UNDEFINED]

    # ---- groups

    def split(self, ranks: Sequence[int]) -> MpiEngine | None:
        colour = 0 if self.rank in ranks else self.MPI.UNDEFINED
        key = list(ranks).index(self.rank) if self.rank in ranks else 0
        made = self.call(self._data.Split, colour, key)
        return None if made == self.MPI.COMM_NULL else MpiEngine(made, self.MPI)

    def close(self) -> None:
        for communicator in (self._started, self._meeting, self._data):
            if communicator not in (self.MPI.COMM_NULL, self.MPI.COMM_WORLD):
                communicator.Free()


def world() -> MpiEngine:
    """All processes that were started together."""
    MPI = load()
    return MpiEngine(MPI.COMM_WORLD.Dup(), MPI)
