"""The ops of control flow in a program: nodes that hold graphs. They run by `exporting.runner`, never by a kernel.

    cond        inputs (pred, *operands)           graphs true_graph, false_graph: both of the operands
    while_loop  inputs (*carried, *operands)       graphs cond_graph, body_graph of both; results are the carried values
    scan, map   inputs (*carried, *xs, *operands)  graph body_graph of (*carried, *one slice of each xs, *operands);
                                                   its outputs are the next carried values, then what is stacked
    require     inputs (value, *conditions)        the value, or an error with the message of a condition that fails

A graph's leaves are its arguments, in order. All but `require` are ops with several results, each of which is a `Pick`.
"""

from __future__ import annotations

from ..core.op import Op, Refuse

_HELD = Refuse("its result types stand in its graphs")
_RUN = Refuse("the runner of programs runs its graphs")


class ControlOp(Op, abstract=True):
    """A node that holds graphs."""

    family = "control"
    infer = _HELD
    numpy = _RUN
    vjp = Refuse("the ops inside its graphs have gradients")
    saves = ()
    lower = _RUN
    batch = _RUN
    ragged = _RUN
    onnx = "control"
    samples = Refuse("it is tested by programs")


class Cond(ControlOp):
    """One of two graphs, by a bool."""


class WhileLoop(ControlOp):
    """A graph again and again, while another one says so."""


class Scan(ControlOp):
    """A graph for each slice of some tensors, one after another; attributes n_carried, n_xs, reverse."""


class Map(ControlOp):
    """A graph for each slice of some tensors, independently; attributes as of Scan, with n_carried 0."""


class Require(ControlOp):
    """A value, if all conditions hold; attribute messages: what to say if one does not."""
