"""Random operators. They draw from Extempo's generator (`ex.manual_seed`); a seed in the file is not used."""

from __future__ import annotations

from ... import ops
from ...core.tensor import Tensor
from ...core.types import float32, float64, int32
from .sizes import check_size
from .table import Dtype, Ints, operator


def _normal(shape: Ints, d: Dtype, mean: float, scale: float) -> Tensor:
    return (ops.randn(check_size(shape)) * scale + mean).to(d)


def _uniform(shape: Ints, d: Dtype, low: float, high: float) -> Tensor:
    return (ops.rand(check_size(shape), dtype=float64 if d is float64 else float32) * (high - low) + low).to(d)


@operator("RandomNormal")
def random_normal(
    *, dtype: Dtype = float32, mean: float = 0.0, scale: float = 1.0, seed: float = 0.0, shape: Ints
) -> Tensor:
    return _normal(shape, dtype, mean, scale)


@operator("RandomNormalLike")
def random_normal_like(
    x: Tensor, *, dtype: Dtype | None = None, mean: float = 0.0, scale: float = 1.0, seed: float = 0.0
) -> Tensor:
    return _normal(list(x.shape), dtype or x.dtype, mean, scale)


@operator("RandomUniform")
def random_uniform(
    *, dtype: Dtype = float32, high: float = 1.0, low: float = 0.0, seed: float = 0.0, shape: Ints
) -> Tensor:
    return _uniform(shape, dtype, low, high)


@operator("RandomUniformLike")
def random_uniform_like(
    x: Tensor, *, dtype: Dtype | None = None, high: float = 1.0, low: float = 0.0, seed: float = 0.0
) -> Tensor:
    return _uniform(list(x.shape), dtype or x.dtype, low, high)


@operator("Bernoulli")
def bernoulli(x: Tensor, *, dtype: Dtype | None = None, seed: float = 0.0) -> Tensor:
    return ops.bernoulli(x.detach()).to(dtype or x.dtype)


@operator("Multinomial")
def multinomial(x: Tensor, *, dtype: Dtype = int32, sample_size: int = 1, seed: float = 0.0) -> Tensor:
    check_size((x.shape[0], sample_size))
    drawn = ops.multinomial(ops.softmax(x.detach(), -1), sample_size, replacement=True)
    return drawn.to(dtype)
