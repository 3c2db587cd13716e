"""Tensor, and `apply()`: infer -> kernel -> node.

`apply` is the one door through which every op runs. In eager mode it asks the op's shape rule first (so that errors
rise at the user's line), runs the kernel, and, when an input requires grad, links a Node that keeps only what the op's
gradient reads. Any other way of running (a recording, vmap) stands in the current mode as an interceptor.
"""

from __future__ import annotations

import copy
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from typing import Any

import numpy as np

from . import dlpack
from ._methods import TensorMethods
from .backends.numpy import convert
from .errors import (
    AutogradError,
    DtypeError,
    ExtempoError,
    LeafWriteError,
    ShapeError,
    UnsupportedError,
)
from .graph import Leaf, Node, Pick, Where, leaf
from .kernel import Cache
from .modes import MODE, Mode
from .op import Op, Refuse, Signature
from .storage import Array, Storage
from .types import DEFAULT_DTYPE_LISTENERS, Number, Size, TensorType, bfloat16, dtype, from_numpy_dtype

NO_ATTRS: dict[str, Any] = {}
_NUMBERS = (float, int, bool, type(None))
_SIGNATURES: Cache[tuple[Any, ...], Signature] = Cache("shape rules", 20_000)
DEFAULT_DTYPE_LISTENERS.append(_SIGNATURES.clear)


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


def _call_kernel(op: type[Op], arrays: list[Any], attrs: dict[str, Any]) -> Any:
    """Call the NumPy kernel with warnings off."""
    try:
        return _run_quietly(op.numpy, *arrays, **attrs)
    except RuntimeError as error:
        if isinstance(error, ExtempoError) or "cannot enter context" not in str(error):
            raise
    with np.errstate(all="ignore"):
        return op.numpy(*arrays, **attrs)


def quietly(fn: Callable[..., Any], *args: Any) -> Any:
    """Call `fn` with NumPy's warnings off and the current mode saying so; about ten times cheaper than np.errstate."""
    mode = MODE.get()
    if mode.quiet:
        try:
            return fn(*args)
        finally:
            MODE.set(mode)

    def inside() -> Any:
        np.seterr(all="ignore")
        MODE.set(mode.but(quiet=True))
        return fn(*args)

    return copy_context().run(inside)


# Packages whose frames are Extempo's own, found once each; the command line's demo counts as a user.
_internal: dict[str | None, bool] = {}
_user_globals: Any = None  # the module that called last: most often it is the same again


def _is_internal(package: str | None) -> bool:
    answer = package is not None and (package + ".").startswith("extempo.") and not package.startswith("extempo.cli")
    _internal[package] = answer
    return answer


def user_line() -> Where | None:
    """The innermost line outside Extempo, as (code, instruction): frames are never kept, they would keep all locals."""
    global _user_globals
    frame = sys._getframe(1)
    while frame is not None:
        found = frame.f_globals
        if found is _user_globals:
            return frame.f_code, frame.f_lasti
        package = found.get("__package__")
        internal = _internal.get(package)
        if internal is None:
            internal = _is_internal(package)
        if not internal:
            _user_globals = found
            return frame.f_code, frame.f_lasti
        frame = frame.f_back  # type: ignore[assignment] # None ends the loop
    return None


class Alias:
    """How a tensor is a view: the base it looks into, the view ops that lead there, the version it last looked at."""

    __slots__ = ("base", "steps", "version")

    def __init__(
        self, base: Tensor, steps: tuple[tuple[type[Op], tuple[Any, ...], dict[str, Any]], ...], version: int
    ) -> None:
        self.base = base
        self.steps = steps
        self.version = version


