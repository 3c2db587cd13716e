"""Rules of ops that have a way of their own for samples of any size: views, picks, products, losses, recurrences."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.storage import Array
from ...core.tensor import Tensor, from_array
from ...dispatch.dispatcher import apply
from ...errors import IndexRangeError
from ...exporting.sizes import SizeExpr, is_symbolic
from ...ops.row_attention import RowAttention
from ...ops.segments import SegmentLogSoftmax, segment_dot, segment_sum
from ...ragged_tensors.recurrent import Packing, packing_of
from ...ragged_tensors.rows import Rows
from ...ragged_tensors.tensor import RaggedTensor
from .lanes import Lanes
from .rules import NoRule, NotNow, each, flat_shape, ragged, spread_to, uniform
from .steps import LaneStep, Rule
from .values import RAGGED, SHARED, UNIFORM, open_dims, with_rows

OWN_RULES: dict[str, Rule] = {}


def own_rule(*names: str) -> Callable[[Rule], Rule]:
    """The rule of these ops; where it has no way, the general ones run."""

    def register(rule: Rule) -> Rule:
        @functools.wraps(rule)
        def run(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
            try:
                return rule(step, lanes, inputs)
            except NotNow:
                general = _general(step)
            except NoRule:
                general = step.rule = _general(step)
            return general(step, lanes, inputs)

        for name in names:
            OWN_RULES[name] = run
        return run

    return register


def _general(step: LaneStep) -> Rule:
    if any(isinstance(x, SizeExpr) for x in step.inputs) or is_symbolic(step.attrs):
        return each
    return ragged if RAGGED in step.forms or RAGGED in step.out_forms else uniform


# ---- views


@own_rule("expand")
def expand(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    """Dimensions of size 1 repeated, also to a size of each sample's own."""
    (x,), (form,) = inputs, step.forms
    if step.form != RAGGED:
        raise NoRule
    if form == UNIFORM:
        x = spread_to(x, step.types[0].shape, step.type, lanes)
    elif form == RAGGED:
        x = x._flat
    return with_rows(apply(step.op, (x,), {"shape": tuple(flat_shape(step.type, lanes))}), step.type, lanes)


