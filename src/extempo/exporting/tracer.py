"""Program tracer: calls a model on symbolic tensors with symbolic sizes, and keeps what it did as a Graph.

Every op becomes a node, whatever the sizes; writes in place become nodes that compute the new whole, and what is read
afterwards reads those. Tensors from outside (weights, constants) become leaves. Branches and loops become nodes that
hold graphs: their functions are traced where they stand, and what they read from outside becomes an argument.
A value that is read as a number raises an ExportError with the line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from .. import ops
from ..core.context import CONTEXT, switch
from ..core.graph import Constant, Graph, Leaf, Node, Pick, Where, describe_where, next_number
from ..core.op import Op
from ..core.source_location import user_line
from ..core.tensor import Tensor, symbol
from ..core.types import TensorType, bool_, dtype, int64
from ..dispatch.dispatcher import apply, as_input
from ..dispatch.inplace import check_fits
from ..errors import ExportError
from ..func.tree import leaves, rebuild
from ..ops.control_flow import Cond, ControlOp, Counted, Map, Places, Scan, SizedOp, WhileLoop
from ..ops.view import write_through
from ..symbolic.sym_int import SymInt, depends, kind_of
from .control_flow import check_same
from .sizes import SizeLog
from .source import why_not_converted

Steps = tuple[tuple[type[Op], tuple[Any, ...], dict[str, Any]], ...]


class TracedView:
    """A symbolic tensor that is a view of another one: through which steps, and of which state of it."""

    __slots__ = ("base", "steps", "tensor", "version")

    def __init__(self, tensor: Tensor, base: Tensor, steps: Steps, version: int) -> None:
        self.tensor = tensor
        self.base = base
        self.steps = steps
        self.version = version


class OpenScope:
    """A function that is being traced as a graph of its own: nodes with smaller numbers are outside of it."""

    def __init__(self) -> None:
        self.start = next_number()
        self.closed = False


class Written(NamedTuple):
    """A tensor from outside that was written in place: what it is now, and the branch or loop where that happened."""

    tensor: Tensor
    node: Node
    scope: OpenScope | None


class TracedScope(NamedTuple):
    """A function that was traced with placeholders for its tensors."""

    scope: OpenScope
    arguments: list[Node]  # of the placeholders
    operands: list[Node]  # outside, that they stand for
    result: Any
    nodes: dict[int, Node]  # of the tensors in the result, by their ids
    ordered: list[Node]  # what the graph gives
    unwritten: dict[int, Tensor]  # the tensors that placeholders stand for, by the placeholders' ids
    placeholders: list[Tensor]  # kept, and so their ids

    def is_same(self, before: Any, after: Any) -> bool:
        """Whether a value that came out is the one that went in."""
        return before is after or (isinstance(before, Tensor) and self.unwritten.get(id(after)) is before)


class OutsideWrite(ExportError):
    """A branch or loop writes into a tensor from outside of it."""

    def __init__(self, base: Tensor, message: str) -> None:
        super().__init__(message)
        self.base = base


class ProgramTracer:
    """An interceptor that links a node for every op and never runs a kernel."""

    joins_nothing = True  # a list without elements, at some sizes, is stacked to a tensor without rows

    def __init__(self, log: SizeLog, state: dict[int, str], names_sizes: bool = False) -> None:
        """state: names of the model's parameters and buffers by the ids of their tensors.

        names_sizes: sizes that values decide get a name; otherwise they are an error.
        """
        self.log = log
        self.names_sizes = names_sizes
        self.captured: dict[Node, Tensor] = {}
        self.written: dict[int, Written] = {}  # tensors from outside that were written in place
        self.required: list[tuple[Node, str]] = []  # conditions of values, and what to say if one does not hold
        self._state = state
        self.leaves: dict[int, Node] = {}
        self._views: dict[int, TracedView] = {}
        self._versions: dict[int, tuple[Tensor, int]] = {}  # of symbolic tensors that were written
        self._outside = CONTEXT.get()
        self._places: list[Node] = []  # that decide sizes by values: equal values decide one size
        self._scopes: list[OpenScope] = []

    # ---- values

    def argument(self, type_: TensorType) -> Tensor:
        """A symbolic argument."""
        return symbol(type_, Constant(Leaf, (), {}, type_, (), None), self)

    def apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        inputs = tuple(map(as_input, inputs))
        if self._is_constant(op, inputs, attrs):
            with switch(interceptor=self._outside.interceptor):
                return apply(op, inputs, attrs)
        types = tuple(x._type if isinstance(x, Tensor) else kind_of(x) for x in inputs)
        self.log.in_rule += 1
        try:
            type_ = op.signature(types, attrs).type
        finally:
            self.log.in_rule -= 1
        nodes = tuple(self.node_of(x) if isinstance(x, Tensor) else x for x in inputs)
        results = self._results(Constant(op, nodes, attrs, type_, (), user_line()))
        if op.aliases_input and isinstance(results, Tensor):
            self._remember_view(results, inputs[0], (op, inputs[1:], attrs))
        return results

    def _results(self, node: Node) -> Any:
        """The tensors of a node's results."""
        if isinstance(node.type, TensorType):
            return symbol(node.type, node, self)
        return tuple(
            symbol(t, Constant(Pick, (node,), {"index": i}, t, (), node.where), self) for i, t in enumerate(node.type)
        )

    def _is_constant(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> bool:
        """Whether an op reads nothing that differs between calls and no weight: it may run now, once and for all."""
        tensors = [x for x in inputs if isinstance(x, Tensor)]
        if not tensors or op.family == "random" or depends(attrs) or depends(inputs):
            return False
        return all(x._data is not None and not self.is_tracked(x) for x in tensors)

    def stand_for(self, weight: Tensor) -> Tensor:
        """A symbolic tensor in place of one of the model's, so that nobody reads its values."""
        made = self.argument(weight._type)
        self.leaves[id(weight)] = made._history
        self.captured[made._history] = weight
        return made

    def is_tracked(self, x: Tensor) -> bool:
        root = x._root()
        if id(x) in self._state or id(root) in self._state or id(root) in self.written:
            return True
        return bool(self.written) and self._written_behind(root) is not None

    def node_of(self, value: Tensor) -> Node:
        """The node that makes a tensor's values as they are now."""
        if value._data is not None:
            return self._node_outside(value)
        view = self._views.get(id(value))
        if view is not None:
            version = self._version(view.base)
            if version != view.version:
                value._history, view.version = self._through(self.node_of(view.base), view.steps), version
        node: Node = value._history
        return node

    def _node_outside(self, value: Tensor) -> Node:
        """The leaf of a weight or constant; what was written there, if it was."""
        root = value._root()
        written = self.written.get(id(root)) or self._written_behind(root)
        if written is not None:
            if written.scope is not None and written.scope.closed:
                raise ExportError(
                    f"{describe_where(written.node.where)}: a tensor from outside is written in place inside a branch "
                    "or loop, and read after it; return the new tensor from the function, or use the out-of-place form"
                )
            node = written.node
            return node if root is value else self._through(node, value._alias.steps)
        found = self.leaves.get(id(value))
        if found is None:
            found = self.leaves[id(value)] = Constant(Leaf, (), {}, value._type, (), None)
            self.captured[found] = value  # also keeps the tensor, and so its id, alive
        return found

    def _written_behind(self, root: Tensor) -> Written | None:
        """What was written to the memory of a tensor through another one of the same elements, by x.detach()."""
        for written in self.written.values():
            if written.tensor._storage is root._storage:
                a, b = written.tensor._data, root._data
                if written.tensor._type == root._type and a.ctypes.data == b.ctypes.data and a.strides == b.strides:
                    return written
                raise ExportError(
                    f"{describe_where(user_line())}: memory that was written in place is read here through another "
                    "tensor, which shares part of it; use the out-of-place form"
                )
        return None

    def _through(self, node: Node, steps: Steps) -> Node:
        for op, numbers, attrs in steps:
            types = (node.type, *map(kind_of, numbers))
            node = Constant(op, (node, *numbers), attrs, op.signature(types, attrs).type, (), node.where)
        return node

    def filled(self, shape: tuple[Any, ...], value: Any, d: dtype) -> Tensor:
        """A tensor of one value with symbolic sizes."""
        number = ops.tensor(0 if type(value) is SymInt else value, dtype=d)
        number = number + value if type(value) is SymInt else number
        made: Tensor = number.expand(shape)
        self._views.pop(id(made), None)  # a tensor of its own, which may be written
        return made

    def counted(self, length: Any, first: Any, stride: Any, d: dtype) -> Tensor:
        """first, first + stride, ...: so many."""
        numbers = self.filled((length,), 1, int64).cumsum(0) - 1
        numbers = numbers if type(stride) is int and stride == 1 else numbers * stride
        numbers = numbers if type(first) is int and first == 0 else numbers + first
        return numbers if d is int64 else numbers.to(d)

    def read(self, value: Tensor) -> NoReturn:
        where = user_line()
        raise ExportError(
            f"{describe_where(where)}: a value of {value._type} is read as a number here (if, while, item(), int(), "
            "tolist(), numpy()), and it would be frozen as it is in the example; use ex.cond, ex.while_loop or "
            f"ex.where, keep it a tensor, or pass static= with the argument that it comes from{_why_not(where)}"
        )

    def read_for_size(self, value: Tensor) -> NoReturn:
        where = user_line()
        raise ExportError(
            f"{describe_where(where)}: how large this result is depends on the values of {value._type} (a mask as an "
            "index, nonzero, masked_select, unique, repeat_interleave), which a program can follow outside of its "
            "branches and loops only; compute it before them, use ex.where, multiply by the mask, or use "
            "ex.nonzero_static with a size, or pass static= with the argument that it comes from"
        )

    def places(self, value: Tensor) -> Tensor:
        """A row of indices for each element that is not 0; how many there are, is a size with a name of its own."""
        return self._sized(Places, value, (len(value._type.shape),))

    def counted_by(self, n: Tensor) -> Tensor:
        """0, 1, ..., n - 1."""
        return self._sized(Counted, n, ())

    def _sized(self, op: type[SizedOp], value: Tensor, more: tuple[int, ...]) -> Tensor:
        if self._scopes:
            self.read_for_size(value)
        node = self.node_of(value)
        for known in self._places:
            if known.op is op and _alike(known.inputs[0], node):
                return symbol(known.type, known, self)
        size: Any = self.log.found()
        type_ = TensorType((size, *more), int64)
        self._places.append(Constant(op, (node,), {"size": size}, type_, (), user_line()))
        return symbol(type_, self._places[-1], self)

    def deciding(self, outputs: list[Node]) -> list[Node]:
        """The nodes that decide sizes which are used on the way to these: as sizes only, their rows may not be."""
        numbers = [[n.attrs, n.type, *(i for i in n.inputs if not isinstance(i, Node))] for n in Graph.reach(outputs)]
        text = f"{numbers} {list(self.log.guards)}"
        found = [n for n in self._places if str(n.attrs["size"]) in text]
        more = [n for n in found if n not in outputs]
        return self.deciding([*outputs, *more]) if more else [n for n in outputs if n in self._places]

    @property
    def n_scopes(self) -> int:
        """How many branches and loops are being traced, one inside the other."""
        return len(self._scopes)

    def require(self, condition: Tensor, message: str) -> None:
        """The program is to fail with this message unless the condition holds."""
        line = describe_where(user_line())
        if self._scopes:
            raise ExportError(
                f"{line}: `assert` or `raise` by a value, inside a branch or loop: a program checks such conditions "
                "outside of them only; compute it there, or leave it out"
            )
        self.required.append((self.node_of(condition), f"{message} ({os.path.basename(line)})"))

    # ---- writes in place

    def _version(self, t: Tensor) -> int:
        return self._versions.get(id(t), (t, 0))[1]

    def _remember_view(self, out: Tensor, source: Tensor, step: Any) -> None:
        base, steps = self._base(source)
        self._views[id(out)] = TracedView(out, base, (*steps, step), self._version(base))

    def _base(self, t: Tensor) -> tuple[Tensor, Steps]:
        """The tensor that another one is a view of, or itself, and the steps that lead there."""
        if t._data is not None:
            return t._root(), t._alias.steps if t._alias is not None else ()
        view = self._views.get(id(t))
        return (t, ()) if view is None else (view.base, view.steps)

    def write(self, target: Tensor, value: Tensor, op_name: str, made_from: tuple[Tensor, ...] = ()) -> Tensor:
        """From here on the target, and all that shares its memory, has the value."""
        check_fits(target, value, op_name)
        if value._type.dtype is not target._type.dtype:
            value = value.to(target._type.dtype)
        node = self.node_of(value)
        base, steps = self._base(target)
        self._check_scope(base, op_name)
        whole = self._written_through(self.node_of(base), base, node, steps) if steps else node
        self._set(base, whole)
        if id(target) in self._views:
            target._history, self._views[id(target)].version = node, self._version(base)
        return target

    def _written_through(self, old: Node, base: Tensor, value: Node, steps: Steps) -> Node:
        holder = symbol(base._type, old, self)
        made = write_through(holder, value, steps)
        return Constant(made.op, made.inputs, made.attrs, made.type, (), user_line())

    def _set(self, base: Tensor, node: Node) -> None:
        """From here on a tensor is what this node makes."""
        if base._data is None:
            base._history = node
        else:
            self.written[id(base)] = Written(base, node, self._scopes[-1] if self._scopes else None)
        self._versions[id(base)] = base, self._version(base) + 1

    def _check_scope(self, base: Tensor, op_name: str) -> None:
        """A write inside a branch or loop to what stands outside would be lost, or happen always."""
        if not self._scopes:
            return
        if base._data is None:
            outside = self.node_of(base).number < self._scopes[-1].start
        else:  # a constant may be made inside; the model's own tensors are not
            known = self.written.get(id(base))
            outside = id(base) in self._state and (known is None or known.scope is not self._scopes[-1])
        if outside:
            raise OutsideWrite(
                base,
                f"{describe_where(user_line())}: {op_name} writes in place, inside a branch or loop, into a tensor "
                "from outside of it; return the new tensor from the function, or use the out-of-place form",
            )

    # A branch or loop that writes into tensors from outside takes them as arguments, and gives them back.

    def as_it_is(self, base: Tensor) -> Tensor:
        """A tensor of the values that another one has now."""
        return symbol(base._type, self.node_of(base), self)

    def assign(self, base: Tensor, value: Tensor) -> None:
        """From here on `base` has these values."""
        self._check_scope(base, "a branch or loop")
        self._set(base, self.node_of(value))

    def writing(self, fn: Callable[..., Any], bases: Sequence[Tensor], single: bool) -> Callable[..., Any]:
        """`fn` with more arguments, the values of these tensors while it runs, and what it left in them as results."""
        n = len(bases)

        def wrapped(*given: Any) -> Any:
            before = [(b, self.node_of(b), self.written.get(id(b))) for b in bases]
            for b, value in zip(bases, given[len(given) - n :], strict=True):
                self._set(b, self.node_of(value))
            try:
                result = fn(*given[: len(given) - n])
                left = [self.as_it_is(b) for b in bases]
            finally:
                for b, node, written in before:
                    self._set(b, node)
                    if b._data is not None:
                        self.written.pop(id(b))
                        self.written.update({} if written is None else {id(b): written})
            return (result, *left) if single else (*result, *left)

        return wrapped

    # ---- graphs inside

    def graph_of(self, fn: Callable[..., Any], arguments: Sequence[Tensor]) -> tuple[Graph, list[Node], Any]:
        """`fn` of these symbolic arguments as a graph, the outside nodes that it reads, and what it returned.

        The graph's leaves are the arguments and then one for each outside node.
        """
        scope = OpenScope()
        own = [self._fresh(a) for a in arguments]
        self._scopes.append(scope)
        try:
            result = fn(*own)
            outputs = [self.node_of(as_tensor(r)) for r in leaves(result) if r is not None]
        finally:
            self._scopes.pop()
            scope.closed = True
        return *self.cut(scope, [a._history for a in own], outputs), result

    def _fresh(self, value: Tensor) -> Tensor:
        return self.argument(value._type)

    def cut(self, scope: OpenScope, arguments: list[Node], outputs: list[Node]) -> tuple[Graph, list[Node]]:
        """The part of a graph that lies inside a scope, with leaves for what it reads from outside."""
        made: dict[Node, Node] = {a: a for a in arguments}
        outside: list[Node] = []
        inner: list[Node] = []
        whole = Graph.reach(outputs)
        for node in whole:
            if node in made:
                continue
            if node.number < scope.start or node in self.captured:
                made[node] = Constant(Leaf, (), {}, node.type, (), None)
                outside.append(node)
            else:
                inputs = tuple(made[i] if isinstance(i, Node) else i for i in node.inputs)
                made[node] = Constant(node.op, inputs, node.attrs, node.type, (), node.where)
                inner.append(made[node])
        return Graph([*arguments, *(made[n] for n in outside), *inner], [made[o] for o in outputs]), outside

    def traced_scope(
        self, fn: Callable[..., Any], values: tuple[Any, ...], outputs: Callable[[Any], list[Any]] | None = None
    ) -> TracedScope:
        """Call `fn` with these values, in which every tensor is an argument of a graph to be; `cut` makes the graph.

        outputs: from what it returns to the tensors that the graph gives; by default all tensors and numbers in it.
        """
        scope = OpenScope()
        tensors = [x for x in leaves(values) if isinstance(x, Tensor)]
        operands = [self.node_of(t) for t in tensors]
        own = [self.argument(t._type) for t in tensors]
        arguments = [a._history for a in own]
        scope.start = next_number() if not arguments else min(a.number for a in arguments)
        self._scopes.append(scope)
        try:
            result = fn(*filled_in(values, own))
            nodes = {id(x): self.node_of(x) for x in leaves(result) if isinstance(x, Tensor)}
            given = leaves(result) if outputs is None else outputs(result)
            ordered = [self.node_of(as_tensor(x)) for x in given] if outputs is not None or is_single(result) else []
        finally:
            self._scopes.pop()
            scope.closed = True
        same = {id(a): (t, a, a._history) for t, a in zip(tensors, own, strict=True)}
        unwritten = {i: t for (i, (t, a, node)), leaf in zip(same.items(), arguments, strict=True) if node is leaf}
        return TracedScope(scope, arguments, operands, result, nodes, ordered, unwritten, own)

    def control(self, op: type[ControlOp], inputs: list[Node], attrs: dict[str, Any], types: Sequence[Any]) -> Any:
        return self._results(Constant(op, tuple(inputs), attrs, tuple(types), (), user_line()))

    def trace_cond(
        self, pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: tuple[Any, ...]
    ) -> Any:
        """Both branches as graphs of the same arguments."""
        if not isinstance(pred, Tensor) or (pred._data is not None and not self.is_tracked(pred)):
            return true_fn(*operands) if bool(pred) else false_fn(*operands)
        flat = leaves(operands)
        tensors = [x for x in flat if isinstance(x, Tensor)]

        def branch(fn: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *given: fn(*filled_in(operands, given))

        yes, yes_reads, yes_result = self.graph_of(branch(true_fn), tensors)
        no, no_reads, no_result = self.graph_of(branch(false_fn), tensors)
        check_branches(yes_result, no_result)
        unify(yes, yes_reads, no, no_reads, len(tensors))
        inputs = [self.node_of(pred.reshape(())), *map(self.node_of, tensors), *merged(yes_reads, no_reads)]
        types = [o.type for o in yes.outputs]
        results = self.control(Cond, inputs, {"true_graph": yes, "false_graph": no}, types)
        return with_tensors(yes_result, results)

    def trace_while(
        self, cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Condition and body as graphs of the carried values."""
        start = rebuild(carried, iter([as_tensor(x) for x in leaves(carried)]))
        tensors = leaves(start)

        def stepped(*given: Tensor) -> Any:
            after = body_fn(*filled_in(start, given))
            after = tuple(after) if isinstance(after, tuple | list) else (after,)
            after = rebuild(after, iter([as_tensor(x) for x in leaves(after)]))
            check_same("while_loop", "body_fn", start, after)
            return after

        body, body_reads, _ = self.graph_of(stepped, tensors)
        test, test_reads, _ = self.graph_of(lambda *given: decision(cond_fn(*filled_in(start, given))), tensors)
        unify(body, body_reads, test, test_reads, len(tensors))
        inputs = [*map(self.node_of, tensors), *merged(body_reads, test_reads)]
        attrs = {"cond_graph": test, "body_graph": body, "n_carried": len(tensors)}
        results = self.control(WhileLoop, inputs, attrs, [t._type for t in tensors])
        return tuple(rebuild(start, iter(results)))

    def trace_scan(
        self, name: str, combine_fn: Callable[[Any, Any], Any], init: Any, xs: Any, reverse: bool
    ) -> tuple[Any, Any]:
        """The step as a graph of the carried values and one slice of each tensor."""
        start = rebuild(init, iter([as_tensor(x) for x in leaves(init)]))
        carried, rows = leaves(start), leaves(xs)
        slices = [self.argument(TensorType(x._type.shape[1:], x._type.dtype)) for x in rows]
        length = rows[0]._type.shape[0]

        def stepped(*given: Tensor) -> Any:
            result = combine_fn(filled_in(start, given[: len(carried)]), filled_in(xs, given[len(carried) :]))
            if not isinstance(result, tuple | list) or len(result) != 2:
                raise ExportError("scan: combine_fn must return two things, the next carry and the result of this step")
            after = rebuild(result[0], iter([as_tensor(x) for x in leaves(result[0])]))
            check_same("scan", "combine_fn", start, after)
            return after, result[1]

        body, reads, (_, ys) = self.graph_of(stepped, [*carried, *slices])
        inputs = [*map(self.node_of, [*carried, *rows]), *reads]
        attrs = {"body_graph": body, "n_carried": len(carried), "n_xs": len(rows), "reverse": bool(reverse)}
        stacked = [TensorType((length, *o.type.shape), o.type.dtype) for o in body.outputs[len(carried) :]]
        results = self.control(Map if name == "map" else Scan, inputs, attrs, [*(c._type for c in carried), *stacked])
        return rebuild(start, iter(results[: len(carried)])), with_tensors(ys, results[len(carried) :])


def _why_not(where: Where | None) -> str:
    """Why a branch of the user's is not kept, where a value was asked for its truth or as an index."""
    frame, names = sys._getframe(1), set()
    while frame is not None and (where is None or frame.f_code is not where[0]):
        names.add(frame.f_code.co_name)
        frame = frame.f_back  # type: ignore[assignment] # None ends the loop
    return "" if where is None or not names & {"__bool__", "__index__"} else why_not_converted(where[0])


def _alike(a: Any, b: Any, depth: int = 12) -> bool:
    """Whether two nodes surely have the same values: the same ops of the same nodes."""
    if a is b or not (isinstance(a, Node) and isinstance(b, Node)):
        return a is b or (type(a) is type(b) and type(a) in (int, float, bool) and a == b)
    if a.op is not b.op or not depth or a.op is Leaf or a.op.family == "random" or issubclass(a.op, ControlOp):
        return False
    if a.type != b.type or repr(a.attrs) != repr(b.attrs) or len(a.inputs) != len(b.inputs):
        return False
    return all(_alike(x, y, depth - 1) for x, y in zip(a.inputs, b.inputs, strict=True))


# ---- structures of results


def as_tensor(value: Any) -> Tensor:
    """A tensor of a carried or returned value: numbers become 0-dim tensors."""
    if isinstance(value, Tensor):
        return value
    if type(value) is SymInt:
        number: Any = value
        return ops.full((), number, dtype=int64)
    if isinstance(value, bool | int | float):
        return ops.tensor(value)
    raise ExportError(
        f"{describe_where(user_line())}: a {type(value).__name__} goes into or out of a branch or loop of a program; "
        "only tensors, numbers, and tuples, lists and dicts of them can"
    )


def is_single(value: Any) -> bool:
    return isinstance(value, Tensor)


def decision(value: Any) -> Tensor:
    made = as_tensor(value)
    return made.reshape(()) if made.dtype is bool_ else made.reshape(()) != 0


def filled_in(tree: Any, tensors: Sequence[Tensor]) -> Any:
    """The structure with these tensors in place of its own."""
    given = iter(tensors)
    return rebuild(tree, iter([next(given) if isinstance(x, Tensor) else x for x in leaves(tree)]))


def with_tensors(tree: Any, tensors: Sequence[Tensor]) -> Any:
    """The structure with these in place of all that is not None."""
    given = iter(tensors)
    return rebuild(tree, iter([None if x is None else next(given) for x in leaves(tree)]))


def merged(first: list[Node], second: list[Node]) -> list[Node]:
    """Every node once."""
    return list(dict.fromkeys([*first, *second]))


def unify(a: Graph, a_reads: list[Node], b: Graph, b_reads: list[Node], n_arguments: int) -> None:
    """Give two graphs the same arguments: what one of them reads from outside is an unused argument of the other."""
    everything = merged(a_reads, b_reads)
    for graph, reads in ((a, a_reads), (b, b_reads)):
        own = dict(zip(reads, graph.nodes[n_arguments:], strict=False))
        extended = [own[n] if n in own else Constant(Leaf, (), {}, n.type, (), None) for n in everything]
        graph.nodes[n_arguments : n_arguments + len(reads)] = extended


def check_branches(yes: Any, no: Any) -> None:
    """Both branches give the same structure with tensors of the same types."""
    line = describe_where(user_line())
    a, b = leaves(yes), leaves(no)
    if len(a) != len(b) or any((x is None) != (y is None) for x, y in zip(a, b, strict=False)):
        raise ExportError(f"{line}: the two branches return different structures, of {len(a)} and {len(b)} values")
    for x, y in zip(a, b, strict=True):
        if x is not None and as_tensor(x)._type != as_tensor(y)._type:
            raise ExportError(
                f"{line}: one branch gives {as_tensor(x)._type} and the other {as_tensor(y)._type}; both must have one "
                "shape and dtype in a program, so convert or pad one of them"
            )
