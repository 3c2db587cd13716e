"""Graph: nodes (op, inputs, attributes, type). The one intermediate form.

The history that backward walks, a traced function, a derived gradient, a drawing are all made of these nodes. In eager
mode nodes are linked by their inputs only, and `Graph.of(tensor)` collects them on demand; numbers grow as nodes are
made, so sorting by number is a topological order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import Any

from ..errors import GraphError
from .op import Op, Refuse
from .strides import Order
from .types import TensorType

next_number = itertools.count(1).__next__
Where = tuple[CodeType, int]


class Leaf(Op):
    """A value that no recorded op made: an argument, a parameter, a constant."""

    infer = Refuse("a leaf is given, not computed")
    numpy = Refuse("a leaf is given, not computed")
    vjp = Refuse("a leaf has no inputs")
    saves = ()
    lower = Refuse("a leaf is given, not computed")
    batch = Refuse("a leaf is given, not computed")
    ragged = Refuse("a leaf is given, not computed")
    onnx = Refuse("a leaf becomes an input or an initializer")
    samples = Refuse("a leaf is given, not computed")


class Pick(Op):
    """One result of an op that has several."""

    infer = Refuse("the type stands in the picked node's tuple of types")
    numpy = Refuse("picking is done by whoever runs the node")
    vjp = Refuse("the engine hands each result's gradient to its node")
    saves = ()
    lower = Refuse("picking is done by whoever runs the node")
    batch = Refuse("picking is done by whoever runs the node")
    ragged = Refuse("picking is done by whoever runs the node")
    onnx = Refuse("ONNX nodes name each of their results")
    samples = Refuse("picking is done by whoever runs the node")


class Traced(Op):
    """The op of the placeholder that traced tensors have as their node until someone asks for the node itself."""

    infer = Refuse("it stands for ops that were recorded")
    numpy = Refuse("it stands for ops that were recorded")
    vjp = Refuse("it stands for ops that were recorded")
    saves = ()
    lower = Refuse("it stands for ops that were recorded")
    batch = Refuse("it stands for ops that were recorded")
    ragged = Refuse("it stands for ops that were recorded")
    onnx = Refuse("it stands for ops that were recorded")
    samples = Refuse("it stands for ops that were recorded")


class Extra:
    """What few nodes have: a gradient (leaves, retain_grad), hooks, the tensor of a leaf, what has it as weight."""

    __slots__ = ("grad", "hooks", "kinds", "post_hooks", "retain", "tensor")

    def __init__(self) -> None:
        self.grad: Any = None
        self.retain = False
        self.hooks: dict[int, Callable[..., Any]] | None = None
        self.post_hooks: dict[int, Callable[..., Any]] | None = None
        self.tensor: Any = None  # weak reference to the leaf's tensor
        self.kinds: dict[Any, Any] | None = None  # of ops in ex.batch that read this leaf


class Node:
    """One use of an op. `inputs` holds Nodes, numbers and None; `type` is a tuple for an op with several results.

    Walk a graph through `inputs` (or, as in PyTorch, `next_functions`); `where` is the line that recorded it,
    kept as (code, instruction) and decoded by `line`.

    >>> x = ex.tensor(3.0, requires_grad=True)
    >>> node = (x * x).grad_fn
    >>> node, node.next_functions
    (<MulBackward>, ((<AccumulateGrad>, 0), (<AccumulateGrad>, 0)))
    """

    __slots__ = ("__weakref__", "attrs", "derived", "extra", "inputs", "number", "op", "saved", "type", "where")

    requires_grad = True  # for every node but a Constant

    def __init__(
        self,
        op: type[Op],
        inputs: tuple[Any, ...],
        attrs: dict[str, Any],
        type: Any,
        saved: Any,
        where: Where | None,
        derived: Any = None,
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.attrs = attrs
        self.type = type
        self.saved = saved  # ((position in (y, *inputs), array, storage, version), ...); None once freed
        self.where = where
        self.derived = derived  # the gradient as one kernel, where it is known at once (DerivedVjp)
        self.number: float = next_number()  # an int, but for nodes that are materialised late, between others
        self.extra: Extra | None = None

    def name(self) -> str:
        """`AddBackward`, as `grad_fn` prints; `AccumulateGrad` for a leaf."""
        if self.op is Leaf:
            return "AccumulateGrad"
        return "".join(part.capitalize() for part in self.op.name.split("_")) + "Backward"

    def __repr__(self) -> str:
        return f"<{self.name()}>"

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """PyTorch's way to walk: (node, 0) for each tensor input, (None, 0) where no gradient goes."""
        nodes = [i for i in self.inputs if isinstance(i, Node)]
        return tuple((n if n.requires_grad else None, 0) for n in nodes)

    @property
    def variable(self) -> Any:
        """The tensor of a leaf, None when it is gone."""
        return self.extra.tensor() if self.extra is not None and self.extra.tensor is not None else None

    @property
    def line(self) -> str:
        """File and line that recorded this node, or "" when unknown."""
        return describe_where(self.where)

    def need(self) -> Extra:
        """The extra part, made when first asked for."""
        if self.extra is None:
            self.extra = Extra()
        return self.extra


