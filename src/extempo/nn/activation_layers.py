"""Activations as layers: each is declared by its numbers and the function that it calls.

Layers that share a signature share a base class.
"""

from __future__ import annotations

from typing import Any

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..errors import ArgumentError, ShapeError
from . import functional as F
from .function_layer import OneInputLayer, stores_arguments
from .layer_support import misfit
from .module import Module
from .parameter import Parameter

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
    "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SiLU", "Sigmoid", "Softmax",
    "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


# ---- without arguments


class _Plain(OneInputLayer):
    _is_cell = True


class Sigmoid(_Plain):
    """1 / (1 + exp(-x)).

    >>> nn.Sigmoid()(ex.tensor(0.0))
    tensor(0.5000)
    """

    _function = staticmethod(F.sigmoid)


class LogSigmoid(_Plain):
    """log(1 / (1 + exp(-x))), without its rounding.

    >>> nn.LogSigmoid()(ex.tensor([-1000.0, -500.0]))
    tensor([-1000.,  -500.])
    """

    _function = staticmethod(F.logsigmoid)


class Tanh(_Plain):
    """The hyperbolic tangent.

    >>> nn.Tanh()(ex.tensor([0.0, 1000.0]))
    tensor([0., 1.])
    """

    _function = staticmethod(F.tanh)


class Tanhshrink(_Plain):
    """x - tanh(x).

    >>> nn.Tanhshrink()(ex.tensor([0.0, 1000.0]))
    tensor([  0., 999.])
    """

    _function = staticmethod(F.tanhshrink)


class Softsign(_Plain):
    """x / (1 + |x|).

    >>> nn.Softsign()(ex.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """

    _function = staticmethod(F.softsign)


class Softmax2d(Module):
    """Softmax over the channels of (batch, channel, height, width) or (channel, height, width).

    >>> nn.Softmax2d()(ex.zeros(2, 1, 3))[0]
    tensor([[0.5000, 0.5000, 0.5000]])
    """

    _is_cell = True

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            shape = tuple(input.shape)
            raise ShapeError(f"Softmax2d: expected input (batch, channel, height, width) or without batch, got {shape}")
        return F.softmax(input, -3)


# ---- that may overwrite their input


class _MayOverwrite(OneInputLayer):
    """A layer whose `inplace=True` writes the result over the input."""

    _is_cell = True

    def extra_repr(self) -> str:
        text = super().extra_repr()
        return ", ".join(filter(None, (text, "inplace=True" if self.inplace else "")))


@stores_arguments
class _InPlace(_MayOverwrite):
    inplace: bool = False


