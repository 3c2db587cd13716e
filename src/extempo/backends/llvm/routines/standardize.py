"""Standardize (layer, batch, group, instance and root-mean-square norm) and its gradient: one kernel each.

Weights go "along" a slice (layer norm: one for each element of a row), or there is one for each "slice" (batch norm).
Where there is one for each stretch of a row, `group_norms` has the code.

The gradients of weights along a slice are sums over rows. Groups of rows, made by their number alone, add theirs up
in scratch memory while the gradient of the input is computed; those sums are joined at the end.
"""

from __future__ import annotations

from typing import Any

from ....core.types import TensorType, count
from ..ir.builder import IRFunction, IRModule, Pointer, Type, Value
from .group_norms import Stretches, stretches_of
from .group_norms import bind as bind_stretches
from .routine import Attrs, Bound, Inputs, build, element_of, routine, routine_code
from .slices import (
    INNER,
    MIDDLE,
    N_PARTS,
    N_UNITS,
    OUTER,
    OWN,
    PER_PART,
    Along,
    At,
    Operands,
    SliceCode,
    bind_slices,
    layout_of,
)
from .sweeps import SumSweep, SweepRow, in_parts, part_range, parts_of, write_part, write_row_of_sums

PART_WORK = 1 << 16  # elements
LEAST_ROWS, MOST_GROUPS = 64, 64  # of rows whose gradients are added up together
_ROWS_IN_GROUP = MIDDLE  # rows have no use for this number of the layout


class _NormForm:
    """What the code depends on: the layout of weights, which there are, whether the mean is taken away."""

    def __init__(self, weights: str, has_weight: bool, has_bias: bool, centred: bool) -> None:
        self.weights = weights
        self.has_weight = has_weight
        self.has_bias = has_bias
        self.centred = centred

    @property
    def name(self) -> str:
        parts = [self.weights, "w" * self.has_weight + "b" * self.has_bias, "" if self.centred else "rms"]
        return "_".join(p for p in parts if p)


def _scale(s: SliceCode, variance: Value, eps: Value) -> Value:
    return 1.0 / s.b.intrinsic("sqrt", variance + eps)


def _squares(s: SliceCode, x: Pointer, mean: Value | None) -> list[Value]:
    def square(at: At) -> list[Value]:
        v = s.load(x, at) if mean is None else s.load(x, at) - mean
        return [v * v]

    return s.fold([SumSweep(s.b, s.type)], square)


# ---- forward: x, weight, bias, eps -> y, mean, variance


def _forward(s: SliceCode, form: _NormForm) -> None:
    b, x, y = s.b, s.elements(0), s.elements(4)
    mean = None
    if form.centred:
        (total,) = s.fold([SumSweep(b, s.type)], lambda at: [s.load(x, at)])
        mean = s.mean(total)
    (squares,) = _squares(s, x, mean)
    variance = s.mean(squares)
    scale = _scale(s, variance, s.operands.number(OWN))
    s.put(b.const(s.type, 0.0) if mean is None else mean, s.whole(5))
    s.put(variance, s.whole(6))
    weight, bias = s.whole(1), s.whole(2)
    per_slice = [s.get(p) if has and form.weights == "slice" else None for p, has in _given(form, weight, bias)]

    def element(at: At) -> None:
        v = (s.load(x, at) if mean is None else s.load(x, at) - mean) * scale
        w, shift = per_slice
        if form.weights == "along":
            w = s.load(weight, at) if form.has_weight else None
            shift = s.load(bias, at) if form.has_bias else None
        s.store(_affine(b, v, w, shift), y, at)

    s.each(element)


def _given(form: _NormForm, weight: Pointer, bias: Pointer) -> list[tuple[Pointer, bool]]:
    return [(weight, form.has_weight), (bias, form.has_bias)]


