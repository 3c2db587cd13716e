"""weight_norm and spectral_norm as PyTorch first had them: a pre-hook computes the weight before every forward.

The module keeps the parts as parameters (`weight_g` and `weight_v`, or `weight_orig`), and `weight` as a plain
attribute. `nn.utils.parametrizations` has the newer forms, which need no hook.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ... import ops
from ...core.context import no_grad
from ...core.tensor import Tensor
from ...errors import ArgumentError, DtypeError
from ...linalg import vector_norm
from ..functional import normalize
from ..module import Module
from ..parameter import Parameter

__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]

M = TypeVar("M", bound=Module)


# ---- the computations, shared with nn.utils.parametrizations


def norm_except_dim(weight: Tensor, dim: int | None) -> Tensor:
    """The norm along all dimensions but one, which is kept; one number for dim=None (or -1)."""
    if dim is None or dim == -1:
        return vector_norm(weight)
    kept = dim % weight.ndim
    return vector_norm(weight, dim=tuple(d for d in range(weight.ndim) if d != kept), keepdim=True)


def scaled_direction(g: Tensor, v: Tensor, dim: int | None) -> Tensor:
    """g * v / |v|: the weight of length g in the direction of v."""
    return v * (g / norm_except_dim(v, dim))


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """The weight with dimension `dim` as rows and all others as columns."""
    return weight.movedim(dim, 0).flatten(1)


def iterate_power(matrix: Tensor, u: Tensor, v: Tensor, n_iterations: int, eps: float, from_u: bool) -> None:
    """Bring u and v closer to the first singular vectors, in place; `from_u` says which of them moves the other."""
    with no_grad():
        for _ in range(n_iterations):
            if from_u:
                v.copy_(normalize(matrix.T @ u, dim=0, eps=eps))
            u.copy_(normalize(matrix @ v, dim=0, eps=eps))
            if not from_u:
                v.copy_(normalize(matrix.T @ u, dim=0, eps=eps))


def largest_singular_value(matrix: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """u . (matrix v), of copies of u and v: backward needs them as they are now, and the next forward changes them."""
    return ops.dot(u.clone(), matrix @ v.clone())


def random_direction(size: int, like: Tensor, eps: float) -> Tensor:
    """A random vector of length 1."""
    return normalize(ops.empty(size, dtype=like.dtype).normal_(), dim=0, eps=eps)


# ---- the hooks


class _WeightNorm:
    """Sets `weight` from `weight_g` and `weight_v` before every forward."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = dim

    def weight(self, module: Any, iterate: bool = False) -> Tensor:
        g, v = (getattr(module, self.name + suffix) for suffix in ("_g", "_v"))
        return scaled_direction(g, v, self.dim)

    def __call__(self, module: Any, args: Any) -> None:
        setattr(module, self.name, self.weight(module))


class _SpectralNorm:
    """Sets `weight` to `weight_orig` divided by its largest singular value before every forward."""

    def __init__(self, name: str, n_power_iterations: int, eps: float, dim: int) -> None:
        self.name = name
        self.n_power_iterations = n_power_iterations
        self.eps = eps
        self.dim = dim

    def weight(self, module: Any, iterate: bool = False) -> Tensor:
        original, u, v = (getattr(module, self.name + suffix) for suffix in ("_orig", "_u", "_v"))
        matrix = as_matrix(original, self.dim)
        if iterate:
            iterate_power(matrix, u, v, self.n_power_iterations, self.eps, from_u=True)
        return original / largest_singular_value(matrix, u, v)

    def __call__(self, module: Any, args: Any) -> None:
        setattr(module, self.name, self.weight(module, iterate=module.training))


def _find(module: Module, name: str, kind: type) -> tuple[int, Any] | None:
    hooks = module._call_hooks
    for key, (hook, _) in hooks.forward_pre.items() if hooks is not None else ():
        if isinstance(hook, kind) and hook.name == name:  # type: ignore[attr-defined] # both kinds have it
            return key, hook
    return None


