"""Tensor: the user's handle on values, a type, a storage, and the node that made it."""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from ..errors import AutogradError, DtypeError, ShapeError
from . import dlpack
from .active_traces import before_sharing
from .context import is_grad_enabled
from .graph import Leaf, Node, Traced, leaf
from .op import Op
from .source_location import remember_value_read, user_line
from .storage import Array, Storage, deep_copy
from .strides import order_of_array
from .tensor_methods import TensorMethods
from .types import Number, Size, TensorType, WeakNumber, dtype, type_of_array

T = TypeVar("T", bound="Tensor")


class LazySource:
    """Who gives a tensor its values when they are asked for, and its node: a trace, or a run of `ex.batch`."""

    __slots__ = ()

    def settle(self, t: Tensor) -> None:
        """Run what was traced, so that `t` has values."""
        raise NotImplementedError

    def link(self, t: Tensor) -> None:
        """Give `t` a node of its own."""
        raise NotImplementedError

    def read(self, t: Tensor) -> Array:
        """The values of `t`, which someone looks at."""
        raise NotImplementedError

    def backward(
        self, root: Tensor, gradient: Array, asked: Sequence[Tensor] | None = None, keep: bool = False
    ) -> list[tuple[Any, Array]] | None:
        """The gradients of leaves by node, of tensors asked for by position. None: the engine has to find them."""
        raise NotImplementedError

    def close(self, why: str) -> None:
        """Run everything, link real nodes, and end the trace."""
        raise NotImplementedError

    def release(self, t: Tensor, why: str) -> None:
        """From now on `t` has nothing to do with the trace: it has its values and its node."""
        self.close(why)

    def strides_of(self, t: Tensor) -> tuple[int, ...] | None:
        """In bytes, of a tensor without values yet; None if it will be contiguous."""
        raise NotImplementedError

    def is_view(self, t: Tensor) -> bool:
        """Whether a tensor without values yet will share the memory of another."""
        raise NotImplementedError


class ViewOf:
    """How a tensor is a view: the base it looks into, the view ops that lead there, the version it last looked at."""

    __slots__ = ("base", "steps", "version")

    def __init__(
        self, base: Tensor, steps: tuple[tuple[type[Op], tuple[Any, ...], dict[str, Any]], ...], version: int
    ) -> None:
        self.base = base
        self.steps = steps
        self.version = version


class TensorLike(TensorMethods):
    """The base of what ops take though it is no tensor: it is made of tensors, and runs ops on itself by theirs.

    It has the functions of `ops` as methods, as tensors have. A function that it does not support must fail, so it has
    none of a tensor's private parts.
    """

    __slots__ = ()

    __array_priority__ = 1000

    _flat: Tensor  # the one that has the values, the gradient and the history
    shape: Any

    def _maker(self) -> Callable[[Tensor], Any]:
        """What makes one of the same structure from other values; it does not keep these alive."""
        raise NotImplementedError

    def _described(self) -> str:
        """What it is, for messages."""
        raise NotImplementedError

    def _apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """Run `op` on inputs of which this is the first of its kind."""
        raise NotImplementedError

    def _write(self, value: Any, op_name: str) -> Any:
        """Replace the values by `value`, in place."""
        raise NotImplementedError


