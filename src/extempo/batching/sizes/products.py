"""Matrix products of which both sides are a call's own, of any sizes: one after the other, with nothing around them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.storage import Array
from ...core.tensor import Tensor, wrap
from ...core.types import TensorType, float32, float64
from ..gradients import Group, Layout
from ..op_kinds import OpKind
from ..sharing import row_major
from .forms import SizedBatch, numels
from .tape import recorded
from .views import pieces_of


class ProductForm(NamedTuple):
    """a @ b, matrices with the same leading dimensions."""

    dtype: Any
    tracked: tuple[bool, bool]

    @property
    def family(self) -> Any:
        return tuple(self)

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        dtype, tracked = batch.kind.family
        sides = [[wrapped(batch.whole(call, j), dtype) for call in range(len(batch.kinds))] for j in range(2)]
        made = recorded(False, lambda: [a @ b for a, b in zip(*sides, strict=True)])
        batch.run.values.add_each(batch.firsts.tolist(), row_major([y._values() for y in made]))
        of_results = numels([y._type.shape for y in made])
        layouts: list[Layout | None] = [
            Layout(numels([x._type.shape for x in xs])) if t else None for xs, t in zip(sides, tracked, strict=True)
        ]
        return batch.group(_RUNNER, (*sides, of_results, tracked), of_results, layouts)


def wrapped(array: Array, dtype: Any) -> Tensor:
    return wrap(array, TensorType(array.shape, dtype))


def product_form(kind: OpKind) -> ProductForm | None:
    if kind.op.name != "matmul" or kind.captured or len(kind.inputs) != 2:
        return None
    a, b = kind.inputs
    dtypes = {a.type.dtype, b.type.dtype}
    if len(dtypes) != 1 or not dtypes <= {float32, float64} or len(a.type.shape) < 2:
        return None
    if len(a.type.shape) != len(b.type.shape) or a.type.shape[:-2] != b.type.shape[:-2]:
        return None
    return ProductForm(a.type.dtype, (a.tracked, b.tracked))


class _ProductRunner:
    """Gradients of products."""

    def backward(self, saved: Any, gradients: list[Array | None]) -> tuple[list[Array | None], Any]:
        left, right, counts, tracked = saved
        (g,) = gradients
        assert g is not None  # a batch without gradients is passed over
        return recorded(False, lambda: _gradients(left, right, pieces_of(g.reshape(-1), counts), tracked)), []

    def finish(self, deferred: list[Any]) -> list[tuple[Tensor, Array]]:
        return []


def _gradients(left: list[Tensor], right: list[Tensor], gradients: list[Array], tracked: Any) -> list[Array | None]:
    dtype = left[0].dtype
    of_each = [
        wrapped(g.reshape(*a._type.shape[:-1], b._type.shape[-1]), dtype)
        for a, b, g in zip(left, right, gradients, strict=True)
    ]
    made: list[Array | None] = [None, None]
    if tracked[0]:
        made[0] = _joined([g @ b.mT for g, b in zip(of_each, right, strict=True)])
    if tracked[1]:
        made[1] = _joined([a.mT @ g for a, g in zip(left, of_each, strict=True)])
    return made


def _joined(parts: list[Tensor]) -> Array:
    return np.concatenate([part._values().reshape(-1) for part in parts])


_RUNNER = _ProductRunner()
