"""The NumPy kernel of an op run on symbols that note what it computes: special functions of tables and regions.

A symbol stands for an array of float64. NumPy hands its functions and operators over (`__array_ufunc__`,
`__array_function__`), and each adds ONNX nodes. Regions of a function are chosen between by Where.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...backends.numpy.special import Symbolic
from ...core.op import REGISTRY
from ...core.types import bool_, float32, float64
from .builder import Builder, OnnxValue
from .emitter import OnnxEmitter

# NumPy's names where the emitter and the registry have others.
_UFUNCS: Mapping[str, str] = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "negative": "neg", "absolute": "abs", "power": "pow",
    "rint": "round_half_even", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "equal": "eq",
    "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
    "bitwise_and": "logical_and", "bitwise_or": "logical_or", "invert": "logical_not",
}  # fmt: skip


class Symbol(np.lib.mixins.NDArrayOperatorsMixin, Symbolic):
    """An array that is known only when the ONNX model runs."""

    def __init__(self, e: OnnxEmitter, value: OnnxValue) -> None:
        self.e = e
        self.value = value

    shape: tuple[int, ...] = ()  # a kernel's constants broadcast
    dtype = np.dtype(np.float64)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if ufunc is np.square:
            return inputs[0] * inputs[0]
        kwargs.pop("out", None)  # of `result += term`, which is given a name anew
        name = _UFUNCS.get(ufunc.__name__, ufunc.__name__)
        emit = getattr(self.e, name, None)
        if emit is None and name in REGISTRY:
            emit = functools.partial(REGISTRY[name].lower, self.e)
        if method != "__call__" or kwargs or emit is None:
            return NotImplemented
        return self._made(emit(*map(self._operand, inputs)))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        replacement = _FUNCTIONS.get(function.__name__)
        return NotImplemented if replacement is None else replacement(self, *args, **kwargs)

    def astype(self, d: Any) -> Symbol:
        """Rounded to float32 and back, as kernels do to split a number in two."""
        if np.dtype(d) == np.float32:
            return self._made(self.e.b.cast(self.e.b.cast(self.value, float32), float64))
        return self

    def _operand(self, x: Any) -> OnnxValue:
        if isinstance(x, Symbol):
            return x.value
        array = np.asarray(x)
        return self.e.b.constant(array, bool_ if array.dtype == np.bool_ else float64)

    def _made(self, value: OnnxValue) -> Symbol:
        return Symbol(self.e, value)

    def where(self, condition: Any, x: Any, y: Any) -> Symbol:
        """np.where."""
        return self._made(self.e.where(*map(self._operand, (condition, x, y))))


def _clip(like: Symbol, x: Any, low: Any, high: Any) -> Any:
    return np.minimum(np.maximum(x, low), high)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "where": Symbol.where,
    "clip": _clip,
    "ones_like": lambda like, x: np.ones(()),
    "zeros_like": lambda like, x: np.zeros(()),
    "isposinf": lambda like, x: np.isinf(x) & (x > 0.0),
}


def traced_kernel(b: Builder, kernel: Callable[..., Any], inputs: list[Any], attrs: Mapping[str, Any]) -> OnnxValue:
    """The result of a kernel, computed in float64."""
    e = OnnxEmitter(b)
    given = []
    for x in inputs:
        is_tensor = isinstance(x, OnnxValue) and x.array is None
        given.append(
            Symbol(e, b.cast(x, float64)) if is_tensor else np.asarray(x.array if isinstance(x, OnnxValue) else x)
        )
    try:
        made = kernel(*given, **attrs)
    except (TypeError, AttributeError, ValueError) as error:  # what NumPy says of functions that are not handed over
        b.refuse(f"its NumPy kernel does what symbols cannot: {error}")
    return made.value if isinstance(made, Symbol) else b.constant(made, float64)
