"""Recurrent layers over ragged sequences (B, *, features): no padding, no packing and no sorting by the user.

A layer runs over *packed rows*: all sequences' first steps, then all second steps, the longest sequence first. Both
orders are permutations of the same elements, so packing and unpacking are one index each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.tensor import Tensor, from_array
from ..errors import ShapeError
from .rows import Rows
from .tensor import RaggedTensor


class Packing(NamedTuple):
    """How rows become packed rows."""

    order: Tensor  # the numbers of the sequences, longest first
    ranks: Tensor  # where each sequence is in that order
    sizes: Tensor  # how many sequences have each step; at the end, steps that none has
    elements: Tensor  # for each packed row, the element that it is
    places: Tensor  # for each element, its packed row


def packing_of(rows: Rows) -> Packing:
    lengths = rows.lengths
    order = np.argsort(-lengths, kind="stable")
    ranks = np.empty_like(order)
    ranks[order] = np.arange(rows.n)
    # Sequences that have step t: all but those of at most t steps. The longest of a batch is often another one: up to a
    # power of two, steps that no sequence has leave just one size that is new, the number of rows.
    n_steps = 1 << (rows.longest - 1).bit_length() if rows.longest else 0
    sizes = rows.n - np.cumsum(np.bincount(lengths, minlength=n_steps + 1))[:n_steps]
    starts = np.cumsum(sizes) - sizes
    places = starts[rows.place_of] + ranks[rows.row_of]
    elements = np.empty_like(places)
    elements[places] = np.arange(rows.total)
    return Packing(*map(from_array, (order, ranks, sizes, elements, places)))


def forward(layer: Any, x: RaggedTensor, hx: Any) -> tuple[RaggedTensor, Any]:
    """An RNN, LSTM or GRU of ragged sequences: the outputs in the same rows, and final states in their order.

    hx: initial states (layers * directions, B, features), in the order of the rows.
    """
    if x.ndim != 3 or x._dim != 1 or x.shape[-1] != layer.input_size:
        raise ShapeError(
            f"{type(layer).__name__}: ragged sequences are (B, *, input_size={layer.input_size}), whatever batch_first "
            f"says; got shape {tuple(x.shape)}"
        )
    packing = x._rows.packing
    initial = layer._initial(hx, x._rows.n, x._flat, True, packing.order)
    packed = x._flat.index_select(0, packing.elements)
    output, final = layer._through_layers(packed, packing.sizes, initial)
    states = [state.index_select(1, packing.ranks) for state in final]
    return x.like(output.index_select(0, packing.places)), layer._delivered(states)
