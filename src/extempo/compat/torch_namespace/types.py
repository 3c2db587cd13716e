"""`torch.types` and `torch.nn.common_types`: names for annotations."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import IO, Any, TypeAlias, TypeVar

from ...core.device import device
from ...core.tensor import Tensor
from ...core.types import Size, dtype

__all__ = ["Device", "Number", "Size", "Storage", "Tensor"]

Device: TypeAlias = device | str | int | None
Number: TypeAlias = int | float | bool
Storage: TypeAlias = Any
_dtype, _device, _size, _int, _float, _bool = dtype, device, Size, int, float, bool

_T = TypeVar("_T")
_scalar_or_tuple_any_t: TypeAlias = _T | tuple[_T, ...]
_scalar_or_tuple_1_t: TypeAlias = _T | tuple[_T]
_scalar_or_tuple_2_t: TypeAlias = _T | tuple[_T, _T]
_scalar_or_tuple_3_t: TypeAlias = _T | tuple[_T, _T, _T]
_size_any_t = _scalar_or_tuple_any_t[int]
_size_1_t = _scalar_or_tuple_1_t[int]
_size_2_t = _scalar_or_tuple_2_t[int]
_size_3_t = _scalar_or_tuple_3_t[int]
_size_any_opt_t = _scalar_or_tuple_any_t[int | None]
_size_2_opt_t = _scalar_or_tuple_2_t[int | None]
_size_3_opt_t = _scalar_or_tuple_3_t[int | None]
_ratio_any_t = _scalar_or_tuple_any_t[float]
_ratio_2_t = _scalar_or_tuple_2_t[float]
_ratio_3_t = _scalar_or_tuple_3_t[float]
_tensor_list_t = _scalar_or_tuple_any_t[Tensor]
_maybe_indices_t = _scalar_or_tuple_2_t[Tensor]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
FileLike: TypeAlias = str | PathLike[str] | IO[bytes]
IntLikeType, FloatLikeType, BoolLikeType = int, float, bool