def _parameter(module: Module, name: str, op: str, kind: type) -> Parameter:
    """The parameter to be computed from now on."""
    if _find(module, name, kind) is not None:
        raise ArgumentError(f"{op}: {name!r} is normalised already; call remove_{op} first")
    weight = module._parameters.get(name)
    if weight is None:
        raise ArgumentError(
            f"{op}: {type(module).__name__} has no parameter {name!r}, but: {', '.join(module._parameters) or 'none'}"
        )
    return weight


def _remove(module: M, name: str, op: str, kind: type, parts: tuple[str, ...]) -> M:
    found = _find(module, name, kind)
    if found is None or module._call_hooks is None:
        raise ArgumentError(f"remove_{op}: {op} was not applied to {name!r} of this {type(module).__name__}")
    key, hook = found
    compute: Callable[[Any], Tensor] = hook.weight
    with no_grad():
        weight = compute(module).detach()
    del module._call_hooks.forward_pre[key]
    for attribute in (name, *(name + suffix for suffix in parts)):
        delattr(module, attribute)
    module.register_parameter(name, Parameter(weight))
    return module


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Train the length and the direction of a weight apart: `weight = weight_g * weight_v / |weight_v|`.

    dim: the dimension that has a length for each index; None for one length in all.

    >>> layer = nn.utils.weight_norm(nn.Linear(2, 3))
    >>> sorted(name for name, p in layer.named_parameters()), layer.weight_g.shape
    (['bias', 'weight_g', 'weight_v'], extempo.Size([3, 1]))
    """
    weight = _parameter(module, name, "weight_norm", _WeightNorm)
    hook = _WeightNorm(name, dim)
    with no_grad():
        length = norm_except_dim(weight, dim).detach()
    delattr(module, name)
    module.register_parameter(name + "_g", Parameter(length))
    module.register_parameter(name + "_v", Parameter(weight.detach()))
    module.register_forward_pre_hook(hook)
    hook(module, ())
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Make the weight a parameter again, with its present values.

    >>> layer = nn.utils.remove_weight_norm(nn.utils.weight_norm(nn.Linear(2, 3)))
    >>> sorted(name for name, p in layer.named_parameters())
    ['bias', 'weight']
    """
    return _remove(module, name, "weight_norm", _WeightNorm, ("_g", "_v"))


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Divide a weight by its largest singular value, estimated by `n_power_iterations` at every forward in training.

    dim: the dimension that counts outputs; None for 0, or 1 for transposed convolutions.

    >>> layer = nn.utils.spectral_norm(nn.Linear(2, 3))
    >>> list(layer.state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    weight = _parameter(module, name, "spectral_norm", _SpectralNorm)
    check_iterations(n_power_iterations)
    dim = output_dimension(module) if dim is None else dim
    matrix = as_matrix(weight.detach(), dim)
    delattr(module, name)
    module.register_parameter(name + "_orig", weight)
    setattr(module, name, weight.detach())
    for suffix, size in zip(("_u", "_v"), matrix.shape, strict=True):
        module.register_buffer(name + suffix, random_direction(size, weight, eps))
    module.register_forward_pre_hook(_SpectralNorm(name, n_power_iterations, eps, dim))
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Make the weight a parameter again, with its present values.

    >>> layer = nn.utils.remove_spectral_norm(nn.utils.spectral_norm(nn.Linear(2, 3)))
    >>> sorted(name for name, p in layer.named_parameters())
    ['bias', 'weight']
    """
    return _remove(module, name, "spectral_norm", _SpectralNorm, ("_u", "_v", "_orig"))


def check_iterations(n_power_iterations: int) -> None:
    """Refuse what is no positive number of iterations."""
    if not isinstance(n_power_iterations, int) or n_power_iterations < 1:
        raise DtypeError(f"spectral_norm: n_power_iterations must be a positive int, got {n_power_iterations!r}")


def output_dimension(module: Module) -> int:
    """The dimension of a weight that counts outputs: 1 for transposed convolutions, else 0."""
    return int(type(module).__name__.startswith("ConvTranspose"))
