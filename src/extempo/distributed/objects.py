"""Collectives of Python objects: pickled, and carried as bytes.

Unpickling runs code. The bytes come from processes of the same job, which run the same program under the same user, and
from nowhere else.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.storage import Array
from ..errors import ArgumentError
from .engine import Engine
from .groups import ProcessGroup, group_of


def exchanged(engine: Engine, obj: Any) -> list[Any]:
    """The objects of all ranks, by rank. For ranks that have met already."""
    own = np.frombuffer(pickle.dumps(obj), np.uint8)
    sizes = np.empty((engine.size, 1), np.int64)
    engine.all_gather(np.array([own.size], np.int64), sizes)
    padded = np.zeros(int(sizes.max()), np.uint8)
    padded[: own.size] = own
    parts = np.empty((engine.size, padded.size), np.uint8)
    engine.all_gather(padded, parts)
    return [pickle.loads(part[:size].tobytes()) for part, size in zip(parts, sizes[:, 0], strict=True)]


def shared(engine: Engine, obj: Any, root: int) -> Any:
    """The object of one rank, on all. For ranks that have met already."""
    data = np.frombuffer(pickle.dumps(obj), np.uint8).copy() if engine.rank == root else np.empty(0, np.uint8)
    size = np.array([data.size], np.int64)
    engine.broadcast(size, root)
    if engine.rank != root:
        data = np.empty(int(size[0]), np.uint8)
    engine.broadcast(data, root)
    return obj if engine.rank == root else pickle.loads(data.tobytes())


def all_gather_object(object_list: list[Any], obj: Any, group: ProcessGroup | None = None) -> None:
    """Every rank's object, in all ranks' lists. Objects are pickled: only for processes of one job.

    object_list: gets them, by rank; as long as the group is large.
    obj: this rank's.
    group: of all ranks, unless given.

    >>> ex.distributed.init_process_group()
    >>> found = [None]
    >>> ex.distributed.all_gather_object(found, {"seen": 3})
    >>> found
    [{'seen': 3}]
    >>> ex.distributed.destroy_process_group()
    """
    members = group_of(group, "all_gather_object")
    _require_length("all_gather_object", "object_list", object_list, members.size())
    object_list[:] = members.together("all_gather_object", lambda _: exchanged(members.engine, obj), repeatable=False)


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: ProcessGroup | None = None,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Every rank's object, in one rank's list.

    obj: this rank's.
    object_gather_list: gets them on rank `dst`; None elsewhere.
    dst: who gets them, by its number in the group of all.
    group: of all ranks, unless given.
    group_dst: the same by its number in the group.

    >>> ex.distributed.init_process_group()
    >>> found = [None]
    >>> ex.distributed.gather_object({"seen": 3}, found, dst=0)
    >>> found
    [{'seen': 3}]
    >>> ex.distributed.destroy_process_group()
    """
    members = group_of(group, "gather_object")
    root = root_of(members, dst, group_dst)
    if members.rank() == root:
        _require_length("gather_object", "object_gather_list", object_gather_list, members.size())
    found = members.together("gather_object", lambda _: exchanged(members.engine, obj), repeatable=False)
    if members.rank() == root and object_gather_list is not None:
        object_gather_list[:] = found


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    group_src: int | None = None,
) -> None:
    """One rank's objects, one to each.

    scatter_object_output_list: its first place gets this rank's object.
    scatter_object_input_list: what rank `src` has for each.
    src: who has them, by its number in the group of all.
    group: of all ranks, unless given.
    group_src: the same by its number in the group.

    >>> ex.distributed.init_process_group()
    >>> found = [None]
    >>> ex.distributed.scatter_object_list(found, [{"seen": 3}], src=0)
    >>> found
    [{'seen': 3}]
    >>> ex.distributed.destroy_process_group()
    """
    members = group_of(group, "scatter_object_list")
    root = root_of(members, src, group_src)
    if members.rank() == root:
        _require_length("scatter_object_list", "its input list", scatter_object_input_list, members.size())

    def act(_: Array) -> Any:
        return shared(members.engine, scatter_object_input_list, root)

    found = members.together("scatter_object_list", act, repeatable=False)
    scatter_object_output_list[0] = found[members.rank()]


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: ProcessGroup | None = None, device: Any = None,
    group_src: int | None = None,
) -> None:  # fmt: skip
    """One rank's objects, in the lists of all.

    object_list: of rank `src`: what to send; elsewhere: as long, and overwritten.
    src: whose, by its number in the group of all.
    group: of all ranks, unless given.
    device: there is one.
    group_src: the same by its number in the group.

    >>> ex.distributed.init_process_group()
    >>> objects = [{"seen": 3}]
    >>> ex.distributed.broadcast_object_list(objects, src=0)
    >>> objects
    [{'seen': 3}]
    >>> ex.distributed.destroy_process_group()
    """
    members = group_of(group, "broadcast_object_list")
    root = root_of(members, src, group_src)
    found = members.together(
        "broadcast_object_list", lambda _: shared(members.engine, list(object_list), root), repeatable=False
    )
    _require_length("broadcast_object_list", "object_list", object_list, len(found))
    object_list[:] = found


def root_of(group: ProcessGroup, given: int | None, in_group: int | None) -> int:
    """The number in the group of the rank that a call names; the first one if it names none."""
    if in_group is not None:
        if given is not None:
            raise ArgumentError("give the rank by its number in the group of all, or by that in the group, not both")
        return in_group
    if given is None:
        return 0
    if given not in group.ranks:
        raise ArgumentError(f"rank {given} is not in the group of ranks {group.ranks}")
    return group.ranks.index(given)


def _require_length(caller: str, name: str, given: Sequence[Any] | None, length: int) -> None:
    if given is None or len(given) != length:
        got = "None" if given is None else f"{len(given)}"
        raise ArgumentError(f"{caller}: {name} needs a place for each of {length} ranks, got {got}")
