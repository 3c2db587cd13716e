"""Hooks: functions that see, and may replace, a gradient on its way.

Tensor hooks hang on the node of a tensor and run when the gradient of that tensor is complete, before it is handed on,
stored in `.grad` or returned by `autograd.grad`. Post-accumulate hooks hang on a leaf and run after its `.grad` has
changed. Both run as soon as the gradient of a leaf is complete, in PyTorch's order (`with_hooked_leaves_early`), so
that an optimizer may step and free it while the backward goes on. Node hooks see what a node receives and what it hands
to its inputs.
"""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable
from typing import Any, Self

from ..core.graph import Leaf, Node
from ..core.op import Op
from ..core.tensor import Tensor
from ..core.tensor_methods import TensorMethods, method
from ..core.weak import WeakMembers
from ..errors import AutogradError, ShapeError
from .derive import derived_vjp
from .unbroadcast import fit

_next_id = itertools.count(1).__next__

Hook = Callable[..., Any]

HOOKED_LEAVES: WeakMembers[Node] = WeakMembers()  # those that ever got a hook


class RemovableHandle:
    """Takes a hook away again: by `remove()`, or at the end of a `with` block.

    >>> x = ex.tensor(3.0, requires_grad=True)
    >>> handle = x.register_hook(lambda grad: grad * 10)
    >>> handle.remove()
    >>> (x * x).backward()
    >>> x.grad
    tensor(6.)
    """

    def __init__(self, hooks: dict[int, Any], extra_dict: Any = None) -> None:
        self.id = _next_id()
        self._dicts = (hooks, *([extra_dict] if isinstance(extra_dict, dict) else extra_dict or []))

    def remove(self) -> None:
        """Take the hook away; a second call does nothing."""
        for hooks in self._dicts:
            hooks.pop(self.id, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def _add(hooks: dict[int, Hook], hook: Hook) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def _needs_grad(x: Tensor, what: str) -> Node:
    if not x.requires_grad:
        raise AutogradError(
            f"{what}: this tensor does not require grad, so no gradient will come; call x.requires_grad_() first"
        )
    return x._own_node()


@method
def register_hook(input: Tensor, hook: Hook) -> RemovableHandle:
    """Call `hook(grad)` whenever the gradient of this tensor is known; a tensor that it returns takes its place."""
    node = _needs_grad(input, "register_hook")
    if node.op is Leaf:
        HOOKED_LEAVES.add(node)
    extra = node.need()
    if extra.hooks is None:
        extra.hooks = {}
    return _add(extra.hooks, hook)


@method
def register_post_accumulate_grad_hook(input: Tensor, hook: Hook) -> RemovableHandle:
    """Call `hook(tensor)` after a gradient was added to the `.grad` of this leaf, e.g. to step and free it at once."""
    node = _needs_grad(input, "register_post_accumulate_grad_hook")
    if node.op is not Leaf:
        raise AutogradError(
            f"register_post_accumulate_grad_hook: expected a leaf, this tensor was made by {node.op.name} and "
            "accumulates nothing; use register_hook"
        )
    HOOKED_LEAVES.add(node)
    extra = node.need()
    if extra.post_hooks is None:
        extra.post_hooks = {}
    return _add(extra.post_hooks, hook)


@method
def retain_grad(input: Tensor) -> None:
    """Keep the gradient of this tensor in `.grad` also when it is not a leaf."""
    node = _needs_grad(input, "retain_grad")
    if node.op is not Leaf:
        node.need().retain = True


def _retains_grad(self: Tensor) -> bool:
    """Whether `retain_grad()` was called on this tensor, which is not a leaf."""
    node = self._current_node()
    return node is not None and node.extra is not None and node.extra.retain


setattr(TensorMethods, "retains_grad", property(_retains_grad))  # noqa: B010 - the stub declares it read-only


def with_hooked_leaves_early(order: list[Node]) -> list[Node]:
    """Nodes by number, which are visited from the last to the first, with leaves that have hooks moved up.

    Each stands directly below the last node that adds to its gradient. Several below one node are visited in the order
    of its inputs; PyTorch's linear gives the bias first.
    """
    last_user: dict[Node, Node] = {}
    for node in order:
        for source in node.inputs:
            if type(source) is Node and source.op is Leaf and source not in last_user and source in HOOKED_LEAVES:
                last_user[source] = node
    moved: list[Node] = []
    for node in order:
        if node in last_user:
            continue
        inputs = node.inputs
        if node.op.name == "linear":
            x, weight, bias = inputs
            inputs = bias, x, weight
        own = (source for source in reversed(inputs) if type(source) is Node and last_user.get(source) is node)
        moved += dict.fromkeys(own)
        moved.append(node)
    return moved


def run_hooks(hooks: dict[int, Any], g: Tensor, node: Node) -> Tensor:
    """Show a gradient to the hooks of its tensor, one after another; what they make of it."""
    for hook in list(hooks.values()):
        changed = hook(g)
        if changed is not None:
            if not isinstance(changed, Tensor) or changed._type != g._type:
                got = changed._type if isinstance(changed, Tensor) else type(changed).__name__
                raise ShapeError(f"hook of {node.name()}: expected None or a tensor of type {g._type}, got {got}")
            g = changed
    return g


# ---- hooks of nodes


def _register_prehook(self: Node, hook: Hook) -> RemovableHandle:
    """Call `hook((grad,))` before this node passes its gradient on; a tuple that it returns takes its place."""
    if type(self.type) is tuple:
        raise AutogradError(
            f"register_prehook: {self.op.name} has several results; register a hook on each of the tensors"
        )
    extra = self.need()
    if extra.hooks is None:
        extra.hooks = {}

    def on_tensor(g: Tensor) -> Tensor | None:
        changed = hook((g,))
        return None if changed is None else changed[0]

    return _add(extra.hooks, on_tensor)


def _register_hook(self: Node, hook: Hook) -> RemovableHandle:
    """Call `hook(grad_inputs, grad_outputs)` when this node passes its gradient on; it may return other grad_inputs."""
    if self.op is Leaf:
        raise AutogradError("register_hook: a leaf passes nothing on; register a hook on its tensor")
    hooks: dict[int, Hook] | None = getattr(self.op, "node_hooks", None)
    if hooks is None:
        hooks = {}
        self.op = _hooked(self.op, self, hooks)
        self.derived = None
    return _add(hooks, hook)


def _hooked(op: type[Op], node: Node, hooks: dict[int, Hook]) -> type[Op]:
    """The op of one node, with a vjp that shows its results to the hooks."""
    # Nothing here may refer to the node itself: it holds the op, and would then live until a garbage collection.
    name = node.name()
    wanted = [i.type if type(i) is Node else None for i in node.inputs]
    tensors = [i for i, x in enumerate(node.inputs) if isinstance(x, Node)]
    plain = op.vjp if op.saves is not None else _replayed(op, node)

    def vjp(g: Any, y: Any, *inputs: Any, **attrs: Any) -> tuple[Any, ...]:
        gradients = [_settled(c, t) for c, t in zip(plain(g, y, *inputs, **attrs), wanted, strict=True)]
        for hook in list(hooks.values()):
            shown = tuple(gradients[i] for i in tensors)
            changed = hook(shown, g if isinstance(g, tuple) else (g,))
            if changed is None:
                continue
            if len(changed) != len(shown):
                raise ShapeError(f"hook of {name}: expected {len(shown)} gradients, got {len(changed)}")
            for i, gradient in zip(tensors, changed, strict=True):
                gradients[i] = gradient
        return tuple(gradients)

    def fill(namespace: dict[str, Any]) -> None:
        namespace |= {"name": op.name, "vjp": staticmethod(vjp), "saves": (), "node_hooks": hooks}

    made: type[Op] = types.new_class(op.__name__, (op,), {"abstract": True}, fill)
    made.simple = made.embeds = made.traceable = False  # a kernel would pass the hooks by
    return made


def _replayed(op: type[Op], node: Node) -> Hook:
    """The gradient of an elementwise op, which is derived from its `vjp` for the inputs that need one."""
    needs = sum(1 << i for i, x in enumerate(node.inputs) if type(x) is Node)
    derived = derived_vjp(op, needs, tuple(i.type if isinstance(i, Node) else type(i) for i in node.inputs))

    def vjp(g: Tensor, y: Any, *inputs: Any) -> list[Any]:
        values = (y, *inputs)
        found = derived.replay(g, *(values[p] for p in derived.reads), *(inputs[i] for i in derived.numbers))
        contributions: list[Any] = [None] * len(inputs)
        for i, value in zip(derived.needed, found, strict=True):
            contributions[i] = value
        return contributions

    return vjp


def _settled(contribution: Any, type_: Any) -> Any:
    """A contribution as the input will receive it; None where no gradient goes."""
    if type_ is None or contribution is None:
        return None
    value = contribution if isinstance(contribution, Tensor) else contribution()
    return None if value is None else fit(value, type_)


for _name, _fn in (("register_prehook", _register_prehook), ("register_hook", _register_hook)):
    _fn.__name__ = _name
    setattr(Node, _name, _fn)