@own_rule("reshape")
def reshape(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    """The elements of each sample in another shape."""
    before, after = step.types[0], step.type
    if step.forms[0] != RAGGED or step.form != RAGGED:
        raise NoRule
    (old,), (new,) = open_dims(before), open_dims(after)
    lead = math.prod(before.shape[:old])
    if lead != math.prod(after.shape[:new]) or (lead != 1 and before.shape[old] != after.shape[new]):
        raise NoRule
    return with_rows(inputs[0]._flat.reshape(flat_shape(after, lanes)), after, lanes)


@own_rule("permute")
def permute(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    """Dimensions in another order: those of the values."""
    if step.form != RAGGED:
        raise NoRule
    return with_rows(apply(step.op, (inputs[0]._flat,), step.attrs), step.type, lanes)


@own_rule("slice")
def slice_(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    """One element, or a stretch, of each sample's rows."""
    x, *starts = inputs
    if step.forms[0] == UNIFORM and step.attrs["spec"] == ("i",) and isinstance(starts[0], SizeExpr):
        return _one_of_each(x, lanes.numbers(starts[0]))
    if step.forms[0] != RAGGED:
        raise NoRule
    (dim,) = open_dims(step.types[0])
    spec = list(step.attrs["spec"])
    spec += [":"] * (dim + 1 - sum(entry is not None for entry in spec))
    at = [i for i, entry in enumerate(spec) if entry is not None][dim]
    entry: Any = spec[at]
    if entry == ":":
        if any(isinstance(s, SizeExpr) for s in starts) or is_symbolic(step.attrs):
            raise NoRule
        return with_rows(apply(step.op, (x._flat, *starts), step.attrs), step.type, lanes)
    place = sum(e not in (":", None) for e in spec[:at])  # of its start among the starts
    start, others = starts[place], starts[:place] + starts[place + 1 :]
    if any(isinstance(s, SizeExpr) for s in others) or is_symbolic(spec[:at] + spec[at + 1 :]):
        raise NoRule
    rows = x._rows
    first = lanes.numbers(start) if isinstance(start, SizeExpr) else np.full(lanes.n, start)
    length, stride = (1, 1) if entry == "i" else entry
    lengths = lanes.numbers(length) if isinstance(length, SizeExpr) else np.full(lanes.n, length)
    _check_stretches(rows, first, lengths, stride)
    spec[at] = ":"
    if isinstance(length, SizeExpr):
        wanted = lanes.rows(length)
        index = (rows.offsets[:-1] + first)[wanted.row_of] + wanted.place_of * stride
        flat = x._flat.index_select(dim, from_array(index))
        return with_rows(apply(step.op, (flat, *others), {"spec": tuple(spec)}), step.type, lanes)
    index = ((rows.offsets[:-1] + first)[:, None] + np.arange(length) * stride).reshape(-1)
    found = x._flat.index_select(dim, from_array(index)).movedim(dim, 0)
    if entry == "i":
        del spec[at]
    else:
        found = found.unflatten(0, (lanes.n, length)).movedim(1, dim + 1)
    return apply(step.op, (found, *others), {"spec": (":", *spec)}) if spec else found


def _one_of_each(x: Tensor, which: Array) -> Tensor:
    """x[i] of each sample, for a number i of its own."""
    n, size = x._type.shape[:2]
    places = _places(which, np.full(n, size)) + np.arange(n) * size
    return x.flatten(0, 1).index_select(0, from_array(places))


def _check_stretches(rows: Rows, first: Array, lengths: Array, stride: int) -> None:
    last = first + np.maximum(lengths - 1, 0) * stride
    if (((first < 0) | (last >= rows.lengths)) & (lengths > 0)).any():
        raise IndexRangeError("indexing: out of range for a sample")


# ---- picks


def _places(index: Array, lengths: Array) -> Array:
    """Indices, of which negative ones count from the end; IndexRangeError if one is out of range."""
    index = np.where(index < 0, index + lengths, index)
    if ((index < 0) | (index >= lengths)).any():
        raise IndexRangeError("indexing: out of range for a sample")
    return index


def places_in(rows: Rows, index: Array, owners: Array) -> Array:
    """Indices into rows of these samples as indices into the rows of all."""
    beside = (-1, *(1,) * (index.ndim - 1))
    return _places(index, rows.lengths[owners].reshape(beside)) + rows.offsets[owners].reshape(beside)


def _in_rows(index: Any, form: str, rows: Rows, lanes: Lanes) -> Array:
    """An index of each sample as one into the rows of all."""
    if form == RAGGED:
        return places_in(rows, index._flat._values(), index._rows.row_of)
    values = index._values()
    if form == SHARED:
        values = np.broadcast_to(values, (lanes.n, *values.shape))
    return places_in(rows, values, np.arange(lanes.n))


@own_rule("index_get")
def index_get(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    """Rows by an index of each sample's own, or of a tensor that all share."""
    x, *indices = inputs
    if len(indices) != 1 or step.types[1].dtype.category != 1:
        raise NoRule
    (index,), (dim,) = indices, step.attrs["dims"]
    x_form, form = step.forms
    if x_form == SHARED and dim == 0:
        found = apply(step.op, (x, index._flat if form == RAGGED else index), step.attrs)
        return index.like(found) if form == RAGGED else found
    if form == RAGGED and len(step.types[1].shape) != 1:
        raise NoRule
    if x_form == UNIFORM and form == RAGGED and dim == 0:
        size = step.types[0].shape[0]
        rows = Rows(np.arange(lanes.n + 1) * size)
        return index.like(x.flatten(0, 1).index_select(0, from_array(_in_rows(index, form, rows, lanes))))
    if x_form != RAGGED or open_dims(step.types[0]) != [dim]:
        raise NoRule
    places = _in_rows(index, form, x._rows, lanes)
    found = x._flat.index_select(dim, from_array(places.reshape(-1)))
    if form == RAGGED:
        return RaggedTensor(found, index._rows, dim + 1)
    found = found.movedim(dim, 0)
    if places.ndim == 1:
        return found
    inner = range(1, places.ndim)
    return found.unflatten(0, places.shape).movedim(tuple(inner), tuple([d + dim for d in inner]))


@own_rule("index_put")
def index_put(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    """Values written or added to rows of each sample."""
    x, values, *indices = inputs
    fits = len(indices) == 1 and step.attrs["dims"] == (0,) and step.types[2].dtype.category == 1
    if not fits or step.forms[0] != RAGGED or open_dims(step.types[0]) != [0] or step.forms[2] == SHARED:
        raise NoRule
    (index,), form = indices, step.forms[2]
    of_values, of_index = step.types[1], step.types[2]
    if form == RAGGED:
        if len(of_index.shape) != 1 or step.forms[1] == UNIFORM:
            raise NoRule
        if step.forms[1] == RAGGED:
            if of_values.shape[:1] != of_index.shape:
                raise NoRule
            values = values._flat
    elif step.forms[1] == RAGGED or (
        step.forms[1] == UNIFORM and len(of_values.shape) != len(of_index.shape) + x._flat.ndim - 1
    ):
        raise NoRule
    places = from_array(_in_rows(index, form, x._rows, lanes))
    return x.like(apply(step.op, (x._flat, values, places), step.attrs))


@own_rule("cumsum")
def cumsum(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    """Sums so far, of integers: those of all rows, less what was before the row."""
    (x,), t = inputs, step.types[0]
    if step.forms[0] != RAGGED or open_dims(t) != [0] or step.attrs["dim"] != 0 or step.attrs["reverse"]:
        raise NoRule
    if t.dtype.is_floating_point:
        raise NoRule
    sums = np.cumsum(x._flat._values(), 0, dtype=step.type.dtype.numpy)
    before = np.concatenate([np.zeros_like(sums[:1]), sums])[x._rows.offsets[:-1]]
    return x.like(from_array(sums - before[x._rows.row_of]))


# ---- products


@own_rule("matmul")
def matmul(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    """A vector times the rows of each sample."""
    a, b = inputs
    ta, tb = step.types
    if step.forms == [RAGGED, UNIFORM] and open_dims(ta) == [0] and len(ta.shape) == 2 and len(tb.shape) == 1:
        if ta.dtype is tb.dtype:
            return with_rows(segment_dot(a._flat, b, *a._rows.segments), step.type, lanes)
        spread = spread_to(b, tb.shape, ta, lanes)
        return with_rows((a._flat * spread).sum(-1), step.type, lanes)
    one_size = step.forms == [RAGGED, RAGGED] and len(ta.shape) == 1 and ta.shape[0] == tb.shape[0]
    if one_size and len(tb.shape) <= 2:
        weighted = b._flat * (a._flat.unsqueeze(-1) if len(tb.shape) == 2 else a._flat)
        return segment_sum(weighted, *b._rows.segments)
    raise NoRule


# ---- attention


@own_rule("scaled_dot_product_attention")
def attention(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    """Of each sample's own queries and keys."""
    q, k, v, mask, scale = inputs
    if mask is not None or step.forms[:3] != [RAGGED] * 3 or isinstance(scale, SizeExpr):
        raise NoRule
    types = step.types[:3]
    if any(open_dims(t) != [len(t.shape) - 2] for t in types) or any(
        t.shape[:-2] != types[0].shape[:-2] for t in types
    ):
        raise NoRule
    if types[1].shape[-2] != types[2].shape[-2]:
        raise NoRule
    lead = types[0].shape[:-2]
    flats = [x._flat.reshape(math.prod(lead), *x._flat.shape[-2:]) for x in (q, k, v)]
    offsets = q._rows.offsets_tensor, k._rows.offsets_tensor
    made = apply(RowAttention, (*flats, *offsets, scale), {"is_causal": step.attrs["is_causal"]})
    return with_rows(made.reshape(flat_shape(step.type, lanes)), step.type, lanes)


# ---- losses


@own_rule("cross_entropy")
def cross_entropy(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    """Of each sample's own scores: one choice, or one for each row."""
    logits, target, ignore = inputs
    t, dim, reduction = step.types[0], step.attrs["dim"], step.attrs["reduction"]
    forms = step.forms[:2]
    if UNIFORM not in forms and RAGGED not in forms:
        raise NoRule
    classes = target._flat if isinstance(target, RaggedTensor) else target
    if not isinstance(classes, Tensor) or classes.dtype.category != 1 or step.types[2] is not int:
        raise NoRule
    if reduction == "mean" and (classes._values() == ignore).any():
        raise NotNow  # the mean is over others
    if forms == [UNIFORM, UNIFORM] and dim == len(t.shape) - 1 <= 1:
        losses = apply(step.op, (logits, target, ignore), {"dim": dim + 1, "reduction": "none"})
        if reduction == "none" or dim == 0:
            return losses
        return losses.sum(1) if reduction == "sum" else losses.mean(1)
    if forms == [RAGGED, RAGGED] and dim == 1 and len(t.shape) == 2 and open_dims(t) == [0]:
        losses = apply(step.op, (logits._flat, target._flat, ignore), {"dim": 1, "reduction": "none"})
        if reduction == "none":
            return logits.like(losses)
        sums = segment_sum(losses, *logits._rows.segments)
        return sums if reduction == "sum" else sums / logits._rows.lengths_tensor.to(sums.dtype)
    if forms == [RAGGED, UNIFORM] and len(t.shape) == 1:
        rows = logits._rows
        chances = apply(SegmentLogSoftmax, (logits._flat, *rows.segments))
        return -chances.index_select(0, from_array(_in_class(target._values(), rows)))
    raise NoRule


def _in_class(target: Array, rows: Rows) -> Array:
    if ((target < 0) | (target >= rows.lengths)).any():
        raise IndexRangeError("cross_entropy: a target is no class")
    return target + rows.offsets[:-1]


# ---- recurrences


@own_rule("lstm_sequence", "gru_sequence", "rnn_sequence")
def sequence(step: LaneStep, lanes: Lanes, inputs: list[Any]) -> Any:
    """All sequences side by side, packed as ragged tensors are: the longest first."""
    x, *others, _ = inputs
    t = step.types[0]
    n_states = 2 if step.op.name == "lstm_sequence" else 1
    weights, states = others[:-n_states], others[-n_states:]
    forms = step.forms[1:-1]
    if step.forms[0] != RAGGED or open_dims(t) != [0] or any(form != SHARED for form in forms[:-n_states]):
        raise NoRule
    packing = _packing(lanes, x._rows)
    ordered = []
    for state, form, its_type in zip(states, forms[-n_states:], step.types[-1 - n_states : -1], strict=True):
        if form == RAGGED or its_type.shape[0] != 1:
            raise NoRule
        whole = state.expand(lanes.n, *its_type.shape) if form == SHARED else state
        ordered.append(whole[:, 0].index_select(0, packing.order) if form != SHARED else whole[:, 0])
    packed = x._flat.index_select(0, packing.elements)
    made = apply(step.op, (packed, *weights, *ordered, packing.sizes), step.attrs)
    rows = x.like(made[0].index_select(0, packing.places))
    finals = [state.index_select(0, packing.ranks).unsqueeze(1) for state in made[1 : 1 + n_states]]
    return (rows, *finals, *[None] * (len(made) - 1 - n_states))


def _packing(lanes: Lanes, rows: Rows) -> Packing:
    found = lanes.packings.get(id(rows))
    if found is None:
        found = lanes.packings[id(rows)] = packing_of(rows), rows
    return found[0]
