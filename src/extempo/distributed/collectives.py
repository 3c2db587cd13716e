"""Collectives on tensors, with PyTorch's names and meanings: checks, then one call of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from ..core.active_traces import before_write
from ..core.storage import Array
from ..core.tensor import Tensor
from ..errors import ArgumentError, ShapeError, UnsupportedError
from ..ops import zeros
from .engine import Done, Request
from .groups import ProcessGroup, group_of
from .objects import root_of
from .transfers import RedOpType, ReduceOp, Work, as_bytes, carried, signature, summable, values_of, write


def barrier(
    group: ProcessGroup | None = None, async_op: bool = False, device_ids: Any = None, timeout: timedelta | None = None
) -> Work | None:
    """Wait until every rank is here.

    group: of all ranks, unless given.
    async_op: return a `Work` to wait for later.
    device_ids: there is one device.
    timeout: how long to wait; that of the group unless given.

    >>> ex.distributed.init_process_group()
    >>> ex.distributed.barrier()
    >>> ex.distributed.destroy_process_group()
    """
    members = group_of(group, "barrier")
    if async_op:
        return all_reduce(zeros(1), group=members, async_op=True)
    seconds = None if timeout is None else timeout.total_seconds()
    members.together("barrier", lambda _: None, seconds=seconds)
    return None


def monitored_barrier(
    group: ProcessGroup | None = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """A barrier whose error names the ranks that did not come, as every collective's here does.

    group: of all ranks, unless given.
    timeout: how long to wait.
    wait_all_ranks: all that are missing are named in any case.

    >>> ex.distributed.init_process_group()
    >>> ex.distributed.monitored_barrier()
    >>> ex.distributed.destroy_process_group()
    """
    barrier(group, timeout=timeout)


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Combine the tensors of all ranks, in place: everybody has the result.

    tensor: of the same shape and dtype on all ranks.
    op: a `ReduceOp`.
    group: of all ranks, unless given.
    async_op: return a `Work` to wait for later.

    >>> ex.distributed.init_process_group()
    >>> x = ex.tensor([1.0, 2.0])
    >>> ex.distributed.all_reduce(x)
    >>> x
    tensor([1., 2.])
    >>> ex.distributed.destroy_process_group()
    """
    members = group_of(group, "all_reduce")
    values = values_of("all_reduce", tensor)
    work, name = summable("all_reduce", values, op)
    if members.size() == 1:
        return Work(Done(), lambda: None, members, "all_reduce") if async_op else None
    # In place, where nobody else looks meanwhile and it need not be done again after a rank was lost.
    kept = work.copy() if async_op or members.engine.survives else work

    def start(wait: bool) -> Request:
        if kept is work:
            before_write((tensor._storage,))
        else:
            np.copyto(kept, work)
        return members.engine.all_reduce(kept, name, wait)

    def finish() -> None:
        if op is RedOpType.AVG:
            np.divide(kept, members.size(), out=kept)
        write(tensor, kept.view(np.bool_) if values.dtype == np.bool_ else kept)

    return carried(members, signature("all_reduce", values, name), start, finish, async_op, repeatable=True)


