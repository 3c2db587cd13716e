"""PyTorch's place of Function and its decorator."""

from __future__ import annotations

from ..core.absent_names import explain_absent
from .custom import Context as FunctionCtx
from .custom import Function
from .once_differentiable import once_differentiable

__all__ = ["Function", "FunctionCtx", "once_differentiable"]

explain_absent(
    __name__,
    {
        "InplaceFunction": "subclass Function, and call ctx.mark_dirty(x)",
        "NestedIOFunction": "give Function.apply flat arguments",
    },
)
