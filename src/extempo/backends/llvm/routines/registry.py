"""Importing this registers every hand-written routine."""

from __future__ import annotations

from . import (  # noqa: F401 - each registers its own
    arranging,
    attention,
    coins,
    convolution,
    draws,
    extremes,
    gathering,
    layout,
    pooling,
    products,
    recurrence,
    reductions,
    row_attention,
    row_losses,
    rows,
    scans,
    scattering,
    segments,
    selecting,
    standardize,
    triangles,
)
