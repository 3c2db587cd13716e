"""What a node has saved for its gradient, as its op's `vjp` gets it; an error if it was overwritten since."""

from __future__ import annotations

from typing import Any

from ..core.graph import Node, Pick
from ..core.tensor import Tensor, new, symbol
from ..errors import OverwrittenError
from .messages import overwritten_message


def saved_values(node: Node, create_graph: bool) -> tuple[Any, list[Any]]:
    """(y, inputs) for the vjp: Tensors where saved, types where not, numbers as they are.

    `create_graph`: the Tensors are what the node was made from, not constants.
    """
    y: Any = node.type
    inputs: list[Any] = [i.type if isinstance(i, Node) else i for i in node.inputs]
    for entry in node.saved:
        position = entry[0]
        if position < 0:  # one of several results
            results = list(y)
            results[-1 - position] = _restored_result(node, -1 - position, entry, create_graph)
            y = tuple(results)
        elif position:
            inputs[position - 1] = _restored(node, entry, node.inputs[position - 1], create_graph)
        elif type(node.type) is tuple:
            y = tuple(_restored_result(node, i, e, create_graph) for i, e in enumerate(entry[1]))
        else:
            y = _restored(node, entry, node, create_graph)
    return y, inputs


def _restored_result(node: Node, index: int, entry: Any, create_graph: bool) -> Tensor:
    t = node.type[index]
    tracked = create_graph and t.dtype.is_floating_point
    source = Node(Pick, (node,), {"index": index}, t, (), node.where) if tracked else None
    return _restored(node, entry, source, create_graph, t)


def _restored(node: Node, entry: Any, source: Node | None, create_graph: bool, type_: Any = None) -> Tensor:
    position, array, storage, version, *itself = entry
    type_ = type_ or source.type  # type: ignore[union-attr] # one of both is given
    if storage is None:
        return symbol(type_, source if create_graph else None, array)
    if storage.version != version:
        raise OverwrittenError(overwritten_message(node, position, storage))
    if itself and (type(source) is not Node or itself[0]._current_node() is source):
        return itself[0]
    t = new(Tensor)
    t._data, t._memory, t._type, t._alias, t._grad_barrier, t._source = array, storage, type_, None, None, None
    t._history = source if create_graph else None
    return t
