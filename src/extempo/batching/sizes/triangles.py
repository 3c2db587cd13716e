"""tril and triu of matrices of a call's own size: zeros put where the op puts them, in all of them at once."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ...core.storage import Array
from ...core.tensor import Tensor
from ...core.types import TensorType
from ..gradients import Group, Layout
from ..op_kinds import OpKind
from .forms import SizedBatch


class TriangleForm(NamedTuple):
    """A triangle of the last two dimensions."""

    dtype: Any
    tracked: bool
    keeps: tuple[Any, ...]  # which elements of a matrix: what `_kept` takes
    n_matrices: int

    @property
    def family(self) -> Any:
        return self[:2]

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        counts = np.array([one.inputs[0].type.numel() for one in batch.kinds], np.int64)
        dtype = batch.kind.results[0].dtype
        keeps = [np.tile(_kept(*one.form.keeps), one.form.n_matrices) for one in batch.kinds]
        kept = np.concatenate(keeps)
        batch.leave(0, counts, _masked(batch.pieces(0, counts, TensorType((), dtype)), kept))
        return batch.group(_RUNNER, kept, counts, [Layout(counts)])


def triangle_form(kind: OpKind) -> TriangleForm | None:
    if len(kind.inputs) != 1 or kind.slots[1] is None:
        return None
    i = kind.inputs[0]
    *lead, n_rows, n_columns = i.type.shape
    keeps = n_rows, n_columns, kind.slots[1][0], kind.op.name == "tril"
    return TriangleForm(i.type.dtype, i.tracked, keeps, math.prod(lead))


@functools.lru_cache(256)
def _kept(n_rows: int, n_columns: int, diagonal: int, is_lower: bool) -> Array:
    lower = np.tri(n_rows, n_columns, diagonal if is_lower else diagonal - 1, bool).reshape(-1)
    return lower if is_lower else ~lower


def _masked(x: Array, kept: Array) -> Array:
    made: Array = np.where(kept, x.reshape(-1), x.dtype.type(0))
    return made


class _TriangleRunner:
    """Gradients of triangles."""

    def backward(self, saved: Any, gradients: list[Array | None]) -> tuple[list[Array | None], Any]:
        (g,) = gradients
        assert g is not None  # a batch without gradients is passed over
        return [_masked(g, saved)], []

    def finish(self, deferred: list[Any]) -> list[tuple[Tensor, Array]]:
        return []


_RUNNER = _TriangleRunner()
