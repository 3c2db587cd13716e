"""`torch.distributed` for one process: rank 0 of 1, so that collectives find everything already where it belongs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ...core.tensor import Tensor
from ...errors import UnsupportedError

ReduceOp = SimpleNamespace(SUM="sum", AVG="avg", PRODUCT="product", MIN="min", MAX="max")
GroupMember = SimpleNamespace(WORLD=None, NON_GROUP_MEMBER=object())
group = GroupMember
_state = {"initialized": False}


class ProcessGroup:
    """The group of the one process."""


class Work:
    """A collective that is done."""

    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    return _state["initialized"]


def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
    """Become rank 0 of 1. More than one process is not part of this version."""
    import os

    size = kwargs.get("world_size", -1)
    if size in (-1, None):
        size = int(os.environ.get("WORLD_SIZE", "1"))
    if size != 1:
        raise UnsupportedError(
            f"torch.distributed.init_process_group: Extempo runs one process in this version, got world_size={size}; "
            f"start the program without torchrun, or with one process"
        )
    _state["initialized"] = True


def destroy_process_group(group: Any = None) -> None:
    _state["initialized"] = False


def get_rank(group: Any = None) -> int:
    return 0


def get_world_size(group: Any = None) -> int:
    return 1


def get_backend(group: Any = None) -> str:
    return "gloo"


def new_group(*args: Any, **kwargs: Any) -> ProcessGroup:
    return ProcessGroup()


def barrier(*args: Any, **kwargs: Any) -> Work:
    return Work()


def all_reduce(tensor: Tensor, *args: Any, **kwargs: Any) -> Work:
    """The sum over one process is what it has."""
    return Work()


reduce = broadcast = all_reduce


def all_gather(tensor_list: list[Tensor], tensor: Tensor, *args: Any, **kwargs: Any) -> Work:
    tensor_list[0].copy_(tensor)
    return Work()


def gather(tensor: Tensor, gather_list: list[Tensor] | None = None, *args: Any, **kwargs: Any) -> Work:
    if gather_list is not None:
        gather_list[0].copy_(tensor)
    return Work()


def scatter(tensor: Tensor, scatter_list: list[Tensor] | None = None, *args: Any, **kwargs: Any) -> Work:
    if scatter_list is not None:
        tensor.copy_(scatter_list[0])
    return Work()


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    object_list[0] = obj


def broadcast_object_list(object_list: list[Any], *args: Any, **kwargs: Any) -> None:
    """Everybody has it."""
