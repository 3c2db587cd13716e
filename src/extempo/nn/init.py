"""`nn.init`: fill tensors with starting values, in place and outside the graph.

Every random one takes `generator=`; without it the draws follow `ex.manual_seed`. The fans of a weight are PyTorch's:
dimension 0 counts outputs, dimension 1 inputs, and all others multiply both.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

from .. import ops
from ..core.absent_names import explain_absent
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..core.types import count, float32, float64
from ..errors import ArgumentError, DtypeError, ShapeError
from ..random import Generator
from ..special import ndtri

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

_LINEAR = {
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "sigmoid",
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much a layer's weights should be larger because of the function behind it.

    >>> nn.init.calculate_gain("relu") == 2**0.5
    True
    """
    if nonlinearity in _LINEAR:
        return 1.0
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, int | float):
            raise DtypeError(f"calculate_gain: the slope of leaky_relu must be a number, got {param!r}")
        return math.sqrt(2.0 / (1 + slope**2))
    gains = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
    if nonlinearity not in gains:
        known = ", ".join(sorted({*gains, *_LINEAR, "leaky_relu"}))
        raise ArgumentError(f"calculate_gain: expected one of {known}, got {nonlinearity!r}")
    return gains[nonlinearity]


# ---- each value by itself


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with uniform random numbers between a and b.

    >>> w = nn.init.uniform_(ex.empty(100), -1, 1)
    >>> bool((w.abs() <= 1).all())
    True
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with normal random numbers.

    >>> nn.init.normal_(ex.empty(2), mean=3.0, std=0.0)
    tensor([3., 3.])
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill with normal random numbers that lie between a and b.

    >>> w = nn.init.trunc_normal_(ex.empty(100), std=5.0, a=-1.0, b=1.0)
    >>> bool((w.abs() <= 1).all())
    True
    """
    if not std > 0 or not a < b:
        raise ArgumentError(f"trunc_normal_: expected std > 0 and a < b, got std={std}, a={a}, b={b}")
    low, high, sign = (a - mean) / std, (b - mean) / std, 1.0
    if low > 0:  # in the lower tail tiny probabilities keep their digits, next to 1 they do not
        low, high, sign = -high, -low, -1.0
    share = ops.empty(tensor.shape, dtype=float64).uniform_(_normal_cdf(low), _normal_cdf(high), generator=generator)
    with no_grad():
        return tensor.copy_((ndtri(share) * (sign * std) + mean).clamp(a, b))


def _normal_cdf(x: float) -> float:
    return math.erfc(-x / math.sqrt(2.0)) / 2.0


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one number.

    >>> nn.init.constant_(ex.empty(2), 0.5)
    tensor([0.5000, 0.5000])
    """
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with 1.

    >>> nn.init.ones_(ex.empty(2))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with 0.

    >>> nn.init.zeros_(ex.empty(2))
    tensor([0., 0.])
    """
    return constant_(tensor, 0.0)


# ---- identities


def eye_(tensor: Tensor) -> Tensor:
    """Make a matrix the identity: 1 on the diagonal, 0 elsewhere.

    >>> nn.init.eye_(ex.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    if tensor.ndim != 2:
        raise ShapeError(f"eye_: expected a matrix, got shape {tuple(tensor.shape)}")
    with no_grad():
        return tensor.copy_(ops.eye(*tensor.shape, dtype=tensor.dtype))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Make the weight of a convolution pass its input channels on unchanged, as far as there are output channels.

    >>> nn.init.dirac_(ex.empty(1, 1, 3))
    tensor([[[0., 1., 0.]]])
    """
    if tensor.ndim not in (3, 4, 5):
        raise ShapeError(f"dirac_: expected the weight of a convolution, 3 to 5 dimensions, got {tuple(tensor.shape)}")
    if tensor.shape[0] % groups:
        raise ShapeError(f"dirac_: the {tensor.shape[0]} output channels do not divide into {groups} groups")
    n_out = tensor.shape[0] // groups
    middle = [size // 2 for size in tensor.shape[2:]]
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(n_out, tensor.shape[1])):
                tensor[(group * n_out + channel, channel, *middle)] = 1
    return tensor


# ---- by the number of inputs and outputs


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs one output reads, and how many outputs one input reaches."""
    if tensor.ndim < 2:
        raise ShapeError(
            f"fan in and fan out: expected a weight with 2 or more dimensions, got shape {tuple(tensor.shape)}"
        )
    field = count(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    modes = ("fan_in", "fan_out")
    if mode not in modes:
        raise ArgumentError(f"kaiming: mode is 'fan_in' or 'fan_out', got {mode!r}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode)]


def _xavier_std(tensor: Tensor, gain: float) -> float:
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return gain * math.sqrt(2.0 / (fan_in + fan_out)) if tensor.numel() else 0.0


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Glorot and Bengio 2010: uniform, so that values keep their size forward and gradients backward.

    >>> w = nn.init.xavier_uniform_(ex.empty(3, 3), gain=nn.init.calculate_gain("tanh"))
    >>> bool((w.abs() <= 5 / 3).all())
    True
    """
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Glorot and Bengio 2010, normal.

    >>> nn.init.xavier_normal_(ex.empty(3, 5)).shape
    extempo.Size([3, 5])
    """
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if tensor.numel() else 0.0


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """He et al. 2015: uniform, for layers with relu behind them; `a` is the slope of a leaky one.

    >>> w = nn.init.kaiming_uniform_(ex.empty(4, 6), nonlinearity="relu")
    >>> bool((w.abs() <= 1).all())
    True
    """
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """He et al. 2015, normal.

    >>> nn.init.kaiming_normal_(ex.empty(3, 5), mode="fan_out").shape
    extempo.Size([3, 5])
    """
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


# ---- whole matrices


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Saxe et al. 2013: rows (or columns, where there are fewer) that are orthogonal and of length `gain`.

    Dimensions after the first count as one.

    >>> w = nn.init.orthogonal_(ex.empty(2, 5))
    >>> ex.allclose(w @ w.T, ex.eye(2), atol=1e-5)
    True
    """
    if tensor.ndim < 2:
        raise ShapeError(f"orthogonal_: expected 2 or more dimensions, got shape {tuple(tensor.shape)}")
    if not tensor.numel():
        return tensor
    n_rows = tensor.shape[0]
    precise = tensor.dtype if tensor.dtype is float64 else float32
    drawn = ops.empty(n_rows, tensor.numel() // n_rows, dtype=precise).normal_(generator=generator)
    tall = drawn if n_rows >= drawn.shape[1] else drawn.T
    q, r = ops.qr(tall)
    # With the signs of r's diagonal every orthogonal matrix is equally likely (Mezzadri 2006).
    q = q * r.diagonal().sign()
    with no_grad():
        return tensor.copy_(gain * (q if tall is drawn else q.T).reshape(tensor.shape))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Martens 2010: normal random numbers, and a share `sparsity` of zeros in every column of a matrix.

    >>> w = nn.init.sparse_(ex.empty(4, 3), sparsity=0.5)
    >>> (w == 0).sum(0).tolist()
    [2, 2, 2]
    """
    if tensor.ndim != 2:
        raise ShapeError(f"sparse_: expected a matrix, got shape {tuple(tensor.shape)}")
    n_rows, n_columns = tensor.shape
    n_zeros = math.ceil(sparsity * n_rows)
    columns: list[Any] = [ops.randperm(n_rows, generator=generator)[:n_zeros] for _ in range(n_columns)]
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column, rows in enumerate(columns):
            tensor[rows, column] = 0
    return tensor


# ---- names without the underscore, from before 0.4


def _older(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    name = function.__name__.removesuffix("_")

    @functools.wraps(function)
    def older(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(f"nn.init.{name} is now deprecated in favor of nn.init.{name}_", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    older.__name__ = older.__qualname__ = name
    older.__doc__ = f"The older name of `{name}_`, which says so by a FutureWarning."
    return older


uniform, normal, constant = _older(uniform_), _older(normal_), _older(constant_)
eye, dirac = _older(eye_), _older(dirac_)
xavier_uniform, xavier_normal = _older(xavier_uniform_), _older(xavier_normal_)
kaiming_uniform, kaiming_normal = _older(kaiming_uniform_), _older(kaiming_normal_)
orthogonal, sparse = _older(orthogonal_), _older(sparse_)

explain_absent(__name__)