class Tensor(TensorMethods):
    """An n-dimensional array that can record what is done to it and be differentiated.

    >>> import extempo as ex
    >>> x = ex.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __slots__ = ("__dict__", "__weakref__", "_alias", "_array", "_cut", "_node", "_pending", "_storage", "_type")

    _array: Any  # the values; None while they are only pending
    _storage: Any  # the memory they lie in
    _type: TensorType
    _node: Any  # what recorded it; None for a constant not used in a graph
    _alias: Any  # how it is a view of another tensor; None if it is not
    _cut: Any  # (what, where) cut the path of gradients; None if nothing did
    _pending: Any  # who knows the values when _array is None

    # ndarray + tensor is left to the tensor.
    __array_priority__ = 1000

    def __new__(cls, *data: Any, requires_grad: bool = False, dtype: Any = None, device: Any = None) -> Tensor:
        """`Tensor(2, 3)`: uninitialised floats of that shape; `Tensor([1, 2])`: floats with those values."""
        from .ops.creation import legacy_tensor

        made = legacy_tensor(data)
        self = wrap(made._array, made._type, cls)
        if requires_grad:
            self.requires_grad_()
        return self

    # ---- what it is

    @property
    def shape(self) -> Size:
        return Size(self._type.shape)

    @property
    def dtype(self) -> dtype:
        return self._type.dtype

    @property
    def ndim(self) -> int:
        return len(self._type.shape)

    @property
    def requires_grad(self) -> bool:
        if self._alias is not None:
            self._catch_up()
        return type(self._node) is Node

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    @property
    def is_leaf(self) -> bool:
        """Made by the user rather than by a recorded op."""
        node = self._current_node()
        return node is None or node.op is Leaf

    @property
    def grad_fn(self) -> Node | None:
        """The node that recorded this tensor, None for a leaf; walk on with `.next_functions` or `.inputs`."""
        node = self._current_node()
        return None if node is None or node.op is Leaf else node

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient of a leaf (or of a tensor after `retain_grad()`)."""
        node = self._node
        return None if node is None or node.extra is None else node.extra.grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is None:
            if self._node is not None and self._node.extra is not None:
                self._node.extra.grad = None
            return
        if not isinstance(value, Tensor) or value._type != self._type:
            got = value._type if isinstance(value, Tensor) else type(value).__name__
            raise ShapeError(f"grad: expected a tensor of type {self._type} or None, got {got}")
        self._own_node().need().grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def data(self) -> Tensor:
        """The same memory, outside the graph, with a version count of its own: writes to it are not noticed."""
        return wrap(self._values(), self._type)

    @data.setter
    def data(self, value: Tensor) -> None:
        self._array, self._type = value._values(), value._type
        self._storage = Storage(self._array)
        self._alias = None
        if self._node is not None and self._node.op is Leaf:
            extra, requires_grad = self._node.extra, self._node.requires_grad
            self._node = leaf(self._type, requires_grad)
            self._node.extra = extra

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Record what is done to this tensor from now on. Only leaves can stop requiring grad."""
        node = self._current_node()
        if node is not None and node.op is not Leaf:
            if requires_grad:
                return self
            raise AutogradError("requires_grad_(False): this tensor was made by recorded ops; use x.detach() instead")
        if requires_grad and not self._type.dtype.is_floating_point:
            raise DtypeError(
                f"requires_grad_: only floating tensors have gradients, this is {self._type.dtype}; use x.float()"
            )
        if node is None or node.requires_grad is not requires_grad:
            # A new leaf: graphs that used this tensor before keep treating it as they did.
            fresh = leaf(self._type, requires_grad)
            fresh.extra = node.extra if node is not None else None
            fresh.need().tensor = weakref.ref(self)
            self._node = fresh
            self._alias = None
        return self

    def detach(self) -> Tensor:
        """The same memory outside the graph; writes through it are noticed by backward."""
        if self._array is None:
            return apply(_detach_op(), (self,))
        out = wrap(self._array, self._type)
        out._storage = self._storage
        if self.requires_grad:
            out._cut = ("detach()", user_line())
        else:
            out._cut = self._cut
        return out

    def detach_(self) -> Tensor:
        """Make this tensor a leaf that does not require grad."""
        if self._alias is not None:
            raise AutogradError("detach_: this tensor is a view; use x = x.detach() instead")
        if self.requires_grad:
            self._cut = ("detach_()", user_line())
        if self._node is not None:
            extra = self._node.extra
            self._node = leaf(self._type)
            self._node.extra = extra
        return self

    # ---- values

    def _values(self) -> Array:
        """The array, for reading."""
        if self._array is None:
            return self._pending.read(self)
        return self._array

    def item(self) -> Number:
        """The value of a tensor with one element, as a Python number."""
        array = self._values()
        if array.size != 1:
            raise ShapeError(f"item: expected a tensor with one element, got shape {tuple(self.shape)}; use tolist()")
        if self._node is not None and self._node.requires_grad:
            remember_value_read()
        return array.item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers; a number for a 0-dim tensor."""
        return self._values().tolist()

    def numpy(self, *, force: bool = False) -> Array:
        """The values as a NumPy array that shares memory with the tensor."""
        if self.requires_grad:
            if not force:
                raise AutogradError(
                    "numpy: this tensor requires grad, and NumPy would not record; use x.detach().numpy()"
                )
            remember_value_read()
        return self._values().view()  # the array itself stays ours: its shape and flags can be changed in place

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"a {self.dtype} tensor cannot be seen as {np.dtype(dtype)} without a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, **options: Any) -> Any:
        if self.requires_grad:
            raise AutogradError("__dlpack__: this tensor requires grad; export x.detach()")
        return dlpack.export(self._values(), **options)

    def __array_wrap__(self, array: Array, context: Any = None, return_scalar: bool = False) -> Tensor:
        """NumPy functions called on a tensor return a tensor, outside the graph."""
        return from_array(np.asarray(array))

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __bool__(self) -> bool:
        if self._type.numel() != 1:
            raise ShapeError(
                f"bool: a tensor of shape {tuple(self.shape)} has no single truth value; "
                "use .any(), .all() or .numel() > 0"
            )
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self._type.dtype.is_floating_point or self._type.numel() != 1:
            raise DtypeError(f"index: only integer tensors with one element can be an index, this is {self._type}")
        return int(self.item())

    def __len__(self) -> int:
        if not self._type.shape:
            raise DtypeError("len() of a 0-dim tensor")
        return int(self._type.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        if not self._type.shape:
            raise DtypeError("iteration over a 0-dim tensor; use .item() for its value")
        return iter(self.unbind(0))

    def __contains__(self, element: Any) -> bool:
        if not is_operand(element):
            raise DtypeError(f"in: a tensor contains numbers, not {type(element).__name__}")
        return bool((self == element).any())

    def __hash__(self) -> int:
        return id(self)

    def __reversed__(self) -> Tensor:
        return self.flip(0) if self.ndim else self

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if not self._type.shape and spec else repr(self)

    def __repr__(self) -> str:
        from ._format import tensor_text

        return tensor_text(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise AutogradError(
                "deepcopy: only leaf tensors can be copied; this one is part of a graph, use x.detach().clone()"
            )
        out = wrap(self._values().copy(), self._type, type(self))
        memo[id(self)] = out
        out.__dict__.update(copy.deepcopy(self.__dict__, memo))
        if self.requires_grad:
            out.requires_grad_()
        if self.grad is not None:
            out.grad = self.grad.__deepcopy__(memo)
        return out

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        if not self.is_leaf:
            raise AutogradError("pickle: only leaf tensors can be pickled; this one is part of a graph, use x.detach()")
        array = self._values()
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return (
            _unpickle,
            (type(self), raw, self._type.shape, self._type.dtype, self.requires_grad),
            self.__dict__ or None,
        )

    # ---- autograd

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Add the gradient of this tensor to the `.grad` of every leaf it depends on, and free the graph."""
        from .autograd.engine import backward

        backward(self, gradient, retain_graph, create_graph, inputs)

    def _current_node(self) -> Node | None:
        if self._alias is not None:
            self._catch_up()
        return self._node

    def _own_node(self) -> Node:
        """The node of this tensor, a constant leaf if it has none yet."""
        node = self._current_node()
        if node is None:
            node = self._node = leaf(self._type)
        return node

    def _catch_up(self) -> None:
        """A view whose base was written reads the base's new history through its view ops."""
        alias: Alias = self._alias
        if alias.version == self._storage.version:
            return
        alias.version = self._storage.version
        node = self._root()._current_node()
        if node is None or not node.requires_grad:
            return
        for op, numbers, attrs in alias.steps:
            types = (node.type, *map(type, numbers))
            node = Node(op, (node, *numbers), attrs, op.signature(types, attrs).type, (), node.where)
        _carry_retained(self._node, node)
        self._node = node

    def _root(self) -> Tensor:
        """The tensor whose memory this one is a view of; itself if it is none."""
        base = self
        while base._alias is not None:  # more than once only after an in-place change of a base's shape
            base = base._alias.base
        return base


new = object.__new__


def wrap(array: Array, type_: TensorType, cls: type[Tensor] = Tensor) -> Tensor:
    """A tensor on an array, outside any graph."""
    t = new(cls)
    t._array = array
    t._storage = Storage(array)
    t._type = type_
    t._node = None
    t._alias = None
    t._cut = None
    return t


def symbol(type_: Any, node: Node | None, pending: Any) -> Tensor:
    """A tensor without values yet: `pending.read(t)` says what asking for them means."""
    t = new(Tensor)
    t._array = None
    t._storage = None
    t._type = type_
    t._node = node
    t._alias = None
    t._cut = None
    t._pending = pending
    return t


def from_array(array: Array) -> Tensor:
    """A tensor that shares the array's memory."""
    array = array.view(np.ndarray)  # an object of our own, and no subclass whose operators mean something else
    return wrap(array, TensorType(array.shape, from_numpy_dtype(array.dtype)))


def _unpickle(cls: type[Tensor], raw: Array, shape: tuple[int, ...], d: dtype, requires_grad: bool) -> Tensor:
    t = wrap(raw.view(d.numpy).reshape(shape), TensorType(shape, d), cls)
    return t.requires_grad_() if requires_grad else t


def _detach_op() -> type[Op]:
    from .ops.view import Detach

    return Detach


class _LastRead(threading.local):
    where: Where | None = None


_last_read = _LastRead()


def remember_value_read() -> None:
    """A value left the graph as a Python number here: the likely cut when a loss turns out not to require grad."""
    _last_read.where = user_line()


def last_value_read() -> Where | None:
    return _last_read.where


# ---- running an op


def apply(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any] = NO_ATTRS) -> Any:
    """Run `op` in the current mode. Returns a Tensor, or a tuple of them for an op with several results."""
    mode = MODE.get()
    if mode.interceptor is not None:
        return mode.interceptor.apply(op, inputs, attrs)
    return run(op, inputs, attrs, mode)


def run(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], mode: Mode) -> Any:
    """Run `op` now: infer, kernel, node."""
    arrays: list[Any] = []
    kinds: list[Any] = []
    needs, present, bit, cut = 0, 0, 1, None
    for x in inputs:
        if isinstance(x, Tensor):
            if x._alias is not None:
                x._catch_up()
            array = x._array
            if array is None:
                array = x._values()
            arrays.append(array)
            kinds.append(x._type)
            present |= bit
            node = x._node
            if type(node) is Node:
                needs |= bit
            elif x._cut is not None:
                cut = x._cut
        else:
            arrays.append(x)
            kinds.append(type(x))
        bit <<= 1
    types = tuple(kinds)
    key: Any = (op, types, *attrs.items()) if attrs else (op, types)
    try:
        signature = _SIGNATURES.get(key)
    except TypeError:  # an attribute that cannot be hashed
        key = signature = None
    if signature is None:
        signature = _signature(op, inputs, types, attrs, key)
    if signature is _RETRY:
        return run(op, tuple(map(as_input, inputs)), attrs, mode)
    if signature.compute is not None:
        arrays = [convert(a, signature.compute) for a in arrays]
    if mode.quiet or op.quiet:
        out = op.numpy(*arrays, **attrs) if attrs else op.numpy(*arrays)
    else:
        out = _call_kernel(op, arrays, attrs)
    if signature.numpy_dtype is None:
        return _several(op, inputs, attrs, types, signature.type, out, (needs, present), cut, mode)
    if type(out) is not np.ndarray or out.dtype is not signature.numpy_dtype:
        out = np.asarray(out, signature.numpy_dtype)
    t = new(Tensor)
    t._array = out
    t._type = signature.type
    t._cut = None
    if op.aliases_input and _same_memory(out, arrays[0]):
        source = inputs[0]
        t._storage = source._storage
        alias = source._alias
        step = ((op, inputs[1:], attrs),)
        if alias is None:
            t._alias = Alias(source, step, source._storage.version)
        else:
            t._alias = Alias(alias.base, alias.steps + step, source._storage.version)
    else:
        t._storage = Storage(out)
        t._alias = None
    if needs and mode.grad and signature.type.dtype.is_floating_point:
        t._node = link(op, inputs, attrs, types, signature.type, t, (needs, present))
    else:
        t._node = None
        if needs:
            t._cut = _cut_reason(op, mode), user_line()
        elif cut is not None:
            t._cut = cut
    return t