def _affine(b: IRFunction, v: Value, weight: Value | None, bias: Value | None) -> Value:
    if weight is None:
        return v if bias is None else v + bias
    return v * weight if bias is None else b.fma(v, weight, bias)


# ---- backward: g, x, mean, variance, weight, eps -> gradients of x, weight and bias


class _Gradient:
    """What the gradients of one slice are computed from."""

    def __init__(self, s: SliceCode, form: _NormForm) -> None:
        self.s = s
        self.form = form
        self.g, self.x, self.weight = s.elements(0), s.elements(1), s.whole(4)
        self.mean = s.get(s.whole(2)) if form.centred else None
        self.scale = _scale(s, s.get(s.whole(3)), s.operands.number(OWN))

    def values(self, at: At) -> tuple[Value, Value, Value]:
        """(g, g times weights along the slice, standardized x)."""
        s = self.s
        g, x = s.load(self.g, at), s.load(self.x, at)
        z = (x if self.mean is None else x - self.mean) * self.scale
        return g, g * s.load(self.weight, at) if self.form.weights == "along" else g, z

    def sums(self) -> tuple[Value, Value]:
        """Of (weighted) g, and of g times standardized x."""
        s = self.s

        def terms(at: At) -> list[Value]:
            _, weighted, z = self.values(at)
            return [weighted, weighted * z]

        total, along = s.fold([SumSweep(s.b, s.type, 2), SumSweep(s.b, s.type, 2)], terms)
        return total, along

    def into_x(self, weighted: Value, z: Value, means: tuple[Value, Value], scale: Value) -> Value:
        rest = weighted - means[0] if self.form.centred else weighted
        return (rest - z * means[1]) * scale


def _backward(s: SliceCode, form: _NormForm) -> None:
    """Where every slice has at most one weight, whose gradients are its own."""
    gradient = _Gradient(s, form)
    total, along = gradient.sums()
    scale = gradient.scale
    if form.has_weight:
        scale = scale * s.get(gradient.weight)
        s.put(along, s.whole(7))
        s.put(total, s.whole(8))
    means = s.mean(total), s.mean(along)
    out = s.elements(6)

    def element(at: At) -> None:
        _, weighted, z = gradient.values(at)
        s.store(gradient.into_x(weighted, z, means, scale), out, at)

    s.each(element)


def _write_backward_along(module: IRModule, name: str, element: Type, form: _NormForm) -> None:
    """Weights along the rows: units of work are groups of rows, each with sums of its own in scratch memory."""
    write_row_of_sums(module, "join", element)

    def part(b: IRFunction) -> None:
        o = Operands(b, element)
        n_rows, row = o.meta[OUTER], SweepRow(b, element, o.meta[INNER])
        first, last = part_range(b, o.meta[N_UNITS], o.meta[PER_PART])
        with b.loop(first, last) as group:
            into_weight = o.whole(9) + group * row.n
            into_bias = into_weight + o.meta[N_UNITS] * row.n
            begin = group * o.meta[_ROWS_IN_GROUP]
            for p in (into_weight, into_bias):
                _fill(row, p)
            with b.loop(begin, b.smaller(begin + o.meta[_ROWS_IN_GROUP], n_rows)) as index:
                _backward_row(_Gradient(Along(o, row, index), form), into_weight, into_bias)

    write_part(module, "part", part)
    with routine_code(module, name) as (b, buffers, meta):
        in_parts(b, "part", meta[N_PARTS], buffers.address, meta.address)
        n_groups, n = meta[N_UNITS], meta[INNER]
        sums = Pointer(buffers[9], element)
        for result, place in ((7, sums), (8, sums + n_groups * n)):
            b.call(module.defined["join"], place.address, buffers[result], n_groups, n)
        b.ret(0)


def _fill(row: SweepRow, p: Pointer) -> None:
    row.each(lambda i, mask: row.store(row.constant(0.0), p, i, mask))


