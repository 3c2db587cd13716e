"""Pairs: values of two sizes of each sample's own, such as what every row has to do with every other one, run together.

The elements of all samples lie end to end, matrix by matrix, as a ragged tensor whose rows are the lines of all
matrices. Elementwise ops run on the elements, what goes along lines by the rules of ragged tensors, what goes along
columns by them as well, on transposed matrices. Products of matrices of each sample's own are made one after the other,
but are one node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...backends.selection import empty
from ...core.context import CONTEXT, switch
from ...core.graph import Node
from ...core.op import Elementwise
from ...core.source_location import user_line
from ...core.storage import Array
from ...core.tensor import Tensor, wrap
from ...core.types import TensorType
from ...dispatch.dispatcher import apply, entry
from ...errors import ExtempoError, UnsupportedError
from ...exporting.sizes import SizeExpr, is_symbolic
from ...func.rules import compute_dtype
from ...ops.view import Detach
from ...ragged_tensors.rules import lifted
from ...ragged_tensors.tensor import RaggedTensor
from ..gradients import BatchRun
from .lanes import Lanes
from .rules import NoRule, each, number_tensor
from .steps import LaneStep
from .values import PAIRS, RAGGED, SHARED, UNIFORM, open_dims, with_pairs, with_rows

_ALONG = frozenset(
    (
        *("softmax", "log_softmax", "sum", "mean", "amax", "amin", "logsumexp", "argmax", "argmin"),
        *("max_with_index", "min_with_index", "prod", "any", "all"),
    )
)

_SMALL = 50_000  # multiplications, up to which NumPy's product takes less time than what is around one of ours


def pairs(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    """An op that reads or makes pairs."""
    rule = _rule_of(step)
    assert rule is not None
    try:
        return rule(step, lanes, list(inputs))
    except (NoRule, ExtempoError, NotImplementedError):
        made = each(step, lanes, inputs)  # raises what the op has against these values, if it is that
        step.rule = each
        return made


def has_rule(step: LaneStep) -> bool:
    """Whether `pairs` may run a step, which has none of its attributes from sizes."""
    return _rule_of(step) is not None and not is_symbolic(step.attrs)


def _rule_of(step: LaneStep) -> Callable[[LaneStep, Lanes, list[Any]], Any] | None:
    if issubclass(step.op, Elementwise) or step.op is Detach:
        return _elementwise
    if step.op.name in _ALONG:
        return _along
    return {"matmul": _matmul, "permute": _permute}.get(step.op.name)


# ---- elements by themselves


def _elementwise(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    if step.form != PAIRS:
        raise NoRule("it makes no pairs")
    compute = compute_dtype(step.op, tuple(step.types), step.attrs)
    for i, x in enumerate(inputs):
        t, form = step.types[i], step.forms[i]
        if isinstance(x, SizeExpr):
            x, t, form = number_tensor(step, lanes, x), TensorType((), step.type.dtype), UNIFORM
        elif not isinstance(t, TensorType):
            continue
        elif form == UNIFORM and compute is not None and not t.shape and t.dtype.category == compute.category:
            x = x.to(compute)  # a 0-dim tensor gives way in promotion; one for each element would not
        inputs[i] = _for_elements(x, form, t, step.type, lanes)
    made = inputs[0].detach() if step.op is Detach else apply(step.op, tuple(inputs), step.attrs)
    return with_pairs(made, step.type, lanes)


def _for_elements(x: Any, form: str, t: TensorType, result: TensorType, lanes: Lanes) -> Tensor:
    """An input so that it broadcasts with the elements of all pairs."""
    n_inner = len(result.shape) - 2
    shape = (*[1] * (len(result.shape) - len(t.shape)), *t.shape)
    lines, columns, inner = shape[0], shape[1], shape[2:]
    if form == PAIRS:
        if (lines, columns) != result.shape[:2]:
            raise NoRule("pairs of other sizes")
        return x._flat
    if form == SHARED:
        if len(t.shape) <= n_inner:
            return x
        if (lines, columns) != (1, 1):
            raise NoRule("one size for all")
        return x.reshape(inner)
    found = lanes.pairs(*result.shape[:2])
    if form == UNIFORM:
        if (lines, columns) != (1, 1):
            raise NoRule("one size for all")
        return x.reshape(lanes.n, *inner).index_select(0, found.samples)
    flat = x._flat
    if (lines, columns) == (result.shape[0], 1):
        return flat.squeeze(1).index_select(0, found.lines.row_of_tensor)
    if (lines, columns) == (1, result.shape[1]):
        return (flat.squeeze(0) if len(t.shape) == len(result.shape) else flat).index_select(0, found.columns)
    raise NoRule("rows of other sizes")


# ---- along lines and columns


def _along(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    t, dim = step.types[0], step.attrs["dim"]
    if step.forms[0] != PAIRS or any(form != SHARED for form in step.forms[1:]):
        raise NoRule("other inputs")
    dims = {dim} if isinstance(dim, int) else {*dim}
    n, m = t.shape[:2]
    x, others = inputs[0], inputs[1:]
    types = step.type if isinstance(step.type, tuple) and not isinstance(step.type, TensorType) else (step.type,)
    if dims == {0, 1}:
        if step.attrs["keepdim"]:
            raise NoRule("dimensions are kept")
        rows = RaggedTensor(x._flat, lanes.pairs(n, m).rows, 1)
        made = lifted(step.op, (rows, *others), {**step.attrs, "dim": (1,)})
    elif 0 not in dims:
        made = lifted(step.op, (x, *others), step.attrs)
    elif dims == {0} and not step.attrs.get("keepdim"):
        turned = RaggedTensor(x._flat.index_select(0, lanes.pairs(n, m).turned), lanes.pairs(m, n).lines, 1)
        made = lifted(step.op, (turned, *others), {**step.attrs, "dim": 1 if isinstance(dim, int) else (1,)})
        back = lanes.pairs(m, n).turned
        made = x.like(made._flat.index_select(0, back)) if isinstance(made, RaggedTensor) else made
    else:
        raise NoRule("lines and something else")
    if not isinstance(made, tuple):
        return _as_value(made, types[0], lanes)
    return tuple([_as_value(one, its_type, lanes) for one, its_type in zip(made, types, strict=True)])


def _as_value(made: Any, t: TensorType, lanes: Lanes) -> Any:
    """What a rule of ragged tensors has given, by the type that the graph says; NoRule if it is another one."""
    dims = open_dims(t)
    if isinstance(made, RaggedTensor):
        found = lanes.pairs(*t.shape[:2]) if dims == [0, 1] else None
        if found is None or made._dim != 1 or not made._rows.same(found.lines):
            raise NoRule("other rows")
        shape, flat = (found.rows.total, *t.shape[2:]), made._flat
        value: Any = with_pairs(flat, t, lanes)
    elif dims == [0]:
        shape, flat = (lanes.rows(t.shape[0]).total, *t.shape[1:]), made
        value = with_rows(made, t, lanes)
    elif not dims:
        shape, flat, value = (lanes.n, *t.shape), made, made
    else:
        raise NoRule("other dimensions")
    if tuple(flat.shape) != shape or flat.dtype is not t.dtype:
        raise NoRule(f"{tuple(flat.shape)} is not {t}")
    return value


def _permute(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    dims, t = step.attrs["dims"], step.types[0]
    if step.form != PAIRS or tuple(dims[:2]) not in ((0, 1), (1, 0)):
        raise NoRule("other dimensions")
    flat = inputs[0]._flat
    if tuple(dims[:2]) == (1, 0):
        flat = flat.index_select(0, lanes.pairs(*t.shape[:2]).turned)
    inner = [0, *[d - 1 for d in dims[2:]]]
    return with_pairs(flat if inner == sorted(inner) else flat.permute(*inner), step.type, lanes)


# ---- products


class Matrices:
    """Where the matrices of each sample are in the memory of all."""

    def __init__(self, t: TensorType, lanes: Lanes) -> None:
        dims = open_dims(t)
        if len(t.shape) != 2 or not dims:
            raise NoRule("no matrices of each sample's own")
        found = lanes.pairs(*t.shape).rows if len(dims) == 2 else lanes.rows(t.shape[dims[0]])
        self._ends = found.offsets.tolist()
        self._by_columns = dims == [1]
        self.shapes = None if len(dims) < 2 else [lanes.numbers(size).tolist() for size in t.shape]

    def of(self, array: Array) -> list[Array]:
        """The matrix of each sample, as a view."""
        ends = self._ends
        if self._by_columns:
            return [array[:, ends[i] : ends[i + 1]] for i in range(len(ends) - 1)]
        parts = [array[ends[i] : ends[i + 1]] for i in range(len(ends) - 1)]
        if self.shapes is None:
            return parts
        return [part.reshape(n, m) for part, n, m in zip(parts, *self.shapes, strict=True)]


class ProductsOfSamples(BatchRun, abstract=True):
    """The node of products of each sample's own matrices; `parts`: the Matrices of both sides and of the result."""

    @classmethod
    def vjp(cls, g: Any, y: Any, a: Any, b: Any, parts: Sequence[Matrices]) -> list[Any]:  # type: ignore[override] # another node
        if CONTEXT.get().grad:
            raise UnsupportedError(
                "backward: create_graph=True through ex.batch, whose gradient is not recorded; use "
                "ex.batch(fn, debug=True) for second derivatives"
            )
        gs = parts[2].of(np.ascontiguousarray(g._array))
        of_a = lambda: _products(gs, [x.T for x in parts[1].of(b._array)], a._type, parts[0])  # noqa: E731 # made if asked
        of_b = lambda: _products([x.T for x in parts[0].of(a._array)], gs, b._type, parts[1])  # noqa: E731
        return [of_a, of_b]

    @classmethod
    def freeing(cls, node: Node) -> None:
        """It has no history of batches."""

    @classmethod
    def freed(cls, node: Node) -> None:
        """What it has saved goes with it."""


