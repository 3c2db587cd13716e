"""A matrix product and a cluster that reads it, as one instruction: the kernel takes each part as it is made.

The product is the same routine as otherwise, with the same bits; the epilogue says what it does with each part of its
result that is done (see EPILOGUE in routines/gemm_record.py). `meta` of the epilogue: the kernel's address, the number
of its operands, their strides in bytes from row to row, then from column to column.
"""

from __future__ import annotations

from ..ir.builder import IRModule, Pointer, i64, ptr, void
from ..routines.products import EPILOGUE_AT
from .rows import MAX_OPERANDS
from .sharing import Shared

_KERNEL, _N_OPERANDS, _STRIDES = range(3)


def with_epilogue(
    meta: tuple[int, ...], first_buffer: int, kernel: int, rows: list[int], columns: list[int]
) -> tuple[int, ...]:
    """The meta of a product whose buffers from `first_buffer` on are the operands of a kernel."""
    own = (EPILOGUE.address(), first_buffer, kernel, len(rows), *rows, *columns)
    return (*meta[:EPILOGUE_AT], len(meta), *meta[EPILOGUE_AT + 1 :], *own)


def _write(module: IRModule) -> None:
    with module.function("plan_epilogue", void, context=ptr, row=i64, n_rows=i64, column=i64, n_columns=i64) as b:
        words = Pointer(b.arg("context"), ptr)
        buffers, meta = Pointer(words[0], ptr), Pointer(words[1], i64)
        n, strides = meta[_N_OPERANDS], meta + _STRIDES
        operands, geometry = b.array(ptr, MAX_OPERANDS), b.array(i64, 2 + 2 * MAX_OPERANDS)
        geometry[0], geometry[1] = b.arg("n_rows"), b.arg("n_columns")
        with b.loop(0, n) as i:
            row, column = strides[i], strides[n + i]
            geometry[i + 2], geometry[n + i + 2] = row, column
            operands[i] = b.byte_offset(buffers[i], b.arg("row") * row + b.arg("column") * column)
        kernel = b.emit(ptr, f"inttoptr i64 {meta[_KERNEL].text} to ptr")
        status = b.call_address(kernel, i64, operands.address, geometry.address)
        with b.if_(status != 0):
            Pointer(words[2], i64)[0] = status


EPILOGUE = Shared("plan_epilogue", _write)
