"""`look`: what is in a tensor, in one line."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.debuggers import looking
from ..core.tensor import Tensor, TensorLike
from ..core.value_summary import Look, summarised
from ..errors import DtypeError


def look(t: Any) -> Look:
    """Shape, range, mean, spread, nan, infinities, zeros and a tiny histogram of a tensor's values, in one line.

    `print(tensor)` of a tensor that is too large to be shown whole ends with that line, too.

    >>> ex.inspect.look(ex.arange(12.0).reshape(3, 4))
    float32 (3, 4), 0 .. 11, mean 5.5, std 3.452, 1 zeros (8%)  █▄█▄▄█▄█
    >>> ex.inspect.look(ex.tensor([1.0, float("nan"), float("inf")]))
    float32 (3,), all 1, 1 nan (33%), 1 inf (33%)
    """
    flat = t._flat if isinstance(t, TensorLike) else t
    if isinstance(flat, np.ndarray):
        return summarised(flat, str(flat.dtype))
    if not isinstance(flat, Tensor):
        raise DtypeError(
            f"look: expected a tensor, got {type(t).__name__}; of a model, look at model.named_parameters()"
        )
    with looking():
        array = flat._values()
    return summarised(array, str(flat.dtype).rpartition(".")[2])
