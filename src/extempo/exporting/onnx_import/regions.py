"""Regions of images: RoiAlign, MaxRoiPool, NonMaxSuppression."""

from __future__ import annotations

import functools
import math

import numpy as np

from ... import ops
from ...core.storage import Array
from ...core.tensor import Tensor, from_array
from ...errors import ArgumentError, ShapeError
from .sizes import check_size
from .table import Fixed, Floats, Ints, operator

MAX_SAMPLES = 1024  # along one side of a cell


@operator("RoiAlign")
def roi_align(
    x: Tensor, rois: Fixed, batch_indices: Ints, *, coordinate_transformation_mode: str | None = None,
    mode: str = "avg", output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0,
    spatial_scale: float = 1.0, opset: int,
) -> Tensor:  # fmt: skip
    """Bilinear samples of each cell of each region."""
    shifted = coordinate_transformation_mode or ("half_pixel" if opset >= 16 else "output_half_pixel")
    offset = 0.5 if shifted == "half_pixel" else 0.0
    boxes = rois.detach().numpy().astype(np.float64) * spatial_scale - offset
    if boxes.shape != (len(batch_indices), 4):
        raise ShapeError(f"rois must be ({len(batch_indices)}, 4), one for each batch index, got {boxes.shape}")
    check_size((len(boxes), x.shape[1], output_height, output_width), x.element_size())
    found = []
    for (left, top, right, bottom), image in zip(boxes, batch_indices, strict=True):
        rows = _samples(top, bottom, output_height, x.shape[2], sampling_ratio, bool(offset))
        columns = _samples(left, right, output_width, x.shape[3], sampling_ratio, bool(offset))
        check_size((x.shape[1], rows[0][0].size, columns[0][0].size), x.element_size())
        corners = [_corner(x[image], y, z) for y in rows for z in columns]
        cell = (x.shape[1], output_height, rows[0][0].shape[1], output_width, columns[0][0].shape[1])
        if mode == "avg":
            found.append(functools.reduce(ops.add, corners).reshape(cell).mean((2, 4)))
        else:  # of the weighted pixels, not of what is interpolated from them: so the format's own reference
            found.append(functools.reduce(ops.maximum, corners).reshape(cell).amax((2, 4)))
    return ops.stack(found) if found else ops.zeros(0, x.shape[1], output_height, output_width, dtype=x.dtype)


Side = tuple[Array, Array]  # which pixels are read along one side, (cells, samples in a cell), and with what weight


def _corner(image: Tensor, rows: Side, columns: Side) -> Tensor:
    """One of the four pixels around each place, with its weight."""
    (y, of_y), (z, of_z) = rows, columns
    pixels = image.index_select(1, from_array(y.reshape(-1))).index_select(2, from_array(z.reshape(-1)))
    return pixels * from_array(np.outer(of_y, of_z)).to(image.dtype)


def _samples(start: float, end: float, n_cells: int, size: int, ratio: int, may_be_small: bool) -> tuple[Side, Side]:
    """The pixels before and after the places at which one side of a region is read."""
    extent = end - start if may_be_small else max(end - start, 1.0)
    if n_cells < 1 or ratio < 0 or not math.isfinite(extent):
        raise ArgumentError("a region must have finite corners, a positive output size and no negative sampling_ratio")
    n = max(1, ratio if ratio > 0 else math.ceil(extent / n_cells))
    if n > MAX_SAMPLES:
        raise ShapeError(f"a region of {extent} by {n_cells} cells would be read at {n} places in each; check the rois")
    cell = extent / n_cells
    at = start + np.arange(n_cells)[:, None] * cell + (np.arange(n)[None] + 0.5) * cell / n
    inside = (at >= -1.0) & (at <= size)
    at = np.clip(at, 0.0, size - 1)
    low = np.floor(at).astype(np.int64)
    high = np.minimum(low + 1, size - 1)
    return (low, (1 - (at - low)) * inside), (high, (at - low) * inside)


@operator("MaxRoiPool")
def max_roi_pool(x: Tensor, rois: Fixed, *, pooled_shape: Ints, spatial_scale: float = 1.0) -> Tensor:
    """The largest value of each cell of each region (image, x1, y1, x2, y2); cells of no pixel give 0."""
    height, width = pooled_shape
    check_size((rois.shape[0], x.shape[1], height, width), x.element_size())
    found = []
    for image, *corners in rois.detach().tolist():
        left, top, right, bottom = (math.floor(c * spatial_scale + 0.5) for c in corners)
        rows = _cells(top, bottom, height, x.shape[2])
        columns = _cells(left, right, width, x.shape[3])
        zero = ops.zeros(x.shape[1], dtype=x.dtype)
        cells = [
            x[int(image), :, a:b, c:d].amax((1, 2)) if a < b and c < d else zero for a, b in rows for c, d in columns
        ]
        found.append(ops.stack(cells, -1).reshape(x.shape[1], height, width))
    return ops.stack(found) if found else ops.zeros(0, x.shape[1], height, width, dtype=x.dtype)


def _cells(start: int, end: int, n: int, size: int) -> list[tuple[int, int]]:
    each = max(end - start + 1, 1) / n
    bounds = [(math.floor(i * each) + start, math.ceil((i + 1) * each) + start) for i in range(n)]
    return [(min(max(a, 0), size), min(max(b, 0), size)) for a, b in bounds]


@operator("NonMaxSuppression")
def non_max_suppression(
    boxes: Tensor, scores: Tensor, max_output_boxes_per_class: Ints | None = None, iou_threshold: Floats | None = None,
    score_threshold: Floats | None = None, *, center_point_box: int = 0,
) -> Tensor:  # fmt: skip
    """For each image and class the boxes with the best scores that overlap no better one by more than a threshold."""
    limit = max_output_boxes_per_class[0] if max_output_boxes_per_class else 0
    overlap = iou_threshold[0] if iou_threshold else 0.0
    least = score_threshold[0] if score_threshold else None
    corners, marks = boxes.detach().numpy().astype(np.float64), scores.detach().numpy()
    if corners.ndim != 3 or marks.ndim != 3 or corners.shape[2] != 4 or marks.shape[2] != corners.shape[1]:
        raise ShapeError(
            f"expected boxes (images, n, 4) and scores (images, classes, n), got {corners.shape}, {marks.shape}"
        )
    if center_point_box:
        centre, half = corners[..., :2], corners[..., 2:] / 2
        corners = np.concatenate([centre - half, centre + half], -1)
    low, high = np.minimum(corners[..., :2], corners[..., 2:]), np.maximum(corners[..., :2], corners[..., 2:])
    found = []
    for image, of_classes in enumerate(marks):
        for label, of_boxes in enumerate(of_classes):
            order = [int(i) for i in np.argsort(-of_boxes, kind="stable") if least is None or of_boxes[i] > least]
            kept: list[int] = []
            for i in order:
                if len(kept) >= limit:
                    break
                if all(_overlap(low[image], high[image], i, j) <= overlap for j in kept):
                    kept.append(i)
            found += [(image, label, i) for i in kept]
    return from_array(np.array(found, np.int64).reshape(-1, 3))


def _overlap(low: Array, high: Array, i: int, j: int) -> float:
    """The intersection of two boxes, of their union."""
    sides = np.maximum(0.0, np.minimum(high[i], high[j]) - np.maximum(low[i], low[j]))
    common = float(sides.prod())
    union = float((high[i] - low[i]).prod() + (high[j] - low[j]).prod()) - common
    return common / union if union > 0 else 0.0
