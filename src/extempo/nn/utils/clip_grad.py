"""Keep gradients within bounds, between backward and the optimizer's step. Gradients are changed in place.

As optimizers do, this works on what is there: inside `ex.compile`, too, it runs when its line does, and is no part of a
plan, which could not have gone on over the writes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from ... import ops
from ...core.context import switch
from ...core.tensor import Tensor
from ...dispatch.foreach import clamp_all, scale_all
from ...errors import NumericalError
from ...linalg import vector_norm

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]

Tensors = Tensor | Iterable[Tensor]


def _as_list(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters: Tensors) -> list[Tensor]:
    return [p.grad for p in _as_list(parameters) if p.grad is not None]


def _at_once() -> switch:
    return switch(grad=False, recording=None)


def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all tensors together, as if they were one vector.

    >>> nn.utils.get_total_norm([ex.tensor([3.0]), ex.tensor([[4.0]])])
    tensor(5.)
    """
    return total_norm(_as_list(tensors), float(norm_type), error_if_nonfinite)


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
    clip_by_norm(_gradients(parameters), max_norm, total_norm)


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
    gradients = _gradients(parameters)
    total = total_norm(gradients, float(norm_type), error_if_nonfinite)
    clip_by_norm(gradients, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The older name of `clip_grad_norm_`, which says so by a FutureWarning.

    >>> import warnings
    >>> p = nn.Parameter(ex.zeros(2))
    >>> p.grad = ex.tensor([3.0, 4.0])
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     nn.utils.clip_grad_norm([p], 1.0)
    tensor(5.)
    """
    warnings.warn(
        "nn.utils.clip_grad_norm is now deprecated in favor of nn.utils.clip_grad_norm_", FutureWarning, stacklevel=2
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Limit every element of the gradients to [-clip_value, clip_value].

    >>> p = nn.Parameter(ex.zeros(2))
    >>> p.grad = ex.tensor([3.0, -0.5])
    >>> nn.utils.clip_grad_value_([p], 1.0)
    >>> p.grad
    tensor([ 1.0000, -0.5000])
    """
    clip_by_value(_gradients(parameters), clip_value)


# ---- what static functions record as a whole, by these names


def total_norm(tensors: list[Tensor], order: float, error_if_nonfinite: bool) -> Tensor:
    with _at_once():
        norms = [vector_norm(t, order) for t in tensors]
        total = vector_norm(ops.stack(norms), order) if norms else ops.tensor(0.0)
        if error_if_nonfinite and not total.isfinite():
            raise NumericalError(
                f"clip_grad_norm_: the norm of order {order} is {total.item()}, and no factor makes that finite; "
                "look for the step that overflowed (ex.autograd.detect_anomaly), or pass error_if_nonfinite=False"
            )
    return total


def clip_by_norm(gradients: list[Tensor], max_norm: float, total: Tensor) -> None:
    with _at_once():
        scale_all(gradients, (float(max_norm) / (total + 1e-6)).clamp(max=1.0))


def clip_by_value(gradients: list[Tensor], bound: float) -> None:
    with _at_once():
        clamp_all(gradients, -float(bound), float(bound))
