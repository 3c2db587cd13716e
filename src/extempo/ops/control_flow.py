"""The ops of control flow in a program: nodes that hold graphs. They run by `exporting.runner`, never by a kernel.

    cond        inputs (pred, *operands)           graphs true_graph, false_graph: both of the operands
    while_loop  inputs (*carried, *operands)       graphs cond_graph, body_graph of both; results are the carried values
    scan, map   inputs (*carried, *xs, *operands)  graph body_graph of (*carried, *one slice of each xs, *operands);
                                                   its outputs are the next carried values, then what is stacked
    require     inputs (value, *conditions)        the value, or an error with the message of a condition that fails
    places      inputs (x,)                        a row of indices for each element of x that is not 0
    counted     inputs (n,)                        0, 1, ..., n - 1

A graph's leaves are its arguments, in order. All but the last three are ops with several results, each of which is a
`Pick`. How many rows `places` and `counted` have, values decide: the attribute `size` is the name of that size, which
is known from there on.
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


class SizedOp(ControlOp, abstract=True):
    """A node whose values decide a size of the program."""


class Places(SizedOp):
    """The indices of all elements that are not 0, a row each; attribute size: how many there are."""


class Counted(SizedOp):
    """The numbers from 0 to below a 0-dim tensor; attribute size: how many there are."""


class Require(ControlOp):
    """A value, if all conditions hold; attribute messages: what to say if one does not."""
