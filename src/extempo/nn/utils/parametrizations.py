"""weight_norm, spectral_norm and orthogonal as parametrizations: the weight is computed whenever it is read."""

from __future__ import annotations

from typing import Any, TypeVar

from ... import linalg, ops
from ...core.absent_names import explain_absent
from ...core.context import no_grad
from ...core.tensor import Tensor
from ...core.types import bool_, finfo
from ...errors import ArgumentError, ShapeError, UnsupportedError
from ..functional import normalize
from ..module import Module
from .normalized_weights import (
    as_matrix,
    check_iterations,
    iterate_power,
    largest_singular_value,
    norm_except_dim,
    output_dimension,
    random_direction,
    scaled_direction,
)
from .parametrize import register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

M = TypeVar("M", bound=Module)

_WARM_UP = 15  # power iterations at the start, as PyTorch does


class _WeightNorm(Module):
    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, g: Tensor, v: Tensor) -> Tensor:
        return scaled_direction(g, v, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, self.dim), weight


class _SpectralNorm(Module):
    def __init__(self, weight: Tensor, n_power_iterations: int, eps: float, dim: int) -> None:
        super().__init__()
        check_iterations(n_power_iterations)
        if not -weight.ndim <= dim < weight.ndim:
            raise ShapeError(f"spectral_norm: dim {dim} is out of range for a weight of shape {tuple(weight.shape)}")
        self.n_power_iterations = n_power_iterations
        self.eps = eps
        self.dim = dim
        if weight.ndim > 1:
            matrix = as_matrix(weight.detach(), dim)
            for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                self.register_buffer(name, random_direction(size, weight, eps))
            self._iterate(matrix, _WARM_UP)

    def _iterate(self, matrix: Tensor, n_iterations: int) -> None:
        iterate_power(matrix, self._u, self._v, n_iterations, self.eps, from_u=False)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        return weight / largest_singular_value(matrix, self._u, self._v)


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Train the length and the direction of a weight apart.

    A state with the keys of `nn.utils.weight_norm` (`weight_g`, `weight_v`) can be loaded too.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    >>> [name for name, p in layer.named_parameters()]
    ['bias', 'parametrizations.weight.original0', 'parametrizations.weight.original1']
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module.register_load_state_dict_pre_hook(_OlderKeys(name))
    return module


