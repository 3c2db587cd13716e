"""Rows of a table by number: embedding, and bags of them.

The number of a row is a value: an int tensor, or simply a Python int or a list of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..core.context import no_grad
from ..core.op import Decomposed, Op, Refuse, Rng, Routine, Sample
from ..core.storage import Array
from ..core.tensor import Tensor, TensorLike, from_array
from ..core.types import InputType, TensorType, count, int64
from ..core.wording import counted
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, IndexRangeError, ShapeError, UnsupportedError

Rows = Tensor | int | Sequence[Any]


def _check_rows(op: str, rows: Any, n_rows: int) -> Array:
    rows = np.asarray(rows)
    if rows.size and (rows.min() < 0 or rows.max() >= n_rows):
        wrong = rows[(rows < 0) | (rows >= n_rows)].flat[0]
        raise IndexRangeError(f"{op}: row {wrong} is out of range for a table of {counted(n_rows, 'row')}")
    return rows


class Embedding(Op):
    """Rows of a table: weight[rows]. The row `padding` gets no gradient; `by_frequency` divides it by a row's uses."""

    family = "index"
    quiet = True
    saves = ("rows", "", "")
    lower = Routine("embedding")
    ragged = "layers.embedding"

    @staticmethod
    def infer(weight: TensorType, rows: InputType, padding: Any, *, by_frequency: bool) -> TensorType:
        if len(weight.shape) != 2:
            raise ShapeError(f"embedding: weight must be (rows, features), got shape {weight.shape}")
        if isinstance(rows, TensorType):
            if rows.dtype.category != 1:
                raise DtypeError(f"embedding: rows must be integers, got {rows.dtype}; use x.long()")
            return TensorType((*rows.shape, weight.shape[1]), weight.dtype)
        if rows is not int:
            raise DtypeError(f"embedding: rows must be integers, got {rows.__name__}")
        return TensorType((weight.shape[1],), weight.dtype)

    @staticmethod
    def numpy(weight: Array, rows: Any, padding: Any, *, by_frequency: bool) -> Array:
        return weight.take(_check_rows("embedding", rows, len(weight)), axis=0)

    @staticmethod
    def vjp(g: Tensor, y: Any, weight: Any, rows: Any, padding: Any, *, by_frequency: bool) -> tuple[Any, ...]:
        return lambda: _table_gradient(g, weight, rows, padding, by_frequency), None, None

    @staticmethod
    def batch(size: int, weight: Tensor, rows: Any, padding: Any, *, by_frequency: bool) -> Tensor:
        # Every sample has its own table: they become one, in which sample i's rows come after those of i - 1.
        n_rows = weight.shape[1]
        first = ops.arange(size) * n_rows
        rows = first + rows if not isinstance(rows, Tensor) else rows + first.reshape(-1, *(1,) * (rows.ndim - 1))
        picked = weight.reshape(size * n_rows, -1)
        if padding is None and not by_frequency:
            return apply(Embedding, (picked, rows, None), {"by_frequency": False})
        return apply(Embedding, (_unpadded(picked, padding, n_rows), rows, None), {"by_frequency": by_frequency})

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        weight = rng.normal(size=(5, 3))
        yield Sample(weight, np.array([[0, 2], [2, 4]]), None, by_frequency=False)
        yield Sample(weight, np.array([1, 1, 3]), None, by_frequency=False)
        yield Sample(weight, 3, None, by_frequency=False)
        yield Sample(weight, np.empty(0, np.int64), None, by_frequency=False)

    @staticmethod
    def onnx(b: Any, weight: Any, rows: Any, padding: Any, *, by_frequency: bool) -> Any:
        return b.Gather(weight, b.cast(b.value(rows, int64), int64), axis=0)


def _unpadded(table: Tensor, padding: int | None, n_rows: int) -> Tensor:
    """Tables one after another, whose padding rows pass no gradient."""
    if padding is None:
        return table
    is_padding = ops.eq(ops.arange(table.shape[0]) % n_rows, padding).unsqueeze(1)
    return ops.where(is_padding, table.detach(), table)


