"""plan_rows: an elementwise kernel on more than one small block of rows, as an instruction of a plan.

`meta`: the kernel's address, the number of operands n, of outer dimensions m, the kernel's geometry (2 + 2n), the sizes
of the outer dimensions (m), and for each of them the strides of all operands in bytes (m times n).
A block of 2^17 elements and more is split over threads by the rule of eager calls (elementwise/broadcasting.py).
"""

from __future__ import annotations

from ..elementwise.broadcasting import MAX_NDIM, SPLIT_FROM, units
from ..ir.builder import IRFunction, IRModule, Pointer, Value, i1, i64, ptr, void
from ..ir.parallel import run_shared

MAX_OPERANDS = 48
_KERNEL, _N_OPERANDS, _N_OUTER, _GEOMETRY = range(4)
_CONTEXT = ("operands", "meta", "refused")


def write_rows(module: IRModule) -> None:
    _write_chunk(module)
    with module.function("plan_rows", i64, buffers=ptr, meta=ptr) as b:
        meta, given = Pointer(b.arg("meta"), i64), Pointer(b.arg("buffers"), ptr)
        n, n_outer = meta[_N_OPERANDS], meta[_N_OUTER]
        sizes = meta + (n * 2 + (_GEOMETRY + 2))
        strides = sizes + n_outer
        operands, index, refused = b.array(ptr, MAX_OPERANDS), b.array(i64, MAX_NDIM), b.array(i64, 1)
        refused[0] = b.const(i64, 0)
        with b.loop(0, n) as i:
            operands[i] = given[i]
        with b.loop(0, n_outer) as k:
            index[k] = b.const(i64, 0)
        running = b.var(i1, 1)
        with b.while_(lambda: running.value):
            _call(b, meta, operands, refused)
            running.set(0)
            place = b.var(i64, n_outer - 1)
            with b.while_(lambda: place.value >= 0):
                k = place.value
                step = strides + k * n
                index[k] = index[k] + 1
                with b.loop(0, n) as i:
                    operands[i] = b.byte_offset(operands[i], step[i])
                with b.if_(index[k] < sizes[k]):
                    running.set(1)
                    b.break_()
                with b.loop(0, n) as i:
                    operands[i] = b.byte_offset(operands[i], -(step[i] * sizes[k]))
                index[k] = b.const(i64, 0)
                place.set(k - 1)
        b.ret(refused[0])


def _call(b: IRFunction, meta: Pointer, operands: Pointer, refused: Pointer) -> None:
    """The kernel on one block of rows."""
    geometry = meta + _GEOMETRY
    large, small = b.if_else(geometry[0] * geometry[1] >= SPLIT_FROM)
    with large:
        context = b.array(ptr, len(_CONTEXT))
        for i, address in enumerate((operands.address, meta.address, refused.address)):
            context[i] = address
        n_units, per_chunk = units(b, geometry)
        run_shared(b, "plan_rows_chunk", context.address, (n_units + per_chunk - 1) // per_chunk)
    with small:
        refused[0] = refused[0] | b.call_address(_kernel(b, meta), i64, operands.address, geometry.address)


def _kernel(b: IRFunction, meta: Pointer) -> Value:
    return b.emit(ptr, f"inttoptr i64 {meta[_KERNEL].text} to ptr")


def _write_chunk(module: IRModule) -> None:
    """plan_rows_chunk(context, chunk): the kernel on a part of the rows, or of the columns of the only row."""
    with module.function("plan_rows_chunk", void, internal=True, context=ptr, chunk=i64) as b:
        context = {name: b.pointer(b.arg("context"), ptr)[i] for i, name in enumerate(_CONTEXT)}
        operands, meta = Pointer(context["operands"], ptr), Pointer(context["meta"], i64)
        n, geometry = meta[_N_OPERANDS], meta + _GEOMETRY
        n_units, per_chunk = units(b, geometry)
        start = b.arg("chunk") * per_chunk
        left = n_units - start
        size = b.smaller(left, per_chunk)
        one_row = geometry[0] == 1
        own_geometry, own_operands = b.array(i64, 2 + 2 * MAX_OPERANDS), b.array(ptr, MAX_OPERANDS)
        with b.loop(2, n * 2 + 2) as i:
            own_geometry[i] = geometry[i]
        own_geometry[0] = b.select(one_row, b.const(i64, 1), size)
        own_geometry[1] = b.select(one_row, size, geometry[1])
        with b.loop(0, n) as i:
            step = b.select(one_row, geometry[n + i + 2], geometry[i + 2])
            own_operands[i] = b.byte_offset(operands[i], start * step)
        status = b.call_address(_kernel(b, meta), i64, own_operands.address, own_geometry.address)
        with b.if_(status != 0):
            Pointer(context["refused"], i64)[0] = status
