"""Backward from a tensor that a trace has and nobody has computed yet: forward and backward in one plan.

Gradients that the plan found are added to leaves. Where the trace began at a tensor that was itself computed, the
engine goes on from that tensor's node.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.context import CONTEXT
from ..core.graph import Leaf, Node
from ..core.storage import Array
from ..core.strides import is_k_ordered
from ..core.tensor import LazySource, Tensor, wrap
from ..core.types import TensorType, float32, float64
from ..dispatch.dispatcher import quietly
from . import engine
from .accumulating import accumulate_all
from .seeds import incoming

_SEEDS = {TensorType((), d): np.ones((), d.numpy) for d in (float32, float64)}


def _trace_of(outputs: list[Tensor]) -> LazySource | None:
    """The trace that a backward begins on, if it begins at one tensor and that is on one."""
    root = outputs[0] if len(outputs) == 1 else None
    if root is None or not isinstance(root._source, LazySource) or type(root._history) is not Node:
        return None
    return root._source


def backward_by_plan(
    outputs: list[Tensor], gradients: Any, name: str, asked: list[Tensor] | None, keep: bool
) -> list[tuple[Any, Array]] | None:
    """(node, gradient) of the leaves that the trace begins at, or (value id, gradient) of what was `asked` for.

    None: there is no such trace, or it has no plan for this; the engine has to do it.
    """
    trace = _trace_of(outputs)
    if trace is None:
        return None
    root = outputs[0]
    seed = gradients
    if seed is not None:
        seed = gradients[0] if isinstance(gradients, list | tuple) and len(gradients) == 1 else gradients
        if not isinstance(seed, Tensor):
            return None
    if CONTEXT.get().interceptor is not None or not engine.BackwardEngine.natively:
        return None
    gradient = _SEEDS.get(root._type) if seed is None else None
    if gradient is None:
        gradient = np.ascontiguousarray(incoming(root, seed, name)._array)
    return trace.backward(root, gradient, asked, keep)


def accumulate_planned(found: list[tuple[Node, Array]], keep: bool) -> None:
    """Add gradients to the `.grad` of leaves, and go on from nodes that are none."""
    if all(node.op is Leaf for node, _ in found):
        rest = []
        for node, g in found:
            extra = node.extra
            has_layout = is_k_ordered(g, node.attrs.get("order"))
            if extra is not None and extra.grad is None and not extra.post_hooks and has_layout:
                extra.grad = wrap(g, node.type)
            else:
                rest.append((node, g))
        if rest:
            quietly(accumulate_all, rest)
    else:
        job = engine.BackwardEngine(keep, create_graph=False, wanted=None, accumulate=True)
        quietly(job.run, [(node, wrap(g, node.type)) for node, g in found])


def grad_by_plan(outputs: list[Tensor], gradients: Any, inputs: list[Tensor], keep: bool) -> list[Tensor | None] | None:
    """The gradients of inputs, by one plan with the forward; None: the engine has to do it."""
    if _trace_of(outputs) is None:
        return None
    asked = [x for x in inputs if x.requires_grad]
    proxy = outputs[0]._history  # one node stands for everything that is tracked and on the trace
    value_ids = [x._value_id if x._history is proxy else None for x in inputs]
    planned = backward_by_plan(outputs, gradients, "grad", asked, keep)
    if planned is None:
        return None
    found: dict[Any, Tensor] = {}
    nodes = [
        x._own_node() if value_id is None and x.requires_grad else None
        for x, value_id in zip(inputs, value_ids, strict=True)
    ]
    leaves = []
    for key, g in planned:
        if isinstance(key, int):
            found[key] = wrap(g, inputs[value_ids.index(key)]._type)
        else:
            leaves.append((key, wrap(g, key.type)))
    if all(node.op is Leaf for node, _ in leaves):
        found.update(leaves)
    else:
        job = engine.BackwardEngine(
            keep, create_graph=False, wanted={n for n in nodes if n is not None}, accumulate=False
        )
        found.update(quietly(job.run, leaves))
    keys = [node if value_id is None else value_id for node, value_id in zip(nodes, value_ids, strict=True)]
    return [found.get(key) for key in keys]
