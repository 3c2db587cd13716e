"""Rules: how one op runs for all samples.

Values that all samples share go to the op as they are; what has one shape in all samples runs by the op's batching rule
(that of vmap), what has rows of each sample's own by its ragged rule (that of ragged tensors). `own_rules` has those of
ops that need more. Where there is no rule the op runs `each` sample after the other.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.context import CONTEXT
from ...core.op import Elementwise
from ...core.tensor import Tensor, from_array
from ...core.types import TensorType, dtype, get_default_dtype, int64
from ...dispatch.dispatcher import apply
from ...errors import ExtempoError
from ...exporting.sizes import SizeExpr, at_sizes, is_symbolic
from ...func.levels import Level
from ...func.rules import compute_dtype, run_batched
from ...ops.control_flow import ControlOp
from ...ops.segments import segment_spread
from ...ops.view import Detach, Permute
from ...ragged_tensors.rules import from_front, lifted
from ...ragged_tensors.tensor import RaggedTensor
from ..kinds import Input
from ..sizes.by_rows import attrs_of_one_row, attrs_of_rows, is_by_rows
from .lanes import Lanes
from .steps import LaneStep, Rule, is_each
from .values import PAIRS, RAGGED, SHARED, UNIFORM, apart, open_dims, together, with_rows


class NoRule(Exception):
    """The op does not run for all samples at once in this case."""


class NotNow(NoRule):
    """It does not with these values; it may with others."""


def chosen(step: LaneStep) -> Rule:
    """Who runs a step."""
    from .loops import LOOPS
    from .own_rules import OWN_RULES
    from .pairs import has_rule, pairs

    if issubclass(step.op, ControlOp):
        prepare, run = LOOPS[step.op.name]
        prepare(step, chosen)
        return run
    if all(form == SHARED for form in (*step.forms, *step.out_forms)):
        return shared
    if step.op.family == "random":
        raise NoRule(f"{step.op.name} draws")
    if is_each(step):
        return each
    if PAIRS in step.forms or PAIRS in step.out_forms:
        return pairs if has_rule(step) else each
    own = OWN_RULES.get(step.op.name)
    if own is not None:
        return own
    if issubclass(step.op, Elementwise) or step.op is Detach:
        return elementwise
    if RAGGED not in step.forms and RAGGED not in step.out_forms and not is_symbolic(step.attrs):
        return uniform
    return ragged


def shared(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    """An op on what all samples share."""
    return apply(step.op, tuple(inputs), step.attrs) if step.op is not Detach else inputs[0].detach()


# ---- numbers and shapes


def number_tensor(step: LaneStep, lanes: Lanes, x: SizeExpr) -> Tensor:
    """A size of each sample as a tensor that gives way to others as a number would."""
    values = lanes.numbers(x)
    d: dtype = int64 if values.dtype.kind in "iu" else get_default_dtype()
    for t in step.types:
        if isinstance(t, TensorType) and (t.dtype.is_floating_point or not d.is_floating_point):
            d = t.dtype
    return from_array(np.ascontiguousarray(values, d.numpy))


def flat_shape(t: TensorType, lanes: Lanes) -> list[int]:
    """The shape of the values of all samples, end to end."""
    return [lanes.rows(size).total if isinstance(size, SizeExpr) else size for size in t.shape]


def spread_to(x: Tensor, shape: tuple[int, ...], t: TensorType, lanes: Lanes) -> Tensor:
    """What has one shape in all samples, so that it broadcasts with the values of a ragged type."""
    if math.prod(shape) == 0:
        raise NoRule("there are no elements")
    (dim,) = open_dims(t)
    padded = (1,) * (len(t.shape) - len(shape)) + shape
    if padded[dim] != 1:
        raise NoRule("it has rows of its own")
    x = x.reshape(lanes.n, *padded[:dim], *padded[dim + 1 :])
    return from_front(segment_spread(x, *lanes.rows(t.shape[dim]).segments), dim)


# ---- elements by themselves


def elementwise(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    """Elements of all samples by themselves."""
    if step.cache is None:
        step.cache = _preparations(step)
    for i, prepare in step.cache:
        inputs[i] = prepare(inputs[i], lanes)
    made = inputs[0].detach() if step.op is Detach else apply(step.op, tuple(inputs), step.attrs)
    return with_rows(made, step.type, lanes) if step.out_forms[0] == RAGGED else made


def _preparations(step: LaneStep) -> list[tuple[int, Callable[[Any, Lanes], Any]]]:
    """What is to be done to which inputs so that they broadcast with all samples."""
    compute = compute_dtype(step.op, tuple(step.types), step.attrs)
    found: list[tuple[int, Callable[[Any, Lanes], Any]]] = []
    shape: tuple[int, ...]
    for i, (form, t) in enumerate(zip(step.forms, step.types, strict=True)):
        if form == RAGGED:
            own = step.form == RAGGED and _has_rows_of(t, step.type)
            found.append((i, _flat if own else _single_rows))
            if step.form == RAGGED and not own:
                shape = tuple([1 if isinstance(size, SizeExpr) else size for size in t.shape])
                found.append((i, functools.partial(_spread, shape=shape, t=step.type)))
        if form != UNIFORM:
            continue
        shape = ()
        if isinstance(t, TensorType):
            shape = t.shape
            # A 0-dim tensor gives way in promotion; with a dimension of samples it would not.
            gives_way = compute is not None and not shape and t.dtype.category == compute.category
            if gives_way and (i or step.op.name != "where"):
                found.append((i, lambda x, lanes: x.to(compute)))
        else:
            found.append((i, lambda x, lanes: number_tensor(step, lanes, x)))
        if step.form == RAGGED:
            found.append((i, functools.partial(_spread, shape=shape, t=step.type)))
        elif len(shape) < len(step.type.shape):
            ones = (1,) * (len(step.type.shape) - len(shape))
            found.append((i, functools.partial(_with_ones, shape=(*ones, *shape))))
    return found


def _has_rows_of(t: TensorType, result: TensorType) -> bool:
    """Whether an input has the rows of a result, rather than one that goes with all of them."""
    (dim,) = open_dims(result)
    dim_of_input = dim - len(result.shape) + len(t.shape)
    return open_dims(t) == [dim_of_input] and t.shape[dim_of_input] == result.shape[dim]


def _flat(x: RaggedTensor, lanes: Lanes) -> Tensor:
    return x._flat


def _single_rows(x: RaggedTensor, lanes: Lanes) -> Tensor:
    """Rows of one element in each sample, where it was decided that there is one."""
    if (x._rows.lengths != 1).any():
        raise NoRule("not all sizes are 1")
    return x._flat.movedim(x._dim - 1, 0).unsqueeze(x._dim)


def _spread(x: Tensor, lanes: Lanes, shape: tuple[int, ...], t: TensorType) -> Tensor:
    return spread_to(x, shape, t, lanes)


def _with_ones(x: Tensor, lanes: Lanes, shape: tuple[int, ...]) -> Tensor:
    return x.reshape(lanes.n, *shape)


# ---- one shape in all samples


def uniform(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    """By the op's batching rule; most often that is the op itself with one more dimension."""
    if step.cache is None:
        step.cache = _rows_of_samples(step)
    if step.cache:
        attrs = step.cache[0]
        if "shape" in attrs:
            attrs = {**attrs, "shape": (lanes.n, *attrs["shape"][1:])}
        return apply(step.op, tuple(inputs), attrs)
    level = Level(lanes.n, "error")
    given: list[Any] = []
    batched: list[Any] = []
    for x, form in zip(inputs, step.forms, strict=True):
        own = form == UNIFORM
        if own and isinstance(x, SizeExpr):
            raise NoRule("a number of each sample's own")
        given.append(level.wrap(x) if own else x)
        batched.append(given[-1]._source if own else None)
    with level.outside(CONTEXT.get().grad):
        return run_batched(level, step.op, tuple(given), step.attrs, batched, tuple(step.types), step.type)


