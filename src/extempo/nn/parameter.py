"""Parameter and Buffer: the tensors that a Module knows by name.

A Parameter is a leaf that requires grad and registers itself when it is set as an attribute of a Module; a Buffer does
the same as state that is not trained. Both share the memory of the tensor they are made from; what ops return from
them is a plain Tensor.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

from .. import ops
from ..core.tensor import Tensor, TensorLike, on_memory_of
from ..dispatch.fast_path import plain_class
from ..errors import DtypeError

T = TypeVar("T", bound=Tensor)


def _on_memory_of(data: Any, cls: type[T]) -> T:
    """A leaf of class `cls` on the memory of a tensor, of an empty one if none is given."""
    if data is None:
        data = ops.empty(0)
    if isinstance(data, TensorLike):
        raise DtypeError(
            f"{cls.__name__}: expected a tensor, got a ragged one; make one of x.values(), and put it into rows where "
            "it is used, x.like(parameter)"
        )
    if not isinstance(data, Tensor):
        name = cls.__name__
        raise DtypeError(f"{name}: expected a tensor, got {type(data).__name__}; write nn.{name}(ex.tensor(...))")
    return on_memory_of(data, cls)


class Parameter(Tensor):
    """A tensor to be trained: setting it as an attribute of a Module makes it one of `module.parameters()`.

    >>> nn.Parameter(ex.ones(2))
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    """

    __slots__ = ()

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        made = _on_memory_of(data, cls)
        if not requires_grad:
            return made
        if not made.dtype.is_floating_point:
            raise DtypeError(
                f"Parameter: only floating tensors have gradients, this is {made.dtype}; "
                "pass requires_grad=False, or register it as a buffer"
            )
        made.requires_grad_()
        return made

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        # As in PyTorch the copy starts without a gradient.
        if id(self) not in memo:
            copied = _on_memory_of(self.detach().clone(), type(self))
            copied.__dict__.update(self.__dict__)
            memo[id(self)] = copied.requires_grad_(self.requires_grad)
        return memo[id(self)]


plain_class(Parameter)


class UninitializedTensorMixin:
    """What the two classes of tensors whose shape is not known yet have in common."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet, as the weight of a lazy layer before its first input.

    It has no elements. `materialize(shape)` gives it memory, and makes it a Parameter.

    >>> weight = nn.LazyLinear(2).weight
    >>> nn.parameter.is_lazy(weight), weight
    (True, <UninitializedParameter>)
    """

    __slots__ = ()

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        return cast(
            UninitializedParameter, super().__new__(cls, ops.empty(0, device=device, dtype=dtype), requires_grad)
        )

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give it memory of this shape, whose values are to be set, and make it a Parameter."""
        self.data = ops.empty(shape, device=device, dtype=dtype or self.dtype)
        self.__class__ = Parameter  # type: ignore[assignment] # no lazy one from here on


class Buffer(Tensor):
    """State of a Module that is not trained, such as a running mean: it registers itself like a Parameter.

    `persistent=False` keeps it out of the `state_dict`.

    >>> module = nn.Module()
    >>> module.mean = nn.Buffer(ex.zeros(2))
    >>> list(module.state_dict())
    ['mean']
    """

    __slots__ = ()

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        made = _on_memory_of(data, cls)
        made.persistent = persistent
        return made


class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    """A buffer whose shape is not known yet; `materialize(shape)` gives it memory, and makes it a Buffer.

    >>> mean = nn.UninitializedBuffer()
    >>> mean.materialize(2)
    >>> tuple(mean.shape), type(mean) is nn.Buffer
    ((2,), True)
    """

    __slots__ = ()

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:
        made = super().__new__(cls, ops.empty(0, device=device, dtype=dtype), persistent=persistent)
        return cast(UninitializedBuffer, made.requires_grad_(requires_grad))

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give it memory of this shape, whose values are to be set, and make it a Buffer."""
        self.data = ops.empty(shape, device=device, dtype=dtype or self.dtype)
        self.__class__ = Buffer  # type: ignore[assignment] # no lazy one from here on


def is_lazy(param: Any) -> bool:
    """Whether its shape is not known yet.

    >>> nn.parameter.is_lazy(nn.Parameter(ex.ones(2)))
    False
    """
    return isinstance(param, UninitializedParameter | UninitializedBuffer)