class Constant(Node):
    """A leaf that no gradient flows to. `type(x) is Node` therefore means: a node that requires grad."""

    __slots__ = ()

    requires_grad = False


def leaf(type: Any, requires_grad: bool = False, order: Order | None = None) -> Node:
    """A new leaf node; its gradient is laid out like its tensor, with dimensions in `order` (None: row-major)."""
    attrs = {} if order is None else {"order": order}
    return (Node if requires_grad else Constant)(Leaf, (), attrs, type, (), None)


def describe_where(where: Where | None) -> str:
    """`train.py:12` for a (code, instruction offset) pair."""
    if where is None:
        return ""
    code, instruction = where
    line = next(itertools.islice(code.co_positions(), instruction // 2, None))[0]
    return f"{code.co_filename}:{line if line is not None else code.co_firstlineno}"


class Graph:
    """Nodes in topological order, with the ones that come in and the ones that go out.

    Made by `Graph.of(tensors)`, or a program's `graph`. Iterate over it, or ask for nodes (`find`), for what uses one
    (`users`), for all before or after it; `print` it and `parse` the text back; `ex.inspect.draw` draws it.

    >>> x = ex.tensor(3.0, requires_grad=True)
    >>> graph = ex.Graph.of(x * x)
    >>> [node.op.name for node in graph]
    ['leaf', 'mul']
    """

    def __init__(self, nodes: Iterable[Node], outputs: Iterable[Node]) -> None:
        self.nodes = list(nodes)
        self.outputs = list(outputs)

    @property
    def inputs(self) -> list[Node]:
        """The leaves, in the order they were made."""
        return [n for n in self.nodes if n.op is Leaf]

    @classmethod
    def of(cls, *tensors: Any) -> Graph:
        """The graph that the tensors were made by, as far as it was recorded and not yet freed."""
        roots = [t._current_node() for t in tensors]
        return cls.reach([r for r in roots if r is not None])

    @classmethod
    def reach(cls, roots: Iterable[Node]) -> Graph:
        """Everything the roots depend on."""
        outputs = list(roots)
        seen = set(outputs)
        stack = list(outputs)
        while stack:
            for i in stack.pop().inputs:
                if isinstance(i, Node) and i not in seen:
                    seen.add(i)
                    stack.append(i)
        return cls(sorted(seen, key=lambda n: n.number), outputs)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def verify(self) -> None:
        """Raise GraphError unless every node's inputs come before it and its type is what the shape rule says."""
        seen: set[Node] = set()
        for node in self.nodes:
            for i in node.inputs:
                if isinstance(i, Node) and i not in seen:
                    raise GraphError(
                        f"verify: {node.op.name} (node {node.number}) uses node {i.number} before it is defined"
                    )
            seen.add(node)
            if isinstance(node.op.infer, Refuse):
                if node.op is Pick and node.inputs[0].type[node.attrs["index"]] != node.type:
                    raise GraphError(
                        f"verify: result {node.attrs['index']} of node {node.inputs[0].number} has another type"
                    )
                continue
            types = tuple(i.type if isinstance(i, Node) else type(i) for i in node.inputs)
            expected = node.op.signature(types, node.attrs).type
            if expected != node.type:
                raise GraphError(
                    f"verify: {node.op.name} should give {type_text(expected)}, is marked {type_text(node.type)}"
                )
        for output in self.outputs:
            if output not in seen:
                raise GraphError(f"verify: output node {output.number} is not part of the graph")

    def __str__(self) -> str:
        names = {node: f"%{i}" for i, node in enumerate(self.nodes)}
        leaves = [f"  {names[n]}: {type_text(n.type)}{' requires_grad' * n.requires_grad}" for n in self.inputs]
        lines = node_lines(self, names, "  ", repr, lambda line: line)
        return "\n".join(["graph(", *leaves, ") {", *lines, "}"])

    __repr__ = __str__

    @classmethod
    def parse(cls, text: str) -> Graph:
        """Read back what `str(graph)` wrote; line comments are not kept.

        >>> x = ex.ones(2, requires_grad=True)
        >>> [node.op.name for node in ex.Graph.parse(str(ex.Graph.of(x.exp())))]
        ['leaf', 'exp']
        """
        from .graph_text import GraphReader

        return GraphReader(text).graph()

    # ---- asking

    def find(self, op: str = "", line: str = "", requires_grad: bool | None = None) -> list[Node]:
        """The nodes that fit all that is said, in the order in which they were made.

        op: the name of their op.
        line: the end of the file and line that recorded them, such as "train.py:12".
        requires_grad: whether gradients flow through them.

        >>> x = ex.ones(2, requires_grad=True)
        >>> [str(node.type) for node in ex.Graph.of((x.exp() * 2).sum()).find(op="mul")]
        ['f32[2]']
        """
        return [
            node
            for node in self.nodes
            if (not op or node.op.name == op)
            and (not line or (node.where is not None and node.line.endswith(line)))
            and (requires_grad is None or node.requires_grad == requires_grad)
        ]

    def users(self, node: Node) -> list[Node]:
        """The nodes that have this one among their inputs.

        >>> x = ex.ones(2, requires_grad=True)
        >>> graph = ex.Graph.of(x.exp() + x.sin())
        >>> [user.op.name for user in graph.users(graph.inputs[0])]
        ['exp', 'sin']
        """
        return [other for other in self.nodes if any(i is node for i in other.inputs)]

    def before(self, node: Node) -> Graph:
        """All that a node depends on, with the node as the output.

        >>> x = ex.ones(2, requires_grad=True)
        >>> graph = ex.Graph.of((x.exp() + x.sin()).sum())
        >>> [n.op.name for n in graph.before(graph.find(op="exp")[0])]
        ['leaf', 'exp']
        """
        found = Graph.reach([node])
        return Graph([n for n in self.nodes if n in set(found.nodes)], [node])

    def after(self, node: Node) -> Graph:
        """The node and all that depends on it.

        >>> x = ex.ones(2, requires_grad=True)
        >>> graph = ex.Graph.of((x.exp() + x.sin()).sum())
        >>> [n.op.name for n in graph.after(graph.find(op="exp")[0])]
        ['exp', 'add', 'sum']
        """
        reached = {node}
        for other in self.nodes:
            if any(isinstance(i, Node) and i in reached for i in other.inputs):
                reached.add(other)
        return Graph([n for n in self.nodes if n in reached], [o for o in self.outputs if o in reached])


def node_lines(
    graph: Graph,
    names: dict[Node, str],
    indent: str,
    value_text: Callable[[Any], str],
    line_text: Callable[[str], str],
) -> Iterator[str]:
    """The text of the nodes of a graph but its leaves, graphs inside them below theirs, and what it returns."""
    for node in graph:
        if node.op is Leaf:
            continue
        inner = {k: v for k, v in node.attrs.items() if isinstance(v, Graph)}
        parts = [names[i] if isinstance(i, Node) else value_text(i) for i in node.inputs]
        parts += [f"{k}={value_text(v)}" for k, v in node.attrs.items() if k not in inner]
        line = f"{indent}{names[node]} = {node.op.name}({', '.join(parts)}) : {type_text(node.type)}"
        yield line + (f"  # {line_text(node.line)}" if node.where else "")
        for key, part in inner.items():
            own = {n: f"%{i}" for i, n in enumerate(part)}
            arguments = ", ".join(f"{own[n]}: {type_text(n.type)}" for n in part.inputs)
            yield f"{indent}  {key}({arguments}) {{"
            yield from node_lines(part, own, indent + "    ", value_text, line_text)
            yield f"{indent}  }}"
    yield f"{indent}return {', '.join(names[o] for o in graph.outputs)}".rstrip()


def type_text(type_: Any) -> str:
    """`f32[3]`, `(f32[3], i64[3])` or `float` for a weak number."""
    if isinstance(type_, TensorType):
        return str(type_)
    if isinstance(type_, tuple):
        return f"({', '.join(map(type_text, type_))})"
    return str(type_.__name__)
