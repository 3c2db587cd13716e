"""Importing this registers every hand-written routine."""

from __future__ import annotations

from . import (  # noqa: F401 - each registers its own
    arranging,
    convolution,
    extremes,
    gathering,
    layout,
    products,
    reductions,
    rows,
    scattering,
    standardize,
)
