"""Function: an operation with a gradient written by its user.

    class Cube(ex.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * g

    y = Cube.apply(x)

`forward` runs outside the graph; one node stands for all of it, whose gradient is `backward`. `backward` runs as
ordinary tensor code, so with `create_graph=True` it is itself recorded and second derivatives follow. Or
`forward(*args)` without a ctx, and `setup_context(ctx, inputs, output)` beside it.

What is saved is kept as every node keeps its values: freed as backward passes, and checked for in-place writes. In
backward it is part of its graph, whether or not that is recorded: an input, or a tensor from outside that requires
grad, is handed back as itself, a result with its node, and what forward has computed on its way as a constant. So
`autograd.grad(..., saved)` inside backward finds what was computed from it there.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Sequence
from typing import Any, ClassVar

from .. import ops
from ..core.context import CONTEXT, no_grad
from ..core.graph import Node, Pick, leaf
from ..core.op import Op, Refuse, _snake_case
from ..core.source_location import user_line
from ..core.tensor import Tensor, TensorLike, symbol
from ..core.types import TensorType, broadcast_shapes
from ..core.wording import counted
from ..dispatch.dispatcher import entry
from ..dispatch.inplace import rebase, refuse_leaf_write
from ..errors import AutogradError, DtypeError, ShapeError


class FunctionOp(Op, abstract=True):
    """The op of a node that a Function made; each Function has its own, by its own name."""

    family = "custom"
    materialize = False  # each call of a Function decides
    traceable = False
    hands_back = True
    infer = Refuse("only the user's forward knows the result's type")
    numpy = Refuse("the user's forward runs in its place")
    saves = ()
    lower = Refuse("user code is not compiled")
    batch = Refuse("the user's forward runs on per-sample tensors")
    ragged = Refuse("the user's forward runs on ordinary tensors")
    onnx = Refuse("user code has no ONNX form")
    samples = Refuse("the user tests it, with gradcheck")

    function: ClassVar[Any]

    @classmethod
    def vjp(cls, g: Any, y: Any, *inputs: Any, ctx: Context) -> tuple[Any, ...]:
        ctx._restore(y, inputs)
        try:
            returned = cls.function.backward(ctx, *ctx._gradients(g))
        finally:
            ctx._restored = None
        return ctx._contributions(returned, inputs)


class Context:
    """`ctx`: what one call of a Function keeps for its backward. Any attribute may be set on it."""

    def __init__(self, function: type[Function], args: tuple[Any, ...]) -> None:
        self.needs_input_grad: tuple[bool, ...] = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        self._function = function
        self._materialize = True
        self._dirty: tuple[Tensor, ...] = ()
        self._constant: tuple[Tensor, ...] = ()
        self._to_save: tuple[Tensor | None, ...] = ()
        self._tensor_args = tuple(i for i, a in enumerate(args) if isinstance(a, Tensor))
        self._plan: tuple[Any, ...] = ()  # of each saved tensor: its place in inputs, ("y", index), or None
        self._outputs: tuple[TensorType | None, ...] = ()  # of each result of forward: its type, if it is a tensor
        self._restored: tuple[Tensor | None, ...] | None = None

    # ---- what forward calls

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `ctx.saved_tensors` in backward."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise DtypeError(
                    f"save_for_backward: expected tensors or None, got {type(t).__name__}; set other things as "
                    "ctx.name = value"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Accepted for PyTorch's sake: forward-mode derivatives are made of two backward ones and save nothing else."""

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs forward has written in place; each must also be returned."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which results have no gradient."""
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (the default) or None for results that no gradient reached."""
        self._materialize = value

    # ---- what backward reads

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors given to `save_for_backward`."""
        if self._restored is None:
            raise AutogradError("saved_tensors: they can be read while backward runs, not before or after it")
        return self._restored

    # ---- between the two

    def _restore(self, y: Any, inputs: tuple[Any, ...]) -> None:
        values: list[Tensor | None] = []
        for place in self._plan:
            if place is None:
                values.append(None)
            elif isinstance(place, int):
                values.append(inputs[place])
            else:
                values.append(y[place[1]] if type(y) is tuple else y)
        self._restored = tuple(values)

    def _gradients(self, g: Any) -> list[Any]:
        """One gradient for each result of forward."""
        parts = iter(g if isinstance(g, tuple) else (g,))
        gradients = []
        for t in self._outputs:
            part = None if t is None else next(parts)
            if part is None and t is not None and self._materialize:
                part = ops.zeros(t.shape, dtype=t.dtype)
            gradients.append(part)
        return gradients

    def _contributions(self, returned: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """What backward returned, for the node's inputs; checked, because mistakes here are the user's."""
        name = f"{self._function.__name__}.backward"
        gradients = list(returned) if isinstance(returned, tuple | list) else [returned]
        expected = len(self.needs_input_grad)
        while len(gradients) > expected and gradients[-1] is None:
            gradients.pop()
        if len(gradients) != expected:
            raise ShapeError(
                f"{name}: forward took {counted(expected, 'argument')}, so {counted(expected, 'gradient')} are "
                "expected (None where there "
                f"is none); got {len(gradients)}"
            )
        contributions: list[Any] = []
        for position, i in enumerate(self._tensor_args):
            g, type_ = gradients[i], getattr(inputs[position], "_type", inputs[position])
            if g is not None and not isinstance(g, Tensor):
                raise DtypeError(f"{name}: gradient {i} must be a tensor or None, got {type(g).__name__}")
            if g is not None and g._type.shape != type_.shape and not _sums_to(g._type.shape, type_.shape):
                raise ShapeError(
                    f"{name}: gradient {i} has shape {tuple(g.shape)}, its input {type_.shape}; they must be equal"
                )
            contributions.append(g)
        return (*contributions, *(None for _ in inputs[len(contributions) :]))


def _sums_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether a gradient of that shape can be what broadcasting `target` gave, so that summing undoes it."""
    try:
        return broadcast_shapes(shape, target) == shape
    except ShapeError:
        return False


class Function:
    """Subclass it with static `forward(ctx, ...)` and `backward(ctx, ...)`, and call `YourFunction.apply(...)`.

    >>> class Double(ex.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> x = ex.tensor(3.0, requires_grad=True)
    >>> Double.apply(x).backward()
    >>> x.grad
    tensor(2.)
    """

    _op: ClassVar[type[Op]]

    def __init_subclass__(cls) -> None:
        def fill(namespace: dict[str, Any]) -> None:
            namespace |= {"name": _snake_case(cls.__name__), "function": cls}

        cls._op = types.new_class(cls.__name__, (FunctionOp,), {"abstract": True}, fill)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise AutogradError(
            f"{type(self).__name__}: a Function is not instantiated; call {type(self).__name__}.apply(...)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result. `forward(ctx, *args)`, or `forward(*args)` with a `setup_context`."""
        raise AutogradError("Function: define a static method forward(ctx, ...)")

    @staticmethod
    def setup_context(ctx: Context, inputs: tuple[Any, ...], output: Any) -> None:
        """Save what backward needs, when `forward` takes no ctx."""
        raise AutogradError("Function: setup_context is not defined")

    @staticmethod
    def backward(ctx: Context, *grad_outputs: Any) -> Any:
        """One gradient (or None) for each argument of forward, from one for each of its results."""
        raise AutogradError("Function: define a static method backward(ctx, ...) to differentiate it")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward, and record it as one node."""
        separate = cls.setup_context is not Function.setup_context
        if kwargs or separate:
            args = _bound(cls, args, kwargs, separate)
        mode = CONTEXT.get()
        if (elsewhere := getattr(mode.interceptor, "apply_function", None)) is not None:
            return elsewhere(cls, args)
        _refuse_likes(cls, args, "takes tensors", mode.grad and any(getattr(a, "requires_grad", False) for a in args))
        ctx = Context(cls, args)
        tracked = mode.grad and any(ctx.needs_input_grad)
        # Taken before forward runs: it may write to its inputs.
        nodes = [args[i]._own_node() for i in ctx._tensor_args] if tracked else []
        whole = getattr(mode.interceptor, "run_function", None)
        with no_grad():
            result = _forward(cls, ctx, args, separate) if whole is None else whole(cls, ctx, args, separate, mode.grad)
        single = not isinstance(result, tuple)
        outputs = [result] if single else list(result)
        _refuse_likes(cls, outputs, "returns tensors", tracked)
        for d in ctx._dirty:
            if not any(d is o for o in outputs):
                raise AutogradError(f"{cls.__name__}.forward: a tensor given to mark_dirty must be returned as well")
        results = [_own(o, args, ctx) for o in outputs]
        if tracked:
            _record(cls, ctx, args, nodes, outputs, results, single)
        ctx._to_save = ctx._dirty = ctx._constant = ()
        return results[0] if single else tuple(results)


def _refuse_likes(cls: type[Function], values: Sequence[Any], what: str, tracked: bool) -> None:
    """A ragged tensor has its history in its values; without this it would be cut off in silence."""
    if tracked and any(isinstance(x, TensorLike) for x in values):
        raise DtypeError(
            f"{cls.__name__}.apply: a Function {what}, not ragged ones; pass x.values(), and put its result into the "
            "same rows with x.like(result)"
        )


def _bound(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any], separate: bool) -> tuple[Any, ...]:
    """The arguments in order, with forward's defaults filled in."""
    signature = inspect.signature(cls.forward)
    bound = signature.bind(*(args if separate else (None, *args)), **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise AutogradError(
            f"{cls.__name__}.apply: keyword-only arguments {sorted(bound.kwargs)} cannot be passed to a Function"
        )
    return bound.args if separate else bound.args[1:]


def _forward(cls: type[Function], ctx: Context, args: tuple[Any, ...], separate: bool) -> Any:
    if not separate:
        return cls.forward(ctx, *args)
    result = cls.forward(*args)
    cls.setup_context(ctx, args, result)
    return result


def _own(output: Any, args: tuple[Any, ...], ctx: Context) -> Any:
    """A result that can carry a node of its own: one that already is somebody else's tensor becomes an alias of it."""
    if not isinstance(output, Tensor) or any(output is d for d in ctx._dirty):
        return output
    if output._node is None and not any(output is a for a in args):
        return output
    return alias_outside_graph(output)


def alias_outside_graph(t: Tensor) -> Tensor:
    """The same values as a tensor without history, also where they are only pending."""
    if t._array is None:
        return symbol(t._type, None, t._source)
    out = t.detach()
    out._grad_barrier = None
    return out


def _record(
    cls: type[Function],
    ctx: Context,
    args: tuple[Any, ...],
    nodes: list[Node],
    outputs: list[Any],
    results: list[Any],
    single: bool,
) -> None:
    """Link one node for the call, and its results to it."""
    tensors = [r for r in results if isinstance(r, Tensor)]
    ctx._outputs = tuple(r._type if isinstance(r, Tensor) else None for r in results)
    differentiable = [
        r._type.dtype.is_floating_point and not any(o is c or r is c for c in ctx._constant)
        for o, r in zip(outputs, results, strict=True)
        if isinstance(r, Tensor)
    ]
    if not any(differentiable):
        return
    saved, constants = _saved(ctx, args, nodes, outputs, results, differentiable, single)
    type_: Any = tensors[0]._type if single else tuple(t._type for t in tensors)
    node = Node(cls._op, (*nodes, *constants), {"ctx": ctx}, type_, saved, user_line())
    for index, (t, has_gradient) in enumerate(zip(tensors, differentiable, strict=True)):
        if has_gradient:
            history = node if single else Node(Pick, (node,), {"index": index}, t._type, (), node.where)
            _give_history(t, history, cls.__name__, dirty=any(t is d for d in ctx._dirty))
    notice = getattr(CONTEXT.get().interceptor, "notice", None)
    if notice is not None:
        notice(node)


def _saved(
    ctx: Context,
    args: tuple[Any, ...],
    nodes: list[Node],
    outputs: list[Any],
    results: list[Any],
    differentiable: list[bool],
    single: bool,
) -> tuple[tuple[Any, ...], list[Node]]:
    """The node's saved entries, and a constant input for each saved tensor that is neither input nor output."""
    entries: list[Any] = []
    constants: list[Node] = []
    plan: list[Any] = []
    kept: dict[int, Any] = {}  # entries of results, by index
    tensors = [(o, r) for o, r in zip(outputs, results, strict=True) if isinstance(r, Tensor)]
    inputs = {id(args[i]): position for position, i in enumerate(ctx._tensor_args)}
    for t in ctx._to_save:
        # An input that was written in place is both; what is saved is then the result.
        result = next((i for i, (o, r) in enumerate(tensors) if t is r or (t is o and id(t) not in inputs)), None)
        if t is None:
            plan.append(None)
        elif result is not None and differentiable[result]:
            kept[result] = entry(0, tensors[result][1])
            plan.append(("y", result))
        elif result is None and id(t) in inputs:
            position = inputs[id(t)]
            plan.append(position)
            if not any(e[0] == position + 1 for e in entries):
                entries.append(_entry_of_itself(position + 1, t))
        else:
            plan.append(len(nodes) + len(constants))
            constants.append(leaf(t._type))
            # What does not require grad may be a view of a result; keeping it would close a cycle.
            keep = _entry_of_itself if t.requires_grad else entry
            entries.append(keep(len(nodes) + len(constants), t))
    ctx._plan = tuple(plan)
    if kept and single:
        entries.append(kept[0])
    elif kept:
        nothing = (0, None, None, 0)
        entries.append((0, tuple(kept.get(i, nothing) for i in range(len(tensors))), None, 0))
    return tuple(entries), constants


def _entry_of_itself(position: int, t: Tensor) -> tuple[Any, ...]:
    """An entry that has, as its fifth part, the tensor that is to be handed back."""
    kept = entry(position, t)
    return kept if kept[2] is None else (*kept, t)


def _give_history(t: Tensor, node: Node, name: str, dirty: bool) -> None:
    """Link a result to its node; one written in place passes its new history to what it is a view of."""
    t._grad_barrier = None
    if not dirty:
        t._node = node
        return
    base = t._alias.base if t._alias is not None else t
    refuse_leaf_write(t, base, name)
    if t._alias is None:
        t._node = node
        return
    rebase(t, base, symbol(t._type, node, None))
