"""Branches and loops of a program as ONNX's If and Loop.

`scan` and `map` become Loop as well: ONNX's Scan fails on sequences of no elements in onnxruntime. What a loop stacks
is given its shape after it, since a loop of no steps cannot know the open sizes of its results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.graph import Graph, Node
from ...core.types import TensorType, bool_, int64
from ...ops.control_flow import Cond, Places, Require, SizedOp, WhileLoop
from ..sizes import SizeExpr
from .builder import Block, OnnxValue

if TYPE_CHECKING:
    from .walker import OnnxWalker


def converted(walker: OnnxWalker, node: Node, inputs: list[Any]) -> Any:
    """The results of a node that holds graphs, or of one that decides a size."""
    if issubclass(node.op, SizedOp):
        return _sized(walker, node, inputs[0])
    if node.op is Require:
        walker.b.conditions += node.attrs["messages"]
        return inputs[0]
    if node.op is Cond:
        return _cond(walker, node, inputs)
    if node.op is WhileLoop:
        return _while_loop(walker, node, inputs)
    return _scan(walker, node, inputs)


def _sized(walker: OnnxWalker, node: Node, value: OnnxValue) -> OnnxValue:
    """Rows whose number values decide; sizes that follow from it are computed behind them."""
    b = walker.b
    if node.op is Places:
        made = b.emit("Transpose", b.NonZero(value), perm=[1, 0])
    else:
        made = b.Range(b.size(0), _scalar(walker, value), b.size(1))
    b.name_size(str(node.attrs["size"]), made)
    return _typed(made, node.type)


def _inside(walker: OnnxWalker, graph: Graph, given: list[OnnxValue]) -> list[OnnxValue]:
    """The outputs of a graph for these values of its leaves, converted in the current block."""
    outputs = walker.walk(graph, dict(zip(graph.inputs, given, strict=True)))
    return [_typed(v, o.type) for v, o in zip(outputs, graph.outputs, strict=True)]


def _typed(value: OnnxValue, type_: TensorType) -> OnnxValue:
    return OnnxValue(value.name, type_.dtype, type_.shape, value.array)


def _scalar(walker: OnnxWalker, condition: OnnxValue) -> OnnxValue:
    return walker.b.reshape(condition, []) if condition.shape != () else condition


def _cond(walker: OnnxWalker, node: Node, inputs: list[Any]) -> tuple[OnnxValue, ...]:
    b = walker.b
    branches = []
    for key in ("true_graph", "false_graph"):
        with b.block() as block:
            block.outputs = _inside(walker, node.attrs[key], inputs[1:])
        branches.append(b.graph(block, b.name(key)))
    return _results(walker, node, "If", [_scalar(walker, inputs[0])], then_branch=branches[0], else_branch=branches[1])


def _while_loop(walker: OnnxWalker, node: Node, inputs: list[Any]) -> tuple[OnnxValue, ...]:
    b, n = walker.b, node.attrs["n_carried"]
    carried, operands = inputs[:n], inputs[n:]
    first = _scalar(walker, _inside(walker, node.attrs["cond_graph"], [*carried, *operands])[0])
    with b.block() as block:
        given = _arguments(walker, block, carried)
        after = _inside(walker, node.attrs["body_graph"], [*given, *operands])
        goes_on = _scalar(walker, _inside(walker, node.attrs["cond_graph"], [*after, *operands])[0])
        block.outputs = [OnnxValue(goes_on.name, bool_, ()), *after]
    return _results(walker, node, "Loop", [None, first, *carried], body=b.graph(block, b.name("while")))


def _scan(walker: OnnxWalker, node: Node, inputs: list[Any]) -> tuple[OnnxValue, ...]:
    b, n = walker.b, node.attrs["n_carried"]
    end = n + node.attrs["n_xs"]
    carried, xs, operands = inputs[:n], inputs[n:end], inputs[end:]
    length = b.size(node.inputs[n].type.shape[0])
    reverse = node.attrs["reverse"]
    with b.block() as block:
        given = _arguments(walker, block, carried)
        step = block.inputs[0]
        at = b.Sub(b.Sub(length, 1), step) if reverse else step
        kinds = [TensorType(i.type.shape[1:], i.type.dtype) for i in node.inputs[n:end]]
        slices = [_typed(b.emit("Gather", x, at, axis=0), kind) for x, kind in zip(xs, kinds, strict=True)]
        made = _inside(walker, node.attrs["body_graph"], [*given, *slices, *operands])
        block.outputs = [OnnxValue(b.Identity(block.inputs[1]).name, bool_, ()), *made]
    results = _results(walker, node, "Loop", [length, None, *carried], body=b.graph(block, b.name("scan")))
    stacked = []
    for value in results[n:]:
        if reverse:
            value = _typed_like(b.Slice(value, [-1], [-(2**62)], [0], [-1]), value)
        if any(isinstance(s, SizeExpr) for s in (value.shape or ())[1:]):
            value = b.reshape(value, value.shape or ())
        stacked.append(value)
    return (*results[:n], *stacked)


def _typed_like(made: OnnxValue, value: OnnxValue) -> OnnxValue:
    made.shape = value.shape
    return made


def _arguments(walker: OnnxWalker, block: Block, carried: list[OnnxValue]) -> list[OnnxValue]:
    """The arguments of a loop's body: the number of the step, whether to go on, and what is carried."""
    b = walker.b
    given = [OnnxValue(b.name("carried"), v.dtype, v.shape) for v in carried]
    block.inputs = [OnnxValue(b.name("step"), int64, ()), OnnxValue(b.name("going"), bool_, ()), *given]
    return given


def _results(walker: OnnxWalker, node: Node, kind: str, inputs: list[Any], **graphs: Any) -> tuple[OnnxValue, ...]:
    """Add a node that holds graphs."""
    types = node.type
    made = walker.b.emit(kind, *inputs, n_results=len(types), result=[t.dtype for t in types], **graphs)
    made = made if len(types) > 1 else (made,)
    return tuple(_typed(v, t) for v, t in zip(made, types, strict=True))
