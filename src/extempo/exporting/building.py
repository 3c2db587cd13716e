"""Making a program of a model: its examples bound, its forward traced, its weights named, the result checked."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..core.context import switch
from ..core.graph import Constant, Graph, Leaf, Node, describe_where
from ..core.tensor import Tensor, TensorLike
from ..core.types import TensorType
from ..errors import ExportError, ExtempoError, ShapeError
from ..nn.module import Module
from ..ops.control_flow import Require
from ..symbolic.sym_int import SymInt
from .calls import (
    Dim,
    Dynamic,
    Nesting,
    ProgramInput,
    bound_examples,
    called,
    dynamic_sizes,
    nest,
    ragged_inputs,
    rebuilt,
)
from .checking import check_open, check_program, users_line
from .model_state import Attributes, attributes_of, modules_of, restore, state_of
from .program import Program
from .sizes import SizeLog, frozen
from .source_control import Control, listed
from .tracer import ProgramTracer

__all__ = ["program"]


def program(
    model: Callable[..., Any],
    *examples: Any,
    dynamic: Any = None,
    training: bool = False,
    static: Iterable[str] = (),
    check: bool = True,
) -> Program:
    """The forward of a function or module as a `Program`: a frozen graph that runs, and is saved, without its class.

    An example is one call: a tuple of arguments, a dict of them by name, or the one argument. dynamic: the sizes that
    stay open, by argument and dimension, `{"x": {0: "batch", 1: "time"}}`; a name stands for one size wherever it
    appears, and sizes in which examples differ stay open by themselves. training: export a module in training mode.
    static: names of tensor arguments that are part of the program, with the example's values. check: compare the
    program with the model, on the examples and on other sizes.

    >>> model = nn.Sequential(nn.Linear(4, 3), nn.Tanh()).eval()
    >>> program = ex.program(model, ex.randn(2, 4), dynamic={"input": {0: "batch"}})
    >>> ex.allclose(program(ex.ones(7, 4)), model(ex.ones(7, 4)))
    True
    """
    if not callable(model):
        raise ExportError(f"program: expected a function or a module, got {type(model).__name__}")
    modules = dict(modules_of(model))
    _require_mode(modules, training)
    calls = bound_examples(model, examples)
    nestings, names, tensors = _inputs(calls, set(static))
    ragged = list(ragged_inputs(nestings.values(), names))
    dynamics = dynamic_sizes(dynamic, names, list(nestings), tensors, ragged)
    state = dict(state_of(modules))
    call = _Call(model, calls[0], nestings, names, tensors, dynamics, set(static))
    made = _traced(call, modules, state, ())
    if made.state:  # again, so that no value of what changes is taken for a constant
        made = _traced(call, modules, state, made.state)
    made.trainable = {name for name, t in state.items() if t.requires_grad}
    if check:
        check_program(made, model, calls, tensors)
    check_open(made, tensors[0])
    return made


class _Call(NamedTuple):
    """The model, and how it is called."""

    model: Callable[..., Any]
    example: dict[str, Any]
    nestings: dict[str, Nesting]
    names: list[str]
    tensors: list[list[Tensor]]
    dynamics: Dynamic
    static: set[str]


def _traced(call: _Call, modules: Mapping[str, Module], state: dict[str, Tensor], changing: Iterable[str]) -> Program:
    """The program of one call. changing: buffers that stand in the model as symbolic tensors while it runs."""
    log = SizeLog()
    offsets = {r.offsets for r in ragged_inputs(call.nestings.values(), call.names)}
    types = _types(call.names, call.tensors, call.dynamics, log, state.values(), offsets)
    tracer = ProgramTracer(log, {id(t): name for name, t in state.items()}, names_sizes=True)
    arguments = [tracer.argument(t) for t in types]
    leaves = [a._history for a in arguments]  # an argument that is written in place has another node later
    control = Control(tracer)
    before = attributes_of(modules)
    try:
        for name in changing:
            _substitute(modules, state[name], tracer.stand_for(state[name]))
        with switch(interceptor=tracer, grad=False):
            given = {name: rebuilt(n, arguments, str) for name, n in call.nestings.items()}
            fixed = {k: v for k, v in call.example.items() if k in call.static}
            result = listed(called(call.model, {**fixed, **given}, control.call))
            changed = _changed(modules, before, tracer, state)
    except ShapeError as error:
        if not call.dynamics:
            raise
        raise ExportError(
            f"{users_line(error)}: {error}; sizes with names stay open: those that are always alike have one name, "
            "and those that the model fixes have none, so change dynamic="
        ) from error
    except (IndexError, KeyError, TypeError, AttributeError, ArithmeticError) as error:  # Python's own, without a line
        if isinstance(error, ExtempoError):
            raise
        raise ExportError(
            f"{users_line(error)}: {type(error).__name__}: {error}, while the model ran on the example for ex.program; "
            "if model(*example) fails alike, take another example, otherwise write this line with tensors"
        ) from error
    finally:
        control.restore()
        restore(before)
    return _assembled(tracer, leaves, call.names, call.nestings, result, state, changed, call.dynamics)


# ---- what the model has


def _require_mode(modules: Mapping[str, Module], training: bool) -> None:
    if not training and any(m.training for m in modules.values()):
        raise ExportError(
            "program: the model is in training mode, where dropout draws and batch norm changes its statistics; call "
            "model.eval() first, or say training=True"
        )


def _substitute(modules: Mapping[str, Module], old: Tensor, new: Tensor) -> None:
    """Put one tensor in place of another into all tables of buffers."""
    for module in modules.values():
        for part in module.modules():
            for name, buffer in part._buffers.items():
                if buffer is old:
                    part._buffers[name] = new


def _changed(
    modules: Mapping[str, Module], before: Attributes, tracer: ProgramTracer, state: dict[str, Tensor]
) -> dict[str, Node]:
    """The nodes of buffers that forward writes or sets anew, by name. Other attributes that it sets are refused."""
    names = {id(t): name for name, t in state.items()}
    changed: dict[str, Node] = {}
    for written in tracer.written.values():
        name = names.get(id(written.tensor))
        if name is not None:
            changed[name] = tracer.node_of(written.tensor)
    for table, old in before:
        for name, value in table.items():
            if old.get(name) is value:
                continue
            known = names.get(id(old.get(name)))
            if known is not None and isinstance(value, Tensor) and value._type == old[name]._type:
                changed[known] = tracer.node_of(value)
            elif isinstance(value, Tensor | TensorLike | SymInt) or known is not None:
                raise ExportError(
                    f"program: forward sets the attribute {name!r} to a new tensor, which the next call would read; "
                    "make it a registered buffer that keeps its shape, or an argument and a result of forward"
                )
    for name in changed:
        if state[name].requires_grad:
            raise ExportError(f"program: forward writes into the parameter {name!r}; only buffers may change")
    return changed


# ---- what it is called with


def _inputs(calls: list[dict[str, Any]], static: set[str]) -> tuple[dict[str, Nesting], list[str], list[list[Tensor]]]:
    """The nesting of each argument, the names of all input tensors, and those tensors for each example."""
    unknown = static - set(calls[0])
    if unknown:
        raise ExportError(f"program: static names {sorted(unknown)[0]!r}, and the arguments are {', '.join(calls[0])}")
    every: list[tuple[dict[str, Nesting], list[tuple[str, Any]]]] = []
    for call in calls:
        found: list[tuple[str, Any]] = []
        every.append(({n: nest(v, n, found, "the argument") for n, v in call.items() if n not in static}, found))
    nestings, first = every[0]
    for other, _ in every[1:]:
        if other != nestings:
            raise ExportError(
                "program: the examples differ in the nesting of their arguments, or in a value that is no tensor; a "
                "program has one of each"
            )
    for name, tensor in first:
        if not isinstance(tensor, Tensor):
            raise ExportError(f"program: {name} is {tensor._described()}; programs take tensors and ragged tensors")
    return nestings, [name for name, _ in first], [[t for _, t in found] for _, found in every]


def _types(
    names: list[str],
    tensors: list[list[Tensor]],
    dynamics: Dynamic,
    log: SizeLog,
    state: Iterable[Tensor],
    offsets: set[int],
) -> list[TensorType]:
    """The type of each input, with a symbol for each dynamic size; offsets have one entry more than that."""
    taken = {size for t in [*state, *tensors[0]] for size in t.shape}
    for i in range(len(names)):
        taken -= {tensors[0][i].shape[d] for j, d in dynamics if j == i}
    types = []
    for i, tensor in enumerate(tensors[0]):
        shape: list[Any] = list(tensor._type.shape)
        for d in range(len(shape)):
            dim = dynamics.get((i, d))
            if dim is not None:
                more = int(i in offsets)
                size = shape[d] - more
                value = log.symbols[dim.__name__].value if dim.__name__ in log.symbols else _value(size, taken, dim)
                taken.add(value)
                shape[d] = log.symbol(dim.__name__, value) + more
        types.append(TensorType(tuple(shape), tensor._type.dtype))
    return types


def _value(size: int, taken: set[int], dim: Dim) -> int:
    """A size to decide by: near the example's, unlike any other size of the model, and neither 0 nor 1."""
    for distance in range(64):
        for candidate in (size - distance, size + distance):
            if candidate >= 2 and candidate not in taken and dim.min <= candidate <= dim.max:
                return candidate
    return max(size, 2)


