"""The mark of a Function's backward that is not written in tensor operations: differentiating it again is an error."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..core.context import CONTEXT, no_grad
from ..core.graph import Node
from ..core.op import Op, Refuse
from ..core.source_location import user_line
from ..core.tensor import Tensor
from ..errors import AutogradError
from .custom import Context, alias_outside_graph


class OnceDifferentiable(Op):
    """A gradient that cannot be differentiated again."""

    family = "custom"
    infer = Refuse("it only marks a gradient")
    numpy = Refuse("it only marks a gradient")
    saves = ("",)
    batch = Refuse("it only marks a gradient")
    ragged = Refuse("it only marks a gradient")
    onnx = Refuse("it only marks a gradient")
    samples = Refuse("differentiating it is an error")

    @staticmethod
    def vjp(g: Any, y: Any, *inputs: Any, name: str) -> tuple[Any, ...]:
        raise AutogradError(
            f"{name}: marked once_differentiable, so it has no second derivative; drop the decorator if backward is "
            "written in tensor operations"
        )


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a Function's backward that is not written in tensor operations; a second derivative raises an error."""

    @functools.wraps(fn)
    def wrapped(ctx: Context, *gradients: Any) -> Any:
        recorded = CONTEXT.get().grad
        with no_grad():
            returned = fn(ctx, *gradients)
        sources = [t for t in (*gradients, *(ctx._restored or ())) if isinstance(t, Tensor) and t.requires_grad]
        if not recorded or not sources:
            return returned
        values = returned if isinstance(returned, tuple) else (returned,)
        marked = tuple(_marked(v, sources, fn.__qualname__) for v in values)
        return marked if isinstance(returned, tuple) else marked[0]

    return wrapped


def _marked(value: Any, sources: list[Tensor], name: str) -> Any:
    if not isinstance(value, Tensor) or not value._type.dtype.is_floating_point:
        return value
    out = alias_outside_graph(value)
    nodes = tuple(s._own_node() for s in sources)
    out._node = Node(OnceDifferentiable, nodes, {"name": name}, value._type, (), user_line())
    return out
