"""All operators: importing the families fills the table."""

from __future__ import annotations

from . import (  # noqa: F401 - each registers its operators
    arranging,
    control,
    convolutions,
    draws,
    elementwise,
    indexing,
    losses,
    matrices,
    normalizations,
    pooling,
    quantization,
    recurrent,
    reductions,
    regions,
    resizing,
    sampling_grids,
    signals,
)
from .table import OPERATORS, REFUSED

__all__ = ["OPERATORS", "REFUSED"]
