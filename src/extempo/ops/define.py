"""From an op class to what users call: a function, a method, an in-place method, `out=`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from .._methods import TensorMethods, method
from .._tensor import Tensor, tensors_in
from ..errors import AutogradError, DtypeError
from ..modes import MODE
from ..op import Op
from ..short_path import Short, runner1, runner2
from ..types import Number
from ..writing import in_place, write

Operand = Tensor | Number
F = TypeVar("F", bound=Callable[..., Any])


def deliver(result: Any, out: Tensor | None) -> Any:
    """`result`, or `out` holding it: `out` takes the result's shape and keeps its own dtype."""
    if out is None:
        return result
    if not isinstance(out, Tensor):
        raise DtypeError(f"out: expected a tensor, got {type(out).__name__}")
    if MODE.get().grad and (result.requires_grad or out.requires_grad):
        raise AutogradError("out: functions with out= are not differentiable; drop out=, or use `with ex.no_grad():`")
    if out._type.shape != result._type.shape:
        out.resize_(result.shape)
    return write(out, result, "out=")


def in_rows(fn: Callable[..., Any], input: Any, *args: Any, **kwargs: Any) -> Any:
    """`fn` of the values of a ragged tensor, in the same rows."""
    return input.like(fn(input.values(), *args, **kwargs))


def unary(op: type[Op], *aliases: str, inplace: bool = True) -> Callable[..., Tensor]:
    """The function of an op with one input, its method, and `name_` as the in-place method."""

    fn = runner1(op, deliver)

    def fn_(input: Tensor) -> Tensor:
        return in_place(input, op, (input,))

    return _publish(op, fn, fn_ if inplace else None, aliases)


def binary(op: type[Op], *aliases: str, inplace: bool = True) -> Callable[..., Tensor]:
    """The function of an op with two inputs, its method, and `name_` as the in-place method."""

    short = Short(op, 2)

    def fn(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
        result = short.run(input, other)
        if result is NotImplemented:
            kinds = f"{type(input).__name__} and {type(other).__name__}"
            raise DtypeError(f"{op.name}: expected tensors or numbers, got {kinds}; make tensors with ex.tensor(...)")
        return result if out is None else deliver(result, out)

    def fn_(input: Tensor, other: Operand) -> Tensor:
        return in_place(input, op, (input, other))

    return _publish(op, fn, fn_ if inplace else None, aliases)


def dunders(op: type[Op]) -> tuple[Any, Any, Any]:
    """The operator, its reflected form and its in-place form."""
    run = runner2(op)

    def reflected(self: Tensor, other: Operand) -> Tensor:
        return run(other, self)

    def augmented(self: Tensor, other: Operand) -> Tensor:
        return in_place(self, op, (self, other))

    return run, reflected, augmented


def _publish(op: type[Op], fn: Any, fn_: Any, aliases: tuple[str, ...]) -> Callable[..., Tensor]:
    about = (op.__doc__ or "").partition("\n\n")[0]
    for f, name in ((fn, op.name), (fn_, op.name + "_")):
        if f is None:
            continue
        f.__name__ = f.__qualname__ = name
        f.__doc__ = op.__doc__ if f is fn else f"In-place {op.name}. {about}"
        f.__module__ = op.__module__
        for alias in (name, *(a + name[len(op.name) :] for a in aliases)):
            method(f, alias)
    return fn


def numpy_names(fn: F) -> F:
    """Let `axis=` and `keepdims=` stand for `dim=` and `keepdim=`, as PyTorch does."""

    @functools.wraps(fn)
    def renamed(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            if "axis" in kwargs:
                kwargs["dim"] = kwargs.pop("axis")
            if "keepdims" in kwargs:
                kwargs["keepdim"] = kwargs.pop("keepdims")
        return fn(*args, **kwargs)

    return cast(F, renamed)


def inplace_method(name: str, fn: Callable[..., Tensor]) -> None:
    """`x.name(...)` as `x[...] = fn(x, ...)`, for functions made of other ops."""

    def fn_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        given = (input, *args, *kwargs.values())
        return write(input, fn(input, *args, **kwargs), name, tuple(tensors_in(given)))

    fn_.__name__ = fn_.__qualname__ = name
    fn_.__doc__ = f"In-place {name.rstrip('_')}: writes the result of `{fn.__name__}` into the tensor."
    setattr(TensorMethods, name, fn_)
