"""Process groups: who is there, under which number, and how all of a group come to one collective together.

`ProcessGroup.together` is the one way in: ranks meet, compare what each has come for, carry data, and, where the engine
survives a lost rank, agree on whether it worked before anybody goes on.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np

from ..core.storage import Array
from ..errors import ArgumentError, DistributedError, RankLostError, UnsupportedError
from .engine import HEADER, Engine, LostPeer, OneProcess, PeersMissing

T = TypeVar("T")

default_pg_timeout = timedelta(minutes=30)
_CPU_NAMES = {"gloo", "mpi", "cpu:gloo", "cpu:mpi", "cpu:gloo,cuda:nccl", "undefined"}

ENDED_BY_ERROR = -1  # in place of what a rank has come for


class ProcessGroup:
    """Processes that carry data among themselves; made by `init_process_group` and `new_group`.

    >>> ex.distributed.init_process_group()
    >>> ex.distributed.GroupMember.WORLD.size()
    1
    >>> ex.distributed.destroy_process_group()
    """

    def __init__(self, engine: Engine, ranks: list[int], timeout: timedelta, name: str = "world") -> None:
        self.engine = engine
        self.ranks = ranks  # the numbers of its members in the group of all
        self.timeout = timeout
        self.name = name
        self.lost: list[int] = []  # numbers that members had when they were lost

    def rank(self) -> int:
        """The number of this process in the group."""
        return self.engine.rank

    def size(self) -> int:
        """How many processes it has."""
        return self.engine.size

    def __repr__(self) -> str:
        return f"ProcessGroup({self.name}, rank {self.rank()} of {self.size()}, {self.engine.name})"

    def together(
        self,
        what: str,
        act: Callable[[Array], T],
        *,
        facts: tuple[int, ...] = (),
        repeatable: bool = True,
        seconds: float | None = None,
    ) -> T:
        """Meet the others for `what`, then `act` on the facts that all have brought, (size, 3); its result.

        `act` may run again, with fewer ranks, after one was lost: it must not change what it reads.
        """
        while True:
            header = np.zeros(HEADER, np.int64)
            header[0] = zlib.crc32(what.encode())
            header[1 : 1 + len(facts)] = facts
            result: Any = None
            try:
                table = self.engine.meet(header, self.timeout.total_seconds() if seconds is None else seconds)
                is_one = bool((table[:, 0] == header[0]).all())
                if is_one:
                    result = act(table[:, 1:])
                succeeded = True
            except LostPeer:
                succeeded = False
                if not self.engine.survives:
                    raise RankLostError(f"{what}: a process of the group is gone; the job cannot go on") from None
            except PeersMissing as missing:
                raise DistributedError(self._too_late(what, missing.absent)) from None
            if self.engine.survives and not self.engine.agree(succeeded):
                self._recover(what, repeatable)
                continue
            if not is_one:
                self._require_living(what, table)
                raise DistributedError(self._differing(what))
            return result

    def _require_living(self, what: str, table: Array) -> None:
        failed = np.flatnonzero(table[:, 0] == ENDED_BY_ERROR)
        if failed.size:
            names = ", ".join(map(str, failed))
            raise DistributedError(f"{what}: rank {names} has ended by an error of its own, which it has printed")

    def _too_late(self, what: str, absent: list[int]) -> str:
        who = f"rank{'s' * (len(absent) > 1)} {', '.join(map(str, absent))} did not come" if absent else "not all came"
        return (
            f"{what}: {who} within {self.timeout.total_seconds():g} s; every rank must reach it, also where "
            "control flow differs. A slow rank needs init_process_group(timeout=...)"
        )

    def _differing(self, what: str) -> str:
        """The same message on every rank: who has come for what."""
        from .objects import exchanged

        names = exchanged(self.engine, what)
        by_name: dict[str, list[int]] = {}
        for rank, name in enumerate(names):
            by_name.setdefault(name, []).append(rank)
        told = "; ".join(f"{name} on rank{'s' * (len(r) > 1)} {', '.join(map(str, r))}" for name, r in by_name.items())
        return f"ranks do different things: {told}. Every rank must come to the same collectives in the same order"

    def _recover(self, what: str, repeatable: bool) -> None:
        """Go on without the lost ranks; an error where `what` cannot be done without them."""
        lost = self.engine.recover()
        gone = tuple(self.ranks[rank] for rank in lost)
        self.ranks = list(range(self.engine.size)) if self is _state.world else self.ranks
        self.lost += gone
        _state.n_losses += 1
        names = ", ".join(map(str, gone))
        if self.engine.rank == 0:
            left = f"{self.engine.size} rank{'s' * (self.engine.size > 1)}"
            print(f"extempo: rank {names} is lost; {left} go on", file=sys.stderr, flush=True)
        if not repeatable:
            raise RankLostError(f"{what}: rank {names} is lost, and it cannot be done without it", gone)


class _State:
    """The group of all processes, if there is one."""

    def __init__(self) -> None:
        self.world: ProcessGroup | None = None
        self.groups: list[ProcessGroup] = []
        self.n_losses = 0


_state = _State()


class GroupMember:
    """PyTorch's names for the group of all, and for one that this process is not in.

    >>> ex.distributed.init_process_group()
    >>> ex.distributed.GroupMember.WORLD is not None
    True
    >>> ex.distributed.destroy_process_group()
    """

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER: Any = object()


def is_initialized() -> bool:
    """Whether `init_process_group` was called, and not ended.

    >>> ex.distributed.is_initialized()
    False
    """
    return _state.world is not None


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Become one of the processes that were started together; alone, rank 0 of 1.

    `extempo launch -n 4 train.py`, `mpirun` and `srun` start processes. Their number and this one's are known from
    there; `world_size` and `rank`, and torchrun's variables WORLD_SIZE and RANK, are compared with it.

    backend: "mpi", "gloo" or None: all mean the engine that there is.
    init_method: not needed: processes find each other by their launcher.
    timeout: how long a collective waits for the slowest rank.
    world_size: how many processes the program expects; -1: as many as there are.
    rank: which of them this one is; -1: as the launcher says.
    store: not needed.
    group_name: not needed.
    pg_options: not needed.
    device_id: not needed: there is one device.

    >>> ex.distributed.init_process_group()
    >>> ex.distributed.get_rank(), ex.distributed.get_world_size()
    (0, 1)
    >>> ex.distributed.destroy_process_group()
    """
    if is_initialized():
        raise DistributedError("init_process_group: it was called before; destroy_process_group() ends that group")
    if backend is not None and str(backend).lower() not in _CPU_NAMES:
        raise UnsupportedError(
            f"init_process_group: there is no engine {str(backend)!r} on a CPU; leave it out, or say 'gloo' or 'mpi', "
            "which mean the engine that the launcher has brought"
        )
    engine = _engine()
    _check("world_size", world_size, "WORLD_SIZE", engine.size)
    _check("rank", rank, "RANK", engine.rank)
    _begin(engine, default_pg_timeout if timeout is None else timeout)


