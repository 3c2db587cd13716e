"""BackwardBuilder: a backward as nodes of a program, with the arithmetic of `autograd.engine` in the same order.

Traced ops are visited from the last to the first; contributions to a gradient come in the order of the inputs. The
first is taken as it is, later ones are added to it: floating-point sums depend on their order, and a plan has eager's
bits only if every sum has eager's order.

The gradient of a slice is added into its part of the whole's gradient, which is a buffer. Eager mode begins with zeros
there. A plan sees all parts beforehand, so while they do not overlap (`GradientBuffer.is_new`) each is written without
reading what it is added to, as g + 0.0, which differs from g for -0.0 only, as eager's sum does; and a buffer that
parts cover wholly is never set to zero. A loop over time steps that slices its input has one such buffer, written once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from ..autograd.unbroadcast import broadcast_dims, is_smaller
from ..core.cache import Cache
from ..core.op import REGISTRY
from ..core.strides import Order
from ..core.trace_tree import NUMBER, TraceOp
from ..core.types import TensorType
from .layout import Region, StridedLayout, reshaped_strides, row_major, slice_region, view_layout
from .lowering import LoweredOp, additions, lowered_op
from .program import ELEMENTWISE, UPDATE, PlanProgram
from .request import Unplannable
from .vjp_templates import GRADIENTS, DerivedKernel, TemplateConstant, TemplateNode, VjpTemplate, gradient_of

_FITS: Cache[Any, LoweredOp] = Cache("sums in plans", 4_000)
_REGIONS: Cache[Any, Region] = Cache("slices in plans", 8_000)


class GradientBuffer:
    """A gradient that is put together from parts, in a buffer. While parts do not overlap, each is written once."""

    def __init__(self, buffer: int, apart: bool) -> None:
        self.buffer = buffer
        self.apart = apart  # whether no two parts overlap so far
        self.dim = -1
        self.firsts: list[int] = []
        self.ends: list[int] = []
        self.covered = 0

    def is_new(self, region: Region) -> bool:
        """Whether a part is sure not to overlap those before it; it is then one of them."""
        if not self.apart or region.dim < 0 or self.dim not in (-1, region.dim):
            return False
        _, _, _, _, self.dim, first, end = region
        firsts, ends = self.firsts, self.ends
        at = bisect_left(firsts, first)
        if (at and ends[at - 1] > first) or (at < len(firsts) and firsts[at] < end):
            return False
        firsts.insert(at, first)
        ends.insert(at, end)
        self.covered += end - first
        return True


class BackwardBuilder:
    """Adds the nodes of one backward to a program.

    `gradients` has, by ref, what has come so far for each value that was not visited yet: as in the engine, an entry is
    complete when its op is visited, because all that read the value come later on the trace.
    """

    def __init__(
        self,
        program: PlanProgram,
        steps: Sequence[TraceOp],
        values: dict[int, int],
        asked: tuple[int, ...] | None = None,
    ) -> None:
        """`asked`: refs whose gradients are wanted; None: those of all leaves."""
        self.program = program
        self._asked = asked
        self._places = frozenset([ref for ref in asked or () if ref >= 0])
        self._on_the_way: dict[int, int] = {}  # gradients of traced values that are asked for
        self.steps = steps
        self.values = values  # of refs
        self.gradients: dict[int, int | GradientBuffer] = {}
        self.parts: list[GradientBuffer] = []
        self._zero: int | None = None  # the code of 0.0, once it is needed
        self._layouts: dict[
            Any, tuple[TemplateNode, StridedLayout | None]
        ] = {}  # of templates' views, and whose they are

    def visit(self, first: int, end: int) -> None:
        """Steps from `end` - 1 down to `first`."""
        steps, take = self.steps, self.gradients.pop
        for index in range(end - 1, first - 1, -1):
            step = steps[index]
            if self._places:
                self._note(step)
            g = take(step.place, None)
            if type(step.type) is tuple:
                self._visit_several(index, step, [g, *[take(step.place + i, None) for i in range(1, len(step.type))]])
                continue
            if g is None or not step.tracked:
                continue
            if type(g) is GradientBuffer:
                g = g.buffer
            if step.op.embeds:
                self._add_part(index, step, g)  # type: ignore[arg-type] # a value
                continue
            gradient = GRADIENTS.get((step.signature, step.needs)) or gradient_of(step)
            if type(gradient) is VjpTemplate:
                self._by_template(index, step, gradient, [g])  # type: ignore[list-item] # a value
            else:
                self._by_expressions(index, step, gradient, g)  # type: ignore[arg-type] # the other of the two

    def _note(self, step: TraceOp) -> None:
        """The gradients of a step's results that are asked for: complete when it is visited."""
        for place in range(step.place, step.place + step.n_results):
            if place in self._places and place in self.gradients:
                self._on_the_way[place] = self._whole(self.gradients[place])

    def finish(self) -> dict[int, int]:
        """The gradients of leaves, or what was asked for, by ref."""
        found = self._on_the_way | {ref: self._whole(g) for ref, g in self.gradients.items()}
        if self._asked is not None:
            found = {ref: found[ref] for ref in self._asked if ref in found}
        for parts in self.parts:
            if not parts.apart or parts.covered < self.program.types[parts.buffer].shape[parts.dim]:
                self.program.zeroed.add(parts.buffer)
        return found

    def _whole(self, g: int | GradientBuffer) -> int:
        return g.buffer if isinstance(g, GradientBuffer) else g

    def _visit_several(self, index: int, step: TraceOp, found: list[int | GradientBuffer | None]) -> None:
        given = tuple([g is not None for g in found])
        if step.tracked and True in given:
            gradient = gradient_of(step, given)
            assert type(gradient) is VjpTemplate
            self._by_template(index, step, gradient, [None if g is None else self._whole(g) for g in found])

    # ---- one step

    def _by_expressions(self, index: int, step: TraceOp, gradient: tuple[DerivedKernel, ...], g: int) -> None:
        program, refs, values, gradients = self.program, step.refs, self.values, self.gradients
        order = self._joint_order(step, gradient, g)
        for i, expression, passed, reads, fit in gradient:
            value = g
            if not passed:
                codes = [g]
                for position in reads:
                    codes.append(values[refs[position - 1] if position else step.place])
                value = program.ordered(expression, tuple(codes), step.type, index, order)
            if fit is not None:
                value = self._sum_to(value, fit, index)
            ref = refs[i]
            if ref in gradients:
                self._add(ref, value)
            else:
                gradients[ref] = value

    def _joint_order(self, step: TraceOp, gradient: tuple[DerivedKernel, ...], g: int) -> Order | None:
        """In which the gradients lie: eager mode has one kernel for all of them, which reads what any of them reads."""
        refs, values = step.refs, self.values
        read = sorted({p for derived in gradient if not derived.passed for p in derived.reads})
        return self.program.order(step.type, [g, *[values[refs[p - 1] if p else step.place] for p in read]])

    def _sum_to(self, value: int, t: TensorType, index: int) -> int:
        """Undo broadcasting, by the sum that eager mode takes."""
        program = self.program
        own = program.types[value]
        lowered = _FITS.get((own, t))
        if lowered is None:
            if is_smaller(own.shape, t.shape):
                layout = view_layout("expand", own, program.strides(value), {}, t)
                assert layout is not None
                return program.view(value, t, layout.strides)
            attrs = {"dim": broadcast_dims(own.shape, t.shape), "keepdim": False}
            lowered = _FITS.put((own, t), lowered_op(REGISTRY["sum"], (own,), attrs))
        (made,) = program.apply(lowered, (value,), index)
        return program.view(made, t, row_major(t))

    def _by_template(self, index: int, step: TraceOp, template: VjpTemplate, given: list[int | None]) -> None:
        program, refs, known = self.program, step.refs, self.values
        cotangents, zeros, reads, numbers, nodes, outputs = template
        values: list[int] = [given[i] for i in cotangents]  # type: ignore[misc] # these have come
        if zeros:
            values += [program.zeros(step.type[i]) for i in zeros]
        for p in reads:
            values.append(known[refs[p - 1] if p > 0 else step.place - 1 - p if p < 0 else step.place])
        for i in numbers:
            values.append(refs[i])
        for node in nodes:
            lowered, inputs = node.lowered, node.inputs
            if lowered is None:
                values.append(self._view(node, values[inputs[0]], index) if inputs else program.zeros(node.type))
            elif node.constant:
                codes = tuple([values[i] if type(i) is int else self._constant(i) for i in inputs])
                values += program.apply(lowered, codes, index)
            else:
                values += program.apply(lowered, tuple(map(values.__getitem__, inputs)), index)
        for i, place in outputs:
            self._add(refs[i], values[place])

    def _constant(self, constant: TemplateConstant) -> int:
        from ..core.trace_tree import NONE

        return NONE if constant.value is None else self.program.constant(constant.value)

    def _view(self, node: TemplateNode, source: int, index: int) -> int:
        program = self.program
        own, lies = program.types[source], program.strides(source)
        key = (id(node), lies)  # a node always looks at one type
        if key in self._layouts:
            _, layout = self._layouts[key]
        else:
            starts = [start.value for start in node.inputs[1:]]
            layout = view_layout(node.op, own, lies, node.attrs, node.type, starts)
            self._layouts[key] = (node, layout)
        if layout is not None:
            return program.view(source, node.type, layout.strides, layout.offset)
        (made,) = program.apply(lowered_op(REGISTRY[node.op], (own,), node.attrs), (source,), index)
        return made

    # ---- adding up

    def _add(self, ref: int, value: int) -> None:
        gradients = self.gradients
        if ref in gradients:
            before = gradients[ref]
            whole = before.buffer if type(before) is GradientBuffer else before
            t = self.program.types[whole]  # type: ignore[index] # a value
            value = self.program.elementwise(additions(t.dtype)[0], (whole, value), t)  # type: ignore[arg-type] # so
        gradients[ref] = value

    def _parts(self, ref: int, whole: TensorType) -> GradientBuffer:
        """A buffer for the gradient of `ref`, with what has come so far."""
        program, before = self.program, self.gradients.get(ref)
        if before is None:
            parts = GradientBuffer(program.buffer(whole), apart=True)
            self.parts.append(parts)
        else:
            copied = program.copy(before)  # type: ignore[arg-type] # a value
            program.buffers.add(copied)
            parts = GradientBuffer(copied, apart=False)
        self.gradients[ref] = parts
        return parts

    def _add_part(self, index: int, step: TraceOp, g: int) -> None:
        """Add into a part of the whole's gradient: to zeros, to what is there, or, the first time, without reading."""
        program, whole = self.program, step.kinds[0]
        parts: Any = self.gradients.get(step.refs[0])
        if type(parts) is not GradientBuffer:
            if 0 in whole.shape:
                self.gradients.setdefault(step.refs[0], parts if parts is not None else program.new(whole))
                return
            parts = self._parts(step.refs[0], whole)
        region = _REGIONS.get((step.signature, step.baked)) or _region_of(step)
        t, strides, offset, starts = region[:4]
        if starts:
            program.start_steps.setdefault(starts, index)
        if g in program.reordered:  # written from where it lies, the copy is not needed
            source = program.reordered[g]
            lies = reshaped_strides(t, strides, program.types[source])
            if lies is not None:
                g, t, strides = source, program.types[source], lies
        part = program.view(parts.buffer, t, strides, offset, starts)
        both, with_number = additions(whole.dtype)
        if parts.is_new(region):
            if self._zero is None:
                self._zero = program.constant(0.0)
            program.write(ELEMENTWISE, with_number, (g, self._zero), part)
        else:
            parts.apart = False
            program.write(UPDATE, both, (part, g), part)


def _region_of(step: TraceOp) -> Region:
    if step.op.name != "slice":
        raise Unplannable(f"the gradient of {step.op.name} is not planned")
    whole, spec = step.kinds[0], step.attrs["spec"]
    if step.baked is None:
        return slice_region(whole, spec, step.type, None, tuple([ref - NUMBER for ref in step.refs[1:]]))
    return _REGIONS.put((step.signature, step.baked), slice_region(whole, spec, step.type, step.baked, ()))
