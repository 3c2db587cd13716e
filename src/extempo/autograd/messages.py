"""What the errors of backward say: a tensor without a path, a graph that was freed, a value that was overwritten."""

from __future__ import annotations

from ..core.graph import Leaf, Node, describe_where
from ..core.source_location import last_value_read
from ..core.storage import Storage
from ..core.tensor import Tensor


def no_path_message(y: Tensor, name: str) -> str:
    text = f"{name}: this tensor does not require grad, so there is nothing to differentiate"
    if not y._type.dtype.is_floating_point:
        return f"{text}: it is {y._type.dtype}, and only floating tensors have gradients"
    if y._grad_barrier is not None:
        reason, where = y._grad_barrier
        cut = f"the path was cut by {reason} at {describe_where(where)}"
        return f"{text}: {cut}; remove it there, or start from another tensor"
    text += ": no tensor that requires grad went into it; did you forget requires_grad=True on the parameters?"
    if last_value_read() is not None:
        where = describe_where(last_value_read())
        text += f" (The last value read as a Python number was at {where}; numbers carry no gradient.)"
    return text


def freed_message(node: Node) -> str:
    return (
        f"backward: the graph of {node.op.name}{at(node)} was freed by an earlier backward; compute the "
        "loss again, or call backward(retain_graph=True) the first time. In a loop, a tensor kept from the "
        "last iteration must be detached: state = state.detach()"
    )


def overwritten_message(node: Node, position: int, storage: Storage) -> str:
    what = f"the result of {node.op.name}" if position <= 0 else f"input {position - 1} of {node.op.name}"
    source = node if position <= 0 else node.inputs[position - 1]
    made = "" if position <= 0 or source.op is Leaf else f", made by {source.op.name} at {source.line},"
    return (
        f"backward: {what}{at(node)}{made} is needed for its gradient, but was overwritten in place at "
        f"{describe_where(storage.written_at)}; use the out-of-place form there, or write into x.clone()"
    )


def at(node: Node) -> str:
    return f" (recorded at {node.line})" if node.where is not None else ""