def _table_gradient(g: Tensor, weight: Any, rows: Any, padding: Any, by_frequency: bool) -> Tensor:
    """Rows may be one number, or a symbol of it: it is no tensor before something has to be computed with it."""
    if (padding is not None or by_frequency) and not (isinstance(rows, Tensor) and isinstance(rows._type, TensorType)):
        rows = ops.zeros((), dtype=int64) + rows
    if padding is not None:
        g = ops.where(ops.eq(rows, padding).unsqueeze(-1), 0.0, g)
    if by_frequency:
        ones = ops.zeros((*rows.shape, 1), dtype=g.dtype) + 1.0  # plans of gradients make zeros, and no other constants
        uses = apply(SumRows, (ones, rows), {"n_rows": weight.shape[0]})
        g = g / apply(Embedding, (uses, rows, None), {"by_frequency": False})
    return apply(SumRows, (g, rows), {"n_rows": weight.shape[0]})


class SumRows(Op):
    """A table of n_rows rows, each the sum of the vectors that `rows` sends there: the transpose of embedding."""

    family = "index"
    quiet = True
    saves = ("rows", "")
    lower = Routine("sum_rows")
    ragged = Refuse("rows of a ragged tensor are bags: its function hands over their offsets")

    @staticmethod
    def infer(x: TensorType, rows: InputType, *, n_rows: int) -> TensorType:
        shape = rows.shape if isinstance(rows, TensorType) else ()
        if x.shape[:-1] != shape:
            raise ShapeError(f"sum_rows: vectors of shape {x.shape} for rows of shape {shape}")
        return TensorType((n_rows, x.shape[-1]), x.dtype)

    @staticmethod
    def numpy(x: Array, rows: Any, *, n_rows: int) -> Array:
        rows = _check_rows("sum_rows", rows, n_rows).reshape(-1)
        half = x.dtype.itemsize == 2
        out = np.zeros((n_rows, x.shape[-1]), np.float32 if half else x.dtype)
        if rows.size:
            # Sorted (stably, so that sums keep their order), equal rows are neighbours; ufunc.at is ten times slower.
            order = rows.argsort(kind="stable")
            ordered = rows[order]
            starts = np.flatnonzero(np.diff(ordered, prepend=-1))
            vectors = x.reshape(rows.size, x.shape[-1])[order].astype(out.dtype, copy=False)
            out[ordered[starts]] = np.add.reduceat(vectors, starts, axis=0)
        return out.astype(x.dtype, copy=False)

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, rows: Any, *, n_rows: int) -> tuple[Any, ...]:
        return lambda: apply(Embedding, (g, rows, None), {"by_frequency": False}), None

    @staticmethod
    def batch(size: int, x: Tensor, rows: Any, *, n_rows: int) -> Tensor:
        first = ops.arange(size) * n_rows
        if isinstance(rows, Tensor):
            first = first.reshape(-1, *(1,) * (rows.ndim - 1))
        return apply(SumRows, (x, first + rows), {"n_rows": size * n_rows}).reshape(size, n_rows, -1)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(4, 3)), np.array([0, 2, 2, 4]), n_rows=5)
        yield Sample(rng.normal(size=(3,)), 2, n_rows=5)
        yield Sample(rng.normal(size=(2, 2, 3)), np.array([[1, 0], [1, 1]]), n_rows=2)
        yield Sample(np.empty((0, 3)), np.empty(0, np.int64), n_rows=2)

    @Decomposed
    def onnx(x: Tensor, rows: Any, *, n_rows: int) -> Tensor:
        places = rows.flatten() if isinstance(rows, Tensor) else ops.tensor([rows])
        vectors = x.reshape(count(x._type.shape[:-1]), x._type.shape[-1])
        return ops.zeros(n_rows, x._type.shape[-1], dtype=x.dtype).index_add(0, places, vectors)


