"""Reading images at computed places: AffineGrid and GridSample."""

from __future__ import annotations

from ...core.tensor import Tensor
from ...nn import functional as F
from .sizes import check_size
from .table import Ints, operator


@operator("AffineGrid")
def affine_grid(theta: Tensor, size: Ints, *, align_corners: int = 0) -> Tensor:
    check_size(size)
    return F.affine_grid(theta, size, align_corners=bool(align_corners))


@operator("GridSample")
def grid_sample(
    x: Tensor, grid: Tensor, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Tensor:
    """Opset 20 renamed the modes."""
    known = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return F.grid_sample(x, grid, mode=known, padding_mode=padding_mode, align_corners=bool(align_corners))