class _OlderKeys:
    """Renames the keys of `nn.utils.weight_norm` in a state about to be loaded."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, module: Any, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        for suffix, original in (("_g", "original0"), ("_v", "original1")):
            if prefix + self.name + suffix in state:
                state[f"{prefix}parametrizations.{self.name}.{original}"] = state.pop(prefix + self.name + suffix)


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Divide a weight by its largest singular value.

    >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(20, 40))
    >>> bool(ex.linalg.matrix_norm(layer.weight, 2) < 1.2)
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ArgumentError(f"spectral_norm: {type(module).__name__} has no tensor {name!r}")
    dim = output_dimension(module) if dim is None else dim
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, eps, dim))


# ---- orthogonal

_MAPS = ("matrix_exp", "cayley", "householder")


class _Orthogonal(Module):
    """Maps a matrix to one with orthonormal columns, or rows where it is wide.

    matrix_exp and cayley go by way of a skew-symmetric matrix; householder multiplies reflectors, which are the columns
    below the diagonal, by signs on the diagonal. With a `base` the result is relative to it (Lezcano-Casado, 2019).
    """

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        self.shape = tuple(weight.shape)
        self.orthogonal_map = orthogonal_map
        self.use_trivialization = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        is_wide = x.shape[-2] < x.shape[-1]
        tall = x.mT if is_wide else x
        q = _by_reflectors(tall) if self.orthogonal_map == "householder" else self._by_skew(tall)
        if self.use_trivialization:
            q = self.base @ q
        return q.mT if is_wide else q

    def _by_skew(self, x: Tensor) -> Tensor:
        n_rows, n_columns = x.shape[-2:]
        lower = x.tril()
        if n_rows != n_columns:
            lower = ops.cat([lower, x.new_zeros((*x.shape[:-2], n_rows, n_rows - n_columns))], dim=-1)
        skew = lower - lower.mT
        if self.orthogonal_map == "matrix_exp":
            return linalg.matrix_exp(skew)[..., :n_columns]
        one = ops.eye(n_rows, dtype=x.dtype)
        return linalg.solve(one - 0.5 * skew, one + 0.5 * skew)[..., :n_columns]

    @no_grad()
    def right_inverse(self, value: Tensor) -> Tensor:
        if tuple(value.shape) != self.shape:
            raise ShapeError(f"orthogonal: expected matrices of shape {self.shape}, got {tuple(value.shape)}")
        is_wide = value.shape[-2] < value.shape[-1]
        tall = value.mT if is_wide else value
        if self.use_trivialization:
            self.base = _completed(tall)
            # householder reads signs on the diagonal, and -1 there makes the identity of no reflectors.
            return ops.zeros_like(value) - ops.eye(*value.shape[-2:], dtype=value.dtype)
        if self.orthogonal_map != "householder":
            raise UnsupportedError(
                f"orthogonal: with use_trivialization=False a value cannot be assigned through {self.orthogonal_map}; "
                "use 'householder', or use_trivialization=True"
            )
        reflectors = _signed_reflectors(tall)
        return reflectors.mT if is_wide else reflectors


def _by_reflectors(x: Tensor) -> Tensor:
    below = x.tril(-1)
    scales = 2.0 / (1.0 + (below * below).sum(dim=-2))
    signs = x.detach().diagonal(dim1=-2, dim2=-1).to(x.dtype).trunc()
    return linalg.householder_product(below, scales) * signs.unsqueeze(-2)


def _signed_reflectors(x: Tensor) -> Tensor:
    """The reflectors of a QR decomposition, with the signs on the diagonal that make that of R positive."""
    reflectors, scales = ops.geqrf(x)
    signs = reflectors.diagonal(dim1=-2, dim2=-1).sign()
    signs = ops.where(scales == 0.0, -signs, signs)
    on_diagonal = ops.eye(*x.shape[-2:], dtype=bool_)
    return ops.where(on_diagonal, signs.unsqueeze(-2), reflectors)


def _completed(x: Tensor) -> Tensor:
    """A square orthogonal matrix whose first columns are those of x, made orthonormal."""
    n_rows, n_columns = x.shape[-2:]
    if n_rows == n_columns and _is_orthogonal(x):
        return x.clone()
    more = ops.randn((*x.shape[:-2], n_rows, n_rows - n_columns), dtype=x.dtype)
    q, r = linalg.qr(ops.cat([x, more], dim=-1))
    return q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)


def _is_orthogonal(x: Tensor) -> bool:
    error = (x.mT @ x - ops.eye(x.shape[-1], dtype=x.dtype)).abs().amax((-2, -1))
    return bool((error <= 10 * x.shape[-1] * finfo(x.dtype).eps).all())


def orthogonal(
    module: M, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> M:
    """Keep the columns of a weight orthonormal, or its rows where it is wide, while it trains.

    orthogonal_map: "matrix_exp" (the default of square matrices), "cayley", or "householder" (that of others).
    use_trivialization: begin at the weight as it is, made orthogonal, and train what follows it.

    >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(3, 5))
    >>> ex.allclose(layer.weight.T @ layer.weight, ex.eye(3), atol=1e-5)
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ArgumentError(f"orthogonal: {type(module).__name__} has no tensor {name!r}")
    if weight.ndim < 2:
        raise ShapeError(f"orthogonal: expected matrices, got a tensor of shape {tuple(weight.shape)}")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder"
    if orthogonal_map not in _MAPS:
        raise ArgumentError(f"orthogonal: orthogonal_map must be one of {_MAPS}, got {orthogonal_map!r}")
    return register_parametrization(module, name, _Orthogonal(weight, orthogonal_map, use_trivialization), unsafe=True)


explain_absent(__name__)
