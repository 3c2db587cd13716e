"""Random operators. They draw from Extempo's generator (`ex.manual_seed`); a seed in the file is not used."""

from __future__ import annotations

from ... import ops
from ...core.tensor import Tensor
from ...core.types import dtype as Dtype
from ...core.types import float32, float64
from .reading import element_type
from .sizes import check_size
from .table import Ints, operator


def _normal(shape: Ints, d: Dtype, mean: float, scale: float) -> Tensor:
    return (ops.randn(check_size(shape)) * scale + mean).to(d)


def _uniform(shape: Ints, d: Dtype, low: float, high: float) -> Tensor:
    return (ops.rand(check_size(shape), dtype=float64 if d is float64 else float32) * (high - low) + low).to(d)


@operator("RandomNormal")
def random_normal(*, dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float = 0.0, shape: Ints) -> Tensor:
    return _normal(shape, element_type(dtype), mean, scale)


@operator("RandomNormalLike")
def random_normal_like(
    x: Tensor, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float = 0.0
) -> Tensor:
    return _normal(list(x.shape), x.dtype if dtype is None else element_type(dtype), mean, scale)


@operator("RandomUniform")
def random_uniform(*, dtype: int = 1, high: float = 1.0, low: float = 0.0, seed: float = 0.0, shape: Ints) -> Tensor:
    return _uniform(shape, element_type(dtype), low, high)


@operator("RandomUniformLike")
def random_uniform_like(
    x: Tensor, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0, seed: float = 0.0
) -> Tensor:
    return _uniform(list(x.shape), x.dtype if dtype is None else element_type(dtype), low, high)


@operator("Bernoulli")
def bernoulli(x: Tensor, *, dtype: int | None = None, seed: float = 0.0) -> Tensor:
    return ops.bernoulli(x.detach()).to(x.dtype if dtype is None else element_type(dtype))


@operator("Multinomial")
def multinomial(x: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float = 0.0) -> Tensor:
    check_size((x.shape[0], sample_size))
    drawn = ops.multinomial(ops.softmax(x.detach(), -1), sample_size, replacement=True)
    return drawn.to(element_type(dtype))
