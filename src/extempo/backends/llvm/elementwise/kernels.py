"""Elementwise ops, and graphs of them, as native kernels on arrays.

Op or Graph in, a callable out: ndarrays and numbers in, new arrays out. A graph becomes one kernel: every node's
`lower` is called on the lanes of its inputs, with the conversions that the node's types ask for, so its results are
bit for bit those of running the ops one after another.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any

from ....core.cache import Cache
from ....core.graph import Graph, Leaf, Node
from ....core.op import Op, Refuse, Routine, Signature
from ....core.types import TensorType, dtype, float64, from_numpy_dtype, int64
from ....core.types import bool_ as bool_dtype
from ..calls.callables import function
from ..calls.cpython import Python
from ..calls.loading import load_calls
from ..ir.builder import IRModule, Value, i64, ptr
from ..ir.machine import RARE, Library, machine
from ..lanes.emitter import Emitter, NotNative
from .broadcasting import DECLINED, DONE, MAX_INPUTS, MAX_RESULTS, pack, write_usual_run
from .loops import lanes_of, probed, supported, write_kernel
from .safe_entry import write_any_run

_KINDS = "01s"


def lowered(op: type[Op]) -> bool:
    """Whether the op is a function of single elements that has native code."""
    return op.family == "elementwise" and not isinstance(op.lower, Refuse | Routine)


def _index(kinds: str) -> int:
    """The place of a variant in a kernel's table."""
    index = 0
    for kind in kinds:
        index = index * 3 + _KINDS.index(kind)
    return index


class ElementwiseKernel:
    """One elementwise function for one combination of dtypes, in as many variants as layouts have asked for."""

    def __init__(self, name: str, body: Callable[..., Any], inputs: Sequence[dtype], results: Sequence[dtype]) -> None:
        self.name = name
        self.inputs = tuple(inputs)
        self.results = tuple(results)
        self.body = body
        self._table = (ctypes.c_int64 * 3 ** len(inputs))()
        self._libraries: list[Library] = []
        self._callback = self.build  # the record holds the address of this very object
        self.record = bytearray(pack(inputs, results, ctypes.addressof(self._table), self._callback))

    def build(self, pattern: int) -> None:
        """Compile the variant for inputs that run along a row in this way, one ternary digit each."""
        kinds = ""
        for _ in self.inputs:
            pattern, digit = divmod(pattern, 3)
            kinds = _KINDS[digit] + kinds
        module = IRModule()
        write_kernel(module, "kernel", self.body, self.inputs, self.results, kinds)
        library = machine().load(module.text(), ["kernel"], module.imports)
        self._libraries.append(library)
        self._table[_index(kinds)] = library.address["kernel"]

    def variant(self, kinds: str) -> int:
        """The address of the variant for inputs that run along a row like this."""
        index = _index(kinds)
        if self._table[index] == 0:
            self.build(index)
        return self._table[index]

    def place(self, kinds: str) -> int:
        """The cell that has the address of that variant once it is built; 0 until then."""
        return ctypes.addressof(self._table) + ctypes.sizeof(ctypes.c_int64) * _index(kinds)

    def callable(self, fallback: Callable[..., Any], as_tuple: bool = False) -> Callable[..., Any]:
        """A function of arrays and numbers; `fallback` runs for what native code does not take."""
        name = "extempo_elementwise_tuple" if as_tuple else "extempo_elementwise_call"
        return function(self.name, runtime().address[name], (self.record, fallback, self))


def write_call(module: IRModule, name: str, as_tuple: bool) -> None:
    """A record, a fallback and arrays in; an array, or a tuple of arrays, out."""
    with module.function(name, ptr, self=ptr, args=ptr, nargs=i64) as b:
        python = Python(b)
        packed = b.arg("self")
        record = b.pointer(python.bytes_of(python.item(packed, 0)), i64)
        results = b.array(ptr, MAX_RESULTS)
        status = b.var(i64, DECLINED)
        with b.if_(b.arg("nargs") == record[0]):
            status.set(b.call(module.defined["extempo_elementwise"], record.address, b.arg("args"), results.address, 0))
        with b.if_(status.value == DECLINED):
            b.ret(python.vectorcall(python.item(packed, 1), b.arg("args"), b.arg("nargs"), b.const(ptr, 0)))
        with b.if_(status.value != DONE):
            b.ret(b.const(ptr, 0))
        if not as_tuple:
            b.ret(results[0])
            return
        made = python.new_tuple(record[1])
        with b.if_(made == 0):
            b.ret(made)
        with b.loop(0, record[1]) as i:
            python.set_item(made, i, results[i])
        b.ret(made)


_runtime: list[Library] = []


def runtime() -> Library:
    """The native functions that call kernels."""
    if not _runtime:

        def write(module: IRModule) -> None:
            write_usual_run(module)
            write_call(module, "extempo_elementwise_call", as_tuple=False)
            write_call(module, "extempo_elementwise_tuple", as_tuple=True)

        for_any = load_calls(write_any_run, ["elementwise_any"], kind=RARE)
        machine().offer("elementwise_any", for_any.address["elementwise_any"])
        names = [f"extempo_elementwise{name}" for name in ("", "_call", "_tuple")]
        library = load_calls(write, names)
        machine().offer("extempo_elementwise", library.address["extempo_elementwise"])
        _runtime.append(library)
    return _runtime[0]


# ---- from ops and graphs to kernels

