"""Activation functions: what stands between layers.

The bounds and slopes of every function are number inputs, so no value of them makes a new kernel. `__all__` holds what
PyTorch has at the top level; the whole list is `nn.functional`'s.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import ops
from ..backends.numpy.special import erfc
from ..core.op import Elementwise, Rng, Sample, samples_unary
from ..core.tensor import Tensor
from ..core.tensor_methods import method
from ..core.types import dtype, normalize_dim
from ..dispatch.dispatcher import apply
from ..dispatch.fast_path import FastOp
from ..dispatch.inplace import write
from ..errors import DtypeError, NumericalError, ShapeError
from .define import Operand, deliver, inplace_method
from .softmaxes import LogSoftmax, Softmax, normalised

__all__ = [
    "celu",
    "celu_",
    "hardshrink",
    "prelu",
    "relu",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "threshold",
    "threshold_",
]


# Self-normalizing networks (Klambauer et al. 2017): mean 0 and variance 1 are a fixed point with these two.
_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


class Relu(Elementwise):
    """max(x, 0); the gradient at 0 is 0."""

    domain = "if"
    quiet = True
    samples = staticmethod(samples_unary)
    numpy = staticmethod(lambda x: np.where(x < 0, x.dtype.type(0), x))

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (ops.where(ops.le(y, 0), 0.0, g),)  # a NaN lets the gradient pass

    @staticmethod
    def lower(e: Any, x: Any) -> Any:
        return e.maximum(0, x)  # of equal ones the second, so -0.0 stays


class LeakyRelu(Elementwise):
    """x where it is positive, slope * x elsewhere."""

    domain = "f"
    numpy = staticmethod(lambda x, slope: np.where(x > 0, x, x * slope))
    lower = staticmethod(lambda e, x, slope: e.where(e.gt(x, 0.0), x, e.mul(x, slope)))

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor, slope: Tensor) -> tuple[Any, ...]:
        positive = ops.gt(x, 0)
        return ops.where(positive, g, g * slope), ops.where(positive, 0.0, g * x)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        x = rng.uniform(-2, 2, size=(3, 4))
        yield Sample(x, 0.01)
        yield Sample(x, rng.uniform(0, 1, size=(4,)))
        yield Sample(np.empty((0, 3)), -0.5)


class Elu(Elementwise):
    """scale * x where x is positive, scale * alpha * (exp(input_scale * x) - 1) elsewhere: elu, selu and celu."""

    domain = "f"

    @staticmethod
    def numpy(x: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
        return np.where(x > 0, x, np.expm1(np.where(x > 0, 0, x) * input_scale) * alpha) * scale

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor, alpha: Any, scale: Any, input_scale: Any) -> tuple[Any, ...]:
        scaled = g * scale
        # exp() never sees a positive x: it would overflow, and 0 * inf would spoil the second order.
        curve = scaled * alpha * input_scale * ops.exp(ops.minimum(x, 0.0) * input_scale)
        return ops.where(ops.le(x, 0), curve, scaled), None, None, None

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        x = rng.uniform(-2, 2, size=(3, 4))
        yield Sample(x, 1.0, 1.0, 1.0)
        yield Sample(x, 2.0, 1.5, 0.5)
        yield Sample(np.array([-800.0, 800.0]), 1.0, 1.0, 1.0)
        yield Sample(np.empty((0, 3)), 1.0, 1.0, 1.0)

    @staticmethod
    def lower(e: Any, x: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
        curve = e.mul(e.expm1(e.mul(e.minimum(0.0, x), input_scale)), alpha)  # of equal ones the second: -0.0 stays
        return e.mul(e.where(e.gt(x, 0.0), x, curve), scale)


class Hardtanh(Elementwise):
    """x limited to [low, high]; on the bounds and outside them the gradient is 0."""

    domain = "if"
    quiet = True
    lower = staticmethod(lambda e, x, low, high: e.minimum(high, e.maximum(low, x)))

    @staticmethod
    def numpy(x: Any, low: Any, high: Any) -> Any:
        # Of equal ones x, so -0.0 stays; a bound that is NaN wins.
        limited = np.where(np.greater_equal(x, low), x, np.maximum(x, low))
        return np.where(np.less_equal(limited, high), limited, np.minimum(limited, high))

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor, low: Any, high: Any) -> tuple[Any, ...]:
        outside = ops.logical_or(ops.le(x, low), ops.ge(x, high))
        return ops.where(outside, 0.0, g), None, None

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.uniform(-2, 2, size=(3, 4)), -1.0, 1.0)
        yield Sample(rng.uniform(-2, 8, size=()), 0.0, 6.0)
        yield Sample(np.empty((0, 3)), -1.0, 1.0)


class Gelu(Elementwise):
    """x times the probability that a standard normal variable stays below x."""

    domain = "f"
    lower = staticmethod(lambda e, x: e.gelu(x))

    @staticmethod
    def numpy(x: Any) -> Any:
        return erfc(x * -math.sqrt(0.5)) * (x * 0.5)  # 1 + erf() would cancel where x is negative

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        probability = ops.erfc(x * -math.sqrt(0.5)) * 0.5
        density = ops.exp(x * x * -0.5) * (1.0 / math.sqrt(2.0 * math.pi))
        return (g * (probability + x * density),)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield from samples_unary(rng)
        yield Sample(np.array([-40.0, -6.0, 6.0, 40.0]))


# gelu's approximation (Hendrycks and Gimpel 2016): tanh(_INNER * (x + _CUBIC * x**3)).
_INNER = math.sqrt(2.0 / math.pi)
_CUBIC = 0.044715
_FLAT = 12.0  # from there on the slope is 0 or 1 in every dtype


class GeluTanh(Elementwise):
    """gelu with the probability approximated by a tanh."""

    public_name = "gelu"
    domain = "f"
    numpy = staticmethod(lambda x: (np.tanh((x * x * _CUBIC + 1) * x * _INNER) + 1) * (x * 0.5))
    vjp = staticmethod(lambda g, y, x: (g * apply(GeluTanhSlope, (x,)),))
    samples = Gelu.samples
    lower = staticmethod(lambda e, x: e.gelu_tanh(x))


class GeluTanhSlope(Elementwise):
    """The derivative of gelu_tanh: 0 far below 0, 1 far above."""

    domain = "f"
    samples = Gelu.samples
    lower = staticmethod(lambda e, x: e.gelu_tanh_slope(x))

    @staticmethod
    def numpy(x: Any) -> Any:
        x = np.clip(x, -_FLAT, _FLAT)
        square = x * x
        t = np.tanh((square * _CUBIC + 1) * x * _INNER)
        return (t + 1) * 0.5 + (1 - t * t) * (square * (3 * _CUBIC) + 1) * x * (_INNER * 0.5)

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        x = ops.clamp(x, -_FLAT, _FLAT)
        square = x * x
        t = ops.tanh((square * _CUBIC + 1.0) * x * _INNER)
        growth = (square * (3.0 * _CUBIC) + 1.0) * _INNER  # of the argument of tanh
        return (g * ((1.0 - t * t) * (growth + x * (x * (3.0 * _CUBIC * _INNER) - t * growth * growth))),)


class Silu(Elementwise):
    """x * sigmoid(x)."""

    domain = "f"
    numpy = staticmethod(lambda x: x / (np.exp(-x) + 1))
    lower = staticmethod(lambda e, x: e.silu(x))

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        s = ops.sigmoid(x)
        return (g * (s * (x * (1.0 - s) + 1.0)),)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield from samples_unary(rng)
        yield Sample(np.array([-800.0, 800.0]))


class Mish(Elementwise):
    """x * tanh(log(1 + exp(x)))."""

    domain = "f"
    numpy = staticmethod(lambda x: x * np.tanh(np.logaddexp(x, x.dtype.type(0))))
    lower = staticmethod(lambda e, x: e.mish(x))

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        t = ops.tanh(apply(Softplus, (x, 1.0, 20.0)))
        return (g * (t + x * ops.sigmoid(x) * (1.0 - t * t)),)

    samples = staticmethod(samples_unary)


class Hardswish(Elementwise):
    """x * min(max(x + 3, 0), 6) / 6."""

    domain = "f"
    numpy = staticmethod(lambda x: x * (np.minimum(np.maximum(x + 3, 0), 6) / 6))
    lower = staticmethod(lambda e, x: e.mul(x, e.div(e.minimum(e.maximum(e.add(x, 3.0), 0.0), 6.0), 6.0)))

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        inside = g * (x / 3.0 + 0.5)
        return (ops.where(ops.le(x, -3.0), 0.0, ops.where(ops.lt(x, 3.0), inside, g)),)

    samples = staticmethod(samples_unary)


class Softplus(Elementwise):
    """log(1 + exp(beta * x)) / beta, a smooth relu; x itself where beta * x is above the threshold."""

    domain = "f"

    @staticmethod
    def numpy(x: Any, beta: Any, threshold: Any) -> Any:
        scaled = x * beta
        return np.where(scaled > threshold, x, np.logaddexp(scaled, x.dtype.type(0)) / beta)

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor, beta: Any, threshold: Any) -> tuple[Any, ...]:
        scaled = x * beta
        return ops.where(ops.gt(scaled, threshold), g, g * ops.sigmoid(scaled)), None, None

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        x = rng.uniform(-2, 2, size=(3, 4))
        yield Sample(x, 1.0, 20.0)
        yield Sample(x, 2.0, math.inf)
        yield Sample(np.array([-800.0, 0.0, 800.0]), 2.0, 20.0)
        yield Sample(np.empty((0, 3)), 1.0, 20.0)

    @staticmethod
    def lower(e: Any, x: Any, beta: Any, threshold: Any) -> Any:
        scaled = e.mul(x, beta)
        return e.where(e.gt(scaled, threshold), x, e.div(e.softplus(scaled), beta))


def _here(input: Tensor, result: Tensor, inplace: bool, op: str) -> Tensor:
    """The result, written over the input if asked for."""
    return write(input, result, op + "_") if inplace else result


def _overwriting(fn: Callable[..., Tensor], example: str) -> Callable[..., Tensor]:
    """`fn_`: PyTorch's name of the function with inplace=True. `example`: a call and what it shows."""

    def fn_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return fn(input, *args, **kwargs, inplace=True)

    fn_.__name__ = fn_.__qualname__ = fn.__name__ + "_"
    about = (fn.__doc__ or "").partition("\n\n")[0]
    fn_.__doc__ = f"In-place {fn.__name__}. {about}\n\n>>> {example}"
    return fn_


