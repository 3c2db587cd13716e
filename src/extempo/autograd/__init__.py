"""Differentiation: backward, grad, hooks, grad modes, Function, checks, anomaly detection."""

from __future__ import annotations

from typing import Any

from ..core.absent_names import explain_absent
from ..core.context import enable_grad, inference_mode, no_grad, set_grad_enabled
from ..core.public_names import publish
from ..core.tensor import Tensor
from ..errors import GradcheckError as GradcheckError
from . import forward_ad, function, functional, graph
from .anomaly import detect_anomaly, is_anomaly_enabled, set_detect_anomaly
from .api import backward, grad
from .custom import Function
from .numerical import gradcheck, gradgradcheck

__all__ = [
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_anomaly_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]


class _VariableType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableType):
    """PyTorch's old name of Tensor: `Variable(x, requires_grad=True)` is x, seen as a leaf.

    >>> x = ex.autograd.Variable(ex.tensor([1.0]), requires_grad=True)
    >>> x, isinstance(x, ex.autograd.Variable)
    (tensor([1.], requires_grad=True), True)
    """

    def __new__(cls, data: Any, requires_grad: bool = False, volatile: bool | None = None) -> Any:
        from .. import ops

        out = ops.as_tensor(data).detach()
        return out.requires_grad_() if requires_grad else out


publish(__name__, __all__, globals())

explain_absent(
    __name__,
    {
        "NestedIOFunction": "give Function.apply flat arguments",
        "set_multithreading_enabled": "backward of one graph runs on one thread; leave it out",
    },
)