def _engine() -> Engine:
    from . import mpi

    return mpi.world() if mpi.is_started_by_mpi() else OneProcess()


def _begin(engine: Engine, timeout: timedelta) -> None:
    """The group of all, on an engine."""
    _state.world = GroupMember.WORLD = ProcessGroup(engine, list(range(engine.size)), timeout)
    if engine.size > 1:
        from .leaving import watch_exit

        watch_exit()


def _check(name: str, given: int, variable: str, fact: int) -> None:
    """The program's or torchrun's number against the launcher's."""
    for source, wanted in ((name, given), (variable, int(os.environ.get(variable, "-1")))):
        if wanted not in (-1, None, fact):
            raise DistributedError(
                f"init_process_group: {source}={wanted}, but the launcher has given {name} {fact}; start the processes "
                f"by `extempo launch -n {max(wanted, fact + 1) if name == 'world_size' else 'N'} script.py` or mpirun"
            )


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """End a group; without one, all of them.

    >>> ex.distributed.init_process_group()
    >>> ex.distributed.destroy_process_group()
    >>> ex.distributed.is_initialized()
    False
    """
    if group is not None and group is not _state.world:
        _state.groups = [other for other in _state.groups if other is not group]
        group.engine.close()
        return
    for other in [*_state.groups, *([_state.world] if _state.world is not None else [])]:
        other.engine.close()
    _state.groups = []
    _state.world = GroupMember.WORLD = None


def group_of(group: Any, caller: str = "") -> ProcessGroup:
    """The group that a call means: the one it names, or that of all. A process alone needs not have called init."""
    if isinstance(group, ProcessGroup):
        return group
    if group is not None:
        raise DistributedError(f"{caller or 'this collective'}: this process is not in the group that was given")
    if _state.world is None:
        raise DistributedError(f"{caller or 'this collective'}: call init_process_group() first")
    return _state.world


def current_world() -> ProcessGroup | None:
    """The group of all, if there is one with others in it."""
    world = _state.world
    return world if world is not None and world.size() > 1 else None


def n_losses() -> int:
    """How often ranks have been lost; it changes when numbers of ranks do."""
    return _state.n_losses


