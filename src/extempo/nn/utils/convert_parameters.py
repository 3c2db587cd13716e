"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from ... import ops
from ...core.tensor import Tensor
from ...errors import ArgumentError, DtypeError, ShapeError

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The values of all parameters, one after the other; gradients flow back to them.

    >>> nn.utils.parameters_to_vector([nn.Parameter(ex.ones(1, 2)), nn.Parameter(ex.zeros(1))]).tolist()
    [1.0, 1.0, 0.0]
    """
    parts = [p.reshape(-1) for p in parameters]
    if not parts:
        raise ArgumentError(
            "parameters_to_vector: expected a parameter at least, got none; was a generator used twice?"
        )
    return ops.cat(parts)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let the parameters take their values from consecutive parts of a vector, whose memory they share from then on.

    >>> weight = nn.Parameter(ex.zeros(1, 2))
    >>> nn.utils.vector_to_parameters(ex.tensor([3.0, 4.0]), [weight])
    >>> weight.tolist()
    [[3.0, 4.0]]
    """
    held = list(parameters)
    if not isinstance(vec, Tensor):
        raise DtypeError(f"vector_to_parameters: expected a tensor, got {type(vec).__name__}")
    sizes = [p.numel() for p in held]
    if vec.ndim != 1 or vec.numel() != sum(sizes):
        raise ShapeError(
            f"vector_to_parameters: expected a vector of {sum(sizes)} elements, got shape {tuple(vec.shape)}"
        )
    for parameter, part in zip(held, vec.detach().split(sizes), strict=True):
        parameter.data = part.view(parameter.shape)
