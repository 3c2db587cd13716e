"""Kernel cache: for each op, input types and attributes the Signature, with the kernel that runs it.

The shape rule is asked and the native kernel bound once for each of these. Both are arithmetic on sizes, so for a shape
class (op, ranks, dtypes, attributes) that comes up at one size after another they are learnt as functions of its sizes
(`sym_int.generalize`), and a new size of it costs a few microseconds: the same kernels either way.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextvars import Context
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from ..backends.selection import FALLBACKS, native, short_of_memory
from ..core.cache import Cache
from ..core.context import CONTEXT, ExecutionContext
from ..core.graph_interpreter import convert
from ..core.op import Op, Routine, Signature, plain_attributes
from ..core.storage import Array
from ..core.strides import laid_out
from ..core.types import DEFAULT_DTYPE_LISTENERS, TensorType, check_size
from ..errors import DtypeError, ExtempoError, NumericalError
from ..symbolic.sym_int import SIZES, DataDependent, GuardedCache, depends

SIGNATURES: Cache[tuple[Any, ...], Signature] = Cache("shape rules", 20_000)
SIZED = frozenset({"shape", "spec", "n_rows"})  # attributes that hold sizes


class ShapeClass(GuardedCache):
    """An op's inputs and attributes without sizes: kernels at any sizes, and what makes plans of gradients."""

    __slots__ = ("gradients",)

    def __init__(self) -> None:
        super().__init__()
        self.gradients: dict[int, Any] = {}  # by the inputs that need one, as bits: has `reads` and `plan(sizes)`


_STRUCTURES: Cache[Any, ShapeClass] = Cache("shape rules of any sizes", 2_000)
DEFAULT_DTYPE_LISTENERS.extend((SIGNATURES.clear, _STRUCTURES.clear))


# ---- NumPy's kernels


def _quiet_context() -> Context:
    """A context in which NumPy's floating-point warnings are off: PyTorch's kernels do not warn either."""
    context = Context()
    context.run(np.seterr, all="ignore")
    return context


# Calling a kernel through this costs a twentieth of np.errstate. Only one thread at a time can be inside; one that
# finds it taken (a kernel of another thread has let go of the GIL) gets a RuntimeError and goes the slow way.
_run_quietly = _quiet_context().run


def _renew_quiet_context() -> None:
    global _run_quietly
    _run_quietly = _quiet_context().run


if hasattr(os, "register_at_fork"):  # another thread may have been inside when the process was forked
    os.register_at_fork(after_in_child=_renew_quiet_context)


