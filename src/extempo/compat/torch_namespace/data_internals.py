"""`torch.utils.data._utils`: what collate functions and loaders of other libraries are made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ... import ops
from ...core.tensor import Tensor
from ...data.collation import default_collate as default_collate
from ...data.collation import default_convert as default_convert
from ...data.worker_info import WorkerInfo as WorkerInfo
from ...data.worker_info import get_worker_info as get_worker_info

Collate = Callable[..., Any]

HAS_NUMPY = True
MP_STATUS_CHECK_INTERVAL = 5.0  # seconds
np_str_obj_array_pattern = re.compile(r"[SaUO]")  # kinds of arrays that cannot be tensors

default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)


def collate_tensor_fn(batch: Sequence[Tensor], *, collate_fn_map: Any = None) -> Tensor:
    """Tensors of one shape, stacked."""
    return ops.stack(list(batch))


def _by_default(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    return default_collate(batch)


# How samples of a class become a batch; libraries copy this table and add to it.
default_collate_fn_map: dict[Any, Collate] = {
    Tensor: collate_tensor_fn,
    float: _by_default,
    int: _by_default,
    str: _by_default,
    bytes: _by_default,
}


def collate(batch: Sequence[Any], *, collate_fn_map: Mapping[Any, Collate] | None = None) -> Any:
    """One batch by the functions of a table, which may be for members of dicts, tuples and lists too."""
    first = batch[0]
    for kinds, function in (collate_fn_map or {}).items():
        if isinstance(first, kinds):
            return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        return {key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map) for key in first}
    if isinstance(first, tuple | list):
        members = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch, strict=True)]
        return type(first)(*members) if hasattr(first, "_fields") else members
    return default_collate(batch)


def pin_memory(data: Any, device: Any = None) -> Any:
    """The data itself: there is no other device to copy it to."""
    return data


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Seeds of one worker for generators that are not PyTorch's."""
    return [int(word) for word in np.random.SeedSequence([base_seed, worker_id]).generate_state(4)]
