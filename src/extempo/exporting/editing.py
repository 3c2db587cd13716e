"""Editing the graph of a program: a copy is changed, put in order and checked, and the program then runs that.

    with program.edit() as graph:
        for node in graph.find("relu"):
            graph.replace(node, graph.call(ex.tanh, *node.inputs))

Nodes are added by calling ordinary functions on nodes, so that shapes and dtypes follow from the ops' own rules. What
nothing reads any more is left out at the end. If the block raises, or the graph is not valid, the program stays as it
was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..core.context import switch
from ..core.graph import Constant, Graph, Leaf, Node, Pick, describe_where, type_text
from ..core.op import Refuse
from ..core.tensor import Tensor
from ..errors import ExportError, GraphError
from ..func.tree import leaves, rebuild
from ..ops.control_flow import SizedOp
from ..symbolic.sym_int import kind_of
from .building import freeze_node
from .calls import Dim, Nesting
from .program import Program
from .sized_runs import found_sizes
from .sizes import Guard, SizeLog, at_sizes, frozen
from .source_control import Control
from .tracer import ProgramTracer, as_tensor


class GraphEditor:
    """The graph of a program while it is edited. Go through its nodes with `for`, change it by the methods.

    >>> program = ex.program(lambda x: x.exp() + 1, ex.zeros(2))
    >>> with program.edit() as graph:
    ...     for node in graph.find("exp"):
    ...         graph.replace(node, graph.call(lambda y: y * 10, node))
    >>> program(ex.zeros(2))
    tensor([11., 11.])
    """

    def __init__(self, graph: Graph, weights: Mapping[str, Tensor], n_inputs: int, dims: Mapping[str, Dim]) -> None:
        self.graph = copied(graph)
        self.weights = dict(weights)
        self.guards: list[Guard] = []
        self.outputs: list[tuple[str, Node]] = []  # that were added
        self._dims = {**dims, **{name: Dim(name) for name in sorted(found_sizes(graph))}}
        self._n_inputs = n_inputs

    def __iter__(self) -> Iterator[Node]:
        return iter(list(self.graph))

    def __len__(self) -> int:
        return len(self.graph)

    def __str__(self) -> str:
        return str(self.graph)

    def find(self, op: str) -> list[Node]:
        """The nodes of an op by its name, in order, those inside branches and loops too."""
        return [node for graph in _graphs(self.graph) for node in graph if node.op.name == op]

    def weight(self, name: str) -> Node:
        """The node of a weight."""
        if name not in self.weights:
            raise ExportError(f"edit: there is no weight {name!r}; the weights are {', '.join(self.weights)}")
        return self.graph.inputs[self._n_inputs + list(self.weights).index(name)]

    def add_weight(self, name: str, tensor: Tensor) -> Node:
        """A new weight, as a node."""
        if name in self.weights:
            raise ExportError(f"edit: there is a weight {name!r} already; set program.weights[{name!r}] to change it")
        node = Constant(Leaf, (), {}, tensor._type, (), None)
        self.graph.nodes.insert(len(self.graph.inputs), node)
        self.weights[name] = tensor.detach()
        return node

    def call(self, fn: Callable[..., Any], *args: Any) -> Any:
        """`fn` of nodes and other values, as new nodes: what it returns, with a node in place of each tensor.

        fn: any function of tensors, with branches and loops. Tensors that it reads become weights.
        """
        owner = self._owner(args)
        log = SizeLog()
        sizes = self._symbols(log)
        tracer = ProgramTracer(log, {})
        made: dict[Node, Node] = {}
        given: list[Any] = []
        for x in args:
            given.append(tracer.argument(at_sizes(x.type, sizes)) if isinstance(x, Node) else x)
            made.update({given[-1]._history: x} if isinstance(x, Node) else {})
        with switch(interceptor=tracer, grad=False):
            result = Control(tracer).call(fn, *given)
            outputs = [tracer.node_of(as_tensor(x)) for x in leaves(result)]
        new: list[Node] = []
        for node in Graph.reach(outputs):
            if node in tracer.captured:
                if owner is not self.graph:
                    raise ExportError("edit: a function that is called inside a branch or loop may read no new tensors")
                made[node] = self.add_weight(_free_name("constant", self.weights), tracer.captured[node])
            elif node not in made:
                new.append(freeze_node(node, made, log))
        self.guards += log.guards.values()
        last = max((owner.nodes.index(x) for x in args if isinstance(x, Node)), default=-1)
        at = max(last + 1, len(owner.inputs))
        owner.nodes[at:at] = new
        return rebuild(result, iter([made[o] for o in outputs]))

    def replace(self, old: Node, new: Node) -> None:
        """Everything that reads `old` reads `new`; but what `new` itself is made of goes on reading `old`."""
        if old.type != new.type:
            raise ExportError(
                f"edit: {old.op.name} gives {type_text(old.type)} and what is to replace it {type_text(new.type)}; "
                "convert or reshape it first"
            )
        owner = self._owner((old, new))
        before = set(Graph.reach([new]))
        for node in owner:
            if node not in before and old in node.inputs:
                node.inputs = tuple(new if i is old else i for i in node.inputs)
        owner.outputs = [new if o is old else o for o in owner.outputs]

    def add_output(self, name: str, node: Node) -> None:
        """One more result of the program: the last of a tuple, or an entry of a dict, after those that there are."""
        if self._owner((node,)) is not self.graph:
            raise ExportError("edit: a node inside a branch or loop is no result of the program")
        self.outputs.append((name, node))

    def _owner(self, values: Iterable[Any]) -> Graph:
        """The graph that all of these nodes are in."""
        nodes = [x for x in values if isinstance(x, Node)]
        for graph in _graphs(self.graph):
            if all(n in graph.nodes for n in nodes):
                return graph
        raise ExportError(
            "edit: these nodes are not of one graph of this program; take them from what `program.edit()` gives"
        )

    def _symbols(self, log: SizeLog) -> dict[str, Any]:
        """A symbol for each open size, with a value of its own to decide by."""
        values = _nominal(self._dims)
        return {name: log.symbol(name, values[name]) for name in self._dims}

    # ---- the end

    def finish(self) -> None:
        """Put nodes in order, leave out what nothing needs, and check what is left."""
        outputs = [*self.graph.outputs, *(node for _, node in self.outputs)]
        for graph in _graphs(self.graph):
            deciding = [n for n in graph if issubclass(n.op, SizedOp)]  # first: sizes of others follow from them
            roots = [*deciding, *outputs] if graph is self.graph else graph.outputs
            inputs = graph.inputs
            graph.nodes = [*inputs, *(n for n in _ordered(roots) if n.op is not Leaf)]
        n = self._n_inputs
        used = {i for graph in _graphs(self.graph) for node in graph for i in node.inputs} | set(outputs)
        pairs = list(zip(self.weights, self.graph.inputs[n:], strict=True))
        unused = {node for _, node in pairs if node not in used}
        self.weights = {name: self.weights[name] for name, node in pairs if node not in unused}
        self.graph.nodes = [node for node in self.graph.nodes if node not in unused]
        log = SizeLog()
        sizes = self._symbols(log)
        for graph in _graphs(self.graph):
            _verify(graph, sizes, log, _nominal(self._dims))


def edited(program: Program, editor: GraphEditor) -> Program:
    """The program of an edited graph."""
    editor.finish()
    graph = editor.graph
    n_results = len(graph.outputs) - len(program.state)
    added = [node for _, node in editor.outputs]
    graph.outputs = [*graph.outputs[:n_results], *added, *graph.outputs[n_results:]]
    results = program.results
    for i, (name, _) in enumerate(editor.outputs):
        results = _with_result(results, name, n_results + i)
    made = Program(
        graph,
        program.arguments,
        program.inputs,
        editor.weights,
        results,
        [*program.outputs, *(name for name, _ in editor.outputs)],
        program.state,
        program.dims,
        [*program.guards, *editor.guards],
        [name for name in program.trainable if name in editor.weights],
    )  # fmt: skip
    made.storage = {name: kind for name, kind in program.storage.items() if name in editor.weights}
    return made


def _with_result(results: Nesting, name: str, place: int) -> Nesting:
    kind, content = results
    if kind == "dict":
        return ["dict", [*content, [name, ["tensor", place]]]]
    return ["tuple", [*(content if kind in ("tuple", "list") else [results]), ["tensor", place]]]


def copied(graph: Graph) -> Graph:
    """A graph of new nodes, graphs inside them included."""
    made: dict[Node, Node] = {}
    for node in graph:
        inputs = tuple(made[i] if isinstance(i, Node) else i for i in node.inputs)
        attrs = {k: copied(v) if isinstance(v, Graph) else v for k, v in node.attrs.items()}
        made[node] = Constant(node.op, inputs, attrs, node.type, (), node.where)
    return Graph(made.values(), [made[o] for o in graph.outputs])


def _graphs(graph: Graph) -> Iterator[Graph]:
    """A graph, and those inside its nodes."""
    yield graph
    for node in graph:
        for part in node.attrs.values():
            if isinstance(part, Graph):
                yield from _graphs(part)


def _free_name(name: str, taken: Iterable[str]) -> str:
    return next(f"{name}_{i}" for i in range(len(list(taken)) + 1) if f"{name}_{i}" not in taken)


def _nominal(dims: Mapping[str, Dim]) -> dict[str, int]:
    """A number for each open size, unlike the others."""
    return {name: int(min(max(dim.min, 11 + 6 * i), dim.max)) for i, (name, dim) in enumerate(dims.items())}


def _ordered(outputs: Iterable[Node]) -> list[Node]:
    """All nodes that these depend on, each after what it reads; a circle is an error."""
    done: dict[Node, bool] = {}  # False while what it reads is gone through
    stack: list[tuple[Node, bool]] = [(o, False) for o in reversed(list(outputs))]
    while stack:
        node, leaving = stack.pop()
        if leaving:
            del done[node]
            done[node] = True
            continue
        if node in done:
            if not done[node]:
                raise GraphError(f"edit: {node.op.name}, of {describe_where(node.where)}, would read its own result")
            continue
        done[node] = False
        stack.append((node, True))
        waiting = [i for i in node.inputs if isinstance(i, Node) and not done.get(i)]
        for i in waiting:
            if i in done:
                raise GraphError(f"edit: {i.op.name}, of {describe_where(i.where)}, would read its own result")
        stack += [(i, False) for i in reversed(waiting)]
    return list(done)


def _verify(graph: Graph, sizes: Mapping[str, Any], log: SizeLog, numbers: Mapping[str, int]) -> None:
    """Raise GraphError unless the type of each node is what its op says."""
    for node in graph:
        if node.op is Pick or isinstance(node.op.infer, Refuse):
            continue
        types = tuple(
            at_sizes(i.type, sizes) if isinstance(i, Node) else kind_of(at_sizes(i, sizes)) for i in node.inputs
        )
        log.in_rule += 1
        try:
            expected = frozen(node.op.signature(types, at_sizes(node.attrs, sizes)).type, log)
        except Exception as error:
            raise GraphError(f"edit: {node.op.name} does not take what it is given: {error}") from error
        finally:
            log.in_rule -= 1
        if at_sizes(expected, numbers) != at_sizes(node.type, numbers):
            raise GraphError(
                f"edit: {node.op.name} gives {type_text(expected)} and is marked {type_text(node.type)}; what it reads "
                "or its attributes have changed, so make a new node of it by graph.call, and graph.replace it"
            )
