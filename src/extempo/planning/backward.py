"""Backward as nodes of a program: the arithmetic of autograd.engine, in the same order.

Steps are visited from the last to the first; contributions to a gradient come in the order of the inputs, the first is
taken as it is, later ones are added to it. The gradient of a slice is added into its part of the whole's gradient.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

from ..kernel import Cache
from ..op import REGISTRY
from ..tape import NUMBER, Step
from ..types import TensorType
from .building import Unplannable
from .forms import Form, additions, form_of
from .gradients import Constant, Derived, Template, TemplateNode, gradient_of
from .layout import Region, reshaped_strides, row_major, slice_region, view_layout
from .program import ELEMENTWISE, UPDATE, Program

_FITS: Cache[Any, Form | None] = Cache("sums in plans", 4_000)
_REGIONS: Cache[Any, Region] = Cache("slices in plans", 8_000)


class Parts:
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
        if not self.apart or region.dim < 0 or (self.firsts and region.dim != self.dim):
            return False
        at = bisect_left(self.firsts, region.first)
        if (at and self.ends[at - 1] > region.first) or (at < len(self.firsts) and self.firsts[at] < region.end):
            return False
        self.dim = region.dim
        self.firsts.insert(at, region.first)
        self.ends.insert(at, region.end)
        self.covered += region.end - region.first
        return True


class Backward:
    """Adds the nodes of one backward to a program."""

    def __init__(self, program: Program, steps: Sequence[Step], value_of: Callable[[int], int]) -> None:
        self.program = program
        self.steps = steps
        self.value_of = value_of
        self.gradients: dict[int, int | Parts] = {}
        self.parts: list[Parts] = []

    def run(self, root: int, seed: int, root_step: int) -> dict[int, int]:
        """The gradients of leaves, by ref."""
        self.gradients[root] = seed
        take = self.gradients.pop
        for index in range(root_step, -1, -1):
            step = self.steps[index]
            g = take(step.place, None)
            if type(step.type) is tuple:
                self._visit_several(index, step, [g, *[take(step.place + i, None) for i in range(1, len(step.type))]])
            elif g is not None and step.tracked:
                self._visit(index, step, g if type(g) is int else g.buffer)  # type: ignore[union-attr] # Parts
        found = {ref: self._whole(g) for ref, g in self.gradients.items()}
        for parts in self.parts:
            if not parts.apart or parts.covered < self.program.types[parts.buffer].shape[parts.dim]:
                self.program.zeroed.add(parts.buffer)
        return found

    def _whole(self, g: int | Parts) -> int:
        return g.buffer if isinstance(g, Parts) else g

    def _visit(self, index: int, step: Step, g: int) -> None:
        if step.op.embeds:
            self._add_part(index, step, g)
            return
        gradient = gradient_of(step)
        if type(gradient) is Template:
            self._by_template(index, step, gradient, [g])
        else:
            self._by_expressions(index, step, gradient, g)  # type: ignore[arg-type] # the other of the two

    def _visit_several(self, index: int, step: Step, found: list[int | Parts | None]) -> None:
        given = tuple([g is not None for g in found])
        if step.tracked and True in given:
            gradient = gradient_of(step, given)
            assert type(gradient) is Template
            self._by_template(index, step, gradient, [None if g is None else self._whole(g) for g in found])

    # ---- one step

    def _by_expressions(self, index: int, step: Step, gradient: tuple[Derived, ...], g: int) -> None:
        program, refs, value_of, gradients = self.program, step.refs, self.value_of, self.gradients
        for i, expression, passed, reads, numbers, fit in gradient:
            value = g
            if not passed:
                codes = [g]
                for position in reads:
                    codes.append(value_of(refs[position - 1] if position else step.place))
                for number in numbers:
                    codes.append(refs[number])
                value = program.elementwise(expression, tuple(codes), step.type, index)
            if fit is not None:
                value = self._sum_to(value, fit, index)
            ref = refs[i]
            if ref in gradients:
                self._add(ref, value)
            else:
                gradients[ref] = value

    def _sum_to(self, value: int, t: TensorType, index: int) -> int:
        """Undo broadcasting, by the sum that eager mode takes."""
        from ..autograd.engine import _broadcast_dims, _is_smaller

        program = self.program
        own = program.types[value]
        if _is_smaller(own.shape, t.shape):
            layout = view_layout("expand", own, program.strides(value), {}, t)
            assert layout is not None
            return program.view(value, t, layout.strides)
        key = (own, t)
        form = _FITS.get(key)
        if form is None:
            attrs = {"dim": _broadcast_dims(own.shape, t.shape), "keepdim": False}
            form = _FITS.put(key, form_of(REGISTRY["sum"], (own,), attrs))
            assert form is not None
        (made,) = program.apply(form, (value,), index)
        return program.view(made, t, row_major(t))

    def _by_template(self, index: int, step: Step, template: Template, given: list[int | None]) -> None:
        program, refs = self.program, step.refs
        values: list[int] = [given[i] for i in template.cotangents]  # type: ignore[misc] # these have come
        values += [program.zeros(step.type[i]) for i in template.zeros]
        for p in template.reads:
            ref = refs[p - 1] if p > 0 else step.place - 1 - p if p < 0 else step.place
            values.append(self.value_of(ref))
        values += [refs[i] for i in template.numbers]
        for node in template.nodes:
            if node.form is None:
                values.append(
                    self._view(node, values[node.inputs[0]], index) if node.inputs else program.zeros(node.type)
                )
                continue
            codes = tuple([values[i] if type(i) is int else self._constant(i) for i in node.inputs])
            values += program.apply(node.form, codes, index)
        for i, place in template.outputs:
            self._add(refs[i], values[place])

    def _constant(self, constant: Constant) -> int:
        from ..tape import NONE

        return NONE if constant.value is None else self.program.constant(constant.value)

    def _view(self, node: TemplateNode, source: int, index: int) -> int:
        program = self.program
        own = program.types[source]
        starts = [start.value for start in node.inputs[1:]]
        layout = view_layout(node.op, own, program.strides(source), node.attrs, node.type, starts)
        if layout is not None:
            return program.view(source, node.type, layout.strides, layout.offset)
        (made,) = program.apply(form_of(REGISTRY[node.op], (own,), node.attrs), (source,), index)
        return made

    # ---- adding up

    def _add(self, ref: int, value: int) -> None:
        before = self.gradients.get(ref)
        if before is not None:
            whole = self._whole(before)
            t = self.program.types[whole]
            value = self.program.elementwise(additions(t.dtype)[0], (whole, value), t)
        self.gradients[ref] = value

    def _add_part(self, index: int, step: Step, g: int) -> None:
        """Add into a part of the whole's gradient: to zeros, to what is there, or, the first time, without reading."""
        program, ref = self.program, step.refs[0]
        whole = step.kinds[0]
        region = _region_of(step)
        if 0 in whole.shape:
            if ref not in self.gradients:
                self.gradients[ref] = program.new(whole)
            return
        parts = self.gradients.get(ref)
        if type(parts) is not Parts:
            if parts is None:
                parts = Parts(program.buffer(whole), apart=True)
                self.parts.append(parts)
            else:
                copied = program.copy(parts)  # type: ignore[arg-type] # a value
                program.buffers.add(copied)
                parts = Parts(copied, apart=False)
            self.gradients[ref] = parts
        if region.starts:
            program.start_steps.setdefault(region.starts, index)
        t, strides = region.type, region.strides
        source = program.reordered.get(g)
        if source is not None:  # written from where it lies, the copy is not needed
            lies = reshaped_strides(t, strides, program.types[source])
            if lies is not None:
                g, t, strides = source, program.types[source], lies
        part = program.view(parts.buffer, t, strides, region.offset, region.starts)
        both, with_number = additions(whole.dtype)
        if parts.is_new(region):
            program.write(ELEMENTWISE, with_number, (g, program.constant(0.0)), part)
        else:
            parts.apart = False
            program.write(UPDATE, both, (part, g), part)


def _region_of(step: Step) -> Region:
    if step.op.name != "slice":
        raise Unplannable(f"the gradient of {step.op.name} is not planned")
    fixed = step.baked
    numbers = () if fixed is not None else tuple([ref - NUMBER for ref in step.refs[1:]])
    key = (step.signature, fixed, numbers)
    found = _REGIONS.get(key)
    if found is None:
        found = _REGIONS.put(key, slice_region(step.kinds[0], step.attrs["spec"], step.type, fixed, numbers))
    return found