# ---- what comes out


def _assembled(
    tracer: ProgramTracer,
    arguments: list[Node],
    names: list[str],
    nestings: dict[str, Nesting],
    result: Any,
    state: dict[str, Tensor],
    changed: dict[str, Node],
    dynamics: Dynamic,
) -> Program:
    log = tracer.log
    found: list[tuple[str, Any]] = []
    with switch(interceptor=tracer, grad=False):
        results = nest(frozen(result, log), "output", found, "the result")
        outputs = [tracer.node_of(_result(t, name)) for name, t in found]
    if tracer.required and outputs:
        conditions, messages = zip(*tracer.required, strict=True)
        attrs = {"messages": messages}
        outputs[0] = Constant(Require, (outputs[0], *conditions), attrs, outputs[0].type, (), None)
    leaf_names = {tracer.leaves[id(t)]: name for name, t in state.items() if id(t) in tracer.leaves}
    graph, inputs, weights = _frozen_graph(tracer, arguments, [*outputs, *changed.values()], leaf_names)
    specs = [ProgramInput(name, node.type) for name, node in zip(names, inputs, strict=True)]
    return Program(
        graph,
        nestings,
        specs,
        weights,
        results,
        [name for name, _ in found],
        list(changed),
        {d.__name__: d for d in dynamics.values()},
        list(log.guards.values()),
    )


