"""`torch.distributed` for one process: rank 0 of 1, so that collectives find everything already where it belongs."""

from __future__ import annotations

import enum
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from ...core.absent_names import refused
from ...core.tensor import Tensor
from ...errors import UnsupportedError

default_pg_timeout = timedelta(minutes=30)
GroupMember = SimpleNamespace(WORLD=None, NON_GROUP_MEMBER=object())
group = GroupMember
_state = {"initialized": False}


class RedOpType(enum.Enum):
    """How a collective combines what the processes have: of one process, it makes no difference."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR = range(8)


class ReduceOp:
    """PyTorch's way to say `RedOpType`."""

    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR = RedOpType


class Backend(str):
    """The name of what carries messages between processes."""

    __slots__ = ()

    GLOO, NCCL, MPI, UCC, XCCL, UNDEFINED = "gloo", "nccl", "mpi", "ucc", "xccl", "undefined"


class ProcessGroup:
    """The group of the one process."""

    def rank(self) -> int:
        return 0

    def size(self) -> int:
        return 1


class Work:
    """A collective that is done."""

    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


def is_available() -> bool:
    return True


def is_gloo_available() -> bool:
    return False


is_nccl_available = is_mpi_available = is_ucc_available = is_xccl_available = is_gloo_available
is_torchelastic_launched = is_gloo_available


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


def get_global_rank(group: Any, group_rank: int) -> int:
    return group_rank


get_group_rank = get_global_rank


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    return 0


def get_process_group_ranks(group: Any = None) -> list[int]:
    return [0]


def _get_default_group() -> ProcessGroup:
    return ProcessGroup()


def _rank_not_in_group(group: Any = None) -> bool:
    return False


def new_group(*args: Any, **kwargs: Any) -> ProcessGroup:
    return ProcessGroup()


def barrier(*args: Any, **kwargs: Any) -> Work:
    return Work()


monitored_barrier = barrier


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


def all_gather_into_tensor(output_tensor: Tensor, input_tensor: Tensor, *args: Any, **kwargs: Any) -> Work:
    output_tensor.copy_(input_tensor.reshape(output_tensor.shape))
    return Work()


reduce_scatter_tensor = all_to_all_single = all_gather_single = reduce_scatter_single = all_gather_into_tensor


def reduce_scatter(output: Tensor, input_list: list[Tensor], *args: Any, **kwargs: Any) -> Work:
    output.copy_(input_list[0])
    return Work()


def all_to_all(output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], *args: Any, **kwargs: Any) -> Work:
    output_tensor_list[0].copy_(input_tensor_list[0])
    return Work()


def gather_object(obj: Any, object_gather_list: list[Any] | None = None, *args: Any, **kwargs: Any) -> None:
    if object_gather_list is not None:
        object_gather_list[0] = obj


def scatter_object_list(output: list[Any], objects: list[Any] | None = None, *args: Any, **kwargs: Any) -> None:
    if objects is not None:
        output[0] = objects[0]


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    object_list[0] = obj


def broadcast_object_list(object_list: list[Any], *args: Any, **kwargs: Any) -> None:
    """Everybody has it."""


_NOBODY = "there is no other process to exchange messages with"
send, recv, isend, irecv, batch_isend_irecv, P2POp = (
    refused(f"torch.distributed.{name}", _NOBODY)
    for name in ("send", "recv", "isend", "irecv", "batch_isend_irecv", "P2POp")
)
Store, TCPStore, FileStore, HashStore, PrefixStore = (
    refused(f"torch.distributed.{name}", _NOBODY)
    for name in ("Store", "TCPStore", "FileStore", "HashStore", "PrefixStore")
)
DeviceMesh, init_device_mesh = (
    refused(f"torch.distributed.{name}", "Extempo runs one process in this version, which holds everything whole")
    for name in ("DeviceMesh", "init_device_mesh")
)


class DistError(RuntimeError):
    """Raised between processes, of which there is one."""


class DistBackendError(DistError):
    """As `DistError`."""


class DistNetworkError(DistError):
    """As `DistError`."""


class DistStoreError(DistError):
    """As `DistError`."""


class QueueEmptyError(DistStoreError):
    """As `DistError`."""


def is_backend_available(backend: str) -> bool:
    """None that carries messages between processes."""
    return False


supports_complex = is_backend_available


def get_pg_count() -> int:
    """The group of the one process."""
    return int(is_initialized())


def get_default_backend_for_device(device: Any) -> str:
    return "gloo"


def new_subgroups(*args: Any, **kwargs: Any) -> tuple[ProcessGroup, list[ProcessGroup]]:
    """(the group of this process, all groups): of one process, one."""
    own = ProcessGroup()
    return own, [own]


new_subgroups_by_enumeration = new_subgroups


def all_reduce_coalesced(tensors: list[Tensor], *args: Any, **kwargs: Any) -> Work:
    """The sums are what the one process has."""
    return Work()


def get_debug_level() -> int:
    """0: off."""
    return 0


def set_debug_level(level: Any) -> None:
    """There are no messages to look at."""


def set_debug_level_from_env() -> None:
    """There are no messages to look at."""
