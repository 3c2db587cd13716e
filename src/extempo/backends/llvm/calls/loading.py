"""Loading the code of calls. It follows from the sources and few other facts: a later process need not write it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.builder import IRModule
from ..ir.machine import CALLS, Library, machine
from ..ir.sources import digest_of_all

_LLVM = "backends/llvm"
_WRITERS = (
    *("core/types.py", "core/trace_tree.py"),
    *(f"{_LLVM}/{folder}" for folder in ("ir", "elementwise", "calls", "threads")),
)
_digest: list[str | None] = []


def load_calls(
    write: Callable[[IRModule], None], names: Sequence[str], facts: object = (), kind: str = CALLS
) -> Library:
    """What `write` writes, compiled and loaded. `facts`: all that it depends on besides the sources, as far as it
    differs between computers and versions of Python; their text must tell them apart. `names`: what it defines.
    """

    def written() -> IRModule:
        module = IRModule()
        write(module)
        return module

    if not _digest:
        _digest.append(digest_of_all(_WRITERS))
    if _digest[0] is None:
        module = written()
        return machine().load(module.text(), list(names), module.imports, kind)
    return machine().load_as(f"{_digest[0]} {list(names)} {facts!r}", list(names), written, kind)