_relu, _gelu, _gelu_tanh, _silu = (FastOp(op, 1) for op in (Relu, Gelu, GeluTanh, Silu))


@method
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(input, 0).

    >>> ex.relu(ex.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return _here(input, _relu.run(input), inplace, "relu") if inplace else _relu.run(input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """input where it is positive, negative_slope * input elsewhere.

    >>> F.leaky_relu(ex.tensor([-1.0, 2.0]), 0.25)
    tensor([-0.2500,  2.0000])
    """
    return _here(input, apply(LeakyRelu, (input, negative_slope)), inplace, "leaky_relu")


@method
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """leaky_relu whose slope is learnt: one for all, or one per channel (dimension 1).

    >>> ex.prelu(ex.tensor([-4.0, 2.0]), ex.tensor([0.25]))
    tensor([-1.,  2.])
    """
    if weight.ndim > 1:
        raise ShapeError(f"prelu: weight must be one number or one per channel, got shape {tuple(weight.shape)}")
    if weight.numel() != 1:
        channels = input.shape[1] if input.ndim > 1 else 1
        if weight.numel() != channels:
            raise ShapeError(f"prelu: {weight.numel()} weights for {channels} channels; give 1 or one per channel")
        weight = weight.reshape(channels, *(1,) * (input.ndim - 2))
    elif weight.ndim > input.ndim:
        weight = weight.reshape(())
    return apply(LeakyRelu, (input, weight))


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """leaky_relu whose slopes are drawn from lower..upper in training, and their mean otherwise.

    >>> ex.rrelu(ex.tensor([-1.0, 2.0]), lower=0.25, upper=0.75)
    tensor([-0.5000,  2.0000])
    """
    if not lower <= upper:
        raise NumericalError(f"rrelu: expected lower <= upper, got lower={lower} and upper={upper}")
    slope: Operand = (lower + upper) / 2
    if training:
        slope = ops.empty_like(input.detach()).uniform_(lower, upper)
    return _here(input, apply(LeakyRelu, (input, slope)), inplace, "rrelu")


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """input where it is positive, alpha * (exp(input) - 1) elsewhere.

    >>> F.elu(ex.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return _here(input, apply(Elu, (input, alpha, 1.0, 1.0)), inplace, "elu")


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu with the two constants that keep mean 0 and variance 1 from layer to layer.

    >>> ex.selu(ex.tensor([-1.0, 0.0, 1.0]))
    tensor([-1.1113,  0.0000,  1.0507])
    """
    return _here(input, apply(Elu, (input, _SELU_ALPHA, _SELU_SCALE, 1.0)), inplace, "selu")


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """elu with a slope that is continuous at 0 for every alpha.

    >>> ex.celu(ex.tensor([-1.0, 2.0]), alpha=2.0)
    tensor([-0.7869,  2.0000])
    """
    if alpha == 0:
        raise ShapeError("celu: alpha must not be 0")
    return _here(input, apply(Elu, (input, alpha, 1.0, 1.0 / alpha)), inplace, "celu")


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """input limited to min_val..max_val; unlike clamp, the bounds themselves pass no gradient.

    >>> F.hardtanh(ex.tensor([-2.0, 0.5, 3.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min_val > max_val:
        raise ShapeError(f"hardtanh: min_val {min_val} is above max_val {max_val}")
    if not input.is_floating_point():
        min_val, max_val = int(min_val), int(max_val)
    return _here(input, apply(Hardtanh, (input, min_val, max_val)), inplace, "hardtanh")


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """input limited to 0..6.

    >>> F.relu6(ex.tensor([-1.0, 3.0, 9.0]))
    tensor([0., 3., 6.])
    """
    return hardtanh(input, 0.0, 6.0, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """A sigmoid of straight lines: (input + 3) / 6, limited to 0..1.

    >>> F.hardsigmoid(ex.tensor([-4.0, 0.0, 1.5]))
    tensor([0.0000, 0.5000, 0.7500])
    """
    return _here(input, hardtanh(input + 3.0, 0.0, 6.0) / 6.0, inplace, "hardsigmoid")


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """input * hardsigmoid(input).

    >>> F.hardswish(ex.tensor([-1.0, 0.0, 4.0]))
    tensor([-0.3333,  0.0000,  4.0000])
    """
    return _here(input, apply(Hardswish, (input,)), inplace, "hardswish")


def gelu(input: Tensor, approximate: str = "none", *, out: Tensor | None = None) -> Tensor:
    """input times the normal distribution function of input; "tanh" approximates it.

    >>> F.gelu(ex.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.0000,  0.8413])
    """
    if approximate not in ("none", "tanh"):
        raise DtypeError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    result = _gelu.run(input) if approximate == "none" else _gelu_tanh.run(input)
    return result if out is None else deliver(result, out, input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """input * sigmoid(input).

    >>> F.silu(ex.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.2689,  0.0000,  0.7311])
    """
    return _here(input, _silu.run(input), inplace, "silu")


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """input * tanh(softplus(input)).

    >>> F.mish(ex.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.3034,  0.0000,  0.8651])
    """
    return _here(input, apply(Mish, (input,)), inplace, "mish")


def softplus(input: Tensor, beta: float = 1, threshold: float = 20, *, out: Tensor | None = None) -> Tensor:
    """log(1 + exp(beta * input)) / beta, a smooth relu; input itself where beta * input is above the threshold.

    >>> F.softplus(ex.tensor([-1.0, 0.0, 100.0]))
    tensor([  0.3133,   0.6931, 100.0000])
    """
    return deliver(apply(Softplus, (input, beta, threshold)), out, input)


def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(sigmoid(input)), finite where the sigmoid would round to 0.

    >>> F.logsigmoid(ex.tensor([-100.0, 0.0]))
    tensor([-100.0000,   -0.6931])
    """
    return deliver(-apply(Softplus, (-input, 1.0, math.inf)), out, input)