def _products(left: list[Array], right: list[Array], t: TensorType, parts: Matrices) -> Tensor:
    """Products of the matrices of each sample, laid out as `parts` says, all of type t."""
    whole = empty(t)
    large = []
    with np.errstate(all="ignore"):
        for out, a, b in zip(parts.of(whole), left, right, strict=True):
            if a.size * b.shape[1] > _SMALL:
                large.append((out, a, b))
            else:
                np.matmul(a, b, out=out)
    if large:
        with switch(grad=False):
            for out, a, b in large:
                product = wrap(a, TensorType(a.shape, t.dtype)) @ wrap(b, TensorType(b.shape, t.dtype))
                out[...] = product._values()
    return wrap(whole, t)


def _matmul(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    """Of matrices of each sample's own."""
    if {*step.forms} - {RAGGED, PAIRS} or step.out_forms[0] not in (RAGGED, PAIRS):
        raise NoRule("one side is the same for all")
    ta, tb, t = *step.types, step.type
    if ta.dtype is not tb.dtype or not ta.dtype.is_floating_point:
        raise NoRule("no floating point numbers")
    parts = [Matrices(one, lanes) for one in (ta, tb, t)]
    a, b = (x._flat.contiguous() for x in inputs)
    dims = open_dims(t)
    if len(dims) == 2:
        shape: tuple[int, ...] = (lanes.pairs(*t.shape).rows.total,)
    else:
        shape = tuple([lanes.rows(size).total if isinstance(size, SizeExpr) else size for size in t.shape])
    made = _products(parts[0].of(a._values()), parts[1].of(b._values()), TensorType(shape, t.dtype), parts[2])
    if CONTEXT.get().grad and (a.requires_grad or b.requires_grad):
        nodes, saved = (a._own_node(), b._own_node()), (entry(1, a), entry(2, b))
        made._history = Node(ProductsOfSamples, nodes, {"parts": parts}, made._type, saved, user_line())
    return with_pairs(made, t, lanes) if len(dims) == 2 else with_rows(made, t, lanes)
