"""Long short-term memories over trees (Tai, Socher and Manning 2015): cells that a plain recursive function calls.

A cell makes the state of a node, a `TreeState(h, c)`, from the states of its children, and from an input x where the
node has one:

    cell.leaf(x)                 a leaf: an input and no children
    cell(left, right)            an inner node without an input of its own, as in constituency trees
    cell(*children, x=word)      a node with both, as in dependency trees

States are vectors (hidden_size,) of one tree, or rows (batch, hidden_size) of as many trees of one shape. With
sigma for the sigmoid, * elementwise, and k running over the children, both cells compute

    u = tanh(...), i = sigma(...), o = sigma(...), f_k = sigma(...)
    c = i * u + sum_k f_k * c_k
    h = o * tanh(c)

and differ in how the children's h_k enter the gates, which each class states. A node without an input leaves out the
term in x; a node without children the terms in h and f. Rows of the weights stand in the order u, i, o, f. All
parameters start uniform between -b and b, b = 1 / sqrt(hidden_size).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .. import ops
from ..core.tensor import Tensor
from ..errors import ArgumentError, DtypeError, ShapeError
from . import functional as F
from .layer_support import draw_within
from .module import Module
from .parameter import Parameter

__all__ = ["ChildSumTreeLSTMCell", "NaryTreeLSTMCell", "TreeState"]


class TreeState(NamedTuple):
    """The state of a node: h is what it shows, c is its memory.

    >>> nn.ChildSumTreeLSTMCell(3, 2).leaf(ex.zeros(3))._fields
    ('h', 'c')
    """

    h: Tensor
    c: Tensor


class _TreeLSTMCell(Module):
    """The equations both cells share; a subclass says how the children's h enter the gates."""

    _is_cell = True

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, device: Any, dtype: Any, **weights: tuple[int, int]
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if input_size < 1 or hidden_size < 1:
            raise ShapeError(f"{name}: sizes must be at least 1, got {input_size} inputs and hidden_size={hidden_size}")
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias: Parameter | None
        weights = {"weight_ih": (4 * hidden_size, input_size), **weights}
        for parameter, shape in weights.items():
            self.register_parameter(parameter, Parameter(ops.empty(shape, device=device, dtype=dtype)))
        blocks = Parameter(ops.empty(4 * hidden_size, device=device, dtype=dtype)) if bias else None
        self.register_parameter("bias", blocks)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw every parameter anew."""
        draw_within(1 / math.sqrt(self.hidden_size), *self.parameters())

    def leaf(self, x: Tensor) -> TreeState:
        """The state of a leaf: an input and no children; the same as `cell(x=x)`."""
        return self(x=x)

    def forward(self, *children: Any, x: Tensor | None = None) -> TreeState:
        states = [self._checked_child(number, child) for number, child in enumerate(children)]
        shapes = [tuple(state.h.shape) for state in states]
        if len(set(shapes)) > 1:
            raise ShapeError(f"{type(self).__name__}: states of all children must have one shape, got {shapes}")
        base = self._from_input(x, states)
        n = 3 * self.hidden_size
        if not states:
            return self._state(None if base is None else base[..., :n], None)
        common, forget = self._from_children([state.h for state in states])
        if base is not None:
            own, of_forget = base.split((n, self.hidden_size), -1)
            common, forget = common + own, forget + of_forget.unsqueeze(-2)
        kept = (ops.sigmoid(forget) * ops.stack([state.c for state in states], -2)).sum(-2)
        return self._state(common, kept)

    def _from_children(self, hidden: list[Tensor]) -> tuple[Tensor, Tensor]:
        """From each child's h: what enters u, i, o (..., 3 * hidden_size) and every f (..., children, hidden_size)."""
        raise NotImplementedError

    def _from_input(self, x: Tensor | None, states: list[TreeState]) -> Tensor | None:
        """What enters u, i, o, f from the node itself: its input and the bias; None where it has neither."""
        if x is None:
            return self.bias
        shape = states[0].h.shape[:-1] if states else x.shape[:-1]
        if x.ndim not in (1, 2) or x.shape != (*shape, self.input_size):
            wanted = f"{(*shape, self.input_size)} beside these children" if states else f"(..., {self.input_size})"
            raise ShapeError(f"{type(self).__name__}: x must be {wanted}, got {tuple(x.shape)}")
        return F.linear(x, self.weight_ih, self.bias)

    def _state(self, gates: Tensor | None, kept: Tensor | None) -> TreeState:
        """From u, i, o before their functions and what the children keep: (h, c)."""
        if gates is None:  # nothing entered at all
            gates = ops.zeros(3 * self.hidden_size, dtype=self.weight_ih.dtype)
        u, i, o = gates.chunk(3, -1)
        c = ops.sigmoid(i) * ops.tanh(u)
        c = c if kept is None else c + kept
        return TreeState(ops.sigmoid(o) * ops.tanh(c), c)

    def _checked_child(self, number: int, child: Any) -> TreeState:
        name = f"{type(self).__name__}: child {number}"
        if not isinstance(child, tuple) or len(child) != 2 or not all(isinstance(part, Tensor) for part in child):
            hint = "an input is given as x=" if isinstance(child, Tensor) else "write cell(*children)"
            raise DtypeError(f"{name} must be a state (h, c), got {type(child).__name__}; {hint}")
        h, c = child
        if h.ndim not in (1, 2) or h.shape[-1] != self.hidden_size or c.shape != h.shape:
            raise ShapeError(
                f"{name}: h and c must be ({self.hidden_size},) or (batch, {self.hidden_size}), "
                f"got {tuple(h.shape)} and {tuple(c.shape)}"
            )
        return TreeState(h, c)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias is not None else ", bias=False")