class Tensor(TensorMethods):
    """An n-dimensional array that can record what is done to it and be differentiated.

    >>> import extempo as ex
    >>> x = ex.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_alias",
        "_data",
        "_grad_barrier",
        "_history",
        "_memory",
        "_source",
        "_type",
        "_value_id",
    )

    # What is there now. A lazy source fills them in when they are asked for by their other names, below.
    _data: Any  # the values as an array; None while they are only traced
    _memory: Any  # the storage of the array
    _history: Any  # the node of the op that made it; None for a constant not used in a graph
    _type: TensorType
    _alias: Any  # how it is a view of another tensor; None if it is not
    _grad_barrier: Any  # (what, where) cut the path of gradients; None if nothing did
    _source: Any  # the lazy source that gives it values, or in whose trace it is a leaf; a graph tracer; None
    _value_id: int  # in that trace

    # ndarray + tensor is left to the tensor.
    __array_priority__ = 1000

    def __new__(cls, *data: Any, requires_grad: bool = False, dtype: Any = None, device: Any = None) -> Tensor:
        """`Tensor(2, 3)`: uninitialised floats of that shape; `Tensor([1, 2])`: floats with those values."""
        from ..ops.creation import legacy_tensor

        made = legacy_tensor(data)
        self = wrap(made._array, made._type, cls)
        if requires_grad:
            self.requires_grad_()
        return self

    @staticmethod
    def _make_subclass(cls: type[T], data: Tensor, require_grad: bool = False, **kwargs: Any) -> T:
        """A leaf of a class of one's own on the memory of a tensor, by the name that libraries know."""
        made = on_memory_of(data, cls)
        return made.requires_grad_() if require_grad else made  # type: ignore[return-value] # itself

    # ---- its parts; asking a traced tensor for one of them makes the trace run

    @property
    def _array(self) -> Any:
        pending = self._source  # first: another thread may give it values meanwhile
        if self._data is None and isinstance(pending, LazySource):
            pending.settle(self)
        return self._data

    @_array.setter
    def _array(self, array: Any) -> None:
        if isinstance(self._source, LazySource):
            self._source.release(self, "a tensor got other memory")
        elif (memory := getattr(self, "_memory", None)) is not None:
            before_sharing(memory)  # a recorded view of this tensor is one of what it was
        self._data = array

    @property
    def _storage(self) -> Any:
        pending = self._source
        if self._memory is None and isinstance(pending, LazySource):
            pending.settle(self)
        return self._memory

    @_storage.setter
    def _storage(self, storage: Any) -> None:
        self._memory = storage

    @property
    def _node(self) -> Any:
        pending, node = self._source, self._history
        if node is not None and node.op is Traced:
            pending.link(self)
        return self._history

    @_node.setter
    def _node(self, node: Any) -> None:
        if isinstance(self._source, LazySource):
            self._source.release(self, "a tensor got another history")
        self._history = node

    # ---- what it is

    @property
    def shape(self) -> Size:
        """The size of each dimension."""
        return Size(self._type.shape)

    @property
    def dtype(self) -> dtype:
        """The type of the elements, such as `ex.float32`."""
        return self._type.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._type.shape)

    @property
    def requires_grad(self) -> bool:
        """Whether what is done to this tensor is recorded, so that gradients flow back to it."""
        if self._alias is not None:
            self._catch_up()
        return type(self._history) is Node

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
        node = self._history
        return None if node is None or node.extra is None else node.extra.grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is None:
            if self._history is not None and self._history.extra is not None:
                self._history.extra.grad = None
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
        if not isinstance(value, Tensor):
            raise DtypeError(f"data: expected a tensor, got {type(value).__name__}; make one with ex.tensor(...)")
        self._check_new_data(value)
        self._array, self._type = value._values(), value._type
        self._storage = Storage(self._array)
        self._alias = None
        if self._node is not None and self._node.op is Leaf:
            extra, requires_grad = self._node.extra, self._node.requires_grad
            self._node = leaf(self._type, requires_grad, order_of_array(self._array))
            self._node.extra = extra

    def _check_new_data(self, value: Tensor) -> None:
        """Values that cannot have this tensor's gradient, or its history, are refused."""
        if not self.requires_grad:
            return
        if not value._type.dtype.is_floating_point:
            raise DtypeError(
                f"data: this tensor requires grad, and only floating tensors have gradients; got {value._type.dtype}. "
                "Use value.float(), or x.requires_grad_(False) first"
            )
        if not self.is_leaf and value._type.shape != self._type.shape:
            raise ShapeError(
                f"data: this tensor was made by {self._own_node().op.name} as {self._type.shape}, and backward would "
                f"send a gradient of shape {value._type.shape} there; assign the tensor itself (x = value), or cut the "
                "history first with x.detach_()"
            )

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
            fresh = leaf(self._type, requires_grad, None if self._data is None else order_of_array(self._data))
            fresh.extra = node.extra if node is not None else None
            fresh.need().tensor = weakref.ref(self)
            self._node = fresh
            self._alias = None
        return self

    def detach(self) -> Tensor:
        """The same memory outside the graph; writes through it are noticed by backward."""
        if self._data is None:
            apply, op = _detaching()
            return apply(op, (self,))
        out = wrap(self._array, self._type)
        out._storage = self._storage
        if self.requires_grad:
            out._grad_barrier = ("detach()", user_line())
        else:
            out._grad_barrier = self._grad_barrier
        return out

    def detach_(self) -> Tensor:
        """Make this tensor a leaf that does not require grad."""
        if self._settled_alias() is not None:
            raise AutogradError("detach_: this tensor is a view; use x = x.detach() instead")
        if self.requires_grad:
            self._grad_barrier = ("detach_()", user_line())
        if self._node is not None:
            extra = self._node.extra
            self._node = leaf(self._type)
            self._node.extra = extra
        return self

    # ---- values

    def _values(self) -> Array:
        """The array, for reading."""
        pending = self._source
        if self._data is None:
            return pending.read(self)
        return self._data

    def _values_for_size(self) -> Array:
        """The array, for a result whose size depends on the values."""
        if self._data is None and hasattr(self._source, "read_for_size"):  # no program can be made of that
            self._source.read_for_size(self)
        return self._values()

    def _handed_out(self) -> Array:
        """The array, for whoever may write to it."""
        before_sharing(self._storage)
        return self._values()

    def item(self) -> Number:
        """The value of a tensor with one element, as a Python number."""
        array = self._data
        if array is None:
            array = self._values()
        if array.size != 1:
            raise ShapeError(f"item: expected a tensor with one element, got shape {tuple(self.shape)}; use tolist()")
        if type(self._history) is Node:
            remember_value_read()
        return array.item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers; a number for a 0-dim tensor."""
        return self._values().tolist()

    def numpy(self, *, force: bool = False) -> Array:
        """The values as a NumPy array that shares memory with the tensor."""
        if self.requires_grad:
            if not force and is_grad_enabled():  # where nothing is recorded, nothing is lost
                raise AutogradError(
                    "numpy: this tensor requires grad, and NumPy would not record; use x.detach().numpy()"
                )
            remember_value_read()
        return self._handed_out().view()  # the array itself stays ours: its shape and flags can be changed in place

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
        return dlpack.export(self._handed_out(), **options)

    def __array_wrap__(self, array: Array, context: Any = None, return_scalar: bool = False) -> Tensor:
        """NumPy functions called on a tensor return a tensor, outside the graph."""
        return from_array(np.asarray(array))

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __bool__(self) -> bool:
        if self._data is not None and self._data.size == 1:
            return bool(self.item())
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
        return format(self.item(), spec) if not self._type.shape and spec else str(self)

    def __repr__(self) -> str:
        from .printing import tensor_text

        return tensor_text(self)

    def __str__(self) -> str:
        from .printing import summary_text

        return repr(self) + summary_text(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise AutogradError(
                "deepcopy: only leaf tensors can be copied; this one is part of a graph, use x.detach().clone()"
            )
        array, storage = deep_copy(self._values(), self._storage, memo)
        out = wrap(array, self._type, type(self))
        out._storage = storage
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

    def _current_node(self) -> Node | None:
        if self._alias is not None:
            self._catch_up()
        return self._node

    def _own_node(self) -> Node:
        """The node of this tensor, a constant leaf if it has none yet."""
        node = self._current_node()
        if node is None:
            node = self._node = leaf(self._type)
            if self._grad_barrier is not None:  # for whoever asks why no gradient flows here
                node.attrs["cut"], node.where = self._grad_barrier
        return node

    def _catch_up(self) -> None:
        """A view whose base was written reads the base's new history through its view ops."""
        alias: ViewOf = self._alias
        if alias.version == self._storage.version:
            return
        alias.version = self._storage.version
        node = self._root()._current_node()
        if node is None or not node.requires_grad:
            return
        for op, numbers, attrs in alias.steps:
            types = (node.type, *map(type, numbers))
            node = Node(op, (node, *numbers), attrs, op.signature(types, attrs).type, (), node.where)
        carry_retained(self._node, node)
        self._node = node

    def _settled_alias(self) -> ViewOf | None:
        """How it is a view of another tensor, which a traced one knows once it has run."""
        pending = self._source
        if self._data is None and isinstance(pending, LazySource):
            pending.settle(self)
        return self._alias

    def _root(self) -> Tensor:
        """The tensor whose memory this one is a view of; itself if it is none."""
        base = self
        while base._alias is not None:  # more than once only after an in-place change of a base's shape
            base = base._alias.base
        return base