def softsign(input: Tensor) -> Tensor:
    """input / (1 + |input|).

    >>> F.softsign(ex.tensor([-1.0, 0.0, 3.0]))
    tensor([-0.5000,  0.0000,  0.7500])
    """
    return input / (ops.abs(input) + 1.0)


def tanhshrink(input: Tensor) -> Tensor:
    """input - tanh(input).

    >>> F.tanhshrink(ex.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.2384,  0.0000,  0.2384])
    """
    return input - ops.tanh(input)


@method
def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """0 where |input| <= lambd, input elsewhere.

    >>> ex.hardshrink(ex.tensor([-1.0, 0.25, 0.75]))
    tensor([-1.0000,  0.0000,  0.7500])
    """
    small = ops.logical_and(ops.ge(input, -lambd), ops.le(input, lambd))
    return deliver(ops.where(small, 0.0, input), out, input)


def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """input moved towards 0 by lambd, and 0 where that would cross it.

    >>> F.softshrink(ex.tensor([-1.0, 0.25, 2.0]))
    tensor([-0.5000,  0.0000,  1.5000])
    """
    if lambd < 0:
        raise ShapeError(f"softshrink: lambd must not be negative, got {lambd}")
    return deliver(input - ops.clamp(input, -lambd, lambd), out, input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """input where it is above the threshold, value elsewhere.

    >>> ex.threshold(ex.tensor([0.5, 1.5]), threshold=1.0, value=-7.0)
    tensor([-7.0000,  1.5000])
    """
    if not input.is_floating_point():
        threshold, value = int(threshold), int(value)
    return _here(input, ops.where(ops.le(input, threshold), value, input), inplace, "threshold")


relu_ = _overwriting(relu, "F.relu_(ex.tensor([-1.0, 2.0]))\ntensor([0., 2.])")
leaky_relu_ = _overwriting(leaky_relu, "F.leaky_relu_(ex.tensor([-1.0, 2.0]), 0.25)\ntensor([-0.2500,  2.0000])")
rrelu_ = _overwriting(rrelu, "F.rrelu_(ex.tensor([-1.0, 2.0]), 0.25, 0.75)\ntensor([-0.5000,  2.0000])")
elu_ = _overwriting(elu, "F.elu_(ex.tensor([-1.0, 2.0]))\ntensor([-0.6321,  2.0000])")
selu_ = _overwriting(selu, "F.selu_(ex.tensor([-1.0, 1.0]))\ntensor([-1.1113,  1.0507])")
celu_ = _overwriting(celu, "F.celu_(ex.tensor([-1.0, 2.0]), alpha=2.0)\ntensor([-0.7869,  2.0000])")
hardtanh_ = _overwriting(hardtanh, "F.hardtanh_(ex.tensor([-2.0, 0.5, 3.0]))\ntensor([-1.0000,  0.5000,  1.0000])")
threshold_ = _overwriting(threshold, "F.threshold_(ex.tensor([0.5, 1.5]), 1.0, -7.0)\ntensor([-7.0000,  1.5000])")
inplace_method("relu_", relu)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half of a dimension times the sigmoid of the second.

    >>> F.glu(ex.tensor([1.0, 2.0, 0.0, 100.0]))
    tensor([0.5000, 2.0000])
    """
    d = normalize_dim(dim, input.ndim, "glu")
    size = input.shape[d] if input.ndim else 0
    if not input.ndim or size % 2:
        raise ShapeError(f"glu: dimension {d} of shape {tuple(input.shape)} cannot be halved; its size must be even")
    return input.narrow(d, 0, size // 2) * ops.sigmoid(input.narrow(d, size // 2, size // 2))


def _implicit_dim(ndim: int, op: str) -> int:
    """The dimension that PyTorch once chose when none was given."""
    chosen = 0 if ndim in (0, 1, 3) else 1
    warnings.warn(f"{op}: no dim given, dimension {chosen} is used; write dim={chosen}", stacklevel=3)
    return chosen


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None) -> Tensor:
    """exp(input) / sum(exp(input)) along `dim`.

    >>> F.softmax(ex.tensor([0.0, 0.0, 1.0]), dim=0)
    tensor([0.2119, 0.2119, 0.5761])
    """
    return normalised(Softmax, input, _implicit_dim(input.ndim, "softmax") if dim is None else dim, dtype, None)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None) -> Tensor:
    """softmax of -input.

    >>> F.softmin(ex.tensor([0.0, 0.0, 1.0]), dim=0)
    tensor([0.4223, 0.4223, 0.1554])
    """
    return ops.softmax(-input, _implicit_dim(input.ndim, "softmin") if dim is None else dim, dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None) -> Tensor:
    """log(softmax(input, dim)), finite where softmax would round to 0.

    >>> F.log_softmax(ex.tensor([0.0, 1000.0]), dim=0)
    tensor([-1000.,     0.])
    """
    along = _implicit_dim(input.ndim, "log_softmax") if dim is None else dim
    return normalised(LogSoftmax, input, along, dtype, None)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A random choice among logits that gradients pass through; `hard` gives one-hot values with the soft gradient.

    >>> F.gumbel_softmax(ex.tensor([0.0, 0.0, 1.0]), hard=True).sort().values
    tensor([0., 0., 1.])
    """
    noise = -ops.log(ops.empty_like(logits.detach()).exponential_())
    soft = ops.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    chosen = ops.zeros_like(soft).scatter(dim, soft.detach().argmax(dim, keepdim=True), 1.0)
    return chosen - soft.detach() + soft
