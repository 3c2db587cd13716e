"""PyTorch's samples as Extempo's: PyTorch objects in, their Extempo counterparts out, sharing no memory.

A tensor keeps its strides. What Extempo has no counterpart
for raises Unmappable: such an op is not covered. What Extempo refuses by design raises LeftOut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import torch

import extempo as ex
from extempo.core.absent_names import RefusedType


class LeftOut(Exception):
    """The sample does not count: complex, sparse, or an error in PyTorch too."""


class Unmappable(Exception):
    """The sample holds something that Extempo has no counterpart for."""


def refuse_by_design(value: object) -> None:
    """Raise LeftOut if a tensor or dtype in `value` is of a kind that Extempo refuses by name."""
    for leaf in leaves(value):
        dtype = leaf.dtype if isinstance(leaf, torch.Tensor) else leaf
        if isinstance(dtype, torch.dtype) and dtype.is_complex:
            raise LeftOut("complex")
        if isinstance(leaf, complex):
            raise LeftOut("complex")
        if isinstance(leaf, torch.Tensor) and (leaf.layout != torch.strided or leaf.is_quantized):
            raise LeftOut("sparse or quantised")


def leaves(value: object) -> list[Any]:
    """All that is not a list, tuple or dict, in order."""
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [value]


def rebuild(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """The same nest of lists, tuples and dicts with `leaf` applied to all else."""
    if isinstance(value, list):
        return [rebuild(item, leaf) for item in value]
    if isinstance(value, tuple):  # torch.Size and named tuples become plain tuples
        return tuple(rebuild(item, leaf) for item in value)
    if isinstance(value, dict):
        return {key: rebuild(item, leaf) for key, item in value.items()}
    return leaf(value)


class Twins:
    """One sample as two sets of arguments, one for each library, with equal tensors as gradient leaves."""

    def __init__(self, arguments: Any, *, whole_storage: bool = False) -> None:
        self._whole_storage = whole_storage
        self._pairs: dict[int, tuple[torch.Tensor, Any]] = {}
        self._sources: list[torch.Tensor] = []  # keeps ids from being used again
        self.theirs = rebuild(arguments, self._their_leaf)
        self.ours = rebuild(arguments, self._our_leaf)

    def gradient_inputs(self) -> list[tuple[torch.Tensor, Any]]:
        """Pairs (PyTorch's, Extempo's) of the tensors that require a gradient."""
        return [pair for pair in self._pairs.values() if pair[0].requires_grad]

    def _pair(self, tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        if id(tensor) not in self._pairs:
            theirs = copy_with_strides(tensor)
            ours = self._ours(copy_with_strides(tensor))
            if tensor.requires_grad:
                theirs.requires_grad_()
                ours.requires_grad_()
            self._pairs[id(tensor)] = (theirs, ours)
            self._sources.append(tensor)
        return self._pairs[id(tensor)]

    def _ours(self, tensor: torch.Tensor) -> Any:
        """The tensor's memory as an Extempo tensor, for `whole_storage` with what lies before and after it."""
        if not self._whole_storage:
            return ex.from_numpy(to_numpy(tensor))
        storage = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
        return ex.from_numpy(to_numpy(storage)).as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())

    def _their_leaf(self, value: Any) -> Any:
        return self._pair(value)[0] if isinstance(value, torch.Tensor) else value

    def _our_leaf(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._pair(value)[1]
        if value is None or value is Ellipsis or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, slice):
            return slice(*(rebuild(part, self._our_leaf) for part in (value.start, value.stop, value.step)))
        if isinstance(value, torch.device):
            return value.type
        if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
            return counterpart(str(value).removeprefix("torch."))
        if isinstance(value, torch.nn.PairwiseDistance):
            return counterpart("nn.PairwiseDistance")(p=value.norm, eps=value.eps, keepdim=value.keepdim)
        raise Unmappable(f"no counterpart of {type(value).__name__}")


def copy_with_strides(tensor: torch.Tensor) -> torch.Tensor:
    """A leaf with its own copy of the tensor's storage, laid out as the tensor is."""
    tensor = tensor.detach()
    if tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size():
        return tensor.clone()
    storage = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage().clone())
    return storage.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def to_numpy(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The tensor's memory as an array, bfloat16 included."""
    if tensor.dtype is torch.bfloat16:
        return tensor.detach().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy(force=True)  # also of PyTorch's zero gradients that have no memory


def counterpart(path: str) -> Any:
    """Extempo's object of that dotted name."""
    found = lookup(ex, path)
    if found is None:
        raise Unmappable(f"Extempo has no {path}")
    return found


def lookup(module: Any, path: str) -> Any:
    """The attribute of that dotted name, or None, also where it is refused."""
    for part in path.split("."):
        module = getattr(module, part, None)
        if module is None or isinstance(module, RefusedType):
            return None
    return module
