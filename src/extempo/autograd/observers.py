"""Observers: see every op that runs, and take away, and bring back, what its node keeps for backward.

Checkpoints and saved-tensor hooks are made of this. An `Observer` is in the context as interceptor, lets every op run
as it would without it, and is shown each new node. One that has taken a node's saved values away leaves a `Refill`
among the node's hooks. The engine calls it when a gradient arrives there, before the node's gradient is computed, and
so it can put the values back in time.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ..core.context import CONTEXT, ExecutionContext, Swap
from ..core.graph import Node, Pick
from ..core.op import Op
from ..core.tensor import Tensor
from ..dispatch.dispatcher import apply
from ..dispatch.inplace import write

REFILL = 0  # its key among a node's hooks; those of users are numbered from 1


def listener(mode: ExecutionContext) -> Callable[..., Any] | None:
    """What is called in place of `backward` and `grad`, as (function, *arguments), if an interceptor has to see them.

    A static function that is being recorded has to: it notes what to do again. A sample of a batch refuses.
    """
    return getattr(mode.interceptor, "heard", None)


class Observer:
    """An interceptor that changes nothing by itself."""

    def __init__(self) -> None:
        self.outer = CONTEXT.get()

    def _outer_mode(self) -> ExecutionContext:
        now = CONTEXT.get()
        return ExecutionContext(now.grad, now.inference, self.outer.interceptor, now.quiet)

    def apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        with Swap(self._outer_mode()):
            result = apply(op, inputs, attrs)
        self.ran(op, inputs, attrs, new_node(op, result))
        return result

    def write(self, target: Tensor, value: Tensor, op_name: str, made_from: tuple[Tensor, ...] = ()) -> Tensor:
        with Swap(self._outer_mode()):
            return write(target, value, op_name, made_from)

    def notice(self, node: Node) -> None:
        """A node that was not made by `apply`: that of a Function."""
        self.ran(node.op, node.inputs, {}, node)
        further = getattr(self.outer.interceptor, "notice", None)
        if further is not None:
            further(node)

    def ran(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], node: Node | None) -> None:
        """An op ran; `node` is what recorded it, if anything did."""
        raise NotImplementedError


def new_node(op: type[Op], result: Any) -> Node | None:
    """The node that was linked for a result of `apply`; None if nothing was recorded."""
    if isinstance(result, Tensor):
        node = result._node
        return node if type(node) is Node and node.op is op else None
    for r in result:
        if isinstance(r, Tensor) and type(r._node) is Node and r._node.op is Pick:
            return r._node.inputs[0]
    return None


class Refill:
    """The hook of a node whose values were taken away."""

    __slots__ = ("keeper", "node")

    def __init__(self, keeper: Any, node: Node) -> None:
        self.keeper = keeper
        self.node = weakref.ref(node)

    def __call__(self, g: Any) -> None:
        node = self.node()
        # Bringing values back may leave another Refill in this one's place: that of a nested checkpoint.
        while node is not None and (refill := refill_of(node)) is not None:
            refill.keeper.refill(node)
            if refill_of(node) is refill:
                drop_refill(node)


def take_away(node: Node, keeper: Any) -> Any:
    """Remove and return what a node has saved; `keeper.refill(node)` will have to bring it back."""
    saved, node.saved = node.saved, ()
    leave_refill(node, Refill(keeper, node))
    return saved


def leave_refill(node: Node, refill: Refill) -> None:
    """Hang a Refill before all other hooks."""
    extra = node.need()
    extra.hooks = {REFILL: refill} | (extra.hooks or {})


def refill_of(node: Node) -> Refill | None:
    """The Refill of a node whose values were taken away."""
    hooks = node.extra.hooks if node.extra is not None else None
    found: Refill | None = hooks.get(REFILL) if hooks else None  # type: ignore[assignment] # nothing else has that key
    return found


def drop_refill(node: Node) -> None:
    """Take the Refill off a node that has its values again."""
    if node.extra is not None and node.extra.hooks:
        node.extra.hooks.pop(REFILL, None)
