"""weight_norm and spectral_norm as parametrizations: the weight is computed whenever it is read."""

from __future__ import annotations

from typing import Any, TypeVar

from ...core.absent_names import explain_absent
from ...core.tensor import Tensor
from ...errors import ArgumentError, ShapeError
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

__all__ = ["spectral_norm", "weight_norm"]

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


explain_absent(__name__)