def _backward_row(gradient: _Gradient, into_weight: Pointer, into_bias: Pointer) -> None:
    s = gradient.s
    total, along = gradient.sums()
    means = s.mean(total), s.mean(along)
    out = s.elements(6)

    def element(at: At) -> None:
        g, weighted, z = gradient.values(at)
        s.store(gradient.into_x(weighted, z, means, gradient.scale), out, at)
        s.store(s.load(into_weight, at) + g * z, into_weight, at)
        s.store(s.load(into_bias, at) + g, into_bias, at)

    s.each(element)


# ---- binding


def _weights_of(x: TensorType, dims: tuple[int, ...], weights: list[TensorType]) -> str | Stretches | None:
    """The layout of the weights: "none", "along" or "slice", or as stretches; None for one that has no code."""
    if not weights:
        return "none"
    if any(w.shape != weights[0].shape for w in weights):
        return None
    shape = (*(1,) * (len(x.shape) - len(weights[0].shape)), *weights[0].shape)
    if shape == tuple(1 if d in dims else s for d, s in enumerate(x.shape)):
        return "slice"
    found = layout_of(x.shape, dims)
    if found is None or found[0] != "rows":
        return None
    if shape == tuple(s if d in dims else 1 for d, s in enumerate(x.shape)):
        return "along"
    return stretches_of(x, dims, weights[0])


def _kinds(types: Inputs) -> str:
    return "".join("c" if isinstance(t, TensorType) else "-" if t is type(None) else "f" for t in types)


def _bind(op: str, types: Inputs, x: Any, weights: Any, attrs: Attrs, writes: Any) -> Bound | None:
    element, dims, centred = element_of(x), attrs["dims"], attrs["centred"]
    found = layout_of(x.shape, dims)
    same = all(t.dtype is x.dtype for t in types if isinstance(t, TensorType))
    has_weight, has_bias = (isinstance(w, TensorType) for w in weights)
    layout = _weights_of(x, dims, [w for w in weights if isinstance(w, TensorType)])
    if element is None or found is None or layout is None or not same:
        return None
    reads = _kinds(types)
    if isinstance(layout, Stretches):
        given = element, found[1], layout, has_weight, has_bias
        return bind_stretches(op, *given, reads, writes) if centred else None
    form = _NormForm(layout, has_weight, has_bias, centred)
    if op == "standardize_backward" and layout == "along":
        return _bind_backward_along(element, found[1], form, reads, writes)

    def body(s: SliceCode) -> None:
        (_forward if op == "standardize" else _backward)(s, form)

    return bind_slices(f"{op}_{form.name}", element, x, dims, body, reads, writes, PART_WORK)


def _bind_backward_along(element: Type, sizes: tuple[int, int, int], form: _NormForm, reads: str, writes: Any) -> Bound:
    address = build(f"standardize_backward_{form.name}_{element.suffix}", _write_backward_along, element, form)
    outer, _, inner = sizes
    rows = max(LEAST_ROWS, -(-outer // MOST_GROUPS))
    n_groups = -(-outer // rows)
    n_parts, per_part = parts_of(n_groups, rows * inner, PART_WORK)
    scratch = count((2, n_groups, inner)) * element.nbytes
    return Bound(address, reads, writes, (outer, rows, inner, n_groups, per_part, n_parts), scratch)


@routine("standardize")
def bind_forward(types: Inputs, attrs: Attrs) -> Bound | None:
    x, weight, bias, _ = types
    statistics = TensorType(tuple(1 if d in attrs["dims"] else s for d, s in enumerate(x.shape)), x.dtype)
    return _bind("standardize", types, x, (weight, bias), attrs, (x, statistics, statistics))


@routine("standardize_backward")
def bind_backward(types: Inputs, attrs: Attrs) -> Bound | None:
    _, x, _, _, weight, _ = types
    writes = (x, weight, weight) if isinstance(weight, TensorType) else (x,)
    return _bind("standardize_backward", types, x, (weight, None), attrs, writes)
