"""`torch.distributed`: Extempo's, and names of PyTorch's that say something of engines which are not there."""

from __future__ import annotations

from typing import Any

from ...core.absent_names import refused
from ...distributed import *  # noqa: F403 - its own __all__ says what it has
from ...distributed.groups import GroupMember as group
from ...distributed.groups import ProcessGroup, default_pg_timeout, group_of
from ...distributed.transfers import RedOpType
from ...errors import DistributedError as DistError

__all__ = ["Backend", "DistBackendError", "DistError", "RedOpType", "default_pg_timeout", "group"]


class Backend(str):
    """The name of what carries messages between processes."""

    __slots__ = ()

    GLOO, NCCL, MPI, UCC, XCCL, UNDEFINED = "gloo", "nccl", "mpi", "ucc", "xccl", "undefined"


def is_gloo_available() -> bool:
    return False


all_gather_single, reduce_scatter_single = all_gather_into_tensor, reduce_scatter_tensor  # noqa: F405 - as above
is_nccl_available = is_ucc_available = is_xccl_available = is_gloo_available
is_torchelastic_launched = is_gloo_available


def _get_default_group() -> ProcessGroup:
    return group_of(None, "_get_default_group")


def _rank_not_in_group(group: Any = None) -> bool:
    return group is not None and not isinstance(group, ProcessGroup)


_NO_STORE = "processes find each other by their launcher, so there is no store; use all_gather_object"
Store, TCPStore, FileStore, HashStore, PrefixStore = (
    refused(f"torch.distributed.{name}", _NO_STORE)
    for name in ("Store", "TCPStore", "FileStore", "HashStore", "PrefixStore")
)
DeviceMesh, init_device_mesh = (
    refused(f"torch.distributed.{name}", "every process holds the model whole; DistributedDataParallel shares the data")
    for name in ("DeviceMesh", "init_device_mesh")
)


class DistBackendError(DistError):
    """An engine's."""


class DistNetworkError(DistError):
    """A network's."""


class DistStoreError(DistError):
    """A store's."""


class QueueEmptyError(DistStoreError):
    """Of a store."""


def is_backend_available(backend: str) -> bool:
    """Whether several processes can use it: MPI, if mpi4py is there."""
    from ...distributed import is_mpi_available

    return str(backend).lower() == "mpi" and is_mpi_available()


def supports_complex(reduceOp: Any) -> bool:
    """There are no complex tensors."""
    return False


def get_default_backend_for_device(device: Any) -> str:
    return "gloo"


def get_debug_level() -> int:
    """0: off."""
    return 0


def set_debug_level(level: Any) -> None:
    """There are no messages to look at."""


def set_debug_level_from_env() -> None:
    """There are no messages to look at."""