_UNSEEN: Any = object()
_KERNELS: Cache[Any, ElementwiseKernel | None] = Cache("native elementwise kernels", 4_000)


def number_dtype(kind: type) -> dtype:
    """In which a Python number travels to a kernel: as wide as Python has it, rounded where it is used."""
    return int64 if kind is int else bool_dtype if kind is bool else float64


def operand_dtype(t: Any) -> dtype | None:
    """The dtype of a kernel's operand for an input of that type; None where there is no native code for it."""
    if isinstance(t, TensorType):
        return t.dtype if supported(t.dtype) else None
    if t is NoneType:
        return bool_dtype  # a place that nobody reads
    return number_dtype(t) if t in (float, int, bool) else None


def of_op(
    op: type[Op], types: tuple[Any, ...], attrs: dict[str, Any], signature: Signature | None = None
) -> ElementwiseKernel | None:
    """The kernel of one op for inputs of these types; conversions that its signature asks for are part of it."""
    if not lowered(op) or len(types) > MAX_INPUTS:
        return None
    operands = [operand_dtype(t) for t in types]
    signature = signature or op.signature(types, attrs)
    result = signature.type
    if any(d is None for d in operands) or not isinstance(result, TensorType) or not supported(result.dtype):
        return None
    numbers = tuple(None if t is NoneType else not isinstance(t, TensorType) for t in types)
    # Of shapes, only whether a tensor is 0-dim matters, for promotion: the dtypes of computing and of the result tell.
    key: Any = (op, tuple(operands), numbers, tuple(sorted(attrs.items())), signature.compute, result.dtype)
    found = _KERNELS.get(key, _UNSEEN)
    if found is _UNSEEN:
        of_ones = tuple(TensorType((1,) * t.ndim, t.dtype) if isinstance(t, TensorType) else t for t in types)

        def body(e: Emitter, values: list[Value]) -> list[Value]:
            return [_apply(e, op, values, of_ones, attrs)]

        made = ElementwiseKernel(op.name, body, operands, [result.dtype])  # type: ignore[arg-type] # as seen
        found = _KERNELS.put(key, _written(made))
    return found


def of_graph(name: str, graph: Graph, arguments: Sequence[Node], weak: set[Node]) -> ElementwiseKernel | None:
    """One kernel for a graph of elementwise ops; None if one of its ops or dtypes has no native code.

    `weak`: the nodes that are Python numbers, computed as wide as Python has them.
    """
    inner = [n for n in graph if n.op is not Leaf]
    dtypes = [operand_dtype(a.type) for a in arguments]
    results = [operand_dtype(o.type) for o in graph.outputs]
    every = [*(operand_dtype(n.type) for n in inner if n not in weak), *dtypes, *results]
    fits = len(arguments) <= MAX_INPUTS and len(results) <= MAX_RESULTS
    if not fits or not all(lowered(n.op) for n in inner) or any(d is None for d in every):
        return None

    def body(e: Emitter, values: list[Value]) -> list[Value]:
        known: dict[Node, Value] = dict(zip(arguments, values, strict=True))
        for node in inner:
            types = tuple(_kind(i, weak) for i in node.inputs)
            inputs = [known[i] if isinstance(i, Node) else i for i in node.inputs]
            known[node] = _apply(e, node.op, inputs, types, node.attrs)
        return [known[o] for o in graph.outputs]

    return _written(ElementwiseKernel(name, body, dtypes, results))  # type: ignore[arg-type] # None was ruled out


def _kind(source: Any, weak: set[Node]) -> Any:
    """The type of a node's input: a TensorType, or the Python type of a number."""
    if not isinstance(source, Node):
        return type(source)
    if source not in weak or source.op is Leaf:
        return source.type
    return bool if source.type.dtype is bool_dtype else float


def _written(kernel: ElementwiseKernel) -> ElementwiseKernel | None:
    """The kernel, or None if one of its ops turns out to have no native code for these dtypes."""
    try:
        probed(kernel.body, kernel.inputs)
    except NotNative:
        return None
    return kernel


def _apply(e: Emitter, op: type[Op], inputs: Sequence[Any], types: tuple[Any, ...], attrs: dict[str, Any]) -> Value:
    """The op's code on lanes, each input converted to the dtype that the op computes in."""
    signature = op.signature(types, attrs)
    own = [t.dtype for t in types if isinstance(t, TensorType)]
    result: dtype = signature.type.dtype
    if not own:  # numbers among themselves stay as wide as Python has them
        compute = float64
        result = bool_dtype if result is bool_dtype else float64
    elif signature.compute is not None:
        compute = from_numpy_dtype(signature.compute)
    else:
        compute = next((d for d in own if d is not bool_dtype), own[0]) if result is bool_dtype else result
    converted = []
    for x, t in zip(inputs, types, strict=True):
        keeps_own = own and signature.compute is None and isinstance(t, TensorType)
        converted.append(None if t is NoneType else as_lanes(e, x, t.dtype if keeps_own else compute))
    return as_lanes(e, op.lower(e, *converted, **attrs), result)


def as_lanes(e: Emitter, x: Any, d: dtype) -> Value:
    """A value or number as lanes of that dtype."""
    if not isinstance(x, Value):
        return e.b.const(lanes_of(d, e.lanes), x)
    return e.cast(x if x.type.lanes == e.lanes else e.b.splat(x, e.lanes), d)
