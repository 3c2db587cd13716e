"""`ex.range`, whose end is included: PyTorch keeps it for old programs, and new ones use `arange` or `linspace`."""

from __future__ import annotations

import math
import warnings
from typing import Any, Unpack

import numpy as np

from ..core.tensor import Tensor, from_array
from ..core.types import check_size, get_default_dtype
from ..errors import ShapeError
from .creation import Options, as_numpy_dtype, finish, read_options
from .factories import as_bound

__all__ = ["range"]


def range(start: Any, end: Any, step: Any = 1, *, out: Tensor | None = None, **options: Unpack[Options]) -> Tensor:
    """start, start + step, ... up to `end`, which is included; deprecated, as in PyTorch: use `arange` or `linspace`.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     ex.range(1, 4)
    tensor([1., 2., 3., 4.])
    """
    warnings.warn(
        "range is deprecated, since unlike Python's it includes its end; use ex.arange, which does not",
        UserWarning,
        stacklevel=2,
    )
    first, last, stride = (as_bound(value, "range") for value in (start, end, step))
    d = read_options("range", options, get_default_dtype() if out is None else out.dtype)
    if not all(map(math.isfinite, (first, last, stride))):
        raise ShapeError(f"range: expected finite bounds, got {first}, {last} and a step of {stride}")
    if d.category == 1:
        first, last, stride = int(first), int(last), int(stride)
    if stride == 0:
        raise ShapeError(f"range: the step {step} is 0 in {d}; use another step, or a floating dtype")
    if (last - first) * stride < 0:
        raise ShapeError(f"range: no step of {stride} leads from {first} to {last}; is the sign of step right?")
    n_elements = math.floor((last - first) / stride) + 1
    check_size("range", (n_elements,), 8)
    values = np.arange(n_elements) * stride + first
    return finish(from_array(as_numpy_dtype(values, d)), options, out)
