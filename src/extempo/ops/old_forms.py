"""Calls from before `alpha=`, `beta=` and `value=` were keywords: `x.add_(2, y)`, `addmm(beta, x, alpha, a, b)`.

PyTorch still takes them, and old scripts have them. A function has `*_old` for what such a call gives it too much, and
asks here what was meant; in other calls it is empty.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..core.source_location import user_stacklevel
from ..core.tensor import Tensor
from ..core.types import Number


def scaled(op: str, keyword: str, *args: Any) -> tuple[Any, ...]:
    """The number that is a keyword today, and the tensors after it: of `x.addcmul_(2, a, b)`, (2, a, b).

    args: all positional arguments but the first, the tensor that is added to.
    """
    number, *tensors = args
    if not _is_number(number) or len(tensors) != (1 if keyword == "alpha" else 2) or not _are_tensors(tensors):
        raise TypeError(
            f"{op}: expected {len(args)} positional arguments or fewer, got {len(args) + 1}; {keyword} is a keyword, "
            f"{op}(..., {keyword}={number if _is_number(number) else args[-1]!r})"
        )
    _warn(op, f"{op}(..., {keyword}={number})")
    return _plain(number), *tensors


def product(op: str, *args: Any) -> tuple[Any, Any, Any, Number, Number]:
    """(input, left, right, beta, alpha) of `addmm(beta, input, alpha, left, right)`.

    As a method it is `input.addmm(beta, alpha, left, right)`; the number alpha may be left out.
    """
    numbers = [_plain(x) for x in args if _is_number(x)]
    tensors = [x for x in args if not _is_number(x)]
    if len(numbers) > 2 or len(tensors) != 3 or not _are_tensors(tensors) or any(map(_is_number, args[-2:])):
        raise TypeError(
            f"{op}: expected 3 tensors by position, got {len(args)} arguments; beta and alpha are keywords, "
            f"{op}(input, left, right, beta=1, alpha=1)"
        )
    beta, alpha = (*numbers, 1)[:2]
    _warn(op, f"{op}(..., beta={beta}, alpha={alpha})")
    return tensors[0], tensors[1], tensors[2], beta, alpha


def _is_number(x: Any) -> bool:
    return not x.ndim if isinstance(x, Tensor) else isinstance(x, Number | np.number)


def _are_tensors(values: list[Any]) -> bool:
    return all(isinstance(x, Tensor) for x in values)


def _plain(number: Any) -> Any:
    return number.item() if isinstance(number, Tensor) else number


def _warn(op: str, today: str) -> None:
    warnings.warn(
        f"{op}: this order of arguments is deprecated; write {today}", UserWarning, stacklevel=user_stacklevel()
    )