@functools.cache
def _detaching() -> tuple[Callable[..., Any], Any]:
    """What a tensor that has no values yet is detached by: importing it at every call takes longer than the op."""
    from ..dispatch.dispatcher import apply
    from ..ops.view import Detach

    return apply, Detach


new = object.__new__


def wrap(array: Array, type_: TensorType, cls: type[Tensor] = Tensor) -> Tensor:
    """A tensor on an array, outside any graph."""
    t = new(cls)
    t._data = array
    t._memory = Storage(array)
    t._type = type_
    t._history = None
    t._alias = None
    t._grad_barrier = None
    t._source = None
    return t


def on_memory_of(data: Tensor, cls: type[T]) -> T:
    """A leaf of class `cls` on the memory of a tensor: writes to either are seen, and noticed by backward, in both."""
    made: Any = wrap(data._values(), data._type, cls)
    if data._storage is not None:
        made._storage = data._storage
    return made


def layout_of(t: Tensor) -> tuple[int, ...] | None:
    """The strides of a tensor in bytes; None if it is contiguous. No value is asked for."""
    pending = t._source
    if t._data is None:
        return pending.strides_of(t) if isinstance(pending, LazySource) else None
    return None if t._data.flags.c_contiguous else t._data.strides


def symbol(type_: Any, node: Node | None, pending: Any) -> Tensor:
    """A symbolic tensor, without values: `pending.read(t)` is called when they are asked for."""
    t = new(Tensor)
    t._data = None
    t._memory = None
    t._type = type_
    t._history = node
    t._alias = None
    t._grad_barrier = None
    t._source = pending
    return t