def _as_rows(op: str, input: Rows) -> Any:
    """A tensor of integers, or one Python int."""
    if isinstance(input, Tensor) or (isinstance(input, int) and not isinstance(input, bool)):
        return input
    if isinstance(input, TensorLike):
        return input
    rows = ops.as_tensor(input)
    if not rows.numel():
        rows = rows.long()
    if rows.dtype.category != 1:
        raise DtypeError(f"{op}: rows must be integers, got {rows.dtype}; use x.long()")
    return rows


def _padding(op: str, padding_idx: int | None, n_rows: int) -> int | None:
    if padding_idx is None:
        return None
    if not -n_rows <= padding_idx < n_rows:
        raise IndexRangeError(f"{op}: padding_idx {padding_idx} is out of range for a table of {n_rows} rows")
    return padding_idx % n_rows


def _renorm(weight: Tensor, rows: Any, max_norm: float, norm_type: float) -> None:
    """Scale down, in place, the rows used that are longer than max_norm."""
    with no_grad():
        numbers = rows.values() if isinstance(rows, TensorLike) else ops.as_tensor(rows)
        used = from_array(np.unique(_check_rows("embedding", numbers.numpy(), weight.shape[0])))
        table = weight.detach()
        picked = table[used]
        length = ops.norm(picked, norm_type, 1, keepdim=True)
        table[used] = ops.where(ops.gt(length, max_norm), picked * (max_norm / (length + 1e-7)), picked)


def refuse_sparse(op: str, sparse: bool) -> None:
    """A dense gradient in place of a sparse one would move rows that no batch has used, in silence."""
    if sparse:
        raise UnsupportedError(
            f"{op}: sparse=True asks for sparse gradients, and Extempo's are dense; leave it out. Rows that were not "
            "used then have a gradient of 0, by which SGD leaves them as they are; momentum, weight decay and Adam "
            "move them"
        )


def embedding(
    input: Rows,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of the table `weight` (rows, features) for an int, a list or a tensor of ints.

    The row `padding_idx` gets no gradient. `max_norm` scales down, in place, the rows used that are longer than that.
    `sparse=True` is refused: gradients are dense.

    >>> F.embedding(ex.tensor([2, 0]), ex.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]))
    tensor([[3., 3.],
            [1., 1.]])
    """
    refuse_sparse("embedding", sparse)
    rows = _as_rows("embedding", input)
    if weight.ndim != 2:
        raise ShapeError(f"embedding: weight must have shape (rows, features), got {tuple(weight.shape)}")
    padding = _padding("embedding", padding_idx, weight.shape[0])
    if max_norm is not None:
        _renorm(weight, rows, max_norm, norm_type)
    return apply(Embedding, (weight, rows, padding), {"by_frequency": scale_grad_by_freq})


def embedding_bag(
    input: Rows,
    weight: Tensor,
    offsets: Tensor | Sequence[int] | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or max of embeddings over bags: the rows of a 2-dim input, or slices of a 1-dim one from `offsets`.

    Rows equal to `padding_idx` are left out. An empty bag gives zeros. `sparse=True` is refused: gradients
    are dense.

    >>> table = ex.tensor([[1.0, 1.0], [2.0, 2.0], [9.0, 9.0]])
    >>> F.embedding_bag(ex.tensor([0, 1, 2]), table, offsets=ex.tensor([0, 2]), mode="sum")
    tensor([[3., 3.],
            [9., 9.]])
    """
    refuse_sparse("embedding_bag", sparse)
    if isinstance(input, TensorLike):
        from ..ragged_tensors import layers

        options = {"max_norm": max_norm, "norm_type": norm_type, "scale_grad_by_freq": scale_grad_by_freq}
        return layers.embedding_bag(
            input, weight, offsets, per_sample_weights, mode=mode, padding_idx=padding_idx, **options
        )
    rows = ops.as_tensor(_as_rows("embedding_bag", input))
    _check_bags(rows, offsets, mode, per_sample_weights, scale_grad_by_freq)
    if rows.ndim == 2:
        n_bags, longest = rows.shape
        bags = ops.arange(n_bags).unsqueeze(1).expand(n_bags, longest).reshape(-1)
    else:
        bag, n_bags = _bags(ops.as_tensor(offsets).numpy(), rows.shape[0], include_last_offset)
        bags = from_array(bag)
    padding = _padding("embedding_bag", padding_idx, weight.shape[0])
    if max_norm is not None:
        _renorm(weight, rows, max_norm, norm_type)
    flat = rows.reshape(-1)
    weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    if padding is not None:
        kept = ops.ne(flat, padding)
        flat, bags = flat[kept], bags[kept]
        weights = None if weights is None else weights[kept]
    picked = apply(Embedding, (weight, flat, None), {"by_frequency": scale_grad_by_freq})
    if mode == "max":
        return _largest(picked, bags, n_bags)
    if weights is not None:
        picked = picked * weights.unsqueeze(1)
    total = apply(SumRows, (picked, bags), {"n_rows": n_bags})
    if mode == "sum":
        return total
    sizes = apply(SumRows, (ops.ones((flat.shape[0], 1), dtype=total.dtype), bags), {"n_rows": n_bags})
    return total / ops.clamp(sizes, min=1)


