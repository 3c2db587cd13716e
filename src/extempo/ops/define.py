"""From an op class to what users call: a function, a method, an in-place method, `out=`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias, TypeVar, cast

import numpy as np

from ..core.context import CONTEXT
from ..core.op import Elementwise, Op
from ..core.storage import Array
from ..core.tensor import Tensor, tensors_in
from ..core.tensor_methods import TensorMethods, method
from ..core.types import Number
from ..core.wording import in_place_of
from ..dispatch.fast_path import FastOp, runner1, runner2
from ..dispatch.inplace import in_place, write
from ..errors import AutogradError, DtypeError, ExtempoError, ShapeError

Operand: TypeAlias = Tensor | Number
# What `unary` and `binary` make. Stated where gradients above it name a function: a type checker reads lambdas first.
Function = Callable[..., Tensor]
F = TypeVar("F", bound=Callable[..., Any])
# What Python and NumPy say of arguments that do not fit. Some errors of Extempo are of these classes, too.
_PYTHONS = (AttributeError, TypeError, IndexError, ValueError, OverflowError)


def deliver(result: Any, out: Tensor | None, *inputs: Any) -> Any:
    """`result`, or `out` holding it: `out` takes the result's shape, and has its dtype already.

    `inputs` are what an elementwise function was called with: `out` may be one of them, but not overlap it in part.
    """
    if out is None:
        return result
    if isinstance(out, Tensor) and out._type.dtype is not result._type.dtype:
        raise DtypeError(
            f"out=: expected a tensor of the result's dtype, {result.dtype}, got {out.dtype}; "
            f"make it with dtype={str(result.dtype).replace('extempo', 'ex')}, or convert the result"
        )
    return deliver_converted(result, out, *inputs)


def deliver_converted(result: Any, out: Tensor | None, *inputs: Any) -> Any:
    """`deliver` for functions whose result PyTorch converts to the dtype of `out`, as arithmetic does."""
    if out is None:
        return result
    if not isinstance(out, Tensor):
        raise DtypeError(f"out=: expected a tensor, got {type(out).__name__}")
    if CONTEXT.get().grad and (result.requires_grad or out.requires_grad):
        raise AutogradError("out=: functions with out= are not differentiable; drop out=, or use `with ex.no_grad():`")
    _refuse_overlap(out, inputs)
    if out._type.shape != result._type.shape:
        out.resize_(result.shape)
    return write(out, result, "out=")


def deliver_each(result: Any, out: Any, into: Callable[..., Any] = deliver) -> Any:
    """Several results, or the tensors of `out` holding them."""
    if out is None:
        return result
    if not isinstance(out, list | tuple) or len(out) != len(result):
        came = f"{len(out)} of them" if isinstance(out, list | tuple) else type(out).__name__
        raise DtypeError(f"out=: expected a tuple of {len(result)} tensors, one for each result, got {came}")
    written = map(into, result, out)
    return type(result)._make(written) if hasattr(result, "_make") else tuple(written)


def refuse_shared(op: str, out: Any, *inputs: Any) -> None:
    """Raise if `out` shares memory with an input, as PyTorch does where it would read what it has written."""
    given = [x for x in inputs if isinstance(x, Tensor)]
    if isinstance(out, Tensor) and any(x is out or _share_elements(out._data, x._data) for x in given):
        raise ShapeError(f"{op}: out shares memory with an input; give out= memory of its own")


def _refuse_overlap(out: Tensor, inputs: tuple[Any, ...]) -> None:
    """`out` has memory for each of its elements, and is an input as a whole or not at all."""
    here = out._data  # None where it is not computed yet: that memory will be its own
    if here is not None and any(step == 0 and size > 1 for step, size in zip(here.strides, here.shape, strict=True)):
        raise ShapeError("out=: elements of this tensor share memory (expand); give out= memory of its own")
    for x in inputs:
        if isinstance(x, Tensor) and x is not out and _share_elements(here, x._data) and not _same_place(here, x._data):
            raise ShapeError("out=: this tensor lies across an input in the same memory; give out= memory of its own")


def _same_place(first: Array, second: Array) -> bool:
    return first.__array_interface__["data"] == second.__array_interface__["data"] and (
        (first.shape, first.strides) == (second.shape, second.strides)
    )


def _share_elements(first: Array | None, second: Array | None) -> bool:
    if first is None or second is None:
        return False
    try:
        return np.shares_memory(first, second, max_work=10_000)  # type: ignore[arg-type] # NumPy takes any bound
    except np.exceptions.TooHardError:  # strides that cannot be told apart in reasonable time
        return False


def in_rows(fn: Callable[..., Any], input: Any, *args: Any, **kwargs: Any) -> Any:
    """`fn` of the values of a ragged tensor, in the same rows."""
    return input.like(fn(input.values(), *args, **kwargs))


def unary(op: type[Elementwise], *aliases: str, inplace: bool = True, converts: bool = False) -> Function:
    """The function of an op with one input, its method, and `name_` as the in-place method.

    `converts`: `out=` may have another dtype, as it may for all functions that compute in floating point.
    """

    fn = runner1(op, deliver_converted if converts or op.to_float else deliver)

    def fn_(input: Tensor) -> Tensor:
        return in_place(input, op, (input,))

    return _publish(op, fn, fn_ if inplace else None, aliases)


def binary(op: type[Op], *aliases: str, inplace: bool = True) -> Function:
    """The function of an op with two inputs, its method, and `name_` as the in-place method."""

    short = FastOp(op, 2)

    def fn(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
        result = short.run(input, other)
        if result is NotImplemented:
            kinds = f"{type(input).__name__} and {type(other).__name__}"
            raise DtypeError(f"{op.name}: expected tensors or numbers, got {kinds}; {in_place_of(input, other)}")
        return result if out is None else deliver_converted(result, out, input, other)

    def fn_(input: Tensor, other: Operand) -> Tensor:
        return in_place(input, op, (input, other))

    return _publish(op, fn, fn_ if inplace else None, aliases)


def operators(op: type[Op], name: str) -> None:
    """The op as an operator of tensors: `__name__`, its reflected form and its in-place form."""
    run = runner2(op)

    def reflected(self: Tensor, other: Operand) -> Tensor:
        return run(other, self)

    def augmented(self: Tensor, other: Operand) -> Tensor:
        return in_place(self, op, (self, other))

    for fn, prefix in ((run, ""), (reflected, "r"), (augmented, "i")):
        method(fn, f"__{prefix}{name}__")


def _publish(op: type[Op], fn: Any, fn_: Any, aliases: tuple[str, ...]) -> Function:
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


# NumPy's keywords, and those of which PyTorch's documentation and its functions have one each: what they stand for.
_OTHER_NAMES = {
    "axis": "dim",
    "keepdims": "keepdim",
    "x": "input",
    "x1": "input",
    "a": "input",
    "x2": "other",
    "input": "A",
}


def also_named(**others: str) -> Callable[[F], F]:
    """Let a function take NumPy's keywords (`axis=` for `dim=`, ...) as PyTorch does, and `others` as well.

    Only names of parameters that it has, and that it has not otherwise, so `axis=` stays unknown where there is no dim.
    """

    def renaming(fn: F) -> F:
        code = fn.__code__
        own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        names = {alias: name for alias, name in (_OTHER_NAMES | others).items() if name in own and alias not in own}

        @functools.wraps(fn)
        def renamed(*args: Any, **kwargs: Any) -> Any:
            if kwargs and not names.keys().isdisjoint(kwargs):
                kwargs = _by_own_names(fn.__name__, names, kwargs)
            try:
                return fn(*args, **kwargs)
            except _PYTHONS as error:
                _teach(fn.__name__, args, kwargs, error)

        shown = {alias: name for alias, name in names.items() if alias in ("axis", "keepdims") or alias in others}
        if shown:
            renamed.__signature__ = _showing(inspect.signature(fn), shown)  # type: ignore[attr-defined] # read by inspect
        return cast(F, renamed)

    return renaming


class _StandsFor(str):
    """The default of another name of a parameter: `axis=dim`, as help() shows it."""

    __slots__ = ()
    __repr__ = str.__str__


def _showing(signature: inspect.Signature, names: dict[str, str]) -> inspect.Signature:
    """The signature with other names of parameters as keywords, for editors, type checkers and the array API."""
    own = signature.parameters
    keywords = [
        inspect.Parameter(
            alias, inspect.Parameter.KEYWORD_ONLY, default=_StandsFor(name), annotation=own[name].annotation
        )
        for alias, name in names.items()
    ]
    last = [p for p in own.values() if p.kind is inspect.Parameter.VAR_KEYWORD]
    return signature.replace(parameters=[*(p for p in own.values() if p not in last), *keywords, *last])


def _by_own_names(function: str, names: dict[str, str], kwargs: dict[str, Any]) -> dict[str, Any]:
    renamed = {names.get(key, key): value for key, value in kwargs.items()}
    if len(renamed) < len(kwargs):
        raise DtypeError(f"{function}: an argument is given by two of its names, among {', '.join(kwargs)}")
    return renamed


def numpy_names(fn: F) -> F:
    """Let `axis=` and `keepdims=` stand for `dim=` and `keepdim=`, as PyTorch does."""
    return also_named()(fn)


def numpy_method(fn: F) -> F:
    """`method` for a function that takes `axis=` and `keepdims=` as well."""
    return method(numpy_names(fn))


def teaching(fn: F) -> F:
    """Let errors for arguments that do not fit name the function and what it was given.

    It costs a call, so it is for functions that take many times as long.
    """

    @functools.wraps(fn)
    def taught(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except _PYTHONS as error:
            _teach(fn.__name__, args, kwargs, error)

    return cast(F, taught)


def _teach(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception) -> NoReturn:
    """Raise what Python said of arguments where it met them, with the function's name and what it was given.

    Errors of Extempo stay what they are, and so does a call that failed as such: Python has named the function then.
    """
    if isinstance(error, ExtempoError) or error.__traceback__ is None or error.__traceback__.tb_next is None:
        raise error
    given = [_kind(x) for x in args] + [f"{key}={_kind(x)}" for key, x in kwargs.items()]
    kind = DtypeError if isinstance(error, AttributeError | TypeError) else ShapeError
    remedy = f"; {in_place_of(*args)}" if any(hasattr(x, "__torch_function__") for x in args) else ""
    raise kind(f"{name.replace('linalg_', 'linalg.')}: cannot take ({', '.join(given)}): {error}{remedy}") from error


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype} tensor of shape {tuple(value.shape)}"
    return repr(value) if isinstance(value, int | float | str | None) else type(value).__name__


def inplace_method(name: str, fn: Callable[..., Tensor]) -> None:
    """`x.name(...)` as `x[...] = fn(x, ...)`, for functions made of other ops."""

    def fn_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        given = (input, *args, *kwargs.values())
        return write(input, fn(input, *args, **kwargs), name, tuple(tensors_in(given)))

    fn_.__name__ = fn_.__qualname__ = name
    fn_.__doc__ = f"In-place {name.rstrip('_')}: writes the result of `{fn.__name__}` into the tensor."
    setattr(TensorMethods, name, fn_)
