"""Operators that work element by element: arithmetic, comparison, activations, conversion."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ... import ops
from ...core.tensor import Tensor
from ...core.types import bool_, float32
from ...errors import UnsupportedError
from ...nn import functional as F
from .table import Dtype, Fixed, Floats, Ints, Results, add, operator

_ONE_INPUT: dict[str, Callable[[Tensor], Tensor]] = {
    "Abs": ops.abs, "Acos": ops.acos, "Acosh": ops.acosh, "Asin": ops.asin, "Asinh": ops.asinh, "Atan": ops.atan,
    "Atanh": ops.atanh, "BitwiseNot": ops.bitwise_not, "Ceil": ops.ceil, "Cos": ops.cos, "Cosh": ops.cosh,
    "Erf": ops.erf, "Exp": ops.exp, "Floor": ops.floor, "HardSwish": F.hardswish, "IsNaN": ops.isnan, "Log": ops.log,
    "Mish": F.mish, "Neg": ops.neg, "Not": ops.logical_not, "Reciprocal": ops.reciprocal, "Relu": F.relu,
    "Round": ops.round, "Sigmoid": ops.sigmoid, "Sign": ops.sign, "Sin": ops.sin, "Sinh": ops.sinh,
    "Softplus": F.softplus, "Softsign": F.softsign, "Sqrt": ops.sqrt, "Tan": ops.tan, "Tanh": ops.tanh,
}  # fmt: skip
_TWO_INPUTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Add": ops.add, "And": ops.logical_and, "BitwiseAnd": ops.bitwise_and, "BitwiseOr": ops.bitwise_or,
    "BitwiseXor": ops.bitwise_xor, "Equal": ops.eq, "Greater": ops.gt, "GreaterOrEqual": ops.ge, "Less": ops.lt,
    "LessOrEqual": ops.le, "Mul": ops.mul, "Or": ops.logical_or, "Sub": ops.sub, "Xor": ops.logical_xor,
}  # fmt: skip


def _of_one(function: Callable[[Tensor], Tensor]) -> Callable[..., Results]:
    def run(x: Tensor) -> Tensor:
        return function(x)

    return run


def _of_two(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Results]:
    def run(x: Tensor, y: Tensor) -> Tensor:
        return function(x, y)

    return run


for _name, _function in _ONE_INPUT.items():
    add(_name, _of_one(_function))
for _name, _binary in _TWO_INPUTS.items():
    add(_name, _of_two(_binary))


# ---- arithmetic


@operator("Identity")
def identity(x: Tensor) -> Tensor:
    return x


@operator("Div")
def div(x: Tensor, y: Tensor) -> Tensor:
    return ops.div(x, y) if x.dtype.is_floating_point else ops.div(x, y, rounding_mode="trunc")


@operator("Mod")
def mod(x: Tensor, y: Tensor, *, fmod: int = 0) -> Tensor:
    return ops.fmod(x, y) if fmod else ops.remainder(x, y)


@operator("Pow")
def pow(x: Tensor, y: Tensor) -> Tensor:
    """The result has the type of the base."""
    return ops.pow(x, y).to(x.dtype)


@operator("Max")
def max(first: Tensor, *others: Tensor) -> Tensor:
    return functools.reduce(ops.maximum, others, first)


@operator("Min")
def min(first: Tensor, *others: Tensor) -> Tensor:
    return functools.reduce(ops.minimum, others, first)


@operator("Sum")
def sum(first: Tensor, *others: Tensor) -> Tensor:
    return functools.reduce(ops.add, others, first)


@operator("Mean")
def mean(first: Tensor, *others: Tensor) -> Tensor:
    return functools.reduce(ops.add, others, first) / (1 + len(others))


@operator("BitShift")
def bit_shift(x: Tensor, y: Tensor, *, direction: str) -> Tensor:
    return ops.bitwise_left_shift(x, y) if direction == "LEFT" else ops.bitwise_right_shift(x, y)


@operator("Clip")
def clip(
    x: Tensor,
    low: Fixed | None = None,
    high: Fixed | None = None,
    *,
    min: float | None = None,
    max: float | None = None,
) -> Tensor:
    """Where the bounds cross, the upper one wins. Before opset 11 they were attributes."""
    lower, upper = (min if low is None else low), (max if high is None else high)
    if lower is not None:
        x = ops.maximum(x, _bound(lower, x))
    return x if upper is None else ops.minimum(x, _bound(upper, x))


def _bound(value: Any, x: Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else ops.tensor(value, dtype=x.dtype)


@operator("IsInf")
def is_inf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    found = ops.isinf(x)
    if not detect_negative:
        found = found & (x > 0)
    return found if detect_positive else found & (x < 0)


@operator("Where")
def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return ops.where(condition, x, y)


# ---- conversion


@operator("Cast")
def cast(x: Tensor, *, to: Dtype, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return x.to(to)


@operator("CastLike")
def cast_like(x: Tensor, target: Fixed, *, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return x.to(target.dtype)


# ---- activations


@operator("Celu")
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.celu(x, alpha)


@operator("Elu")
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.elu(x, alpha)


@operator("Gelu")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    return F.gelu(x, approximate=approximate)


@operator("HardSigmoid")
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    return ops.clamp(x * alpha + beta, 0.0, 1.0)


@operator("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    return F.leaky_relu(x, alpha)


@operator("PRelu")
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    return ops.where(x < 0, x * slope, x)


@operator("Selu")
def selu(x: Tensor, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Tensor:
    return ops.where(x > 0, x, alpha * ops.expm1(ops.clamp(x, max=0.0))) * gamma


@operator("Shrink")
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    zero = ops.zeros_like(x)
    return ops.where(x < -lambd, x + bias, ops.where(x > lambd, x - bias, zero)).to(x.dtype)


@operator("Swish")
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return x * ops.sigmoid(x * alpha)


@operator("ThresholdedRelu")
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return ops.where(x > alpha, x, ops.zeros_like(x))


def _rows(x: Tensor, axis: int | None, opset: int) -> tuple[Tensor, int]:
    """From opset 13 on one axis, the last by default; before it all axes from the first named one on, as one."""
    if opset >= 13:
        return x, -1 if axis is None else axis
    return x.flatten(1 if axis is None else axis), -1


@operator("Softmax")
def softmax(x: Tensor, *, axis: int | None = None, opset: int) -> Tensor:
    rows, dim = _rows(x, axis, opset)
    return ops.softmax(rows, dim).reshape(x.shape)


@operator("LogSoftmax")
def log_softmax(x: Tensor, *, axis: int | None = None, opset: int) -> Tensor:
    rows, dim = _rows(x, axis, opset)
    return ops.log_softmax(rows, dim).reshape(x.shape)


@operator("Hardmax")
def hardmax(x: Tensor, *, axis: int | None = None, opset: int) -> Tensor:
    rows, dim = _rows(x, axis, opset)
    first = rows.argmax(dim, keepdim=True)
    return ops.zeros_like(rows).scatter(dim, first, 1.0).reshape(x.shape)


@operator("Dropout")
def dropout(
    x: Tensor, ratio: Floats | None = None, training_mode: Ints | None = None, *, ratio_: float = 0.5,
    seed: int | None = None, is_test: int = 1, training: bool, opset: int,
) -> Results:  # fmt: skip
    """The file says whether it drops anything; `module.eval()` switches it off. A seed is not kept."""
    if opset < 12 and not is_test:
        raise UnsupportedError(
            "a Dropout of a training file before opset 12 is not supported; convert the file with "
            "onnx.version_converter.convert_version(model, 21)"
        )
    p = ratio[0] if ratio else ratio_
    if not (training_mode and training_mode[0] and training) or p == 0.0:
        return x, ops.ones(x.shape, dtype=bool_)
    kept = ops.rand(x.shape) >= p
    return ops.where(kept, x / (1.0 - p), ops.zeros_like(x)), kept


@operator("OptionalHasElement")
def optional_has_element(x: Tensor | None = None) -> Tensor:
    return ops.tensor(x is not None)


@operator("OptionalGetElement")
def optional_get_element(x: Tensor) -> Tensor:
    return x


def as_float(x: Tensor) -> Tensor:
    """A tensor that has a mean: whole numbers become float32."""
    return x if x.dtype.is_floating_point else x.to(float32)