def get_rank(group: ProcessGroup | None = None) -> int:
    """The number of this process in the group, -1 if it is not in it; 0 before `init_process_group`.

    >>> ex.distributed.init_process_group()
    >>> ex.distributed.get_rank()
    0
    >>> ex.distributed.destroy_process_group()
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return -1
    return 0 if group is None and _state.world is None else group_of(group).rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """How many processes the group has, -1 if this one is not in it; 1 before `init_process_group`.

    >>> ex.distributed.init_process_group()
    >>> ex.distributed.get_world_size()
    1
    >>> ex.distributed.destroy_process_group()
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return -1
    return 1 if group is None and _state.world is None else group_of(group).size()


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process among those of its machine, as the launcher says.

    >>> ex.distributed.init_process_group()
    >>> ex.distributed.get_node_local_rank(fallback_rank=0)
    0
    >>> ex.distributed.destroy_process_group()
    """
    for name in ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"):
        if name in os.environ:
            return int(os.environ[name])
    return 0 if fallback_rank is None else fallback_rank


def get_backend(group: ProcessGroup | None = None) -> str:
    """The name that PyTorch has for the engine: "mpi", or "gloo" for a process alone.

    >>> ex.distributed.init_process_group()
    >>> ex.distributed.get_backend()
    'gloo'
    >>> ex.distributed.destroy_process_group()
    """
    engine = OneProcess() if group is None and _state.world is None else group_of(group).engine
    return "gloo" if engine.name == "local" else engine.name


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """A group of some ranks. All ranks call it; one that is not in it gets `GroupMember.NON_GROUP_MEMBER`.

    ranks: their numbers in the group of all; all of them if left out.
    timeout: how long its collectives wait.
    backend: as for `init_process_group`.
    pg_options: not needed.
    use_local_synchronization: not needed: all ranks call it.
    group_desc: its name in messages.
    device_id: not needed.

    >>> ex.distributed.init_process_group()
    >>> group = ex.distributed.new_group([0])
    >>> ex.distributed.get_world_size(group)
    1
    >>> ex.distributed.destroy_process_group()
    """
    world = group_of(None, "new_group")
    members = list(range(world.size())) if ranks is None else sorted(ranks)
    if len(set(members)) != len(members) or not all(0 <= rank < world.size() for rank in members) or not members:
        raise ArgumentError(f"new_group: ranks must be different numbers from 0 to {world.size() - 1}, got {ranks}")
    made = world.together(f"new_group({members})", lambda _: world.engine.split(members))
    if made is None:
        return GroupMember.NON_GROUP_MEMBER
    limit = world.timeout if timeout is None else timeout
    group = ProcessGroup(made, members, limit, group_desc or f"group {members}")
    _state.groups.append(group)
    return group


def new_subgroups(group_size: int | None = None) -> tuple[Any, list[Any]]:
    """(The group of this process, all groups): ranks side by side, `group_size` in each.

    >>> ex.distributed.init_process_group()
    >>> own, groups = ex.distributed.new_subgroups(1)
    >>> len(groups)
    1
    >>> ex.distributed.destroy_process_group()
    """
    size = get_world_size()
    each = size if group_size is None else group_size
    if each < 1 or size % each:
        raise ArgumentError(f"new_subgroups: {size} ranks cannot be divided into groups of {each}")
    return new_subgroups_by_enumeration([list(range(first, first + each)) for first in range(0, size, each)])


def new_subgroups_by_enumeration(ranks_per_subgroup_list: Sequence[Sequence[int]]) -> tuple[Any, list[Any]]:
    """(The group of this process, all groups), each by the ranks in it.

    >>> ex.distributed.init_process_group()
    >>> own, groups = ex.distributed.new_subgroups_by_enumeration([[0]])
    >>> len(groups)
    1
    >>> ex.distributed.destroy_process_group()
    """
    groups = [new_group(ranks) for ranks in ranks_per_subgroup_list]
    own = next((group for group in groups if isinstance(group, ProcessGroup)), GroupMember.NON_GROUP_MEMBER)
    return own, groups


def get_global_rank(group: ProcessGroup | None, group_rank: int) -> int:
    """The number in the group of all of a member of `group`.

    >>> ex.distributed.init_process_group()
    >>> ex.distributed.get_global_rank(None, 0)
    0
    >>> ex.distributed.destroy_process_group()
    """
    return group_of(group, "get_global_rank").ranks[group_rank]


def get_group_rank(group: ProcessGroup | None, global_rank: int) -> int:
    """The number in `group` of a process by its number in the group of all.

    >>> ex.distributed.init_process_group()
    >>> ex.distributed.get_group_rank(None, 0)
    0
    >>> ex.distributed.destroy_process_group()
    """
    members = group_of(group, "get_group_rank").ranks
    if global_rank not in members:
        raise DistributedError(f"get_group_rank: rank {global_rank} is not in the group of ranks {members}")
    return members.index(global_rank)


def get_process_group_ranks(group: ProcessGroup | None = None) -> list[int]:
    """The numbers in the group of all of the members.

    >>> ex.distributed.init_process_group()
    >>> ex.distributed.get_process_group_ranks()
    [0]
    >>> ex.distributed.destroy_process_group()
    """
    return list(group_of(group, "get_process_group_ranks").ranks)


def get_pg_count() -> int:
    """How many groups there are.

    >>> ex.distributed.init_process_group()
    >>> ex.distributed.get_pg_count()
    1
    >>> ex.distributed.destroy_process_group()
    """
    return len(_state.groups) + int(is_initialized())
