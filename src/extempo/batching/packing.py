"""Weights that products of many batches read are packed once for all of them, not by each product."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ..backends.llvm.routines.products import PACKED
from ..backends.llvm.routines.routine import ROUTINES
from ..core.trace_tree import NUMBER
from ..core.types import TensorType, float32
from ..scheduling.program import ROUTINE, Node
from ..scheduling.row_templates import Part

LEAST_COLUMNS = 16
LEAST_ELEMENTS = 1_024  # of a weight that is worth it


def packed_parts(parts: Sequence[Part], weights: Collection[int]) -> tuple[list[Part], dict[int, bool]] | None:
    """The parts with products that read packed weights; None if there are none.

    `weights`: inputs, by position, that are the same in all batches. Also returned: those that are to be packed, and
    whether it is their transpose that products read.
    """
    first = parts[0]
    users: dict[int, list[tuple[int, int, int]]] = {}  # by root: node, which of its inputs, how it is seen there
    for position, node in enumerate(first.nodes):
        for i, code in enumerate(node[2]):
            if 0 <= code < NUMBER:
                users.setdefault(first.program.roots[code], []).append((position, i, code))
    turned: dict[int, bool] = {}
    products: set[int] = set()
    for k in weights:
        value = first.inputs[k]
        used = users.get(value, [])
        names = {_product(first.nodes[position]) for position, _, _ in used}
        if value in first.program.places or any((i, code) != (1, value) for _, i, code in used):
            continue
        if names in ({"linear"}, {"matmul"}):
            turned[k] = names == {"linear"}
            products |= {position for position, _, _ in used}
    made = [part._replace(nodes=_with_packed(part.nodes, products)) for part in parts]
    return (made, turned) if turned and all(None not in part.nodes for part in made) else None


def _product(node: Node) -> str | None:
    """The name of a product of rows with a matrix that is worth packing."""
    kind, bound = node[:2]
    if kind != ROUTINE or bound.origin is None:
        return None
    op, kinds, _ = bound.origin
    if op.name not in ("linear", "matmul") or any(not isinstance(t, TensorType) or t.ndim != 2 for t in kinds[:2]):
        return None
    shape = kinds[1].shape
    n_columns = shape[0] if op.name == "linear" else shape[1]
    worth = n_columns >= LEAST_COLUMNS and shape[0] * shape[1] >= LEAST_ELEMENTS and kinds[1].dtype is float32
    return str(op.name) if worth else None


def _with_packed(nodes: Sequence[Node], products: Collection[int]) -> list[Any]:
    """None stands for a product that cannot read what is packed."""
    made: list[Any] = list(nodes)
    for position in products:
        kind, bound, *rest = nodes[position]
        op, kinds, attrs = bound.origin
        attrs = {**attrs, PACKED: True}
        found = ROUTINES[op.lower.name](kinds, attrs)
        made[position] = None if found is None else (kind, found._replace(origin=(op, kinds, attrs)), *rest)
    return made
