"""Backward from a tensor on a recording's tape: forward and backward in one plan, if the recording has one for it.

Gradients that a plan has found are added to leaves; from nodes that are none, the engine goes on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.context import CONTEXT
from ..core.graph import Leaf, Node
from ..core.storage import Array
from ..core.strides import lies_in
from ..core.tensor import LazySource, Tensor, wrap
from ..core.types import TensorType, float32, float64
from ..dispatch.dispatcher import quietly
from . import engine
from .accumulating import accumulate_all
from .seeds import incoming

_SEEDS = {TensorType((), d): np.ones((), d.numpy) for d in (float32, float64)}


def _tape_of(outputs: list[Tensor]) -> LazySource | None:
    """The tape that a backward begins on, if it begins at one tensor and that is on one."""
    root = outputs[0] if len(outputs) == 1 else None
    if root is None or not isinstance(root._source, LazySource) or type(root._history) is not Node:
        return None
    return root._source


def backward_by_plan(
    outputs: list[Tensor], gradients: Any, name: str, asked: list[Tensor] | None, keep: bool
) -> list[tuple[Any, Array]] | None:
    """Backward from a tensor on a recording's tape, forward and all in one plan, if the recording has one for it."""
    tape = _tape_of(outputs)
    if tape is None:
        return None
    root = outputs[0]
    given = gradients
    if given is not None:
        given = gradients[0] if isinstance(gradients, list | tuple) and len(gradients) == 1 else gradients
        if not isinstance(given, Tensor):
            return None
    if CONTEXT.get().interceptor is not None or not engine.BackwardEngine.natively:
        return None
    gradient = _SEEDS.get(root._type) if given is None else None
    if gradient is None:
        gradient = np.ascontiguousarray(incoming(root, given, name)._array)
    return tape.backward(root, gradient, asked, keep)


def accumulate_planned(found: list[tuple[Node, Array]], keep: bool) -> None:
    """Add gradients to the `.grad` of leaves, and go on from nodes that are none."""
    if all(node.op is Leaf for node, _ in found):
        rest = []
        for node, g in found:
            extra = node.extra
            lies_well = lies_in(g, node.attrs.get("order"))
            if extra is not None and extra.grad is None and not extra.post_hooks and lies_well:
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
    if _tape_of(outputs) is None:
        return None
    asked = [x for x in inputs if x.requires_grad]
    stand_in = outputs[0]._history  # of everything that is tracked and on the tape
    places = [x._value_id if x._history is stand_in else None for x in inputs]
    planned = backward_by_plan(outputs, gradients, "grad", asked, keep)
    if planned is None:
        return None
    found: dict[Any, Tensor] = {}
    own = zip(inputs, places, strict=True)
    nodes = [x._own_node() if place is None and x.requires_grad else None for x, place in own]
    leaves = []
    for key, g in planned:
        if isinstance(key, int):
            found[key] = wrap(g, next(x._type for x, place in zip(inputs, places, strict=True) if place == key))
        else:
            leaves.append((key, wrap(g, key.type)))
    if all(node.op is Leaf for node, _ in leaves):
        found.update(leaves)
    else:
        job = engine.BackwardEngine(
            keep, create_graph=False, wanted={n for n in nodes if n is not None}, accumulate=False
        )
        found.update(quietly(job.run, leaves))
    return [found.get(node if place is None else place) for node, place in zip(nodes, places, strict=True)]
