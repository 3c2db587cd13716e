"""Fast path of elementwise ops with one and two inputs, in which small models spend their time: one native call an op.

The native call (`backends.llvm.calls.launch`) hands anything out of the ordinary (other dtypes, an interceptor) to
`FastOp._slow`, which runs `apply` and prepares what the next native call needs. `launcher` is what all native calls on
tensors are made by.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..backends import entry_points
from ..core.context import CONTEXT, ExecutionContext
from ..core.graph import Extra, Leaf, Node, next_number
from ..core.op import REGISTRY, Op, Refuse, Signature
from ..core.source_location import PACKAGES, user_line
from ..core.storage import Storage
from ..core.tensor import Tensor, ViewOf, is_operand
from ..core.tensor_methods import TensorMethods
from ..core.types import TensorType, broadcast_shapes, float32, float64
from ..errors import ShapeError
from .dispatcher import NO_ATTRS, apply, dispatch
from .kernel_cache import SIGNATURES, make_signature

if TYPE_CHECKING:
    from ..backends.llvm.calls.launch import Launch, Launcher

_DTYPES = (float32, float64)
_CASES = ((), (float, 0), (float, 1), (int, 0), (int, 1))
_MOST_TYPES = 10_000
_PLAIN: list[type[Tensor]] = [Tensor]


class FastOp:
    """An op that runs by `run(*inputs)`: natively where that is possible. The result may be NotImplemented."""

    def __init__(self, op: type[Op], arity: int) -> None:
        self.op = op
        self.arity = arity
        self.run: Callable[..., Any] = self._slow
        self.launch: Launch | None = None
        self._refused: set[Any] = set()
        self.operator: Any = None  # the Python function that stands for `run` as an operator of Tensor
        self.binding = entry_points.FAST_OP.bind(self, "run", self._native_run)

    def _native_run(self) -> Callable[..., Any] | None:
        if self.op.simple:
            self.launch = launcher().launch(self.op.name, self.op, self.arity, self._slow)
            return self.launch.call
        return launcher().operator(self.op, self._slow) if self.arity == 2 else None

    def _slow(self, *inputs: Any) -> Any:
        """Run the op by `apply`, and have the next native call find what this one lacked (a type, kernel, gradient)."""
        if self.launch is not None and self._wanted_type(self.launch, inputs):
            return self.run(*inputs)
        for x in inputs:
            if not is_operand(x):
                return NotImplemented if self.arity == 2 else apply(self.op, inputs)
        out = apply(self.op, inputs)
        if self.launch is not None and isinstance(out, Tensor) and out._data is not None:
            self._prepare(self.launch, inputs)
        return out

    def _wanted_type(self, launch: Launch, inputs: tuple[Any, ...]) -> bool:
        """Whether the type that two shapes broadcast to was all that the native call lacked; now it is there."""
        if len(inputs) != 2 or not isinstance(inputs[0], Tensor) or not isinstance(inputs[1], Tensor):
            return False
        if inputs[0]._data is None or inputs[1]._data is None:
            return False
        types = a, b = inputs[0]._type, inputs[1]._type
        if a.dtype is not b.dtype or a.dtype not in _DTYPES or a == b or types in launch.types:
            return False
        if not launch.has_kernel(_DTYPES.index(a.dtype), _CASES.index(())):
            return False
        try:
            shape = broadcast_shapes(a.shape, b.shape)
        except ShapeError:  # the op's own rule says it better
            return False
        if len(launch.types) >= _MOST_TYPES:
            launch.types.clear()
        launch.types[types] = TensorType(shape, a.dtype)
        return True

    def _prepare(self, launch: Launch, inputs: tuple[Any, ...]) -> None:
        """Fill in what made the native call come here, if it was for want of a kernel or a gradient."""
        tensors = [x for x in inputs if isinstance(x, Tensor)]
        kinds = tuple((type(x), k) for k, x in enumerate(inputs) if not isinstance(x, Tensor))
        if not tensors or len(kinds) > 1:
            return
        d = tensors[0]._type.dtype
        if d not in _DTYPES or any(x._type.dtype is not d for x in tensors):
            return
        case = kinds[0] if kinds else ()
        if case not in _CASES:
            return
        needs = sum((type(x._node) is Node) << k for k, x in enumerate(inputs) if isinstance(x, Tensor))
        types = tuple(x._type if isinstance(x, Tensor) else type(x) for x in inputs)
        place = (_DTYPES.index(d), _CASES.index(case))
        if (place, needs) in self._refused or not self._prepare_kernel(launch, place, types):
            self._refused.add((place, needs))
            return
        if needs and not launch.has_gradient(*place, needs):
            derived = _derive(self.op, needs, types)
            launch.set_gradient(*place, needs, derived if derived.kernel else None, derived.reads)

    def _prepare_kernel(self, launch: Launch, place: tuple[int, int], types: tuple[Any, ...]) -> bool:
        if launch.has_kernel(*place):
            return True
        from ..backends.llvm.elementwise.kernels import of_op

        kernel = of_op(self.op, types, NO_ATTRS)
        if kernel is None or self.op.signature(types, NO_ATTRS).compute is not None:
            return False
        launch.set_kernel(*place, kernel)
        return True


def runner1(op: type[Op], deliver: Callable[..., Any]) -> Callable[..., Any]:
    """`input -> apply(op, (input,))`; with `out=`, `deliver(result, out, input)`."""
    fast_op = FastOp(op, 1)

    def run1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        return fast_op.run(input) if out is None else deliver(fast_op.run(input), out, input)

    return run1


def runner2(op: type[Op]) -> Callable[[Any, Any], Any]:
    """`a, b -> apply(op, (a, b))`, or NotImplemented for what is no operand, so that it can serve as an operator."""
    fast_op = FastOp(op, 2)

    def run2(a: Any, b: Any) -> Any:
        return fast_op.run(a, b)

    fast_op.operator = run2
    return run2


def native_call(op: type[Op], arity: int) -> Callable[..., Any] | None:
    """The native call of an op without attributes, if it has one."""
    fast_ops = (binding.owner for binding in entry_points.FAST_OP.bindings)
    return next((f.run for f in fast_ops if f.op is op and f.arity == arity and f.launch is not None), None)


def bind_operators() -> None:
    """Have the operators of Tensor replaced by native calls; called when they all are there.

    They are exchanged on the class itself, by objects that bind like functions: a Python method around the native call
    would take longer than the call.
    """
    runners = {id(binding.owner.operator): binding for binding in entry_points.FAST_OP.bindings}
    for name, attribute in list(vars(TensorMethods).items()):
        run = runners.get(id(attribute)) if name.startswith("__") else None
        if run is not None:
            entry_points.OPERATOR.bind(TensorMethods, name, functools.partial(_as_method, run.native), attribute)
    product: Any = vars(TensorMethods)["__matmul__"]
    by_apply = functools.partial(_as_method, lambda: launcher().operator(REGISTRY["matmul"], product))
    entry_points.OPERATOR.bind(TensorMethods, "__matmul__", by_apply, product)


def _as_method(make: Callable[[], Callable[..., Any]]) -> Any:
    """What becomes a bound method when it is looked up on an instance, as C functions do not."""
    bind = ctypes.pythonapi.PyInstanceMethod_New
    bind.restype, bind.argtypes = ctypes.py_object, [ctypes.py_object]
    return bind(make())


def plain_class(cls: type[Tensor]) -> None:
    """Treat instances of this subclass like tensors in native calls: it adds nothing that an op would see."""
    _PLAIN[:] = [cls]
    if launcher.cache_info().currsize:
        launcher().set_parameter(cls)


def is_plain(cls: type) -> bool:
    """Whether its instances are tensors to native code."""
    return cls is Tensor or cls in _PLAIN


def _find_line() -> Any:
    return user_line()  # one frame more than native code would be: this is Extempo's own


@functools.cache
def launcher() -> Launcher:
    """What makes native calls on tensors, of the native backend, which must be there.

    Native code knows classes of higher rooms by the offsets of their slots: they are handed to it here.
    """
    from ..backends.llvm.calls.launch import Launcher
    from ..backends.llvm.calls.objects import Classes
    from ..scheduling.request import Plan
    from ..tracing.executor import TraceExecutor
    from ..tracing.segment import Counters, Segment
    from ..tracing.trace import Trace

    classes = Classes(
        *(Tensor, _PLAIN[0], Storage, Node, ExecutionContext, ViewOf, Signature),
        *(TraceExecutor, Trace, Counters, Segment, Plan, Extra),
    )
    table = {
        "mode_variable": CONTEXT,
        "no_attributes": NO_ATTRS,
        "next_number": next_number,
        "leaf": Leaf,
        "find_line": _find_line,
        "packages": PACKAGES,
        "own_node": Tensor._own_node,
        "no_grad": "no_grad()",
        "inference": "inference_mode()",
    }
    return Launcher(classes, table, SIGNATURES, make_signature, dispatch)


class _NoKernel:
    """A gradient to be computed op by op: what it reads, and no kernel."""

    kernel = None

    def __init__(self, reads: tuple[int, ...]) -> None:
        self.reads = reads


def _derive(op: type[Op], needs: int, types: tuple[Any, ...]) -> Any:
    """The derived gradient of a simple op. Halves have no kernel: they are rounded after every op, and only there."""
    from ..autograd.derive import derived_vjp

    if isinstance(op.vjp, Refuse):
        return _NoKernel(())
    derived = derived_vjp(op, needs, types)
    in_halves = any(isinstance(t, TensorType) and t.dtype.itemsize == 2 for t in types)
    return _NoKernel(derived.reads) if in_halves else derived
