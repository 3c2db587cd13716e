"""Many processes, on one machine or many: `torch.distributed`'s names, on MPI.

    from extempo import distributed as dist
    dist.init_process_group()                   # alone: rank 0 of 1

`extempo launch -n 4 train.py`, mpirun or srun start the processes. The door is small: `groups` knows who is there,
`collectives`, `messages` and `objects` are what they can do, `engine` is the protocol of who carries it.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from ..core.public_names import publish
from .collectives import (
    all_gather,
    all_gather_into_tensor,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    monitored_barrier,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
)
from .groups import (
    GroupMember,
    ProcessGroup,
    destroy_process_group,
    get_backend,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    init_process_group,
    is_initialized,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
)
from .messages import P2POp, batch_isend_irecv, breakpoint, irecv, isend, recv, send
from .objects import all_gather_object, broadcast_object_list, gather_object, scatter_object_list
from .transfers import ReduceOp, Work

if TYPE_CHECKING:  # loaded on first use: they know layers, optimizers or data sets
    from . import comm_hooks
    from .cost_sampler import CostSampler
    from .zero import ZeroRedundancyOptimizer

__all__ = [
    "CostSampler", "GroupMember", "P2POp", "ProcessGroup", "ReduceOp",
    "Work", "ZeroRedundancyOptimizer", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce",
    "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "breakpoint",
    "broadcast", "broadcast_object_list", "comm_hooks", "destroy_process_group", "gather", "gather_object",
    "get_backend", "get_global_rank", "get_group_rank", "get_node_local_rank", "get_pg_count",
    "get_process_group_ranks", "get_rank", "get_world_size", "init_process_group", "irecv", "is_available",
    "is_initialized", "is_mpi_available", "isend", "monitored_barrier", "new_group", "new_subgroups",
    "new_subgroups_by_enumeration", "recv", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
    "scatter_object_list", "send",
]  # fmt: skip


def is_available() -> bool:
    """True: one process is a group, too.

    >>> ex.distributed.is_available()
    True
    """
    return True


def is_mpi_available() -> bool:
    """Whether mpi4py is installed, which several processes need.

    >>> ex.distributed.is_mpi_available() in (True, False)
    True
    """
    from importlib.util import find_spec

    return find_spec("mpi4py") is not None


_HOMES = {"CostSampler": "cost_sampler", "ZeroRedundancyOptimizer": "zero"}

publish(__name__, __all__, globals())

if not TYPE_CHECKING:  # a type checker would take every name for one that exists

    def __getattr__(name: str) -> object:
        if name == "comm_hooks":
            return _import_module(f"{__name__}.comm_hooks")
        if name in _HOMES:
            globals()[name] = found = getattr(_import_module(f"{__name__}.{_HOMES[name]}"), name)
            publish(__name__, [name], globals())
            return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
