"""Functions of functions: derivatives, vectorisation, and modules as functions of their parameters."""

from __future__ import annotations

from ..core.absent_names import explain_absent
from .batching import vmap
from .modules import functional_call, stack_module_state
from .transforms import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]

explain_absent(__name__)