def link(
    op: type[Op],
    inputs: tuple[Any, ...],
    attrs: dict[str, Any],
    types: tuple[Any, ...],
    type_: Any,
    y: Any,
    masks: tuple[int, int],
) -> Node:
    """The node of a tracked result, keeping what the gradient reads and nothing else.

    `masks`: the inputs that need a gradient and the inputs that are tensors, as bits.
    """
    plan = op._save_plans.get(masks)
    if plan is None:
        plan = op.save_plan(masks, types)
    saved: Any = ()
    if plan:
        kept = []
        for position in plan:
            if position < 0:  # one of several results
                kept.append(_entry(position, y[-1 - position]))
                continue
            value = inputs[position - 1] if position else y
            if type(value) is tuple:  # an op with several results keeps them all
                kept.append((0, tuple([_entry(0, v) for v in value]), None, 0))
            else:
                kept.append(_entry(position, value))
        saved = tuple(kept)
    nodes = tuple([(x._node or x._own_node()) if isinstance(x, Tensor) else x for x in inputs])
    return Node(op, nodes, attrs, type_, saved, user_line())


def _entry(position: int, value: Tensor) -> tuple[int, Any, Any, int]:
    """What a node keeps of a value: place in (y, *inputs), array (or what stands for it), storage and version."""
    storage = value._storage
    if storage is None:
        return (position, value._pending, None, 0)
    return (position, value._array, storage, storage.version)