def from_array(array: Array) -> Tensor:
    """A tensor that shares the array's memory."""
    array = array.view(np.ndarray)  # an object of our own, and no subclass whose operators mean something else
    return wrap(array, type_of_array(array))


def _unpickle(cls: type[Tensor], raw: Array, shape: tuple[int, ...], d: dtype, requires_grad: bool) -> Tensor:
    t = wrap(raw.view(d.numpy).reshape(shape), TensorType(shape, d), cls)
    return t.requires_grad_() if requires_grad else t


def tensors_in(tree: Any) -> Iterator[Tensor]:
    """Those in nested lists, tuples and dicts; of one that is made of a tensor, such as a ragged one, that tensor."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, TensorLike):
        yield tree._flat
    elif isinstance(tree, list | tuple | dict):
        for x in tree.values() if isinstance(tree, dict) else tree:
            yield from tensors_in(x)


_OPERANDS = (Tensor, float, int, np.ndarray, np.generic, TensorLike, WeakNumber)


def is_operand(value: Any) -> bool:
    """Whether an operator can take it: a tensor or its like, a number, a NumPy array or scalar."""
    return isinstance(value, _OPERANDS)


def carry_retained(old: Node | None, new_node: Node) -> None:
    """`retain_grad()` asks for the gradient of the tensor, so it moves along when the tensor gets a new history."""
    if old is not None and old.extra is not None and old.extra.retain and old is not new_node:
        old.extra.retain = False
        new_node.need().retain = True
