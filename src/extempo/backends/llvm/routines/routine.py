"""Hand-written native routines: what an op's `lower = Routine("name")` refers to.

A routine is code for an op, generic in sizes, and a rule that binds it to the sizes of one call:

    @routine("softmax")
    def bind(types, attrs):
        rows, columns = ...
        return Bound(build("softmax_f32", write_softmax), reads="c", writes=(types[0],), meta=(rows, columns))

The code is a function `i64 f(ptr buffers, ptr meta)`. `buffers` holds the address of every input (null for None and for
numbers), then of every result, then of the scratch memory. `meta` holds the bound numbers, then for each input in
order its strides in elements ("m", "s") or its value (a double for "f", an int64 for "i"). It returns 0, or anything
else to say that the op's NumPy kernel has to run instead, which raises the error that teaches.

`bind` returns None where NumPy is to run: another dtype, a case not worth native code. It must decide by types and
attributes alone, so that a result never depends on history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ....core.types import TensorType, count
from ..ir.builder import IRFunction, IRModule, Pointer, Type, f32, f64, i64, ptr
from ..ir.machine import Library, machine

# What a call is bound by: for each input its TensorType, or the class of a number (NoneType for None); the attributes.
Inputs = tuple[Any, ...]
Attrs = dict[str, Any]

ROUTINES: dict[str, Callable[[Inputs, Attrs], Bound | None]] = {}
FLOATS: dict[str, Type] = {"float32": f32, "float64": f64}
_BUILT: dict[str, tuple[Library, int]] = {}


class Bound(NamedTuple):
    """A routine with everything but the arrays."""

    address: int
    # For each input: c contiguous, m a matrix with one of its last two strides 1, s strided, f i numbers, - None.
    reads: str
    writes: tuple[TensorType, ...]
    meta: tuple[int, ...] = ()
    scratch: int = 0  # bytes
    zeroed: bool = False  # results start as zeros
    keep: Any = None  # what must stay alive as long as this does
    parts: Any = None  # its size, for plans that run it interleaved with others (Product, Summed)
    in_parts: bool = False  # an input that `is_spread` is not copied for it: its fallback takes that part by part
    origin: Any = None  # (op, kinds of inputs, attributes) in plans, which may bind it for other sizes


def element_of(t: Any) -> Type | None:
    """The type of a floating tensor's elements; None for what has no native code."""
    return FLOATS.get(t.dtype._name) if isinstance(t, TensorType) else None


def rounded_up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


SPREAD_FROM = 1 << 22  # bytes; what is smaller may as well be copied


def is_spread(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Whether it is large only because it was expanded. `calls.glue` has this in native code."""
    expanded = any(size > 1 and stride == 0 for size, stride in zip(shape, strides, strict=True))
    return expanded and count(shape) * itemsize >= SPREAD_FROM


def routine(name: str) -> Callable[[Any], Any]:
    """Register the rule that binds the routine of that name."""

    def register(bind: Any) -> Any:
        if name in ROUTINES:
            raise TypeError(f"routine {name} is defined twice")
        ROUTINES[name] = bind
        return bind

    return register


@contextmanager
def routine_code(module: IRModule, name: str) -> Iterator[tuple[IRFunction, Pointer, Pointer]]:
    """Write the function of a routine: (what it is written with, `buffers`, `meta`)."""
    with module.function(name, i64, buffers=ptr, meta=ptr) as b:
        yield b, Pointer(b.arg("buffers"), ptr), Pointer(b.arg("meta"), i64)


def build(name: str, write: Callable[..., None], *args: Any) -> int:
    """The address of the function `name`, which `write(module, name, *args)` writes when it is not there yet.

    The name says everything that the code depends on, apart from the CPU: `softmax_f32`, `gemm_f32_6x16`.
    """
    found = _BUILT.get(name)
    if found is None:
        module = IRModule()
        write(module, name, *args)
        library = machine().load(module.text(), [name], module.imports)
        found = _BUILT[name] = (library, library.address[name])
    return found[1]
