"""Backward: from a tensor to the gradients of what it was made from.

Nodes are visited in decreasing number, which is a topological order, and contributions to one gradient are added in
that order, so a result never depends on anything but the graph. The shared duties live here, once: summing broadcast
dimensions away, converting dtypes, adding up, running hooks, checking that saved values were not overwritten, and
freeing what has been passed.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import ops
from .._tensor import OnTape, Tensor, TensorLike, new, symbol, wrap
from ..backends.choice import native
from ..errors import (
    AutogradError,
    DtypeError,
    GraphFreedError,
    NoGradientPathError,
    NotDifferentiableError,
    OverwrittenError,
    ShapeError,
)
from ..graph import Extra, Leaf, Node, Pick, describe_where
from ..kernel import Cache
from ..lines import last_value_read
from ..modes import MODE, set_mode
from ..op import REGISTRY, Refuse
from ..running import apply, quietly
from ..storage import Array, Storage
from ..tape import ACTIVE, LEFT, before_write
from ..types import TensorType, bool_, float32, float64
from .derive import DerivedVjp, Gradient, derived_vjp
from .plans import GradientPlan, kernel_call, plan_of

# Two backward passes in two threads may reach the same leaf; NumPy lets go of the GIL while it adds.
_accumulating = threading.RLock()


def _renew_lock() -> None:
    global _accumulating
    _accumulating = threading.RLock()


if hasattr(os, "register_at_fork"):  # another thread may have been adding when the process was forked
    os.register_at_fork(after_in_child=_renew_lock)


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors` to the `.grad` of the leaves they depend on (or only of `inputs`).

    >>> x = ex.tensor(3.0, requires_grad=True)
    >>> ex.autograd.backward([x * x, 10 * x])
    >>> x.grad
    tensor(16.)
    """
    if (heard := getattr(MODE.get().interceptor, "heard", None)) is not None:  # a static function is being recorded
        given = _values(grad_tensors, tensors)
        heard(backward, _values(tensors), given, retain_graph, create_graph, _values(inputs))
        return
    outputs = [tensors] if isinstance(tensors, Tensor) else _as_list(tensors, "tensors")
    if grad_tensors is not None:
        grad_tensors = _values(grad_tensors, tensors)
    if not create_graph and inputs is None:
        planned = _by_plan(outputs, grad_tensors, "backward", None, bool(retain_graph))
        if planned is not None:
            if planned:
                accumulate_planned(planned, bool(retain_graph))
            return
    roots = _roots(outputs, grad_tensors, "backward", create_graph)
    wanted = None
    if inputs is not None:
        given = _as_list(inputs, "inputs")
        if not given:
            raise AutogradError("backward: `inputs` is empty; leave it out to accumulate into every leaf")
        for x in given:
            if not x.requires_grad:
                raise AutogradError(
                    "backward: a tensor in `inputs` does not require grad; call x.requires_grad_() before the forward"
                )
        wanted = {x._own_node() for x in given}
    keep = create_graph if retain_graph is None else retain_graph
    quietly(_Backward(bool(keep), bool(create_graph), wanted, accumulate=True).run, roots)


def _tape_of(outputs: list[Tensor]) -> OnTape | None:
    """The tape that a backward begins on, if it begins at one tensor and that is on one."""
    root = outputs[0] if len(outputs) == 1 else None
    if root is None or not isinstance(root._pending, OnTape) or type(root._history) is not Node:
        return None
    return root._pending