def _several(
    op: type[Op],
    inputs: tuple[Any, ...],
    attrs: dict[str, Any],
    types: tuple[Any, ...],
    result_types: tuple[TensorType, ...],
    arrays: Any,
    masks: tuple[int, int],
    cut: Any,
    mode: Mode,
) -> tuple[Tensor, ...]:
    """The results of an op that has several: one node, and a Pick of it for each floating result."""
    results = tuple(wrap(np.asarray(a, t.dtype.numpy), t) for a, t in zip(arrays, result_types, strict=True))
    if op.aliases_input:
        for r in results:
            r._storage = inputs[0]._storage
    needs = masks[0]
    if needs and mode.grad and any(t.dtype.is_floating_point for t in result_types):
        node = link(op, inputs, attrs, types, result_types, results, masks)
        for i, r in enumerate(results):
            if r._type.dtype.is_floating_point:
                r._node = Node(Pick, (node,), {"index": i}, r._type, (), node.where)
    elif needs or cut is not None:
        reason = (_cut_reason(op, mode), user_line()) if needs else cut
        for r in results:
            r._cut = reason
    return results


def _cut_reason(op: type[Op], mode: Mode) -> str:
    if not mode.grad:
        return "inference_mode()" if mode.inference else "no_grad()"
    return f"{op.name}, whose result is not floating"


