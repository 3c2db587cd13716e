"""Messages from one rank to another: `send`, `recv`, and their forms that do not wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from ..errors import ArgumentError
from .groups import ProcessGroup, group_of
from .objects import root_of
from .transfers import Work, as_bytes, values_of, write


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work:
    """Begin to send a tensor to a rank.

    tensor: what to send.
    dst: to whom, by its number in the group of all.
    group: of all ranks, unless given.
    tag: `recv` with the same one gets it.
    group_dst: the same by its number in the group.

    >>> ex.distributed.init_process_group()
    >>> x = ex.tensor([1.0, 2.0])
    >>> if ex.distributed.get_world_size() > 1 and ex.distributed.get_rank() == 0:
    ...     ex.distributed.isend(x, dst=1).wait()
    >>> ex.distributed.destroy_process_group()
    """
    members = group_of(group, "isend")
    values = values_of("isend", tensor)
    to = _other(members, "isend", dst, group_dst)
    return Work(members.engine.send(as_bytes(values), to, tag), lambda: None, members, f"send to rank {to}")


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work:
    """Begin to receive a tensor.

    tensor: gets it; of the sender's shape and dtype.
    src: from whom, by its number in the group of all; anybody if left out.
    group: of all ranks, unless given.
    tag: as the sender's.
    group_src: the same by its number in the group.

    >>> ex.distributed.init_process_group()
    >>> x = ex.tensor([1.0, 2.0])
    >>> if ex.distributed.get_world_size() > 1 and ex.distributed.get_rank() == 1:
    ...     ex.distributed.irecv(x, src=0).wait()
    >>> ex.distributed.destroy_process_group()
    """
    members = group_of(group, "irecv")
    values = values_of("irecv", tensor).copy()
    anybody = src is None and group_src is None
    source = None if anybody else _other(members, "irecv", src, group_src)
    request = members.engine.receive(as_bytes(values), source, tag)
    who = "anybody" if source is None else f"rank {source}"
    return Work(request, lambda: write(tensor, values), members, f"recv from {who}")


def _other(group: ProcessGroup, caller: str, given: int | None, in_group: int | None) -> int:
    if given is None and in_group is None:
        raise ArgumentError(f"{caller}: say which rank")
    return root_of(group, given, in_group)


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor to a rank.

    tensor: what to send.
    dst: to whom, by its number in the group of all.
    group: of all ranks, unless given.
    tag: `recv` with the same one gets it.
    group_dst: the same by its number in the group.

    >>> ex.distributed.init_process_group()
    >>> ex.distributed.send(ex.ones(2), dst=0)
    >>> x = ex.zeros(2)
    >>> ex.distributed.recv(x, src=0)
    0
    >>> x
    tensor([1., 1.])
    >>> ex.distributed.destroy_process_group()

    >>> ex.distributed.init_process_group()
    >>> x = ex.tensor([1.0, 2.0])
    >>> if ex.distributed.get_world_size() > 1 and ex.distributed.get_rank() == 0:
    ...     ex.distributed.send(x, dst=1)
    >>> ex.distributed.destroy_process_group()
    """
    isend(tensor, dst, group, tag, group_dst).wait()


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive a tensor; the number of the rank that it came from.

    tensor: gets it; of the sender's shape and dtype.
    src: from whom, by its number in the group of all; anybody if left out.
    group: of all ranks, unless given.
    tag: as the sender's.
    group_src: the same by its number in the group.

    >>> ex.distributed.init_process_group()
    >>> x = ex.tensor([1.0, 2.0])
    >>> if ex.distributed.get_world_size() > 1 and ex.distributed.get_rank() == 1:
    ...     ex.distributed.recv(x, src=0)
    >>> ex.distributed.destroy_process_group()
    """
    work = irecv(tensor, src, group, tag, group_src)
    work.wait()
    return work.source_rank()


class P2POp:
    """One message of `batch_isend_irecv`.

    op: `isend` or `irecv`.
    tensor: what to send, or what gets it.
    peer: the other rank, by its number in the group of all.
    group: of all ranks, unless given.
    tag: the same on both sides.
    group_peer: the same by its number in the group.

    >>> ex.distributed.init_process_group()
    >>> x = ex.tensor([1.0, 2.0])
    >>> others = range(1, ex.distributed.get_world_size())
    >>> messages = [ex.distributed.P2POp(ex.distributed.isend, x, peer) for peer in others]
    >>> len(messages)
    0
    >>> ex.distributed.destroy_process_group()
    """

    def __init__(
        self,
        op: Callable[..., Work],
        tensor: Tensor,
        peer: int | None = None,
        group: ProcessGroup | None = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ArgumentError("P2POp: op must be dist.isend or dist.irecv")
        self.op = op
        self.tensor = tensor
        self.peer = peer
        self.group = group
        self.tag = tag
        self.group_peer = group_peer


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin several messages.

    p2p_op_list: each a `P2POp`.

    >>> ex.distributed.init_process_group()
    >>> x = ex.tensor([1.0, 2.0])
    >>> others = range(1, ex.distributed.get_world_size())
    >>> messages = [ex.distributed.P2POp(ex.distributed.isend, x, peer) for peer in others]
    >>> ex.distributed.batch_isend_irecv(messages)
    []
    >>> ex.distributed.destroy_process_group()
    """
    return [op.op(op.tensor, op.peer, op.group, op.tag, op.group_peer) for op in p2p_op_list]


def breakpoint(rank: int = 0, skip: int = 0, timeout_s: int = 3600) -> None:
    """Stop in the debugger on one rank, while the others wait.

    rank: which one stops.
    skip: pass this many times before stopping.
    timeout_s: how long the others wait, in seconds.

    >>> ex.distributed.init_process_group()
    >>> ex.distributed.breakpoint(skip=10**6)  # stops at its 1,000,001st call
    >>> ex.distributed.destroy_process_group()
    """
    members = group_of(None, "breakpoint")
    _PASSED[0] += 1
    if _PASSED[0] <= skip:
        return
    if members.rank() == rank:
        import pdb
        import sys

        print(f"\n!!! rank {rank} stops here; the others wait. Type 'up' to see the caller, 'c' to go on !!!\n")
        with open("/dev/tty") if not sys.stdin.isatty() and _has_terminal() else _same(sys.stdin) as source:
            pdb.Pdb(stdin=source if source is not sys.stdin else None).set_trace(sys._getframe(1))
    members.together("breakpoint", lambda _: None, seconds=timeout_s)


_PASSED = [0]  # how often `breakpoint` was passed


def _has_terminal() -> bool:
    try:
        with open("/dev/tty"):
            return True
    except OSError:
        return False


def _same(stream: Any) -> Any:
    from contextlib import nullcontext

    return nullcontext(stream)
