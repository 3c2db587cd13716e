"""PyTorch's result and Extempo's, side by side. Raises Mismatch with one line that says where and how they differ."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

import extempo as ex

from . import excuses
from .convert import leaves, to_numpy

Array = np.ndarray[Any, Any]


class Mismatch(Exception):
    """Extempo's result is not PyTorch's."""


def tolerance(name: str, dtype: str, *, elementwise: bool) -> tuple[float, float]:
    """(relative, absolute) that results of this op and dtype may differ by; 0 for integers and bool."""
    if dtype in excuses.HALF_PRECISION:
        return excuses.HALF_PRECISION[dtype]
    usual = excuses.ELEMENTWISE if elementwise else excuses.DEFAULT
    row = excuses.TOLERANCES.get(name, usual)
    return {"float64": row.float64, "float32": row.float32}.get(dtype, (0.0, 0.0))


def match_structure(theirs: Any, ours: Any, where: str = "result") -> None:
    """Same nesting, names of fields, shapes and dtypes. Values of tensors are left to match_values."""
    if isinstance(theirs, torch.Tensor):
        match_type(theirs, ours, where)
    elif isinstance(theirs, list | tuple):
        if not isinstance(ours, list | tuple) or len(ours) != len(theirs):
            raise Mismatch(f"{where}: expected {len(theirs)} results, got {describe(ours)}")
        for field in field_names(theirs):
            if not hasattr(ours, field):
                raise Mismatch(f"{where}: no field {field!r}")
        for index, (their_item, our_item) in enumerate(zip(theirs, ours, strict=True)):
            match_structure(their_item, our_item, f"{where}[{index}]")
    elif type(theirs) is not type(ours):
        kinds = f"{type(theirs).__name__}, got {type(ours).__name__}"
        raise Mismatch(f"{where}: expected a {kinds} {describe(ours)}")
    elif isinstance(theirs, float):
        if not (math.isclose(theirs, ours, rel_tol=1e-6, abs_tol=1e-7) or (theirs != theirs and ours != ours)):
            raise Mismatch(f"{where}: expected {theirs}, got {ours}")
    elif theirs != ours:
        raise Mismatch(f"{where}: expected {theirs!r}, got {ours!r}")


def field_names(result: Any) -> tuple[str, ...]:
    """Names of a named result's fields, none for a plain tuple."""
    return tuple(getattr(type(result), "__match_args__", ())) if type(result).__module__ == "torch.return_types" else ()


def match_type(theirs: torch.Tensor, ours: Any, where: str) -> None:
    """Ours is a tensor of the same shape and dtype."""
    if not isinstance(ours, ex.Tensor):
        raise Mismatch(f"{where}: expected a tensor, got {describe(ours)}")
    if tuple(ours.shape) != tuple(theirs.shape):
        raise Mismatch(f"{where}: expected shape {tuple(theirs.shape)}, got {tuple(ours.shape)}")
    dtype = dtype_name(theirs)
    if ours.dtype != getattr(ex, dtype, None):
        raise Mismatch(f"{where}: expected dtype {dtype}, got {ours.dtype}")


def match_values(name: str, theirs: Any, ours: Any, *, elementwise: bool, where: str = "result") -> None:
    """Tensors of two results with the same structure hold the same numbers, within the op's tolerance."""
    pairs = [pair for pair in zip(leaves(theirs), leaves(ours), strict=True) if isinstance(pair[0], torch.Tensor)]
    for index, (their_tensor, our_tensor) in enumerate(pairs):
        place = where if len(pairs) == 1 else f"{where} {index}"
        relative, absolute = tolerance(name, dtype_name(their_tensor), elementwise=elementwise)
        match_arrays(to_numpy(their_tensor), our_array(our_tensor), relative, absolute, place)


def match_arrays(theirs: Array, ours: Array, relative: float, absolute: float, where: str) -> None:
    """Equal within tolerance, nan equal to nan, infinities equal by sign."""
    if theirs.shape != ours.shape:
        raise Mismatch(f"{where}: expected shape {theirs.shape}, got {ours.shape}")
    if theirs.size == 0 or np.array_equal(theirs, ours):
        return
    if relative == 0.0 and absolute == 0.0:
        wrong = theirs != ours
        error = np.where(wrong, 1.0, 0.0)
    else:
        expected, actual = theirs.astype(np.float64), ours.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(actual - expected)
            close = (error <= absolute + relative * np.abs(expected)) & np.isfinite(expected)
        close |= (expected == actual) | (np.isnan(expected) & np.isnan(actual))
        wrong = ~close
    if wrong.any():
        worst = np.unravel_index(np.argmax(np.where(wrong, np.nan_to_num(error, nan=np.inf), -1.0)), theirs.shape)
        place = tuple(int(i) for i in worst)
        n_wrong = f"{int(wrong.sum())} of {theirs.size} differ"
        raise Mismatch(f"{where}: {n_wrong}, expected {theirs[worst]}, got {ours[worst]} at {place}")


def our_array(tensor: Any) -> Array:
    """An Extempo tensor's values."""
    try:
        return np.asarray(tensor.detach().numpy())
    except Exception as error:
        raise Mismatch(f"numpy() of the result raises {type(error).__name__}: {error}") from error


def dtype_name(tensor: torch.Tensor) -> str:
    """float32 and so on, the same in both libraries."""
    return str(tensor.dtype).removeprefix("torch.")


def describe(value: Any) -> str:
    """A value in a few words: a tensor by dtype and shape, all else by its text."""
    if isinstance(value, torch.Tensor):
        layout = "" if value.is_contiguous() else f", strides {value.stride()}"
        return f"{dtype_name(value)}{list(value.shape)}{layout}"
    if isinstance(value, ex.Tensor):
        return f"a tensor {tuple(value.shape)}"
    if isinstance(value, list | tuple):
        inside = ", ".join(describe(item) for item in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    if isinstance(value, dict):
        return ", ".join(f"{key}={describe(item)}" for key, item in value.items())
    return repr(value)[:60]
