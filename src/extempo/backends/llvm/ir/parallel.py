"""Jobs in parts: `void part(ptr context, i64 i)` for every i below a number, on the threads there are.

The part is a function of the module that is written; `threads.pool` has the one that runs them, and its contract.
"""

from __future__ import annotations

from .builder import IRFunction
from .types import i64, ptr, void
from .values import Value


def run_shared(b: IRFunction, part: str | Value, context: Value, n_parts: Value) -> None:
    """Every part once, in any order, on any thread. `part`: its name, or its address."""
    address = b.module.address_of(b, part) if isinstance(part, str) else part
    b.call(b.module.declare("extempo_parallel", void, [ptr, ptr, i64]), address, context, n_parts)


def run_long(b: IRFunction, part: str, context: Value, n_parts: Value, is_long: Value) -> None:
    """The same; a single part that takes milliseconds (`is_long`) runs without the GIL."""
    alone, shared = b.if_else((n_parts == 1) & is_long)
    with alone:
        run = b.module.declare("extempo_long_part", void, [ptr, ptr])
        b.call(run, b.module.address_of(b, part), context)
    with shared:
        run_shared(b, part, context, n_parts)


def run_parts(b: IRFunction, part: str, context: Value, n_parts: Value) -> None:
    """The same; a single part is called without asking for threads."""
    several, one = b.if_else(n_parts > 1)
    with several:
        run_shared(b, part, context, n_parts)
    with one:
        b.call(b.module.defined[part], context, 0)
