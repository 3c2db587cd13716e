"""Sketches of values: what a heat map and a histogram need, in a few kilobytes whatever the size of a tensor.

A small array is copied, and looked at when somebody asks. Of a large one the summary is made at once, over all of it,
and every so many-th row and column is kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.storage import Array
from ..core.value_summary import Look, summarised

SIDE = 32  # rows and columns of a heat map, at most
BINS = 24
MOST_KEPT = SIDE * SIDE  # elements of an array that is copied whole


class ValueSketch:
    """What is kept of one value."""

    __slots__ = ("_dtype_name", "_kept", "_look", "_shape", "_steps")

    def __init__(self, array: Array, dtype_name: str) -> None:
        self._dtype_name = dtype_name
        self._shape = array.shape
        n_columns = array.shape[-1] if array.ndim > 1 else array.size
        flat_rows = array.reshape(array.size // max(n_columns, 1), n_columns)
        if array.size <= MOST_KEPT and max(flat_rows.shape, default=0) <= MOST_KEPT:
            self._steps = (1, 1)
            self._kept: Any = np.array(flat_rows)
            self._look: Look | None = None
        else:
            self._steps = (_step(flat_rows.shape[0]), _step(flat_rows.shape[1]))
            self._kept = np.array(flat_rows[:: self._steps[0], :: self._steps[1]])
            self._look = summarised(array, dtype_name)

    @property
    def n_bytes(self) -> int:
        return int(self._kept.nbytes)

    def as_json(self) -> dict[str, Any]:
        """Figures, histogram and heat map."""
        kept = self._kept.astype(np.float64)
        look = self._look or summarised(self._kept.reshape(self._shape), self._dtype_name)
        rows = kept[:: _step(kept.shape[0]), :: _step(kept.shape[1])]
        return {
            "text": str(look),
            **{name: getattr(look, name) for name in ("low", "high", "mean", "std", "n_nan", "n_inf", "n_zero")},
            "n": int(np.prod(self._shape)),
            "sampled": self._look is not None,
            "histogram": _histogram(kept),
            "heat": {
                "rows": rows.shape[0],
                "columns": rows.shape[1],
                "values": [[float(f"{x:.5g}") for x in row] for row in rows],
                "row_step": self._steps[0] * _step(kept.shape[0]),
                "column_step": self._steps[1] * _step(kept.shape[1]),
            },
        }


def _step(size: int) -> int:
    """Every so many-th of them makes at most `SIDE`."""
    return max(1, -(-size // SIDE))


def _histogram(values: Any) -> dict[str, list[float]]:
    finite = values[np.isfinite(values)]
    if not finite.size or not np.isfinite(finite.max() - finite.min()):
        return {"edges": [], "counts": []}
    counts, edges = np.histogram(finite, BINS)
    return {"edges": [float(f"{x:.5g}") for x in edges], "counts": [int(n) for n in counts]}