def _same_memory(out: Array, source: Array) -> bool:
    """Whether a view op really returned a view: reshape copies where strides do not allow one."""
    owner = source if source.base is None else source.base
    return out is source or out.base is owner or out.base is source


_RETRY: Any = object()


def _signature(op: type[Op], inputs: tuple[Any, ...], types: tuple[Any, ...], attrs: dict[str, Any], key: Any) -> Any:
    """Ask the shape rule and remember the answer under `key`. _RETRY: an input must be converted first."""
    for x, kind in zip(inputs, types, strict=True):
        if not isinstance(x, Tensor) and kind not in _NUMBERS:
            return _RETRY
    signature = op.signature(types, attrs)
    if key is not None:
        _SIGNATURES.put(key, signature)
    return signature


_OPERANDS = (Tensor, float, int, np.ndarray, np.generic)


def is_operand(value: Any) -> bool:
    """Whether an operator can take it: a tensor, a number, a NumPy array or scalar."""
    return isinstance(value, _OPERANDS)


def as_input(value: Any) -> Any:
    """What an op takes: tensors, Python numbers and None as they are; NumPy arrays and scalars, made into those."""
    if isinstance(value, Tensor) or type(value) in _NUMBERS:
        return value
    if isinstance(value, np.ndarray):
        return from_array(value)
    if isinstance(value, np.generic):
        return value.item()
    for kind in (bool, int, float):  # subclasses of numbers: IntEnum, numpy-like floats
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, complex):
        raise UnsupportedError(
            "complex numbers are not part of Extempo; keep real and imaginary parts in a last dimension of 2"
        )
    raise DtypeError(f"expected a tensor or a number, got {type(value).__name__}; make one with ex.tensor(...)")