class NaryTreeLSTMCell(_TreeLSTMCell):
    """A tree cell for up to `arity` children in order, with weights of their own for each place.

        u = tanh(W_u x + sum_l U_u[l] h_l + b_u), and so i and o with sigma
        f_k = sigma(W_f x + sum_l U_f[k, l] h_l + b_f)        for each child k

    Missing children count as zeros. Parameters: weight_ih (4 * hidden_size, input_size), weight_hh
    ((3 + arity) * hidden_size, arity * hidden_size), whose rows are u, i, o, f_1, f_2, ..., and bias (4 * hidden_size).

    >>> cell = nn.NaryTreeLSTMCell(3, 4, arity=2)
    >>> left, right = cell.leaf(ex.zeros(3)), cell.leaf(ex.ones(3))
    >>> cell(left, right).h.shape
    extempo.Size([4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        arity: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if arity < 1:
            raise ArgumentError(f"NaryTreeLSTMCell: arity must be at least 1, got {arity}")
        weight_hh = ((3 + arity) * hidden_size, arity * hidden_size)
        super().__init__(input_size, hidden_size, bias, device, dtype, weight_hh=weight_hh)
        self.arity = arity

    def _from_children(self, hidden: list[Tensor]) -> tuple[Tensor, Tensor]:
        n_children, size = len(hidden), self.hidden_size
        if n_children > self.arity:
            raise ArgumentError(
                f"NaryTreeLSTMCell: at most arity={self.arity} children, got {n_children}; "
                "raise the arity, or use ChildSumTreeLSTMCell for any number"
            )
        missing = [ops.zeros_like(hidden[0])] * (self.arity - n_children)
        gates = F.linear(ops.cat([*hidden, *missing], -1), self.weight_hh)
        common, forget = gates.split((3 * size, self.arity * size), -1)
        return common, forget.unflatten(-1, (self.arity, size))[..., :n_children, :]

    def extra_repr(self) -> str:
        return super().extra_repr() + f", arity={self.arity}"


class ChildSumTreeLSTMCell(_TreeLSTMCell):
    """A tree cell for any number of children in any order, none included.

        u = tanh(W_u x + U_u sum_l h_l + b_u), and so i and o with sigma
        f_k = sigma(W_f x + U_f h_k + b_f)                    for each child k

    Parameters: weight_ih (4 * hidden_size, input_size), weight_hh (3 * hidden_size, hidden_size) of u, i, o, weight_fh
    (hidden_size, hidden_size) of f, and bias (4 * hidden_size).

    >>> cell = nn.ChildSumTreeLSTMCell(3, 4)
    >>> children = [cell.leaf(ex.full((3,), value)) for value in (0.0, 1.0, 2.0)]
    >>> cell(*children, x=ex.zeros(3)).c.shape
    extempo.Size([4])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        rows = {"weight_hh": (3 * hidden_size, hidden_size), "weight_fh": (hidden_size, hidden_size)}
        super().__init__(input_size, hidden_size, bias, device, dtype, **rows)

    def _from_children(self, hidden: list[Tensor]) -> tuple[Tensor, Tensor]:
        stacked = ops.stack(hidden, -2)
        return F.linear(stacked.sum(-2), self.weight_hh), F.linear(stacked, self.weight_fh)