def _call_quietly(fn: Callable[..., Any], arguments: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """Call it with NumPy's warnings off."""
    try:
        return _run_quietly(fn, *arguments, **attrs)
    except RuntimeError as error:
        if isinstance(error, ExtempoError) or "cannot enter context" not in str(error):
            raise
    with np.errstate(all="ignore"):
        return fn(*arguments, **attrs)


def as_result(out: Any, d: np.dtype[Any]) -> Array:
    """What a NumPy kernel returned as an array of the result's dtype: infinite where half precision overflows."""
    if d.itemsize != 2 or getattr(out, "dtype", None) == d:
        return np.asarray(out, d)
    result: Array = _call_quietly(np.asarray, (out, d), {})
    return result


def numpy_kernel(op: type[Op], arrays: list[Any], attrs: dict[str, Any], compute: Any, mode: ExecutionContext) -> Any:
    """Run the op's NumPy kernel, on inputs of the dtype that it computes in (None: they are)."""
    if not op.aliases_input:
        FALLBACKS[op.name] += 1
    try:
        return _laid_out(op, arrays, attrs, compute, mode)
    except MemoryError as error:
        with short_of_memory(op.public_name, error):
            return _laid_out(op, arrays, attrs, compute, mode)


def _laid_out(op: type[Op], arrays: list[Any], attrs: dict[str, Any], compute: Any, mode: ExecutionContext) -> Any:
    """What the kernel computes, in memory as the layout rule says."""
    out = _computed(op, arrays, attrs, compute, mode)
    if op.aliases_input or op.own_order:
        return out
    lays = partial(laid_out, operands=arrays if op.keeps_order else ())
    return tuple(map(lays, out)) if type(out) is tuple else lays(out)


def _computed(op: type[Op], arrays: list[Any], attrs: dict[str, Any], compute: Any, mode: ExecutionContext) -> Any:
    try:
        if compute is not None:
            arrays = [convert(a, compute) for a in arrays]
        if mode.quiet or op.quiet:
            return op.numpy(*arrays, **attrs) if attrs else op.numpy(*arrays)
        return _call_quietly(op.numpy, arrays, attrs)
    except OverflowError as error:
        raise NumericalError(
            f"{op.name}: a number lies outside of int64, from -2**63 to 2**63 - 1; use a float, such as 1e30"
        ) from error


def numpy_call(op: type[Op], attrs: dict[str, Any], compute: Any, dtypes: Any, *arrays: Any) -> Any:
    """The NumPy kernel's results in their dtypes (a tuple for several results, else one): what native kernels give."""
    out = numpy_kernel(op, list(arrays), attrs, compute, CONTEXT.get())
    if type(dtypes) is not tuple:
        return as_result(out, dtypes)
    return tuple([as_result(o, d) for o, d in zip(out, dtypes, strict=True)])


# ---- kernels and signatures


class BoundKernel:
    """An op on inputs of some types, whose sizes may be symbolic: its signature, and the code that runs it."""

    __slots__ = ("_shared", "code", "dtypes", "op", "present", "reason", "signature", "view_words")

    def __init__(self, op: type[Op], types: tuple[Any, ...], attrs: dict[str, Any]) -> None:
        self.op = op
        self.present = sum([(type(t) is TensorType) << i for i, t in enumerate(types)])  # inputs that are tensors
        self.reason = not_floating(op)
        self.signature = signature = op.signature(types, attrs)
        result = signature.type
        self.dtypes: Any = result.dtype.numpy if type(result) is TensorType else tuple([t.dtype.numpy for t in result])
        self.code: Any = None
        self.view_words: Any = None
        self._shared: Any = None  # the native kernel, where it is the same for all sizes
        backend = native()
        if backend is None:
            return
        if op.aliases_input:
            if type(result) is TensorType:
                self.view_words = backend.view_words(op, types, attrs, result)
            if self.view_words is None or not isinstance(op.lower, Routine):
                return
        self.code = code = backend.code(op, types, attrs, signature)
        if code is not None and code.keep is not None and depends((types, attrs)):
            raise DataDependent("what was made for these sizes is no number")

    def fallback(self, attrs: dict[str, Any]) -> Callable[..., Any]:
        """What runs where native code declines: memory of another dtype or alignment, values that are an error."""
        return partial(numpy_call, self.op, attrs, self.signature.compute, self.dtypes)

    def native_call(self, attrs: dict[str, Any], words: Any) -> Callable[..., Any] | None:
        """The native kernel as a function of arrays, None where there is none."""
        backend = native()
        if self.code is None or backend is None:
            return None
        if words is not None or attrs:
            return backend.load(self.code, words, self.fallback(attrs))
        if self._shared is None:
            self._shared = backend.load(self.code, None, self.fallback(attrs))
        return self._shared

    def filled(self, attrs: dict[str, Any], numbers: tuple[Any, ...]) -> Signature:
        """The signature, with its kernel and view, for these numbers."""
        type_, words, view_words = numbers
        signature = Signature(type_, self.signature.compute)
        signature.kernel = self.native_call(attrs, words)
        signature.reason = self.reason
        backend = native()
        if view_words is not None and backend is not None:
            signature.view = backend.view(view_words)
            signature.embeds = signature.view if self.op.embeds else None
        return signature


def not_floating(op: type[Op]) -> str:
    """Why gradients end at a result of this op, for messages."""
    return f"{op.name}, whose result is not floating"


def make_signature(op: type[Op], types: tuple[Any, ...], attrs: dict[str, Any]) -> Signature:
    """The signature for these types, of a kernel that is bound now. It is remembered."""
    attrs = plain_attributes(op.public_name, attrs)
    structure, sizes = shape_class_of(op, types, attrs)
    numbers, kernel = structure.find(sizes) or learn(structure, sizes, op, types, attrs)
    signature = kernel.filled(attrs, numbers)
    for made in (signature.type,) if type(signature.type) is TensorType else signature.type:
        check_size(op.name, made.shape, made.dtype.itemsize)
    plans = signature.plans
    for (needs, present), reads in list(op._save_plans.items()):
        if present == kernel.present:
            plans[needs] = (reads, None)
    for needs, gradient in list(structure.gradients.items()):
        plans[needs] = (gradient.reads, gradient.plan(sizes))
    key = (op, types, *chain.from_iterable(attrs.items())) if attrs else (op, types)
    return SIGNATURES.put(key, signature)


def kernel_of(op: type[Op], types: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[tuple[Any, ...], BoundKernel]:
    """What runs the op on inputs of these types: what of it depends on their sizes, and what does not."""
    structure, sizes = shape_class_of(op, types, attrs)
    return structure.find(sizes) or learn(structure, sizes, op, types, attrs)


def learn(
    structure: ShapeClass, sizes: tuple[int, ...], op: type[Op], types: tuple[Any, ...], attrs: dict[str, Any]
) -> tuple[tuple[Any, ...], BoundKernel]:
    """What the structure does not know of these sizes."""
    try:
        made = _bound(op, types, attrs)
    except (AttributeError, TypeError) as error:
        if isinstance(error, ExtempoError) or all(type(t) is TensorType for t in types):
            raise
        given = " and ".join("Tensor" if type(t) is TensorType else t.__name__ for t in types)
        raise DtypeError(f"{op.name}: expected tensors, got {given}; make tensors with ex.tensor(...)") from error
    structure.missed(lambda *others: _bound(op, *with_sizes(types, attrs, iter(others))), sizes)
    return made


def _bound(op: type[Op], types: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[tuple[Any, ...], BoundKernel]:
    kernel = BoundKernel(op, types, attrs)
    return (kernel.signature.type, kernel.code and kernel.code.words, kernel.view_words), kernel


# ---- structures


def shape_class_of(op: type[Op], types: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[ShapeClass, tuple[int, ...]]:
    """The structure of an op's inputs and attributes, and their sizes."""
    key: list[Any] = [op]
    sizes: list[int] = []
    for t in types:
        if type(t) is TensorType:
            key += (len(t.shape), t.dtype)
            sizes += t.shape
        else:
            key.append(t)
    for name, value in attrs.items():
        key.append(name)
        if name in SIZED:
            _take_sizes(value, key, sizes)
        else:
            key.append(value)
    place = tuple(key)
    try:
        found = _STRUCTURES.get(place)
    except TypeError:  # an attribute that cannot be hashed
        return ShapeClass(), tuple(sizes)
    return found if found is not None else _STRUCTURES.put(place, ShapeClass()), tuple(sizes)


def sizes_of(types: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[Any, ...]:
    """The sizes in types and attributes, which may be symbolic."""
    sizes: list[Any] = []
    for t in types:
        if type(t) is TensorType:
            sizes += t.shape
    for name, value in attrs.items():
        if name in SIZED:
            _take_sizes(value, [], sizes)
    return tuple(sizes)


def _take_sizes(value: Any, key: list[Any], sizes: list[int]) -> None:
    if type(value) in SIZES:
        key.append(int)
        sizes.append(value)
    elif isinstance(value, tuple):
        key.append(len(value))
        for v in value:
            _take_sizes(v, key, sizes)
    else:
        key.append(value)


def with_sizes(
    types: tuple[Any, ...], attrs: dict[str, Any], sizes: Iterator[Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Types and attributes of that structure with other sizes, which may be symbolic, in order."""
    others = tuple(
        [TensorType(tuple([next(sizes) for _ in t.shape]), t.dtype) if type(t) is TensorType else t for t in types]
    )
    return others, {name: _put_sizes(v, sizes) if name in SIZED else v for name, v in attrs.items()}


def _put_sizes(value: Any, sizes: Iterator[Any]) -> Any:
    if type(value) is int:
        return next(sizes)
    return tuple([_put_sizes(v, sizes) for v in value]) if isinstance(value, tuple) else value
