"""`torch._foreach_*`: one function or method on every tensor of a list, as optimizers of other libraries write it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.tensor import Tensor
from ...linalg import vector_norm

_OTHER_METHOD = {"maximum": "clamp_min", "minimum": "clamp_max"}  # which take numbers too
_SCALED = ("addcmul", "addcdiv")  # whose third argument has a name of its own


def foreach_function(name: str) -> Callable[..., list[Tensor]]:
    """`torch._foreach_<name>`; a name that ends in `_` changes the tensors in place.

    An argument that is a list has one entry for each tensor, any other is for all of them.
    """
    in_place = name.endswith("_")
    plain = name.removesuffix("_")
    method = _OTHER_METHOD.get(plain, plain) + "_" * in_place
    if not hasattr(Tensor, method):
        raise AttributeError(f"module 'torch' has no attribute '_foreach_{name}'", name=f"_foreach_{name}")

    def foreach(tensors: Sequence[Tensor], *args: Any, **kwargs: Any) -> list[Tensor]:
        if plain in _SCALED and len(args) == 3:
            *args, kwargs["value"] = args  # type: ignore[assignment] # a list from here on
        return [
            getattr(tensor, method)(*[_nth(arg, i) for arg in args], **{key: _nth(kwargs[key], i) for key in kwargs})
            for i, tensor in enumerate(tensors)
        ]

    foreach.__name__ = foreach.__qualname__ = f"_foreach_{name}"
    return foreach


def _nth(argument: Any, i: int) -> Any:
    return argument[i] if isinstance(argument, list | tuple) else argument


def foreach_norm(tensors: Sequence[Tensor], ord: float = 2, dtype: Any = None) -> list[Tensor]:
    """The norm of each tensor."""
    return [vector_norm(tensor, ord, dtype=dtype) for tensor in tensors]


# `torch.utils._foreach_utils`: which devices have kernels for lists of tensors.


def _get_foreach_kernels_supported_devices() -> list[str]:
    """None has: one tensor after the other is as fast."""
    return []


_get_fused_kernels_supported_devices = _get_foreach_kernels_supported_devices


def _has_foreach_support(tensors: Sequence[Tensor], device: Any) -> bool:
    return False


def _device_has_foreach_support(device: Any) -> bool:
    return False


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Any]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]:
    """Lists of tensors that belong together, split by the dtype of those in the first; with their places if asked."""
    groups: dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]] = {}
    for i, row in enumerate(
        zip(*(tensors or [None] * len(tensorlistlist[0]) for tensors in tensorlistlist), strict=True)
    ):
        columns, places = groups.setdefault((row[0].device, row[0].dtype), ([[] for _ in tensorlistlist], []))
        for column, value in zip(columns, row, strict=True):
            column.append(value)
        if with_indices:
            places.append(i)
    return groups
