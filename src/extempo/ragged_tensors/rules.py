"""How ops run on ragged tensors: by the rule that the op states as its `ragged` aspect.

A rule gets what `apply` got, of which at least one input is ragged, and runs ordinary ops on the values. What an op
refuses is refused by name. Rules that ops share are here: `elementwise`, `matrices`, and the alignment of regular
tensors with rows. Rules of one subject have a module each: `rowwise` reductions, scans and sorts, `reshaping` views,
`picking` gather, flip and their like, `joining` cat, `products` matrix products, `layers` what layers need.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..core.op import Op, Refuse
from ..core.tensor import Tensor
from ..dispatch.dispatcher import apply, as_input
from ..errors import ShapeError
from ..ops.segments import segment_spread
from .tensor import NEAREST, RaggedTensor, asked_function, refuse

Rule = Callable[[type[Op], tuple[Any, ...], dict[str, Any]], Any]


def lifted(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Run an op of which an input is ragged."""
    if isinstance(op.ragged, Refuse):
        refuse(asked_function())
    rule = named_rule(op.ragged if isinstance(op.ragged, str) else "rowwise.along_rows")
    return rule(op, tuple(x if isinstance(x, RaggedTensor) else as_input(x) for x in inputs), attrs)


@functools.cache
def named_rule(name: str) -> Rule:
    """The rule that ops call by this name: a function here ("elementwise") or in a neighbour ("products.matmul")."""
    module, _, function = name.rpartition(".")
    rule: Rule = getattr(import_module(f"{__package__}.{module or 'rules'}"), function)
    return rule


def common(name: str, inputs: tuple[Any, ...]) -> RaggedTensor:
    """One of the ragged inputs, after a check that all of them have the same rows in the same dimension."""
    given = [x for x in inputs if isinstance(x, RaggedTensor)]
    first = given[0]
    for other in given[1:]:
        if other._rows is first._rows and other._dim == first._dim and other._flat.ndim == first._flat.ndim:
            continue
        if not first._rows.same(other._rows):
            raise ShapeError(
                f"{name}: ragged tensors go together when their rows are of the same lengths, got lengths "
                f"{first._rows.brief()} and {other._rows.brief()}; select or pad rows so that they agree"
            )
        if (other.ndim, other._dim) != (first.ndim, first._dim):
            raise ShapeError(
                f"{name}: the ragged dimensions of {tuple(first.shape)} and {tuple(other.shape)} do not meet; "
                "unsqueeze or transpose one of them"
            )
    return first


def along(x: RaggedTensor, t: Tensor, name: str) -> Tensor:
    """A regular tensor that broadcasts with x, as one that broadcasts with x's values: each row's part repeated."""
    if t.ndim < x.ndim:
        at = t.ndim - (x.ndim - x._dim)  # where the ragged dimension is in t
        if at >= 0 and t.shape[at] != 1:
            _refuse_regular(x, t, name)
        return t
    if t.ndim > x.ndim or t.shape[x._dim] != 1:
        _refuse_regular(x, t, name)
    if t.shape[0] == 1:
        return t.squeeze(0)
    if t.shape[0] != x._rows.n:
        raise ShapeError(
            f"{name}: dimension 0 counts rows, of which there are {x._rows.n} in {tuple(x.shape)} and {t.shape[0]} in "
            f"{tuple(t.shape)}"
        )
    return per_element(x, t.squeeze(x._dim))


def per_element(x: RaggedTensor, t: Tensor) -> Tensor:
    """(B, ...), without the ragged dimension, as values of the rows: the part of each row, once for each element."""
    return from_front(segment_spread(t, *x._rows.segments), x._dim - 1)


def to_front(t: Tensor, dim: int) -> Tensor:
    """The tensor with this dimension first."""
    return t if dim == 0 else t.movedim(dim, 0)


def from_front(t: Tensor, dim: int) -> Tensor:
    """The tensor with its first dimension here."""
    return t if dim == 0 else t.movedim(0, dim)


def _refuse_regular(x: RaggedTensor, t: Tensor, name: str) -> None:
    raise ShapeError(
        f"{name}: a tensor of shape {tuple(t.shape)} does not broadcast with {tuple(x.shape)}: along the ragged "
        f"dimension ({x._dim}) it must have size 1; give it the same rows with ex.ragged, or take x.values()"
    )


def elementwise(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Elements by themselves: those of the values. What is drawn for one follows from its place among them."""
    return _on_values(common(op.name, inputs), op, inputs, attrs)


def _on_values(x: RaggedTensor, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """The op on the values of ragged inputs, and on what regular ones are for them; results in the rows of x."""
    given = []
    for i in inputs:
        if isinstance(i, RaggedTensor):
            given.append(i._flat)
        else:
            given.append(along(x, i, op.name) if isinstance(i, Tensor) else i)
    try:
        out = apply(op, tuple(given), attrs)
    except ShapeError as error:
        shapes = " and ".join(str(tuple(i.shape)) for i in inputs if isinstance(i, Tensor | RaggedTensor))
        raise ShapeError(f"{op.name}: shapes {shapes} do not go together ({error})") from None
    return tuple(map(x.like, out)) if isinstance(out, tuple) else x.like(out)


def arrange(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> RaggedTensor:
    """An order in memory is that of the values, without the rows."""
    x: RaggedTensor = inputs[0]
    return x.like(apply(op, (x._flat,), {"order": tuple(d - 1 for d in attrs["order"] if d)}))


def matrices(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """A function of the last two dimensions, where both are regular: that of the values."""
    x = common(op.name, inputs)
    if x._dim >= x.ndim - 2:
        refuse(f"{asked_function()} of {tuple(x.shape)}", "its last two dimensions must be regular; " + NEAREST)
    return _on_values(x, op, inputs, attrs)


def regular_dims(x: RaggedTensor, dims: tuple[int, ...], name: str) -> tuple[int, ...]:
    """Dimensions of x that are neither 0 nor ragged, as dimensions of its values."""
    for d in dims:
        if d == 0:
            refuse(f"{name} along dimension 0, across rows of different length", NEAREST)
        if d == x._dim:
            refuse(f"{name} along the ragged dimension ({d})", NEAREST)
    return tuple(d - 1 for d in dims)
