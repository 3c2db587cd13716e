"""Constants of a program, computed once: what follows from weights alone, such as the sum of an LSTM's two biases.

The program that comes out has those values as weights in place of the nodes. Samples of a batch then read one tensor
where each would have computed one of its own, which is what lets recurrent layers run as one.
"""

from __future__ import annotations

from typing import Any

from ..core.context import no_grad
from ..core.graph import Graph, Leaf, Node, leaf
from ..core.tensor import Tensor
from ..core.types import TensorType
from ..dispatch.dispatcher import apply
from ..ops.control_flow import ControlOp
from .program import Program
from .sizes import is_symbolic


def fold_constants(program: Program) -> Program:
    """The same program, without nodes that depend on no input. States of the model are inputs here."""
    names = program.leaf_names
    inputs = program.graph.inputs[: len(program.inputs)]
    known: dict[Node, Tensor] = {n: program.weights[names[n]] for n in program.graph.inputs[len(inputs) :]}
    fixed = {n for n in known if names[n] not in program.state}
    with no_grad():
        for node in program.graph:
            if _is_constant(node, fixed):
                values = tuple([known[i] if isinstance(i, Node) else i for i in node.inputs])
                known[node] = apply(node.op, values, node.attrs)
                fixed.add(node)
    kept = [n for n in program.graph if n.op is not Leaf and n not in known]
    read = {i for n in kept for i in n.inputs if isinstance(i, Node)} | set(program.graph.outputs)
    leaves = [n for n in known if n in read or names.get(n) in program.state]
    weights = {names.get(n) or f"folded_{i}": known[n] for i, n in enumerate(leaves)}
    replaced: dict[Any, Node] = {n: n if n.op is Leaf else leaf(n.type) for n in leaves}
    for node in kept:
        replaced[node] = Node(
            node.op, tuple([replaced.get(i, i) for i in node.inputs]), node.attrs, node.type, (), node.where
        )
    graph = Graph([*inputs, *replaced.values()], [replaced.get(n, n) for n in program.graph.outputs])
    return Program(
        graph,
        program.arguments,
        program.inputs,
        weights,
        program.results,
        program.outputs,
        program.state,
        program.dims,
        program.guards,
        [name for name in weights if name in program.trainable],
    )


def _is_constant(node: Node, fixed: set[Node]) -> bool:
    """Whether a node gives the same in every call, and no more numbers than it reads: a table would cost memory."""
    if node.op is Leaf or not isinstance(node.type, TensorType) or issubclass(node.op, ControlOp):
        return False
    read = [i for i in node.inputs if isinstance(i, Node)]
    if node.op.family == "random" or not read or not all(i in fixed for i in read):
        return False
    if is_symbolic(node.attrs) or is_symbolic(node.inputs) or is_symbolic(node.type.shape):
        return False
    return bool(node.type.numel() <= sum(i.type.numel() for i in read))