def _result(value: Any, name: str) -> Tensor:
    if not isinstance(value, Tensor):
        raise ExportError(f"program: {name} is {value._described()}; programs give tensors and ragged tensors")
    return value


def _frozen_graph(
    tracer: ProgramTracer,
    arguments: list[Node],
    outputs: list[Node],
    leaf_names: dict[Node, str],
) -> tuple[Graph, list[Node], dict[str, Tensor]]:
    """The graph with expressions in place of symbols, its input leaves, and its weights by name."""
    reached = Graph.reach([*outputs, *tracer.deciding(outputs)])
    made: dict[Node, Node] = {}
    first: list[Node] = []
    for node in arguments:
        made[node] = Constant(Leaf, (), {}, frozen(node.type, tracer.log), (), None)
        first.append(made[node])
    weights: dict[str, Tensor] = {}
    leaves: list[Node] = []
    taken = set(leaf_names.values())  # a module that was made of a program has constants of its own
    fresh = (name for i in itertools.count() if (name := f"constant_{i}") not in taken)
    for node in [n for n in reached if n in tracer.captured and n not in made]:
        name = leaf_names.get(node) or next(fresh)
        made[node] = Constant(Leaf, (), {}, node.type, (), None)
        leaves.append(made[node])
        weights[name] = tracer.captured[node]
    inner = [freeze_node(n, made, tracer.log) for n in reached if n not in made]
    return Graph([*first, *leaves, *inner], [made[o] for o in outputs]), first, weights


def freeze_node(node: Node, made: dict[Node, Node], log: SizeLog) -> Node:
    """A copy with expressions in place of symbols, graphs inside it too."""
    if node.op is Leaf:
        raise ExportError(f"program: a tensor of another trace is read, at {describe_where(node.where)}")
    inputs = tuple(made[i] if isinstance(i, Node) else frozen(i, log) for i in node.inputs)
    attrs = {k: _freeze_graph(v, log) if isinstance(v, Graph) else frozen(v, log) for k, v in node.attrs.items()}
    made[node] = Constant(node.op, inputs, attrs, frozen(node.type, log), (), node.where)
    return made[node]


def _freeze_graph(graph: Graph, log: SizeLog) -> Graph:
    made: dict[Node, Node] = {}
    for leaf in graph.inputs:
        made[leaf] = Constant(Leaf, (), {}, frozen(leaf.type, log), (), None)
    nodes = [made[n] if n in made else freeze_node(n, made, log) for n in graph]
    return Graph(nodes, [made[o] for o in graph.outputs])