# ---- the hot path: elementwise ops of one and two inputs
#
# What `run` does, without its loops, for tensors of one floating dtype: the ops that small models spend their time in.
# Anything else (views to catch up, other dtypes, recording) is handed to `apply`.


def runner1(op: type[Op]) -> Callable[[Any], Any]:
    """`x -> apply(op, (x,))`."""
    if not op.simple:
        return lambda x: apply(op, (x,))
    kernel, op_quiet, ndarray = op.numpy, op.quiet, np.ndarray
    derivations: dict[dtype, Any] = {}

    def run1(x: Any) -> Any:
        mode = MODE.get()
        if mode.interceptor is not None or (type(x) is not Tensor and not isinstance(x, Tensor)):
            return apply(op, (x,))
        type_ = x._type
        array = x._array
        if not type_.dtype.is_floating_point or array is None:
            return apply(op, (x,))
        if x._alias is not None:
            x._catch_up()
        if op_quiet or mode.quiet:
            out = kernel(array)
        else:
            try:
                out = _run_quietly(kernel, array)
            except RuntimeError:
                return apply(op, (x,))
        if type(out) is not ndarray or out.dtype is not array.dtype:
            out = np.asarray(out, array.dtype)
        storage = new(Storage)
        storage.array = out
        t = new(Tensor)
        t._array = out
        t._storage = storage
        t._type = type_
        t._alias = None
        t._cut = None
        node = x._node
        if type(node) is not Node or not mode.grad:
            t._node = None
            if type(node) is Node:
                t._cut = _cut_reason(op, mode), user_line()
            elif x._cut is not None:
                t._cut = x._cut
            return t
        derived = derivations.get(type_.dtype)
        if derived is None:
            derived = derivations[type_.dtype] = _derive(op, 1, (type_,))
        saved: Any = ()
        for position in derived.reads:
            kept = (1, array, x._storage, x._storage.version) if position else (0, out, storage, 0)
            saved = (*saved, kept)
        t._node = Node(op, (node,), NO_ATTRS, type_, saved, user_line(), derived if derived.kernel else None)
        return t

    return run1