def all_reduce_coalesced(
    tensors: Sequence[Tensor], op: Any = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Any:
    """`all_reduce` of several tensors.

    tensors: the same on all ranks.
    op: a `ReduceOp`.
    group: of all ranks, unless given.
    async_op: return a `Work` of the last one; the others are done before it.

    >>> ex.distributed.init_process_group()
    >>> x = ex.tensor([1.0, 2.0])
    >>> ex.distributed.all_reduce_coalesced([x, x.new_ones(1)])
    >>> ex.distributed.destroy_process_group()
    """
    started = [all_reduce(tensor, op, group, async_op) for tensor in tensors]
    if async_op:
        for work in started[:-1]:
            if work is not None:
                work.wait()
        return started[-1]
    return None


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Combine the tensors of all ranks on one of them, in place there; elsewhere they stay as they are.

    tensor: of the same shape and dtype on all ranks.
    dst: who gets the result, by its number in the group of all.
    op: a `ReduceOp`.
    group: of all ranks, unless given.
    async_op: return a `Work` to wait for later.
    group_dst: the same by its number in the group.

    >>> ex.distributed.init_process_group()
    >>> x = ex.tensor([1.0, 2.0])
    >>> ex.distributed.reduce(x, dst=0)
    >>> x
    tensor([1., 2.])
    >>> ex.distributed.destroy_process_group()
    """
    members = group_of(group, "reduce")
    root = root_of(members, dst, group_dst)
    values = values_of("reduce", tensor)
    work, name = summable("reduce", values, op)
    kept = work.copy()

    def finish() -> None:
        if members.rank() == root:
            if op is RedOpType.AVG:
                np.divide(kept, members.size(), out=kept)
            write(tensor, kept.view(np.bool_) if values.dtype == np.bool_ else kept)

    def start(wait: bool) -> Request:
        return members.engine.reduce(kept, name, root, wait)

    return carried(members, signature("reduce", values, name, root), start, finish, async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """One rank's tensor, written into those of all.

    tensor: of the same shape and dtype on all ranks.
    src: whose, by its number in the group of all.
    group: of all ranks, unless given.
    async_op: return a `Work` to wait for later.
    group_src: the same by its number in the group.

    >>> ex.distributed.init_process_group()
    >>> x = ex.tensor([1.0, 2.0])
    >>> ex.distributed.broadcast(x, src=0)
    >>> x
    tensor([1., 2.])
    >>> ex.distributed.destroy_process_group()
    """
    members = group_of(group, "broadcast")
    root = root_of(members, src, group_src)
    values = values_of("broadcast", tensor)

    def finish() -> None:
        if members.rank() != root:
            write(tensor, values)

    def start(wait: bool) -> Request:
        return members.engine.broadcast(as_bytes(values), root, wait)

    return carried(members, signature("broadcast", values, root), start, finish, async_op)


def _parts(caller: str, tensors: Sequence[Tensor] | None, like: Array, group: ProcessGroup) -> list[Tensor]:
    if tensors is None or len(tensors) != group.size():
        got = "none" if tensors is None else len(tensors)
        raise ArgumentError(f"{caller}: a tensor for each of {group.size()} ranks is needed, got {got}")
    for t in tensors:
        if t.numel() != like.size or t._type.dtype.numpy != like.dtype:
            raise ShapeError(
                f"{caller}: every tensor of the list needs {like.size} values of {like.dtype}, got {t._type}"
            )
    return list(tensors)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Every rank's tensor, on all ranks.

    tensor_list: gets them, by rank; one of the same shape and dtype for each rank.
    tensor: this rank's.
    group: of all ranks, unless given.
    async_op: return a `Work` to wait for later.

    >>> ex.distributed.init_process_group()
    >>> x = ex.tensor([1.0, 2.0])
    >>> parts = [ex.empty(2) for _ in range(ex.distributed.get_world_size())]
    >>> ex.distributed.all_gather(parts, x)
    >>> parts
    [tensor([1., 2.])]
    >>> ex.distributed.destroy_process_group()
    """
    members = group_of(group, "all_gather")
    values = values_of("all_gather", tensor)
    places = _parts("all_gather", tensor_list, values, members)
    found = np.empty((members.size(), *values.shape), values.dtype)

    def finish() -> None:
        for place, part in zip(places, found, strict=True):
            write(place, part)

    def start(wait: bool) -> Request:
        return members.engine.all_gather(as_bytes(values), as_bytes(found).reshape(members.size(), -1), wait)

    return carried(members, signature("all_gather", values), start, finish, async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Every rank's tensor, one after the other in one tensor on all ranks.

    output_tensor: gets them; as large as all of them.
    input_tensor: this rank's.
    group: of all ranks, unless given.
    async_op: return a `Work` to wait for later.

    >>> ex.distributed.init_process_group()
    >>> x = ex.tensor([1.0, 2.0])
    >>> whole = ex.empty(2 * ex.distributed.get_world_size())
    >>> ex.distributed.all_gather_into_tensor(whole, x)
    >>> whole
    tensor([1., 2.])
    >>> ex.distributed.destroy_process_group()
    """
    members = group_of(group, "all_gather_into_tensor")
    values = values_of("all_gather_into_tensor", input_tensor)
    _require_size("all_gather_into_tensor", output_tensor, values.size * members.size(), values)
    found = np.empty((members.size(), values.size), values.dtype)

    def start(wait: bool) -> Request:
        return members.engine.all_gather(as_bytes(values), as_bytes(found).reshape(members.size(), -1), wait)

    what = signature("all_gather_into_tensor", values)
    return carried(members, what, start, lambda: write(output_tensor, found), async_op)


def _require_size(caller: str, tensor: Any, size: int, like: Array) -> None:
    if not isinstance(tensor, Tensor) or tensor.numel() != size or tensor._type.dtype.numpy != like.dtype:
        got = tensor._type if isinstance(tensor, Tensor) else type(tensor).__name__
        raise ShapeError(f"{caller}: the output needs {size} values of {like.dtype}, got {got}")


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Every rank's tensor, on one of them.

    tensor: this rank's, of the same shape and dtype on all.
    gather_list: gets them on rank `dst`, by rank; None elsewhere.
    dst: who gets them, by its number in the group of all.
    group: of all ranks, unless given.
    async_op: return a `Work` to wait for later.
    group_dst: the same by its number in the group.

    >>> ex.distributed.init_process_group()
    >>> x = ex.tensor([1.0, 2.0])
    >>> parts = [ex.empty(2)]
    >>> ex.distributed.gather(x, parts, dst=0)
    >>> parts
    [tensor([1., 2.])]
    >>> ex.distributed.destroy_process_group()
    """
    members = group_of(group, "gather")
    root = root_of(members, dst, group_dst)
    values = values_of("gather", tensor)
    is_root = members.rank() == root
    places = _parts("gather", gather_list, values, members) if is_root else []
    found = np.empty((members.size(), *values.shape), values.dtype) if is_root else None

    def finish() -> None:
        if found is not None:
            for place, part in zip(places, found, strict=True):
                write(place, part)

    def start(wait: bool) -> Request:
        into = None if found is None else as_bytes(found).reshape(members.size(), -1)
        return members.engine.gather(as_bytes(values), into, root, wait)

    return carried(members, signature("gather", values, root), start, finish, async_op)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """One rank's tensors, one to each.

    tensor: gets this rank's; of the same shape and dtype on all.
    scatter_list: what rank `src` has for each; None elsewhere.
    src: who has them, by its number in the group of all.
    group: of all ranks, unless given.
    async_op: return a `Work` to wait for later.
    group_src: the same by its number in the group.

    >>> ex.distributed.init_process_group()
    >>> part = ex.empty(2)
    >>> ex.distributed.scatter(part, [ex.tensor([1.0, 2.0])], src=0)
    >>> part
    tensor([1., 2.])
    >>> ex.distributed.destroy_process_group()
    """
    members = group_of(group, "scatter")
    root = root_of(members, src, group_src)
    values = np.empty_like(values_of("scatter", tensor))
    stacked = None
    if members.rank() == root:
        stacked = np.stack([t._values() for t in _parts("scatter", scatter_list, values, members)])

    def start(wait: bool) -> Request:
        given = None if stacked is None else as_bytes(stacked).reshape(members.size(), -1)
        return members.engine.scatter(given, as_bytes(values), root, wait)

    what = signature("scatter", values, root)
    return carried(members, what, start, lambda: write(tensor, values), async_op)


def _reduce_scattered(
    caller: str, output: Tensor, stacked: Array, op: Any, members: ProcessGroup, async_op: bool
) -> Work | None:
    work, name = summable(caller, stacked, op)
    work = work.reshape(members.size(), -1)
    _require_size(caller, output, work.shape[1], stacked)
    found = np.empty(work.shape[1], work.dtype)

    def finish() -> None:
        if op is RedOpType.AVG:
            np.divide(found, members.size(), out=found)
        write(output, found.view(np.bool_) if stacked.dtype == np.bool_ else found)

    def start(wait: bool) -> Request:
        return members.engine.reduce_scatter(work, found, name, wait)

    return carried(members, signature(caller, stacked, name), start, finish, async_op)


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Combine the lists of all ranks place by place; each rank gets the result of its own place.

    output: gets it.
    input_list: a tensor for each rank.
    op: a `ReduceOp`.
    group: of all ranks, unless given.
    async_op: return a `Work` to wait for later.

    >>> ex.distributed.init_process_group()
    >>> part = ex.empty(2)
    >>> ex.distributed.reduce_scatter(part, [ex.tensor([1.0, 2.0])])
    >>> part
    tensor([1., 2.])
    >>> ex.distributed.destroy_process_group()
    """
    members = group_of(group, "reduce_scatter")
    parts = _parts("reduce_scatter", input_list, values_of("reduce_scatter", output), members)
    return _reduce_scattered("reduce_scatter", output, np.stack([t._values() for t in parts]), op, members, async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Combine the tensors of all ranks; each gets its own part of the result.

    output: gets it.
    input: as large as the parts of all ranks.
    op: a `ReduceOp`.
    group: of all ranks, unless given.
    async_op: return a `Work` to wait for later.

    >>> ex.distributed.init_process_group()
    >>> part = ex.empty(2)
    >>> ex.distributed.reduce_scatter_tensor(part, ex.tensor([1.0, 2.0]))
    >>> part
    tensor([1., 2.])
    >>> ex.distributed.destroy_process_group()
    """
    members = group_of(group, "reduce_scatter_tensor")
    values = values_of("reduce_scatter_tensor", input)
    if values.size % members.size():
        raise ShapeError(
            f"reduce_scatter_tensor: {values.size} values cannot be divided among {members.size()} ranks; pad the input"
        )
    return _reduce_scattered("reduce_scatter_tensor", output, values, op, members, async_op)


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Every rank sends a tensor to every rank.

    output_tensor_list: gets what each rank has for this one.
    input_tensor_list: what this rank has for each; all of one shape and dtype.
    group: of all ranks, unless given.
    async_op: return a `Work` to wait for later.

    >>> ex.distributed.init_process_group()
    >>> got = [ex.empty(2)]
    >>> ex.distributed.all_to_all(got, [ex.tensor([1.0, 2.0])])
    >>> got
    [tensor([1., 2.])]
    >>> ex.distributed.destroy_process_group()
    """
    members = group_of(group, "all_to_all")
    first = values_of("all_to_all", input_tensor_list[0])
    given = np.stack([values_of("all_to_all", t) for t in _parts("all_to_all", input_tensor_list, first, members)])
    places = _parts("all_to_all", output_tensor_list, first, members)
    found = np.empty_like(given)

    def finish() -> None:
        for place, part in zip(places, found, strict=True):
            write(place, part)

    def start(wait: bool) -> Request:
        size = members.size()
        return members.engine.all_to_all(as_bytes(given).reshape(size, -1), as_bytes(found).reshape(size, -1), wait)

    return carried(members, signature("all_to_all", given), start, finish, async_op)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None,
    group: ProcessGroup | None = None, async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Every rank sends an equal part of its tensor to every rank.

    output: gets the parts, by rank.
    input: the parts, by rank.
    output_split_sizes: parts of unequal size are refused; use all_to_all.
    input_split_sizes: as `output_split_sizes`.
    group: of all ranks, unless given.
    async_op: return a `Work` to wait for later.

    >>> ex.distributed.init_process_group()
    >>> got = ex.empty(2)
    >>> ex.distributed.all_to_all_single(got, ex.tensor([1.0, 2.0]))
    >>> got
    tensor([1., 2.])
    >>> ex.distributed.destroy_process_group()
    """
    members = group_of(group, "all_to_all_single")
    if output_split_sizes or input_split_sizes:
        raise UnsupportedError("all_to_all_single: parts of unequal size are not carried; pad them to one size")
    given = values_of("all_to_all_single", input)
    if given.size % members.size():
        raise ShapeError(f"all_to_all_single: {given.size} values cannot be divided among {members.size()} ranks")
    _require_size("all_to_all_single", output, given.size, given)
    found = np.empty_like(given)

    def start(wait: bool) -> Request:
        size = members.size()
        return members.engine.all_to_all(as_bytes(given).reshape(size, -1), as_bytes(found).reshape(size, -1), wait)

    what = signature("all_to_all_single", given)
    return carried(members, what, start, lambda: write(output, found), async_op)
