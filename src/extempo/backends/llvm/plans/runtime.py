"""The native code that all plans share, as one library: what runs a plan, and the instructions that are not kernels."""

from __future__ import annotations

import functools

from ..calls.cpython import Python
from ..calls.nan_checks import CountedPlans
from ..ir.builder import IRModule, i64, ptr
from ..ir.machine import CALLS, Library, machine
from .rows import write_rows
from .running import write_run

_NAMES = ["extempo_plan_run", "plan_rows", "plan_zero", "plan_copy"]
_libraries: list[Library] = []


def runtime() -> dict[str, int]:
    """The address of each function, by its name; compiled if need be."""
    if not _libraries:
        module = IRModule()
        write_run(module)
        write_rows(module)
        _write_zero(module)
        _write_copy(module)
        _libraries.append(machine().load(module.text(), _NAMES, module.imports, CALLS))
    return _libraries[0].address


def timed_run() -> int:
    """The address of what runs a plan and writes records of its instructions, for a profile; compiled if need be."""
    module = IRModule()
    write_run(module, is_timed=True)
    return machine().load(module.text(), ["extempo_plan_run"], module.imports, CALLS).address["extempo_plan_run"]


@functools.cache
def checked_run() -> tuple[int, CountedPlans]:
    """The address of what runs a plan and counts what leaves it that is not finite, and the counts."""
    module = IRModule()
    write_run(module, is_checked=True)
    names = ["extempo_plan_run", "extempo_plan_counts"]
    address = machine().load(module.text(), names, module.imports, CALLS).address
    return address["extempo_plan_run"], CountedPlans(address["extempo_plan_counts"])


def _write_zero(module: IRModule) -> None:
    with module.function("plan_zero", i64, buffers=ptr, meta=ptr) as b:
        Python(b).zero(b.pointer(b.arg("buffers"), ptr)[0], b.pointer(b.arg("meta"), i64)[0])
        b.ret(0)


def _write_copy(module: IRModule) -> None:
    with module.function("plan_copy", i64, buffers=ptr, meta=ptr) as b:
        buffers = b.pointer(b.arg("buffers"), ptr)
        b.call(module.declare("memcpy", ptr, [ptr, ptr, i64]), buffers[0], buffers[1], b.pointer(b.arg("meta"), i64)[0])
        b.ret(0)
