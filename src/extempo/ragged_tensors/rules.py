"""How ops run on ragged tensors: a rule for an op or a family, found by name.

A rule gets what `apply` got, of which at least one input is ragged, and runs ordinary ops on the values. What has no
rule is refused by name. Rules of one subject stand together: here those of elementwise ops and slices; `rowwise` has
sums, scans and sorts along rows, `reshaping` views, `picking` gather, flip and their like, `joining` cat, `products`
matrix products, `layers` what layers and losses need.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..core.op import Op
from ..core.tensor import Tensor
from ..dispatch.dispatcher import apply, as_input
from ..errors import IndexRangeError, ShapeError
from ..ops.segments import segment_spread
from .rows import Rows
from .tensor import NEAREST, RaggedTensor, asked_function, refuse

Rule = Callable[[type[Op], tuple[Any, ...], dict[str, Any]], Any]

RULES: dict[str, Rule] = {}  # by name of the op
FAMILIES: dict[str, Rule] = {}  # by name of the family, for ops without a rule of their own
_MODULES = ("rowwise", "reshaping", "picking", "joining", "products", "layers")  # with rules, loaded at the first op
_loaded = False


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Make a function the rule of these ops."""

    def register(fn: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, fn))
        return fn

    return register


def lifted(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Run an op of which an input is ragged."""
    global _loaded
    if not _loaded:
        for name in _MODULES:
            import_module(f"{__package__}.{name}")
        _loaded = True  # only now: another thread may be here
    found = RULES.get(op.name) or FAMILIES.get(op.family)
    if found is None:
        refuse(asked_function())
    return found(op, tuple(x if isinstance(x, RaggedTensor) else as_input(x) for x in inputs), attrs)


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
                f"{brief(first._rows)} and {brief(other._rows)}; select or pad rows so that they agree"
            )
        if (other.ndim, other._dim) != (first.ndim, first._dim):
            raise ShapeError(
                f"{name}: the ragged dimensions of {tuple(first.shape)} and {tuple(other.shape)} do not meet; "
                "unsqueeze or transpose one of them"
            )
    return first


def brief(rows: Rows) -> str:
    """Lengths for a message."""
    lengths = rows.lengths.tolist()
    return str(lengths) if len(lengths) <= 8 else f"[{', '.join(map(str, lengths[:8]))}, ...] ({len(lengths)} rows)"


def require_elements(name: str, rows: Rows, least: int = 1) -> None:
    """Raise if a row has fewer elements than that, naming it."""
    if rows.n and rows.lengths.min() < least:
        row = int((rows.lengths < least).argmax())
        advice = f"select longer rows first, as in x[x.lengths() >= {least}]"
        if least == 1:
            raise ShapeError(f"{name}: row {row} is empty, and so has no {name}; {advice}")
        raise IndexRangeError(f"{name}: row {row} has {rows.lengths[row]} elements, {least} are asked for; {advice}")


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
    """Elements by themselves: those of the values."""
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


FAMILIES["elementwise"] = elementwise


@rule("arrange")
def _arrange(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> RaggedTensor:
    """An order in memory is that of the values, without the rows."""
    x: RaggedTensor = inputs[0]
    return x.like(apply(op, (x._flat,), {"order": tuple(d - 1 for d in attrs["order"] if d)}))


# Not of that family, but of elements by themselves. What is drawn for an element follows from its place in the values.
rule("detach", "alias", "bernoulli", "normal", "poisson", "standard_gamma", "log_standard_gamma")(elementwise)


def of_matrices(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """A function of the last two dimensions, where both are regular: that of the values."""
    x = common(op.name, inputs)
    if x._dim >= x.ndim - 2:
        refuse(f"{asked_function()} of {tuple(x.shape)}", "its last two dimensions must be regular; " + NEAREST)
    return _on_values(x, op, inputs, attrs)


FAMILIES["linalg"] = of_matrices


def regular_dims(x: RaggedTensor, dims: tuple[int, ...], name: str) -> tuple[int, ...]:
    """Dimensions of x that are neither 0 nor ragged, as dimensions of its values."""
    for d in dims:
        if d == 0:
            refuse(f"{name} along dimension 0, across rows of different length", NEAREST)
        if d == x._dim:
            refuse(f"{name} along the ragged dimension ({d})", NEAREST)
    return tuple(d - 1 for d in dims)
