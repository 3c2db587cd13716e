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

explain_absent(
    __name__,
    {
        "functionalize": "Extempo's transforms take functions that write in place as they are; leave it out",
        "debug_unwrap": "a per-sample tensor has no values of its own; return it from the mapped function",
        "replace_all_batch_norm_modules_": "use nn.GroupNorm, or call model.eval() before the transform",
    },
)
