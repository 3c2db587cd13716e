"""Matrix products: with shared weights one product for all rows, otherwise one for each row.

A product of regular tensors multiplies the matrices of each sample; so does this one. What is shared by all rows has
fewer dimensions than the ragged tensor, or one sample. Where both have samples, the ragged dimension is that of the
result (rows of the left or columns of the right), is summed over (then both have the same rows), or comes before the
matrices. Rows of the left and columns of the right that are both ragged would make a result of two ragged dimensions.
"""

from __future__ import annotations

from typing import Any

from .. import ops
from ..core.op import Op
from ..core.tensor import Tensor, TensorLike
from ..dispatch.dispatcher import apply
from ..errors import ShapeError
from ..ops.products import bilinear as of_tensors
from .per_row import each_row, one_of_none, ragged_of, rows_of
from .rows import Rows
from .rules import along
from .tensor import NEAREST, RaggedTensor, refuse

_TWO_RAGGED = (
    "its result would have two ragged dimensions; F.scaled_dot_product_attention goes on to a result with one, "
    "or loop over the rows: [a @ b for a, b in zip(x, y)]"
)


def linear(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> RaggedTensor:
    """One product of all elements with a weight that all rows share."""
    x, weight, bias = inputs
    if not isinstance(x, RaggedTensor) or isinstance(weight, TensorLike) or isinstance(bias, TensorLike):
        refuse("linear with a ragged weight or bias", "they are shared by all rows; " + NEAREST)
    if x._dim == x.ndim - 1:
        raise ShapeError(
            f"linear: features are the last dimension, which is ragged in {tuple(x.shape)}; transpose it, or give each "
            "element a feature with x.unsqueeze(-1)"
        )
    return x.like(apply(op, (x._flat, weight, bias), attrs))


def matmul(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """a @ b of each sample, where one of both may be shared by all."""
    a, b = inputs
    for x in inputs:
        if isinstance(x, RaggedTensor) and x.ndim < 3:
            refuse(
                f"matmul of rows that are vectors, {tuple(a.shape)} @ {tuple(b.shape)}",
                "make them matrices: x.unsqueeze(1) is (B, 1, *), x.unsqueeze(-1) is (B, *, 1)",
            )
    if isinstance(a, Tensor) and _is_shared(a, b):
        return _shared_left(a.squeeze(0) if a.ndim == b.ndim else a, b)
    if isinstance(b, Tensor) and _is_shared(b, a):
        return _shared_right(a, b.squeeze(0) if b.ndim == a.ndim else b)
    return _per_sample(a, b)


def _is_shared(t: Tensor, x: RaggedTensor) -> bool:
    return t.ndim < x.ndim or (t.ndim == x.ndim and t.shape[0] == 1)


def _shared_right(a: RaggedTensor, b: Tensor) -> RaggedTensor:
    """a @ b, where b has no samples."""
    if a._dim == a.ndim - 1:
        _unequal(a, b)
    if b.ndim > 2:
        _check_lead(a, b, a, b)
    return RaggedTensor(ops.matmul(a._flat, b), a._rows, a._dim)


def _shared_left(a: Tensor, b: RaggedTensor) -> RaggedTensor:
    """a @ b, where a has no samples."""
    if b._dim == b.ndim - 2:
        _unequal(a, b)
    if a.ndim > 2:
        _check_lead(b, a, a, b)
    # A vector on the left takes the place of the matrix's rows.
    return RaggedTensor(ops.matmul(a, b._flat), b._rows, b._dim - (a.ndim == 1 and b._dim == b.ndim - 1))


def _check_lead(x: RaggedTensor, t: Tensor, a: Any, b: Any) -> None:
    """A regular tensor broadcasts along a ragged dimension before the matrices, if it reaches that far."""
    at = t.ndim - (x.ndim - x._dim)
    if x._dim < x.ndim - 2 and at >= 0 and t.shape[at] != 1:
        raise ShapeError(f"matmul: the ragged dimension of {tuple(a.shape)} @ {tuple(b.shape)} has no equal")


def _per_sample(a: Any, b: Any) -> Any:
    """a[i] @ b[i] for each row; one of both may be regular."""
    n, ndim = _check_samples(a, b)
    x = a if isinstance(a, RaggedTensor) else b
    # Of the left rows (-2) and columns (-1), of the right, too; None where it is regular.
    at_a, at_b = (x._dim - ndim if isinstance(x, RaggedTensor) else None for x in (a, b))
    if (at_a is not None and at_a < -2) or (at_b is not None and at_b < -2):
        return _before_matrices(x, a, b)
    if at_a == -2 and at_b == -1:
        refuse(f"matmul {tuple(a.shape)} @ {tuple(b.shape)}", _TWO_RAGGED)
    if at_a == -1 or at_b == -2:
        if (at_a, at_b) != (-1, -2) or not a._rows.same(b._rows):
            _unequal(a, b)
        if not n:
            return ops.matmul(a._flat, b._flat).unsqueeze(0)[:0]
        return ops.stack(each_row("matmul", ops.matmul, a.unbind(), b.unbind()))
    if not n:
        return RaggedTensor(ops.matmul(one_of_none(a), one_of_none(b)), x._rows, x._dim)
    return ragged_of(each_row("matmul", ops.matmul, rows_of(a, n, ndim), rows_of(b, n, ndim)), x._dim)


def _check_samples(a: Any, b: Any) -> tuple[int, int]:
    """The number of rows and of dimensions, which both have."""
    if a.ndim != b.ndim:
        refuse(
            f"matmul {tuple(a.shape)} @ {tuple(b.shape)}",
            "dimension 0 counts the rows, so both need as many dimensions; unsqueeze one of them behind dimension 0",
        )
    if a.shape[0] != b.shape[0]:
        raise ShapeError(
            f"matmul: dimension 0 counts rows, of which there are {a.shape[0]} in {tuple(a.shape)} and {b.shape[0]} in "
            f"{tuple(b.shape)}"
        )
    return a.shape[0], a.ndim


def _before_matrices(x: RaggedTensor, a: Any, b: Any) -> RaggedTensor:
    """The ragged dimension is one more dimension of samples: a matrix for each element."""
    for other in (a, b):
        if isinstance(other, RaggedTensor) and (other._dim != x._dim or not other._rows.same(x._rows)):
            raise ShapeError(
                f"matmul: the ragged dimensions of {tuple(a.shape)} @ {tuple(b.shape)}, with lengths {a._rows.brief()} "
                f"and {b._rows.brief()}, do not meet"
            )
    flats = [t._flat if isinstance(t, RaggedTensor) else along(x, t, "matmul") for t in (a, b)]
    return RaggedTensor(ops.matmul(*flats), x._rows, x._dim)


def _unequal(a: Any, b: Any) -> None:
    raise ShapeError(
        f"matmul: inner sizes differ, {_described(a)} @ {_described(b)}: a ragged size is equal to one of the same "
        "lengths only; transpose one of them, or give both the same rows"
    )


def _described(x: Any) -> str:
    return f"{tuple(x.shape)} with lengths {x._rows.brief()}" if isinstance(x, RaggedTensor) else str(tuple(x.shape))


def bilinear(input1: Any, input2: Any, weight: Tensor, bias: Tensor | None) -> Any:
    """F.bilinear of ragged tensors (B, *, in1) and (B, *, in2)."""
    both = (input1, input2)
    if not all(isinstance(x, RaggedTensor) for x in both) or input1.shape[:-1] != input2.shape[:-1]:
        raise ShapeError(
            f"bilinear: expected two ragged tensors of the same rows, (B, *, in1) and (B, *, in2), got "
            f"{_described(input1)} and {_described(input2)}"
        )
    if input1._dim == input1.ndim - 1:
        raise ShapeError(f"bilinear: features are the last dimension, which is ragged in {tuple(input1.shape)}")
    return input1.like(of_tensors(input1._flat, input2._flat, weight, bias))


# ---- einsum


def einsum(equation: str, sources: list[tuple[str, ...]], result: tuple[str, ...], operands: list[Any]) -> Any:
    """einsum with ragged operands: rows by the label of dimension 0, and one label that is ragged.

    sources, result: the labels of the dimensions of operands and of the result.
    """
    ragged = [(x, labels) for x, labels in zip(operands, sources, strict=True) if isinstance(x, RaggedTensor)]
    first, row_label = ragged[0][0], ragged[0][1][0]
    places = {labels[x._dim] for x, labels in ragged}
    if any(labels[0] != row_label for _, labels in ragged) or any(labels.count(row_label) > 1 for labels in sources):
        refuse(f"einsum {equation!r}", "dimension 0 of all ragged operands must have one label, that of the rows")
    if len(places) > 1:
        refuse(f"einsum {equation!r} with two ragged labels", _TWO_RAGGED)
    (along_rows,) = places
    if any(not x._rows.same(first._rows) for x, _ in ragged):
        raise ShapeError(f"einsum: the lengths of ragged label {along_rows!r} in {equation!r} differ")
    regular = [labels for x, labels in zip(operands, sources, strict=True) if isinstance(x, Tensor)]
    if any(along_rows in labels for labels in regular) or any(row_label in labels[1:] for labels in regular):
        raise ShapeError(
            f"einsum: in {equation!r} a regular operand has the ragged label {along_rows!r}, or that of the rows, "
            f"{row_label!r}, in another dimension than 0; make it ragged, or transpose it"
        )
    if row_label in result[1:] or (along_rows in result and row_label not in result):
        refuse(f"einsum {equation!r}", "rows stay rows: their label comes first in the result")
    rowless = [labels[1:] if labels[:1] == (row_label,) else labels for labels in sources]
    row_result = tuple(label for label in result if label != row_label)
    text = ",".join("".join(_letters(labels)) for labels in rowless) + "->" + "".join(_letters(row_result))
    shared_only = not any(row_label in labels for labels in regular)
    if shared_only and (along_rows in result or row_label not in result):
        # Rows and elements in rows are one dimension of the values.
        flat = ops.einsum(text, *(x._flat if isinstance(x, RaggedTensor) else x for x in operands))
        if row_label not in result:
            return flat
        return RaggedTensor(flat, first._rows, result.index(along_rows))
    return _einsum_by_row(text, operands, rowless, sources, result, along_rows, first._rows)


def _letters(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Labels of `...` are digits, counted from the right: written as `...` again."""
    digits = [label for label in labels if not label.isalpha()]
    return tuple("..." if label in digits else label for label in labels if label.isalpha() or label in digits[:1])


def _einsum_by_row(
    text: str,
    operands: list[Any],
    rowless: list[tuple[str, ...]],
    sources: list[tuple[str, ...]],
    result: tuple[str, ...],
    along_rows: str,
    rows: Rows,
) -> Any:
    def own(x: Any, without: tuple[str, ...], labels: tuple[str, ...]) -> list[Any]:
        if without is labels:
            return [x] * max(rows.n, 1)
        return rows_of(x, rows.n, x.ndim) if rows.n else [one_of_none(x)]

    parts = [own(*one) for one in zip(operands, rowless, sources, strict=True)]
    for x, part in zip(operands, parts, strict=True):
        if len(part) != max(rows.n, 1):
            raise ShapeError(f"einsum: {rows.n} rows, but an operand of shape {tuple(x.shape)} has {len(part)}")
    found = each_row("einsum", lambda *row: ops.einsum(text, *row), *parts)
    if along_rows in result:
        dim = result.index(along_rows)
        return ragged_of(found, dim) if rows.n else RaggedTensor(found[0], rows, dim)
    whole = ops.stack(found) if rows.n else found[0].unsqueeze(0)[:0]
    return whole if len(result) == whole.ndim else whole.sum(0)