def runner2(op: type[Op]) -> Callable[[Any, Any], Any]:
    """`a, b -> apply(op, (a, b))`, or NotImplemented for what is no operand, so that it can serve as an operator."""
    if not op.simple:
        return lambda a, b: apply(op, (a, b)) if is_operand(a) and is_operand(b) else NotImplemented
    kernel, op_quiet, ndarray = op.numpy, op.quiet, np.ndarray
    derivations: dict[dtype, list[Any]] = {}
    number_derivations: dict[tuple[dtype, type, bool], Any] = {}

    def with_number(a: Tensor, number: float, number_first: bool, mode: Mode) -> Any:
        type_, x = a._type, a._array
        # Halves have rules of their own about numbers, and NumPy's bfloat16 does not round on the way.
        if not type_.dtype.is_floating_point or x is None or type_.dtype.itemsize == 2:
            return apply(op, (number, a) if number_first else (a, number))
        if a._alias is not None:
            a._catch_up()
        left, right = (number, x) if number_first else (x, number)
        try:
            out = kernel(left, right) if op_quiet or mode.quiet else _run_quietly(kernel, left, right)
        except RuntimeError:
            return apply(op, (number, a) if number_first else (a, number))
        if type(out) is not ndarray or out.dtype is not x.dtype:
            out = np.asarray(out, x.dtype)
        t = wrap(out, type_)
        node = a._node
        if type(node) is not Node or not mode.grad:
            t._cut = a._cut if type(node) is not Node else (_cut_reason(op, mode), user_line())
            return t
        key = (type_.dtype, type(number), number_first)
        derived = number_derivations.get(key)
        if derived is None:
            types = (type(number), type_) if number_first else (type_, type(number))
            derived = number_derivations[key] = _derive(op, 2 if number_first else 1, types)
        saved = tuple([_entry(position, a if position else t) for position in derived.reads])
        nodes = (number, node) if number_first else (node, number)
        t._node = Node(op, nodes, NO_ATTRS, type_, saved, user_line(), derived if derived.kernel else None)
        return t

    def run2(a: Any, b: Any) -> Any:
        mode = MODE.get()
        if mode.interceptor is not None:
            return apply(op, (a, b))
        if not ((type(a) is Tensor or isinstance(a, Tensor)) and (type(b) is Tensor or isinstance(b, Tensor))):
            if (type(b) is float or type(b) is int) and isinstance(a, Tensor):
                return with_number(a, b, False, mode)
            if (type(a) is float or type(a) is int) and isinstance(b, Tensor):
                return with_number(b, a, True, mode)
            return apply(op, (a, b)) if is_operand(a) and is_operand(b) else NotImplemented
        type_, other_type = a._type, b._type
        if type_ != other_type:
            found = _SIGNATURES.get((op, (type_, other_type)))
            if found is None or found.compute is not None:
                return apply(op, (a, b))
            type_ = found.type
        x, y = a._array, b._array
        if not type_.dtype.is_floating_point or x is None or y is None:
            return apply(op, (a, b))
        if a._alias is not None:
            a._catch_up()
        if b._alias is not None:
            b._catch_up()
        if op_quiet or mode.quiet:
            out = kernel(x, y)
        else:
            try:
                out = _run_quietly(kernel, x, y)
            except RuntimeError:
                return apply(op, (a, b))
        if type(out) is not ndarray or out.dtype is not x.dtype:
            out = np.asarray(out, x.dtype)
        storage = new(Storage)
        storage.array = out
        t = new(Tensor)
        t._array = out
        t._storage = storage
        t._type = type_
        t._alias = None
        t._cut = None
        first, second = a._node, b._node
        needs = (type(first) is Node) + 2 * (type(second) is Node)
        if not needs or not mode.grad:
            t._node = None
            if needs:
                t._cut = _cut_reason(op, mode), user_line()
            else:
                t._cut = a._cut or b._cut
            return t
        by_need = derivations.get(type_.dtype)
        if by_need is None:
            by_need = derivations[type_.dtype] = [None] * 4
        derived = by_need[needs]
        if derived is None:
            derived = by_need[needs] = _derive(op, needs, (a._type, b._type))
        saved: Any = ()
        for position in derived.reads:
            if position:
                value = a if position == 1 else b
                saved = (*saved, (position, value._array, value._storage, value._storage.version))
            else:
                saved = ((0, out, storage, 0),)
        nodes = (first or a._own_node(), second or b._own_node())
        t._node = Node(op, nodes, NO_ATTRS, type_, saved, user_line(), derived if derived.kernel else None)
        return t

    return run2


class _NoKernel:
    """A gradient to be computed op by op: what it reads, and no kernel."""

    kernel = None

    def __init__(self, reads: tuple[int, ...]) -> None:
        self.reads = reads


def _derive(op: type[Op], needs: int, types: tuple[Any, ...]) -> Any:
    """The derived gradient of a simple op; bfloat16 has none, because NumPy would not round after every step."""
    from .autograd.derive import derived_vjp

    if isinstance(op.vjp, Refuse):
        return _NoKernel(())
    derived = derived_vjp(op, needs, types)
    in_bfloat16 = any(isinstance(t, TensorType) and t.dtype is bfloat16 for t in types)
    return _NoKernel(derived.reads) if in_bfloat16 else derived


# ---- writing in place