class ReLU(_InPlace):
    """max(x, 0).

    >>> nn.ReLU()(ex.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    _function = staticmethod(F.relu)


class SELU(_InPlace):
    """ELU with the two constants that keep mean 0 and variance 1 (Klambauer et al. 2017).

    >>> nn.SELU()(ex.tensor([0.0, 1.0]))
    tensor([0.0000, 1.0507])
    """

    _function = staticmethod(F.selu)


class SiLU(_InPlace):
    """x * sigmoid(x), also known as swish.

    >>> nn.SiLU()(ex.tensor([-1000.0, 0.0, 1000.0]))
    tensor([  -0.,    0., 1000.])
    """

    _function = staticmethod(F.silu)


class Mish(_InPlace):
    """x * tanh(softplus(x)).

    >>> nn.Mish()(ex.tensor([0.0, 1000.0]))
    tensor([   0., 1000.])
    """

    _function = staticmethod(F.mish)


class Hardsigmoid(_InPlace):
    """clamp(x / 6 + 1/2, 0, 1).

    >>> nn.Hardsigmoid()(ex.tensor([-3.0, 0.0, 3.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """

    _function = staticmethod(F.hardsigmoid)

    def extra_repr(self) -> str:
        return ""


class Hardswish(_InPlace):
    """x * hardsigmoid(x).

    >>> nn.Hardswish()(ex.tensor([0.0, 3.0]))
    tensor([0., 3.])
    """

    _function = staticmethod(F.hardswish)

    def extra_repr(self) -> str:
        return ""


@stores_arguments
class _Alpha(_MayOverwrite):
    alpha: float = 1.0
    inplace: bool = False


class ELU(_Alpha):
    """x above 0, alpha * (exp(x) - 1) below.

    >>> nn.ELU()(ex.tensor([-1000.0, 2.0]))
    tensor([-1.,  2.])
    """

    _function = staticmethod(F.elu)


class CELU(_Alpha):
    """x above 0, alpha * (exp(x / alpha) - 1) below: its slope is continuous for every alpha.

    >>> nn.CELU(alpha=2.0)(ex.tensor([-1000.0, 2.0]))
    tensor([-2.,  2.])
    """

    _function = staticmethod(F.celu)


@stores_arguments
class LeakyReLU(_MayOverwrite):
    """x above 0, negative_slope * x below.

    >>> nn.LeakyReLU(0.5)(ex.tensor([-2.0, 2.0]))
    tensor([-1.,  2.])
    """

    negative_slope: float = 0.01
    inplace: bool = False
    _function = staticmethod(F.leaky_relu)


@stores_arguments
class RReLU(_MayOverwrite):
    """LeakyReLU whose slope is drawn for each element between lower and upper in training, and their mean after.

    >>> nn.RReLU(0.25, 0.75).eval()(ex.tensor([-2.0, 2.0]))
    tensor([-1.,  2.])
    """

    lower: float = 1.0 / 8
    upper: float = 1.0 / 3
    inplace: bool = False
    _is_cell = False  # it draws numbers
    _function = staticmethod(F.rrelu)
    _options = ("lower", "upper", "training", "inplace")


@stores_arguments
class Hardtanh(_MayOverwrite):
    """clamp(x, min_val, max_val).

    >>> nn.Hardtanh()(ex.tensor([-2.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """

    min_val: float = -1.0
    max_val: float = 1.0
    inplace: bool = False
    min_value: float | None = None
    max_value: float | None = None
    _function = staticmethod(F.hardtanh)
    _not_kept = ("min_value", "max_value")

    def _store(self, **arguments: Any) -> None:
        for name, older_name in (("min_val", "min_value"), ("max_val", "max_value")):
            if (value := arguments.pop(older_name)) is not None:
                arguments[name] = value
        low, high = arguments["min_val"], arguments["max_val"]
        if high <= low:
            raise ArgumentError(f"Hardtanh: max_val must be above min_val, got {low} and {high}")
        super()._store(**arguments)


class ReLU6(Hardtanh):
    """clamp(x, 0, 6).

    >>> nn.ReLU6()(ex.tensor([-1.0, 2.0, 8.0]))
    tensor([0., 2., 6.])
    """

    _shown = ()

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


@stores_arguments
class Threshold(_MayOverwrite):
    """x where it is above threshold, value elsewhere.

    >>> nn.Threshold(1.0, -5.0)(ex.tensor([0.5, 2.0]))
    tensor([-5.,  2.])
    """

    threshold: float
    value: float
    inplace: bool = False
    _function = staticmethod(F.threshold)


# ---- with numbers of their own


@stores_arguments
class _Shrink(OneInputLayer):
    lambd: float = 0.5
    _is_cell = True

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """x, or 0 where |x| is at most lambd.

    >>> nn.Hardshrink()(ex.tensor([-2.0, 0.25]))
    tensor([-2.,  0.])
    """

    _function = staticmethod(F.hardshrink)


class Softshrink(_Shrink):
    """x moved towards 0 by lambd.

    >>> nn.Softshrink()(ex.tensor([-2.0, 0.25]))
    tensor([-1.5000,  0.0000])
    """

    _function = staticmethod(F.softshrink)


@stores_arguments
class Softplus(OneInputLayer):
    """log(1 + exp(beta * x)) / beta, a smooth ReLU; x itself where beta * x is above threshold.

    >>> nn.Softplus()(ex.tensor([-1000.0, 1000.0]))
    tensor([   0., 1000.])
    """

    beta: float = 1.0
    threshold: float = 20.0
    _is_cell = True
    _function = staticmethod(F.softplus)


@stores_arguments
class GELU(OneInputLayer):
    """x times the normal distribution function of x; approximate="tanh" is a cheaper form.

    >>> nn.GELU()(ex.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8413])
    """

    approximate: str = "none"
    _is_cell = True
    _function = staticmethod(F.gelu)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class PReLU(Module):
    """x above 0, weight * x below: the slope is learnt, one for all or one for each channel (dimension 1).

    >>> nn.PReLU()(ex.tensor([-2.0, 2.0])).detach()
    tensor([-0.5000,  2.0000])
    """

    _is_cell = True

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(ops.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set every slope to `init`."""
        with no_grad():
            self.weight.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        try:
            return F.prelu(input, self.weight)
        except ShapeError as error:
            raise misfit(self, f"input (batch, num_parameters={self.num_parameters}, ...)", error, input) from None

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


# ---- along a dimension


@stores_arguments
class _Along(OneInputLayer):
    dim: int | None = None
    _is_cell = True


class Softmax(_Along):
    """exp(x) divided by its sum along dim.

    >>> nn.Softmax(dim=0)(ex.tensor([1.0, 1.0]))
    tensor([0.5000, 0.5000])
    """

    _function = staticmethod(F.softmax)


class LogSoftmax(_Along):
    """log(softmax(x)) along dim, without its rounding.

    >>> nn.LogSoftmax(dim=0)(ex.tensor([0.0, -1000.0]))
    tensor([    0., -1000.])
    """

    _function = staticmethod(F.log_softmax)


class Softmin(_Along):
    """softmax(-x) along dim.

    >>> nn.Softmin(dim=0)(ex.tensor([0.0, 1000.0]))
    tensor([1., 0.])
    """

    _function = staticmethod(F.softmin)


@stores_arguments
class GLU(OneInputLayer):
    """The first half along dim times the sigmoid of the second.

    >>> nn.GLU()(ex.tensor([1.0, 2.0, 1000.0, -1000.0]))
    tensor([1., 0.])
    """

    dim: int = -1
    _is_cell = True
    _function = staticmethod(F.glu)
