"""Keep gradients within bounds, between backward and the optimizer's step. Gradients are changed in place."""

from __future__ import annotations

from collections.abc import Iterable

from ... import ops
from ..._tensor import Tensor
from ...errors import NumericalError
from ...linalg import vector_norm
from ...modes import no_grad

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]

Tensors = Tensor | Iterable[Tensor]


def _as_list(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters: Tensors) -> list[Tensor]:
    return [p.grad for p in _as_list(parameters) if p.grad is not None]


def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all tensors together, as if they were one vector.

    >>> nn.utils.get_total_norm([ex.tensor([3.0]), ex.tensor([[4.0]])])
    tensor(5.)
    """
    order = float(norm_type)
    with no_grad():
        norms = [vector_norm(t, order) for t in _as_list(tensors)]
        total = vector_norm(ops.stack(norms), order) if norms else ops.tensor(0.0)
    if error_if_nonfinite and not total.isfinite():
        raise NumericalError(
            f"clip_grad_norm_: the norm of order {order} is {total.item()}, and no factor makes that finite; "
            "look for the step that overflowed (ex.autograd.detect_anomaly), or pass error_if_nonfinite=False"
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients by `max_norm / total_norm` where that is less than 1.

    >>> p = nn.Parameter(ex.zeros(2))
    >>> p.grad = ex.tensor([3.0, 4.0])
    >>> nn.utils.clip_grads_with_norm_([p], 1.0, nn.utils.get_total_norm([p.grad]))
    >>> p.grad
    tensor([0.6000, 0.8000])
    """
    with no_grad():
        factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        for gradient in _gradients(parameters):
            gradient.mul_(factor)


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients of all parameters so that together their norm is at most `max_norm`; returns what it was.

    `foreach` is accepted and changes nothing.

    >>> p = nn.Parameter(ex.zeros(2))
    >>> p.grad = ex.tensor([3.0, 4.0])
    >>> nn.utils.clip_grad_norm_([p], 1.0), p.grad
    (tensor(5.), tensor([0.6000, 0.8000]))
    """
    held = _as_list(parameters)
    total = get_total_norm(_gradients(held), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(held, max_norm, total)
    return total


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Limit every element of the gradients to [-clip_value, clip_value].

    >>> p = nn.Parameter(ex.zeros(2))
    >>> p.grad = ex.tensor([3.0, -0.5])
    >>> nn.utils.clip_grad_value_([p], 1.0)
    >>> p.grad
    tensor([ 1.0000, -0.5000])
    """
    bound = float(clip_value)
    with no_grad():
        for gradient in _gradients(parameters):
            gradient.clamp_(-bound, bound)
