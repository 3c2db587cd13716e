"""`torch.distributed.nn`: collectives that gradients pass through: sums, and of one process all of them."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...distributed.groups import current_world
from ...distributed.transfers import RedOpType
from ...errors import UnsupportedError
from ...nn.sync_batch_norm import SumOverRanks


def all_reduce(tensor: Tensor, op: Any = RedOpType.SUM, group: Any = None) -> Tensor:
    """The sum over all processes; its gradient is one, too."""
    members = group if group is not None else current_world()
    if members is None or members.size() == 1:
        return tensor
    if op is not RedOpType.SUM:
        _require_one_process(f"all_reduce with {op}")
    total: Tensor = SumOverRanks.apply(tensor, members, "torch.distributed.nn.all_reduce")
    return total


def broadcast(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """What the one process has."""
    _require_one_process("broadcast")
    return tensor


reduce = broadcast


def all_gather(tensor: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """What the one process has."""
    _require_one_process("all_gather")
    return (tensor,)


gather = all_gather


def _require_one_process(name: str) -> None:
    if current_world() is not None:
        raise UnsupportedError(
            f"torch.distributed.nn: gradients do not pass through {name} between processes; all_reduce of sums has one"
        )