def _check_bags(rows: Tensor, offsets: Any, mode: str, weights: Tensor | None, by_frequency: bool) -> None:
    if mode not in ("sum", "mean", "max"):
        raise ShapeError(f"embedding_bag: mode must be 'sum', 'mean' or 'max', got {mode!r}")
    if rows.ndim not in (1, 2):
        raise ShapeError(f"embedding_bag: input must have 1 or 2 dimensions, got shape {tuple(rows.shape)}")
    if (rows.ndim == 1) != (offsets is not None):
        raise ShapeError("embedding_bag: a 1-dim input needs offsets, where its bags begin; a 2-dim input takes none")
    if weights is not None and (mode != "sum" or weights.shape != rows.shape):
        raise ShapeError(
            f"embedding_bag: per_sample_weights needs mode='sum' (got {mode!r}) and the shape of the input, "
            f"{tuple(rows.shape)} (got {tuple(weights.shape)})"
        )
    if mode == "max" and by_frequency:
        raise UnsupportedError("embedding_bag: mode='max' cannot scale gradients by frequency; leave it out")


def _bags(offsets: Array, n_rows: int, include_last_offset: bool) -> tuple[Array, int]:
    """The bag of each row, and how many bags there are."""
    n_bags = len(offsets) - include_last_offset
    if n_bags < 0 or (len(offsets) and (offsets[0] != 0 or offsets[-1] > n_rows or (np.diff(offsets) < 0).any())):
        raise ShapeError(
            f"embedding_bag: offsets must begin with 0 and not fall, up to the {n_rows} rows, got {offsets.tolist()}"
        )
    return np.searchsorted(offsets[:n_bags], np.arange(n_rows), side="right") - 1, n_bags


def _largest(picked: Tensor, bags: Tensor, n_bags: int) -> Tensor:
    """The largest of each bag, feature by feature; the first of equal ones gets the gradient."""
    values, bag = picked.detach().numpy(), bags.numpy()
    where = np.zeros((n_bags, values.shape[1]), np.int64)
    sizes = np.bincount(bag, minlength=n_bags)
    ends = np.cumsum(sizes)
    for i in np.flatnonzero(sizes):
        start = ends[i] - sizes[i]
        where[i] = start + values[start : ends[i]].argmax(0)
    if not values.size:
        return ops.zeros((n_bags, values.shape[1]), dtype=picked.dtype)
    largest = ops.gather(picked, 0, from_array(where))
    return ops.where(from_array(sizes == 0).unsqueeze(1), 0.0, largest)