def write(target: Tensor, value: Tensor, op_name: str, since: int | None = None) -> Tensor:
    """Replace the values of `target` (and of everything that shares its memory) by `value`, and record that.

    `since`: the nodes recorded after this number made the value; it is the last one alone if not given.
    """
    mode = MODE.get()
    if mode.interceptor is not None:
        return mode.interceptor.write(target, value, op_name)  # type: ignore[attr-defined]
    node = target._current_node()
    if value._type.shape != target._type.shape:
        raise ShapeError(
            f"{op_name}: the result has shape {value._type.shape}, which does not fit into {target._type.shape}; "
            "writing in place cannot change a shape, assign the result instead"
        )
    if value._type.dtype.category > target._type.dtype.category:
        raise DtypeError(
            f"{op_name}: the result is {value._type.dtype}, which cannot be put into a {target._type.dtype} tensor; "
            "assign the result instead of writing in place"
        )
    base = target._root()
    tracked = mode.grad and (value.requires_grad or type(node) is Node or base.requires_grad)
    if mode.grad:
        _refuse_leaf_write(target, base, op_name)
    if not target._array.flags.writeable:
        raise ShapeError(
            f"{op_name}: elements of this tensor share memory (expand) or the memory is read-only; write into x.clone()"
        )
    if tracked:
        _keep_old_values(value._node, target, since)
    np.copyto(target._array, value._array, casting="unsafe")
    storage = target._storage
    storage.version += 1
    storage.written_at = user_line()
    if tracked:
        _keep_result_in_place(value, target)
        _rebase(target, base, value)
    elif target._alias is not None:
        target._alias.version = storage.version
    return target


def _refuse_leaf_write(target: Tensor, base: Tensor, op_name: str) -> None:
    for t, text in ((target, "a leaf"), (base, "a view of a leaf")):
        node = t._current_node()
        if node is not None and node.op is Leaf and node.requires_grad:
            raise LeafWriteError(
                f"{op_name}: this tensor is {text} that requires grad, so its history would be lost; "
                "write under `with ex.no_grad():`, or into x.clone()"
            )


def _keep_old_values(last: Node | None, target: Tensor, since: int | None) -> None:
    """The ops that made the value may have saved what is about to be overwritten: they get a copy of their own."""
    if last is None:
        return
    first = last.number if since is None else since + 1
    seen, stack = {last}, [last]
    while stack:
        node = stack.pop()
        kept = []
        for entry in node.saved or ():
            if entry[2] is target._storage and entry[3] == target._storage.version:
                old = entry[1].copy()
                entry = (entry[0], old, Storage(old), 0)
            kept.append(entry)
        if kept:
            node.saved = tuple(kept)
        for source in node.inputs:
            if type(source) is Node and source.number >= first and source not in seen:
                seen.add(source)
                stack.append(source)


def _keep_result_in_place(value: Tensor, target: Tensor) -> None:
    """A gradient that reads the result (exp_, relu_) reads it where it now lies; a second copy would waste memory."""
    node = value._node
    if node is not None and node.saved and node.op is not Leaf and value._type == target._type:
        here = (0, target._array, target._storage, target._storage.version)
        node.saved = tuple(here if entry[2] is value._storage else entry for entry in node.saved)


def _rebase(target: Tensor, base: Tensor, value: Tensor) -> None:
    """Give base and target their new history: base_new = write(base_old, through the view, value)."""
    from .ops.view import write_through

    value_node = _as_dtype_node(value, target._type.dtype)
    if target._alias is None:
        _carry_retained(target._node, value_node)
        target._node = value_node
        target._cut = None
        return
    alias: Alias = target._alias
    written = write_through(base, value_node, alias.steps)
    _carry_retained(base._node, written)
    base._node = written
    alias.version = -1  # whatever it is now, read the base's new history at the next use
    target._catch_up()


def _carry_retained(old: Node | None, new_node: Node) -> None:
    """`retain_grad()` asks for the gradient of the tensor, so it moves along when the tensor gets a new history."""
    if old is not None and old.extra is not None and old.extra.retain and old is not new_node:
        old.extra.retain = False
        new_node.need().retain = True


def _as_dtype_node(value: Tensor, d: dtype) -> Node:
    if value._type.dtype is d:
        return value._own_node()
    return value.to(d)._own_node()


def in_place(target: Tensor, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any] = NO_ATTRS) -> Tensor:
    """target[...] = op(*inputs)."""
    return write(target, apply(op, inputs, attrs), op.name + "_")
