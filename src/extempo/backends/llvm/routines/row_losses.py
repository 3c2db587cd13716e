"""Cross entropy of scores for class indices, and its gradient: one kernel each, whatever the reduction.

Targets are read once before anything else: one that names no class sends the call to the NumPy kernel, which raises;
and those that are not ignored are counted, for the mean. Losses of single samples are added up in one order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core.types import TensorType, count, int64
from ..ir.builder import IRModule, Pointer, Type, Value, i64
from ..lanes.emitter import Emitter
from .routine import Attrs, Bound, Inputs, build, element_of, routine, routine_code
from .rows import WITH_EXP, exp_below_zero
from .slices import N_PARTS, OWN, At, SliceCode, layout_of, part_of_slices, slice_numbers
from .sweeps import SumSweep, SweepRow, in_parts, sum_row, write_part

# After the numbers of the layout: how many samples and classes there are; then the numbers among the inputs.
_N_SAMPLES, _N_CLASSES, _NUMBERS = range(OWN, OWN + 3)


class _Targets:
    """The class indices: an operand, or one number for the one sample."""

    def __init__(self, meta: Pointer, operand: Pointer, is_number: bool) -> None:
        self._n_classes = meta[_N_CLASSES]
        self._at = meta + _NUMBERS if is_number else operand  # a place in meta is as good as an array of one
        self._ignore = meta[_NUMBERS + int(is_number)]

    def of(self, sample: Value) -> tuple[Value, Value]:
        """(its class, whether it counts); class 0 if it does not."""
        t = self._at[sample]
        keep = t != self._ignore
        return t.b.select(keep, t, 0), keep

    def count(self, n_samples: Value) -> Value:
        """How many samples count. The function that is being written returns 1 if a target names no class."""
        b = n_samples.b
        kept = b.var(i64, 0)
        with b.loop(0, n_samples) as i:  # one by one: next to a row of scores a target is little work
            t = self._at[i]
            keep = t != self._ignore
            with b.if_(keep & b.compare(">=", t, self._n_classes, unsigned=True)):
                b.ret(1)
            kept.set(kept.value + b.cast("zext", keep, i64))
        return kept.value


class _LossForm:
    """What the code depends on besides dtype and layout."""

    def __init__(self, reduction: str, is_number: bool) -> None:
        self.reduction = reduction
        self.is_number = is_number

    def targets(self, meta: Pointer, address: Value) -> _Targets:
        return _Targets(meta, Pointer(address, i64), self.is_number)


# ---- forward: logits, target, ignore -> loss; scratch: losses of single samples


def _loss(s: SliceCode, form: _LossForm) -> None:
    b, o, x = s.b, s.operands, s.elements(0)
    targets = form.targets(o.meta, o.whole(1).address)
    picked = s.lanes(lambda number, lane: s.element(x, targets.of(number)[0], lane)[0])
    counts = s.lanes(lambda number, lane: b.select(targets.of(number)[1], b.const(s.row.element, 1.0), 0.0))
    top = s.top(x)
    (total,) = s.fold([SumSweep(b, s.type, unroll=1)], lambda at: [exp_below_zero(b, s.load(x, at) - top)])
    loss = Emitter(b).log(total) - (picked - top)
    s.put(b.select(counts == 0.0, 0.0, loss), s.whole(3 if form.reduction == "none" else 4))


def _write_forward(module: IRModule, name: str, element: Type, layout: str, form: _LossForm) -> None:
    write_part(module, "part", part_of_slices(element, layout, lambda s: _loss(s, form)))
    with routine_code(module, name) as (b, buffers, meta):
        n_samples = meta[_N_SAMPLES]
        kept = form.targets(meta, buffers[1]).count(n_samples)
        in_parts(b, "part", meta[N_PARTS], buffers.address, meta.address)
        if form.reduction != "none":
            losses = Pointer(buffers[4], element)
            row = SweepRow(b, element, n_samples)
            total = sum_row(row, lambda i, mask: row.load(losses, i, mask))
            mean = form.reduction == "mean"
            Pointer(buffers[3], element)[0] = total / b.cast("sitofp", kept, element) if mean else total
        b.ret(0)


# ---- backward: g, logits, target, ignore -> gradient of logits; scratch: what each sample counts


def _gradient(s: SliceCode, form: _LossForm) -> None:
    b, o, x, y = s.b, s.operands, s.elements(1), s.elements(4)
    targets = form.targets(o.meta, o.whole(2).address)

    def share_of(number: Value, lane: Value) -> Value:
        share = s.whole(0)[number] if form.reduction == "none" else s.whole(5)[0]
        return b.select(targets.of(number)[1], share, 0.0)

    share = s.lanes(share_of)
    top = s.top(x)

    def power(at: At) -> list[Value]:
        value = exp_below_zero(b, s.load(x, at) - top)
        s.store(value, y, at)
        return [value]

    (total,) = s.fold([SumSweep(b, s.type, unroll=1)], power)
    factor = share / total
    s.each(lambda at: s.store(s.load(y, at) * factor, y, at))

    def take_away(number: Value, lane: Value) -> None:
        place = s.element(y, targets.of(number)[0], lane)
        place[0] = place[0] - share_of(number, lane)

    s.each_lane(take_away)


def _write_backward(module: IRModule, name: str, element: Type, layout: str, form: _LossForm) -> None:
    write_part(module, "part", part_of_slices(element, layout, lambda s: _gradient(s, form)))
    with routine_code(module, name) as (b, buffers, meta):
        kept = form.targets(meta, buffers[2]).count(meta[_N_SAMPLES])
        if form.reduction != "none":
            g = Pointer(buffers[0], element)[0]
            share = g / b.cast("sitofp", kept, element) if form.reduction == "mean" else g
            Pointer(buffers[5], element)[0] = share
        in_parts(b, "part", meta[N_PARTS], buffers.address, meta.address)
        b.ret(0)


# ---- binding

_Writer = Callable[[IRModule, str, Type, str, _LossForm], None]


def _bind(op: str, write: _Writer, types: Inputs, attrs: Attrs, result: Any) -> Bound | None:
    """`types` end in logits, target and ignore."""
    logits, target, _ = types[-3:]
    element = element_of(logits)
    found = layout_of(logits.shape, (attrs["dim"],))
    if element is None or found is None or any(t.dtype is not logits.dtype for t in types[:-3] if t is not logits):
        return None
    if isinstance(target, TensorType) and target.dtype is not int64:
        return None
    layout, sizes = found
    is_number = not isinstance(target, TensorType)
    form = _LossForm(attrs["reduction"], is_number)
    name = "_".join([op, attrs["reduction"], *["number"] * is_number, element.suffix, layout])
    address = build(name, write, element, layout, form)
    n_classes = logits.shape[attrs["dim"]]
    n_samples = count(sizes) // n_classes
    reads = "c" * (len(types) - 2) + ("i" if is_number else "c") + "i"
    numbers = (*slice_numbers(layout, sizes, WITH_EXP), n_samples, n_classes)
    return Bound(address, reads, (result,), numbers, n_samples * element.nbytes)


@routine("cross_entropy")
def bind_forward(types: Inputs, attrs: Attrs) -> Bound | None:
    logits, dim = types[0], attrs["dim"]
    rest = (*logits.shape[:dim], *logits.shape[dim + 1 :]) if attrs["reduction"] == "none" else ()
    return _bind("cross_entropy", _write_forward, types, attrs, TensorType(rest, logits.dtype))


@routine("cross_entropy_backward")
def bind_backward(types: Inputs, attrs: Attrs) -> Bound | None:
    return _bind("cross_entropy_backward", _write_backward, types, attrs, types[1])