def _rows_of_samples(step: LaneStep) -> tuple[dict[str, Any]] | tuple[()]:
    """The attributes of the op with one more dimension, if that is all there is to it."""
    which = tuple([i for i, form in enumerate(step.forms) if form == UNIFORM])
    return _direct(step, step.types, step.attrs, which) and (attrs_of_rows(step.op, step.attrs, 0),)


def _direct(step: LaneStep, types: list[Any], row_attrs: dict[str, Any], which: tuple[int, ...]) -> Any:
    slots = tuple([None if i in which or isinstance(t, TensorType) else (step.inputs[i],) for i, t in enumerate(types)])
    if any(isinstance(step.inputs[i], SizeExpr) for i in which):
        return ()
    return () if not is_by_rows(step.op, tuple([Input(t, False) for t in types]), row_attrs, slots, which) else True


# ---- rows of each sample's own


def ragged(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    """Row by row where the op treats rows by themselves, else by the op's ragged rule."""
    if step.cache is None:
        step.cache = _by_rows(step)
    try:
        if step.cache:
            return _on_rows(step, lanes, inputs)
        return _lifted(step, lanes, inputs)
    except (NoRule, ExtempoError, NotImplementedError):
        made = each(step, lanes, inputs)  # raises what the op has against these values, if it is that
        step.rule = each
        return made


def _by_rows(step: LaneStep) -> bool:
    """Whether the open dimension is the first of all that have it, and rows of it are treated by themselves."""
    ragged_inputs = tuple([i for i, form in enumerate(step.forms) if form == RAGGED])
    types = [step.types[i] for i in ragged_inputs]
    results = step.type if isinstance(step.type, tuple) and not isinstance(step.type, TensorType) else (step.type,)
    if not types or UNIFORM in step.forms or any(open_dims(t) != [0] for t in (*types, *results)):
        return False
    size = types[0].shape[0]
    if any(t.shape[0] != size for t in (*types, *results)):
        return False
    if is_symbolic({name: value for name, value in step.attrs.items() if name != "shape"}) or step.op is Permute:
        return False
    attrs = attrs_of_one_row(step.op, step.attrs, size)
    if attrs is None or is_symbolic(attrs):
        return False
    rows = [TensorType(t.shape[1:], t.dtype) if i in ragged_inputs else t for i, t in enumerate(step.types)]
    return bool(_direct(step, rows, attrs, ragged_inputs))


def _on_rows(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    given = [x._flat if isinstance(x, RaggedTensor) else x for x in inputs]
    rows = next(x for x in inputs if isinstance(x, RaggedTensor))
    attrs = step.attrs
    if "shape" in attrs:
        attrs = {**attrs, "shape": (rows._rows.total, *attrs["shape"][1:])}
    made = apply(step.op, tuple(given), attrs)
    return tuple(map(rows.like, made)) if isinstance(made, tuple) else rows.like(made)


def _lifted(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    if is_symbolic(step.attrs) or any(isinstance(x, SizeExpr) for x in inputs) or RAGGED not in step.forms:
        raise NoRule("sizes of its own")
    made = lifted(step.op, tuple(inputs), attrs_of_rows(step.op, step.attrs, lanes.n))
    _check(made, step.type, lanes)
    return made


def _check(made: Any, t: Any, lanes: Lanes) -> None:
    """Whether a ragged rule has given what the graph says."""
    if isinstance(made, tuple):
        for one, its_type in zip(made, t, strict=True):
            _check(one, its_type, lanes)
        return
    dims = open_dims(t)
    if isinstance(made, RaggedTensor):
        fits = dims == [made._dim - 1] and list(made._flat.shape) == flat_shape(t, lanes)
    else:
        fits = not dims and tuple(made.shape) == (lanes.n, *t.shape)
    if not fits or made.dtype is not t.dtype:
        raise NoRule(f"{tuple(made.shape)} is not {t}")


# ---- one sample after the other


def each(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    """The op for one sample after the other."""
    columns = [
        lanes.numbers(x).tolist() if isinstance(x, SizeExpr) else apart(x, form, t, lanes)
        for x, form, t in zip(inputs, step.forms, step.types, strict=True)
    ]
    is_open = is_symbolic(step.attrs)
    results = []
    for i in range(lanes.n):
        attrs = at_sizes(step.attrs, lanes.of(i)) if is_open else step.attrs
        given = tuple([column[i] for column in columns])
        results.append(given[0].detach() if step.op is Detach else apply(step.op, given, attrs))
    if isinstance(step.type, TensorType):
        return together(results, step.type, lanes)
    return tuple([together(part, t, lanes) for part, t in zip(zip(*results, strict=True), step.type, strict=True)])
