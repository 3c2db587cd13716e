"""What batches are: how a step takes them, their sizes and dtypes, the structure of what is computed from each."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..autograd.observers import Observer
from ..core.context import switch
from ..core.graph import Node
from ..core.op import Op
from ..core.tensor import Tensor
from ..memory.referrers import is_tensor
from ..ragged_tensors.tensor import RaggedTensor
from ..tracing.api import eager


def caller(step: Callable[..., Any]) -> Callable[[Any], tuple[Any, ...]]:
    """How a batch becomes the step's arguments: a tuple or list is spread if the step takes that many."""
    try:
        parameters = list(inspect.signature(step).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    n_least = sum(p.default is p.empty for p in places)
    takes_any = not parameters or any(p.kind is p.VAR_POSITIONAL for p in parameters)

    def arguments(batch: Any) -> tuple[Any, ...]:
        if isinstance(batch, tuple) and (takes_any or n_least <= len(batch) <= len(places)):
            return batch
        if isinstance(batch, list) and len(batch) > 1 and n_least <= len(batch) <= len(places):
            return tuple(batch)
        return (batch,)

    return arguments


def sizes(value: Any) -> Any:
    """The form of a batch: shapes and lengths, however deep, without values."""
    if isinstance(value, RaggedTensor):
        return ("ragged", tuple(map(str, value.lengths().tolist())))
    if is_tensor(value) or isinstance(value, np.ndarray):
        return tuple(value.shape)
    if isinstance(value, list | tuple):
        return (type(value).__name__, *map(sizes, value))
    if isinstance(value, dict):
        return tuple((key, sizes(x)) for key, x in value.items())
    return type(value).__name__


def batch_size(batch: Any) -> int | None:
    """How many samples: the first size of the first thing that has one. None if nothing has."""
    if isinstance(batch, RaggedTensor):
        return len(batch.lengths())
    if is_tensor(batch) or isinstance(batch, np.ndarray):
        return int(batch.shape[0]) if batch.ndim else None
    if isinstance(batch, dict):
        batch = tuple(batch.values())
    if isinstance(batch, tuple):
        return next((n for n in map(batch_size, batch) if n is not None), None)
    if isinstance(batch, list):
        inner = [batch_size(x) for x in batch if is_tensor(x)]
        return inner[0] if inner and len(inner) == len(batch) and len(set(inner)) == 1 and inner[0] else len(batch)
    return None


def tensors_in(value: Any) -> Iterator[Any]:
    if is_tensor(value):
        yield value
    elif isinstance(value, list | tuple):
        for x in value:
            yield from tensors_in(x)
    elif isinstance(value, dict):
        for x in value.values():
            yield from tensors_in(x)


def float_dtypes(tensors: list[Any]) -> list[str]:
    """The names of the floating dtypes among tensors, without the library's prefix."""
    return sorted({str(t.dtype).rpartition(".")[2] for t in tensors if t.dtype.is_floating_point})


def as_torch(value: Any) -> Any:
    """The batch with PyTorch's tensors in place of Extempo's, copied; of a ragged one, a list of its rows."""
    import torch

    if isinstance(value, RaggedTensor):
        return [as_torch(row) for row in value.unbind()]
    if isinstance(value, Tensor):
        return torch.from_numpy(value.detach().numpy().copy())
    if isinstance(value, list):
        return [as_torch(x) for x in value]
    if isinstance(value, tuple):
        items = [as_torch(x) for x in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, dict):
        return {key: as_torch(x) for key, x in value.items()}
    return value


def same_values(a: Any, b: Any) -> bool:
    """Whether two batches of the same form hold the same numbers, whichever library's."""
    if isinstance(a, RaggedTensor) and isinstance(b, RaggedTensor):
        return same_values(a.values(), b.values())
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same_values, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_values(a[key], b[key]) for key in a)
    if is_tensor(a) and is_tensor(b):
        return np.array_equal(a.detach().double().numpy(), b.detach().double().numpy(), equal_nan=True)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    return type(a) is not type(b) or not isinstance(a, str | int | float) or a == b


class _Listing(Observer):
    """Notes every op that runs."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[str] = []

    def ran(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], node: Node | None) -> None:
        self.ops.append(op.name)


def structure(call: Callable[[], Any]) -> tuple[str, ...]:
    """The ops that a call runs, in order, op by op: what the graph of this batch is made of."""
    with eager():
        listing = _Listing()
        with switch(interceptor=listing):
            call()
    return tuple(listing.ops)


@functools.lru_cache(1)
def has_torch() -> bool:
    """Whether PyTorch can be imported."""
    try:
        import torch
    except ImportError:
        return False
    return torch is not None
