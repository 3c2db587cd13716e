"""A loop over rows: an op on one row after the other, and the results as one tensor again.

Whether that is ragged follows from what the op does with the ragged dimension, never from the lengths at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..errors import ExtempoError
from .rows import Rows
from .tensor import RaggedTensor

RowFunction = Callable[..., Any]


def each_row(name: str, fn: RowFunction, *parts: Sequence[Any]) -> list[Any]:
    """fn of the first row of all parts, of the second, and so on; an error says which row it was."""
    results = []
    for i, row in enumerate(zip(*parts, strict=True)):
        try:
            results.append(fn(*row))
        except ExtempoError as error:
            raise type(error)(f"{name}: row {i} of shape {tuple(row[0].shape)}: {error}") from None
    return results


def ragged_of(results: Sequence[Tensor], dim: int) -> RaggedTensor:
    """Rows that were computed one by one, at least one; `dim` is ragged, counted with dimension 0."""
    return RaggedTensor(ops.cat(list(results), dim - 1), Rows.of_lengths([y.shape[dim - 1] for y in results]), dim)


def rows_of(x: Any, n: int, ndim: int) -> list[Any]:
    """What belongs to each of n rows: rows of a ragged tensor, samples of a batch, or the same for all.

    A regular tensor of fewer dimensions than `ndim`, or of one sample, is the same for all rows.
    """
    if isinstance(x, RaggedTensor):
        return list(x.unbind())
    if isinstance(x, Tensor) and x.ndim >= ndim:
        return [x.squeeze(0)] * n if x.shape[0] == 1 else list(x.unbind(0))
    return [x] * n


def one_of_none(x: Any) -> Any:
    """A sample of a tensor that has none: what a result would have been computed from."""
    return x._flat if isinstance(x, RaggedTensor) else ops.zeros(x.shape[1:], dtype=x.dtype)


def mapped(name: str, fn: RowFunction, x: RaggedTensor, least: int = 1, keep_empty: bool = False) -> Any:
    """fn of each row by itself, which makes rows that are ragged in the same dimension; several, if it makes several.

    least: a length that fn can take, where there is no row to learn the shape of a result from.
    keep_empty: a row of no elements stays one, without a call.
    """
    at = x._dim - 1

    def joined(results: list[Tensor]) -> RaggedTensor:
        if x._rows.n:
            return ragged_of(results, x._dim)
        return RaggedTensor(results[0].narrow(at, 0, 0), x._rows, x._dim)

    if not keep_empty or not x._rows.n or x._rows.lengths.all():
        return _for_each_result(joined, _results(name, fn, x, least))
    numbers = {i: place for place, i in enumerate(x._rows.lengths.nonzero()[0].tolist())}
    rows = x.unbind()
    found = each_row(name, fn, [rows[i] for i in numbers]) or [_example(fn, x, least)]

    def with_empty(results: list[Tensor]) -> RaggedTensor:
        nothing = results[0].detach().narrow(at, 0, 0)
        return joined([results[numbers[i]] if i in numbers else nothing for i in range(x._rows.n)])

    return _for_each_result(with_empty, found)


def stacked(name: str, fn: RowFunction, x: RaggedTensor, least: int = 1) -> Any:
    """The same for a function whose results all have one shape: (B, ...)."""

    def joined(results: list[Tensor]) -> Tensor:
        whole = ops.stack(results)
        return whole if x._rows.n else whole[:0]

    return _for_each_result(joined, _results(name, fn, x, least))


def _results(name: str, fn: RowFunction, x: RaggedTensor, least: int) -> list[Any]:
    return each_row(name, fn, x.unbind()) if x._rows.n else [_example(fn, x, least)]


def _example(fn: RowFunction, x: RaggedTensor, least: int) -> Any:
    """A result of a row that is not there."""
    shape = list(x._flat.shape)
    shape[x._dim - 1] = least
    with no_grad():
        return fn(ops.zeros(shape, dtype=x.dtype))


def _for_each_result(joined: Callable[[list[Tensor]], Any], results: list[Any]) -> Any:
    if isinstance(results[0], tuple):
        return tuple(joined(list(column)) for column in zip(*results, strict=True))
    return joined(results)