def _by_plan(
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
    if MODE.get().interceptor is not None or not _Backward.natively:
        return None
    gradient = _SEEDS.get(root._type) if given is None else None
    if gradient is None:
        gradient = np.ascontiguousarray(_incoming(root, given, name)._array)
    return tape.backward(root, gradient, asked, keep)


def accumulate_planned(found: list[tuple[Node, Array]], keep: bool) -> None:
    """Add gradients to the `.grad` of leaves, and go on from nodes that are none."""
    if all(node.op is Leaf for node, _ in found):
        rest = []
        for node, g in found:
            extra = node.extra
            if extra is not None and extra.grad is None and not extra.post_hooks:
                extra.grad = wrap(g, node.type)
            else:
                rest.append((node, g))
        if rest:
            quietly(_Backward(False, False, None, accumulate=True).accumulate_all, rest)
    else:
        job = _Backward(keep, create_graph=False, wanted=None, accumulate=True)
        quietly(job.run, [(node, wrap(g, node.type)) for node, g in found])


def _grad_by_plan(
    outputs: list[Tensor], gradients: Any, inputs: list[Tensor], keep: bool
) -> list[Tensor | None] | None:
    """The gradients of inputs, by one plan with the forward; None: the engine has to do it."""
    if _tape_of(outputs) is None:
        return None
    asked = [x for x in inputs if x.requires_grad]
    stand_in = outputs[0]._history  # of everything that is tracked and on the tape
    places = [x._place if x._history is stand_in else None for x in inputs]
    planned = _by_plan(outputs, gradients, "grad", asked, keep)
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
        job = _Backward(keep, create_graph=False, wanted={n for n in nodes if n is not None}, accumulate=False)
        found.update(quietly(job.run, leaves))
    return [found.get(node if place is None else place) for node, place in zip(nodes, places, strict=True)]


_SEEDS = {TensorType((), d): np.ones((), d.numpy) for d in (float32, float64)}


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of `outputs` with respect to `inputs`, as a tuple; nothing is accumulated.

    >>> x = ex.tensor(3.0, requires_grad=True)
    >>> ex.autograd.grad(x * x, x)
    (tensor(6.),)
    """
    if (heard := getattr(MODE.get().interceptor, "heard", None)) is not None:  # a static function is being recorded
        options = (retain_graph, create_graph, only_inputs, allow_unused, is_grads_batched, materialize_grads)
        asked = inputs if isinstance(inputs, Tensor | TensorLike) else list(inputs)
        return _like(asked, heard(grad, _values(outputs), _values(asked), _values(grad_outputs, outputs), *options))
    if is_grads_batched:
        from ..func import vmap

        fixed: dict[str, Any] = {"retain_graph": True, "create_graph": create_graph, "allow_unused": allow_unused}
        return tuple(vmap(lambda *g: grad(outputs, inputs, g, **fixed))(*_as_list(grad_outputs, "grad_outputs")))
    asked = inputs if isinstance(inputs, Tensor | TensorLike) else list(inputs)
    grad_outputs = _values(grad_outputs, outputs)
    given, ends = _as_list(asked, "inputs"), _as_list(outputs, "outputs")
    keep = bool(create_graph if retain_graph is None else retain_graph)
    results: list[Any] | None = None
    may_be_unused = bool(allow_unused or materialize_grads)
    if not create_graph and (may_be_unused or all(x.requires_grad for x in given)):
        results = _grad_by_plan(ends, grad_outputs, given, keep)
    if results is None:
        results = _grad_by_engine(ends, grad_outputs, given, keep, create_graph, may_be_unused)
    for i, x in enumerate(given):
        if results[i] is None and materialize_grads:
            results[i] = x.new_zeros(x.shape)
        elif results[i] is None and not allow_unused:
            raise AutogradError(
                f"grad: the output does not depend on input {i}; pass allow_unused=True to get None for it, "
                "or check that this very tensor (not a copy) went into the computation"
            )
    return _like(asked, results)


def _grad_by_engine(
    outputs: list[Tensor], gradients: Any, inputs: list[Tensor], keep: bool, create_graph: bool, may_be_unused: bool
) -> list[Any]:
    roots = _roots(outputs, gradients, "grad", create_graph)
    nodes: list[Node | None] = []
    for i, x in enumerate(inputs):
        if not x.requires_grad:
            if may_be_unused:
                nodes.append(None)
                continue
            raise AutogradError(
                f"grad: input {i} does not require grad; call x.requires_grad_() before computing the output"
            )
        nodes.append(x._own_node())
    job = _Backward(keep, bool(create_graph), {n for n in nodes if n is not None}, accumulate=False)
    found = quietly(job.run, roots)
    return [found.get(node) for node in nodes]


def _as_list(value: Any, what: str) -> list[Tensor]:
    values: list[Any] = [value] if isinstance(value, Tensor | TensorLike) else list(value)
    for i, v in enumerate(values):
        if isinstance(v, TensorLike):
            values[i] = v._flat
        elif not isinstance(v, Tensor):
            raise DtypeError(f"{what}: expected tensors, got {type(v).__name__}")
    return values


def _values(given: Any, outputs: Any = None) -> Any:
    """Tensors as they are, of ragged ones the values; one, or several of them. `outputs`: whose gradients they are."""
    if isinstance(given, list | tuple):
        paired = isinstance(outputs, list | tuple) and len(outputs) == len(given)
        return [_values(x, y) for x, y in zip(given, outputs if paired else [None] * len(given), strict=True)]
    if not isinstance(given, TensorLike):
        return given
    if isinstance(outputs, TensorLike) and outputs.shape != given.shape:
        raise ShapeError(
            f"the gradient of a ragged tensor has the same rows: got {given._described()} for {outputs._described()}"
        )
    return given._flat


def _like(inputs: Any, gradients: Sequence[Any]) -> tuple[Any, ...]:
    """The gradients of inputs, each of the kind of its input."""
    asked = inputs if isinstance(inputs, list) else [inputs]
    pairs = zip(asked, gradients, strict=True)
    return tuple([x._maker()(g) if isinstance(x, TensorLike) and g is not None else g for x, g in pairs])


def _roots(outputs: list[Tensor], gradients: Any, name: str, create_graph: bool) -> list[tuple[Node, Tensor]]:
    """Where backward starts: each output's node with the gradient that comes in there."""
    if gradients is None or isinstance(gradients, Tensor):
        gradients = [gradients] * len(outputs)
    if not isinstance(gradients, list | tuple):
        raise DtypeError(f"{name}: the gradient must be a tensor, got {type(gradients).__name__}; use ex.tensor(...)")
    gradients = list(gradients)
    if len(gradients) != len(outputs):
        raise ShapeError(
            f"{name}: {len(outputs)} tensors but {len(gradients)} gradients; give one gradient (or None) for each"
        )
    roots = []
    for y, g in zip(outputs, gradients, strict=True):
        g = _incoming(y, g, name)
        roots.append((y._own_node(), g if create_graph else g.detach()))
    return roots


def _incoming(y: Tensor, g: Tensor | None, name: str) -> Tensor:
    """The gradient that comes in at `y`: the given one, or 1 for a tensor with one element."""
    if not y.requires_grad:
        raise NoGradientPathError(_no_path_message(y, name))
    if g is None:
        if y._type.numel() != 1:
            raise ShapeError(
                f"{name}: the tensor has shape {tuple(y.shape)}, so its gradient is not unique; reduce it first "
                "(loss.sum() or loss.mean()), or pass gradient= of that shape"
            )
        if y._raw is None and not isinstance(y._pending, OnTape):
            return y.new_ones(y.shape)
        return wrap(np.ones(y._type.shape, y._type.dtype.numpy), y._type)
    if g._type.shape != y._type.shape:
        raise ShapeError(
            f"{name}: the gradient has shape {tuple(g.shape)}, the tensor {tuple(y.shape)}; they must be equal"
        )
    return g if g._type.dtype is y._type.dtype else g.to(y._type.dtype)


def _no_path_message(y: Tensor, name: str) -> str:
    text = f"{name}: this tensor does not require grad, so there is nothing to differentiate"
    if not y._type.dtype.is_floating_point:
        return f"{text}: it is {y._type.dtype}, and only floating tensors have gradients"
    if y._cut is not None:
        reason, where = y._cut
        cut = f"the path was cut by {reason} at {describe_where(where)}"
        return f"{text}: {cut}; remove it there, or start from another tensor"
    text += ": no tensor that requires grad went into it; did you forget requires_grad=True on the parameters?"
    if last_value_read() is not None:
        where = describe_where(last_value_read())
        text += f" (The last value read as a Python number was at {where}; numbers carry no gradient.)"
    return text


class _Backward:
    """One run of backward.

    Gradients on the way are bare arrays, and Tensors only where someone looks at them (a vjp, a hook, `.grad`); when
    the backward is itself recorded (`create_graph`) or runs under vmap they are Tensors throughout.
    """

    natively = True  # native code may hand gradients on where nobody looks

    def __init__(self, keep: bool, create_graph: bool, wanted: set[Node] | None, accumulate: bool) -> None:
        self.keep = keep
        self.create_graph = create_graph
        self.wanted = wanted
        self.accumulate = accumulate
        self.gradients: dict[Node, Any] = {}
        self.owned: set[Node] = set()  # gradients whose memory nobody else sees: may be added to in place
        self.found: dict[Node, Tensor] = {}
        self.needed: set[Node] | None = None
        self.bare = False

    def run(self, roots: list[tuple[Node, Tensor]]) -> dict[Node, Tensor]:
        order = self._reach([node for node, _ in roots])
        mode = MODE.get()
        # A backward that is itself differentiated is recorded like everything else; any other runs now.
        set_mode(mode.but(grad=self.create_graph, recording=mode.recording if self.create_graph else None))
        self.bare = not self.create_graph and mode.interceptor is None
        if self.wanted is not None:
            self._restrict(order)
        for node, g in roots:
            if self._wants(node):
                self._add(node, self._value(g), owned=False)
        walker = _walker() if self.natively and self.bare and self.wanted is None else None
        if walker is not None and (ACTIVE.recordings or LEFT):
            _before_adding(order)
        pop = self.gradients.pop
        left = len(order)
        while left:
            if walker is not None:
                left = walker.walk(order, left, self.gradients, self.owned, self.keep)
                if not left:
                    break
            left -= 1
            g = pop(order[left], None)
            if g is not None:
                self._visit(order[left], g)
        return self.found

    def accumulate_all(self, gradients: list[tuple[Node, Array]]) -> None:
        """The gradients of leaves, in memory that nobody else sees."""
        for node, g in gradients:
            self.owned.add(node)
            self._accumulate(node, wrap(g, node.type))

    def _reach(self, roots: list[Node]) -> list[Node]:
        """Every node that a gradient will reach, by number. Nothing has been changed yet when a freed one is met."""
        walker = _walker()
        if walker is not None:
            found = walker.reach(roots)
            if type(found) is Node:
                raise GraphFreedError(_freed_message(found))
            found.sort(key=_number)
            return found
        seen = set(roots)
        stack = list(seen)
        while stack:
            node = stack.pop()
            if node.saved is None:
                raise GraphFreedError(_freed_message(node))
            for i in node.inputs:
                if type(i) is Node and i not in seen:
                    seen.add(i)
                    stack.append(i)
        return sorted(seen, key=_number)

    def _restrict(self, order: list[Node]) -> None:
        """Only nodes from which a wanted one can be reached matter."""
        wanted = self.wanted or set()
        needed: set[Node] = set()
        for node in order:
            if node in wanted or any(type(i) is Node and i in needed for i in node.inputs):
                needed.add(node)
        self.needed = needed

    def _visit(self, node: Node, g: Any) -> None:
        extra = node.extra
        if extra is not None and (extra.hooks or extra.retain):
            g = self._shown(node, g)
        if self.wanted is not None and node in self.wanted:
            value = self._tensor(g, node.type)
            self.found[node] = value
            self.owned.discard(node)
            if self.accumulate and (extra is None or not extra.retain):
                self._accumulate(node, value)
            if not any(self._wants(i) for i in node.inputs):
                return
        if node.op is Leaf:
            if self.accumulate and self.wanted is None:
                self._accumulate(node, self._tensor(g, node.type))
        elif node.op is Pick:
            self._add_result(node.inputs[0], node.attrs["index"], g)
        else:
            try:
                self._differentiate(node, g)
            except Exception as error:
                if node.saved is None:  # freed by a backward in a hook or in another thread since this one began
                    raise GraphFreedError(_freed_message(node)) from error
                raise
            self._free(node)

    def _free(self, node: Node) -> None:
        if self.keep:
            return
        if node.op.freed is not None:
            node.op.freed(node)
        if node.saved:
            node.saved = None
            node.inputs = ()

    def _shown(self, node: Node, g: Any) -> Any:
        """Hand a gradient to the hooks of its tensor, which may replace it, and keep it if it is to be retained."""
        extra = node.need()
        value = self._tensor(g, node.type)
        self.owned.discard(node)
        if extra.hooks:
            value = _run_hooks(extra.hooks, value, node)
        if extra.retain:
            extra.grad = value.clone() if extra.grad is None else extra.grad + value
        return self._value(value)

    def _wants(self, node: Any) -> bool:
        return type(node) is Node and (self.needed is None or node in self.needed)

    def _tensor(self, g: Any, type_: TensorType) -> Tensor:
        return wrap(g, type_) if self.bare else g

    def _value(self, t: Tensor) -> Any:
        return t._array if self.bare else t

    def _accumulate(self, node: Node, g: Tensor) -> None:
        extra = node.need()
        with _accumulating:
            if extra.grad is None:
                extra.grad = g.clone() if self.create_graph else g if node in self.owned else _private(g)
            elif self.create_graph or extra.grad.requires_grad or extra.grad._array is None or g._array is None:
                extra.grad = extra.grad + g
            elif extra.grad._type != g._type:
                raise ShapeError(
                    f"backward: .grad is {extra.grad._type}, the gradient to be added is {g._type}; after a change of "
                    "x.data set x.grad = None"
                )
            else:
                before_write((extra.grad._storage,))
                _add_in_place(extra.grad._array, g._array)
                extra.grad._storage.version += 1
        tensor = extra.tensor() if extra.post_hooks and extra.tensor is not None else None
        if tensor is not None:
            for hook in list(extra.post_hooks.values()):  # type: ignore[union-attr] # asked for just above
                hook(tensor)

    # ---- one node

    def _differentiate(self, node: Node, g: Any) -> None:
        op = node.op
        if isinstance(op.vjp, Refuse):
            raise NotDifferentiableError(
                f"{op.name}{_at(node)}: no gradient, {op.vjp.why}; detach() its input if none is wanted"
            )
        if self.bare and op.embeds:
            self._add_into_part(node, g)
            return
        derived = self._derived(node) if op.saves is None else None
        if derived is not None and derived.kernel and self.bare and op.simple and _of_one_dtype(node):
            self._by_kernel(node, derived, g)
            return
        if self.bare and self.wanted is None and derived is None and type(node.type) is not tuple:
            plan = plan_of(node)
            if plan is not None:
                self._by_kernel(node, plan, g)
                return
        y, inputs = self._saved_values(node)
        cotangent = self._cotangent(node, g)
        if derived is None:
            contributions = op.vjp(cotangent, y, *inputs, **node.attrs)
        else:
            read = [(y, *inputs)[p] for p in derived.reads] + [inputs[i] for i in derived.numbers]
            contributions = [None] * len(inputs)
            for index, value in zip(derived.needed, derived.replay(cotangent, *read), strict=True):
                contributions[index] = value
        parts = cotangent if type(cotangent) is tuple else (cotangent,)
        # Memory that came in, or was saved, or went to a sibling, is not this gradient's own; nor is a view's, nor what
        # the user's code has seen.
        seen = {id(t._storage) for t in (*parts, y, *inputs) if isinstance(t, Tensor)}
        for source, contribution in zip(node.inputs, contributions, strict=True):
            if contribution is None or not self._wants(source):
                continue
            value = contribution if isinstance(contribution, Tensor) else contribution()
            if value is None:
                continue
            value = fit(value, source.type)
            owned = (op.traceable or op.gives_away) and id(value._storage) not in seen and value._alias is None
            seen.add(id(value._storage))
            self._add(source, self._value(value), owned)

    def _cotangent(self, node: Node, g: Any) -> Any:
        """What the vjp gets as g: a Tensor, or one per result of an op that has several."""
        if type(node.type) is not tuple:
            return self._tensor(g, node.type)
        parts = []
        for part, t in zip(g, node.type, strict=True):
            if part is not None:
                part = self._tensor(part, t)
            elif node.op.materialize and t.dtype.is_floating_point:
                part = ops.zeros(t.shape, dtype=t.dtype)
            parts.append(part)
        return tuple(parts)

    def _derived(self, node: Node) -> DerivedVjp:
        """The traced gradient of an elementwise op, for the inputs that want one."""
        needs = 0
        for i, source in enumerate(node.inputs):
            needs |= self._wants(source) << i
        return derived_vjp(node.op, needs, tuple(i.type if isinstance(i, Node) else type(i) for i in node.inputs))

    def _by_kernel(self, node: Node, derived: DerivedVjp | GradientPlan, g: Array) -> None:
        """Every gradient of a node from kernels on arrays."""
        arguments = [g]
        for position, array, storage, version in node.saved:
            if position in derived.reads:
                if storage.version != version:
                    raise OverwrittenError(_overwritten_message(node, position, storage))
                arguments.append(array)
        inputs = node.inputs
        for i in derived.numbers:
            arguments.append(inputs[i])
        outs = derived.kernel(*arguments)  # type: ignore[misc] # the caller has seen that there is one
        gradients = self.gradients
        for i, out in enumerate(outs):
            source = inputs[derived.needed[i]]
            type_ = source.type
            if type(out) is not np.ndarray or out.dtype is not type_.dtype.numpy:
                out = np.asarray(out, type_.dtype.numpy)
            owned = derived.fresh[i]
            if type_ is not node.type and out.shape != type_.shape:
                out = sum_array_to(out, type_)
                owned = True
            if source in gradients:
                self._add(source, out, owned)
            else:
                gradients[source] = out
                if owned:
                    self.owned.add(source)

    def _saved_values(self, node: Node) -> tuple[Any, list[Any]]:
        """(y, inputs) for the vjp: Tensors where saved, types where not, numbers as they are."""
        y: Any = node.type
        inputs: list[Any] = [i.type if isinstance(i, Node) else i for i in node.inputs]
        for entry in node.saved:
            position = entry[0]
            if position < 0:  # one of several results
                results = list(y)
                results[-1 - position] = self._restore_result(node, -1 - position, entry)
                y = tuple(results)
            elif position:
                inputs[position - 1] = self._restore(node, entry, node.inputs[position - 1])
            elif type(node.type) is tuple:
                y = tuple(self._restore_result(node, i, e) for i, e in enumerate(entry[1]))
            else:
                y = self._restore(node, entry, node)
        return y, inputs

    def _restore_result(self, node: Node, index: int, entry: Any) -> Tensor:
        t = node.type[index]
        tracked = self.create_graph and t.dtype.is_floating_point
        source = Node(Pick, (node,), {"index": index}, t, (), node.where) if tracked else None
        return self._restore(node, entry, source, t)

    def _restore(self, node: Node, entry: Any, source: Node | None, type_: Any = None) -> Tensor:
        position, array, storage, version = entry
        type_ = type_ or source.type  # type: ignore[union-attr] # one of both is given
        if storage is None:
            return symbol(type_, source if self.create_graph else None, array)
        if storage.version != version:
            raise OverwrittenError(_overwritten_message(node, position, storage))
        t = new(Tensor)
        t._raw, t._memory, t._type, t._alias, t._cut, t._pending = array, storage, type_, None, None, None
        t._history = source if self.create_graph else None
        return t

    # ---- adding up

    def _add(self, node: Node, g: Any, owned: bool) -> None:
        before = self.gradients.get(node)
        if before is None:
            self.gradients[node] = g
            if owned:
                self.owned.add(node)
        elif not self.bare:
            self.gradients[node] = before + g
        elif node in self.owned:
            np.add(before, g, out=before)
        else:
            self.gradients[node] = np.add(before, g, out=np.empty(before.shape, before.dtype))
            self.owned.add(node)

    def _add_into_part(self, node: Node, g: Array) -> None:
        """A gradient of a part of a tensor: added there in place, so that many parts of one tensor cost one buffer."""
        source, *numbers = node.inputs
        if not self._wants(source):
            return
        whole = self.gradients.get(source)
        if whole is None:
            whole = self.gradients[source] = np.zeros(source.type.shape, source.type.dtype.numpy)
        elif source not in self.owned:
            whole = self.gradients[source] = np.array(whole, order="C")
        self.owned.add(source)
        part = node.op.numpy(whole, *numbers, **node.attrs)
        np.add(part, g, out=part)

    def _add_result(self, node: Node, index: int, g: Any) -> None:
        """The gradient of one result of a node that has several."""
        parts = self.gradients.get(node)
        if parts is None:
            parts = self.gradients[node] = [None] * len(node.type)
        before = parts[index]
        if before is not None:
            g = np.add(before, g, out=np.empty(before.shape, before.dtype)) if self.bare else before + g
        parts[index] = g


_number = operator.attrgetter("number")
_walkers: list[Any] = []


def _walker() -> Any:
    """The inner loop in native code; None where NumPy's kernels run."""
    if not _walkers:
        backend = native()
        classes = {"node": Node, "storage": Storage, "tensor": Tensor, "extra": Extra, "derived": Gradient}
        _walkers.append(None if backend is None else backend.walker(classes, Leaf, sum_array_to))
    return _walkers[0]


def _before_adding(nodes: list[Node]) -> None:
    """Gradients of these leaves will be added to in place, by native code: who has recorded reading them reads now."""
    gradients = [node.extra.grad for node in nodes if node.op is Leaf and node.extra is not None]
    storages = [g._storage for g in gradients if g is not None]
    if storages:
        before_write(storages)


def _add_in_place(total: Array, more: Array) -> None:
    """total += more, the way the native walk does it, so that two threads that reach one leaf lose nothing."""
    walker = _walker()
    if walker is None or not walker.add(total, more):
        np.add(total, more, out=total)


def _freed_message(node: Node) -> str:
    return (
        f"backward: the graph of {node.op.name}{_at(node)} was freed by an earlier backward; compute the "
        "loss again, or call backward(retain_graph=True) the first time. In a loop, a tensor kept from the "
        "last iteration must be detached: state = state.detach()"
    )


def _of_one_dtype(node: Node) -> bool:
    """Whether NumPy's own kernels keep the dtype all the way: halves must be rounded after every op, and only there."""
    d = node.type.dtype
    return d.itemsize > 2 and all(i.type.dtype in (d, bool_) for i in node.inputs if isinstance(i, Node))


def _private(g: Tensor) -> Tensor:
    """A gradient that may be added to in place: a copy, because others may see this memory."""
    if g._array is None:
        return g
    return wrap(g._array.copy(), g._type)


def _run_hooks(hooks: dict[int, Any], g: Tensor, node: Node) -> Tensor:
    for hook in list(hooks.values()):
        changed = hook(g)
        if changed is not None:
            if not isinstance(changed, Tensor) or changed._type != g._type:
                got = changed._type if isinstance(changed, Tensor) else type(changed).__name__
                raise ShapeError(f"hook of {node.name()}: expected None or a tensor of type {g._type}, got {got}")
            g = changed
    return g


def fit(g: Tensor, type_: TensorType) -> Tensor:
    """The gradient in the type of the value it belongs to: broadcast dimensions summed, dtype converted."""
    if g._type.shape != type_.shape:
        g = sum_to(g, type_.shape)
    if g._type.dtype is not type_.dtype:
        g = g.to(type_.dtype)
    return g


def _broadcast_dims(shape: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...]:
    extra = len(shape) - len(target)
    return tuple(range(extra)) + tuple(i for i, size in enumerate(target, extra) if size == 1 and shape[i] != 1)


def _is_smaller(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    extra = len(shape) - len(target)
    return extra < 0 or any(a == 1 and b != 1 for a, b in zip(shape[extra:], target, strict=True))


def sum_to(g: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Undo broadcasting: sum over the dimensions that were expanded. A smaller gradient is expanded instead."""
    if _is_smaller(g._type.shape, shape):
        return g.expand(shape)  # a gradient that is the same for every element may come as one number
    dims = _broadcast_dims(g._type.shape, shape)
    g = apply(REGISTRY["sum"], (g,), {"dim": dims, "keepdim": False})
    return g if g._type.shape == shape else g.reshape(shape)


_SUMS: Cache[Any, Callable[[Array], Array]] = Cache("sums that undo broadcasting", 4_000)


def sum_array_to(array: Array, type_: TensorType) -> Array:
    """`sum_to` on arrays, by the same kernel."""
    key = (array.shape, type_)
    found = _SUMS.get(key)
    if found is None:
        found = _SUMS.put(key, _sum_kernel(array.shape, type_))
    return found(array)


def _sum_kernel(shape: tuple[int, ...], type_: TensorType) -> Callable[[Array], Array]:
    if _is_smaller(shape, type_.shape):
        return lambda array: np.broadcast_to(array, type_.shape).copy()
    attrs = {"dim": _broadcast_dims(shape, type_.shape), "keepdim": False}
    call = kernel_call(REGISTRY["sum"], (TensorType(shape, type_.dtype),), attrs)
    kept = sum(size != 1 for size in type_.shape) == len(type_.shape)
    return call if kept else lambda array: call(array).reshape(type_.shape)


def _at(node: Node) -> str:
    return f" (recorded at {node.line})" if node.where is not None else ""


def _overwritten_message(node: Node, position: int, storage: Storage) -> str:
    what = f"the result of {node.op.name}" if position <= 0 else f"input {position - 1} of {node.op.name}"
    source = node if position <= 0 else node.inputs[position - 1]
    made = "" if position <= 0 or source.op is Leaf else f", made by {source.op.name} at {source.line},"
    return (
        f"backward: {what}{_at(node)}{made} is needed for its gradient, but was overwritten in place at "
        f"{describe_where(storage.written_at)}; use the out-of-place form there, or write into x.clone()"
    )
