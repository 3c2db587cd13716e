"""The graph behind tensors: nodes, and a say in how they keep what backward needs.

`tensor.grad_fn` is a Node (None for a leaf). Walk on through `node.next_functions`, or `node.inputs`; `node.name()`,
`node.op`, `node.type` and `node.line` say what it is and which line recorded it. A leaf's node has its tensor in
`.variable`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

from ..core.absent_names import explain_absent
from ..core.context import CONTEXT, ExecutionContext, Swap, end_trace
from ..core.graph import Node
from ..core.interrupts import Scope
from ..core.op import Op
from ..core.tensor import Tensor, new
from ..core.types import TensorType, type_of_array
from ..core.weak import WeakTable
from ..dispatch.dispatcher import entry
from ..errors import DtypeError
from .hooks import RemovableHandle
from .observers import Observer, take_away

__all__ = ["GradientEdge", "Node", "RemovableHandle", "get_gradient_edge", "save_on_cpu", "saved_tensors_hooks"]


class GradientEdge(NamedTuple):
    """Where the gradient of a tensor enters the graph.

    >>> x = ex.tensor(3.0, requires_grad=True)
    >>> ex.autograd.graph.get_gradient_edge(x * x).node
    <MulBackward>
    """

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge of a tensor that requires grad.

    >>> x = ex.tensor(3.0, requires_grad=True)
    >>> edge = ex.autograd.graph.get_gradient_edge(x * x)
    >>> edge.node, edge.output_nr
    (<MulBackward>, 0)
    """
    if not tensor.requires_grad:
        raise DtypeError("get_gradient_edge: the tensor does not require grad, so no gradient enters the graph there")
    return GradientEdge(tensor._own_node(), 0)


class save_on_cpu(nullcontext[None]):
    """Tensors saved for backward within the block stay on the CPU, where all tensors are.

    >>> x = ex.tensor(3.0, requires_grad=True)
    >>> with ex.autograd.graph.save_on_cpu(pin_memory=True):
    ...     y = x * x
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__()


class saved_tensors_hooks(Scope[ExecutionContext]):
    """Within the block, `pack_hook(tensor)` is kept in place of each tensor saved for backward.

    `unpack_hook` gets what it returned when backward needs the values, and returns a tensor of the same shape and
    dtype.

    >>> x = ex.tensor(3.0, requires_grad=True)
    >>> with ex.autograd.graph.saved_tensors_hooks(lambda t: t.half(), lambda h: h.float()):
    ...     y = x.exp()
    >>> y.backward()
    >>> y, x.grad
    (tensor(20.0855, grad_fn=<ExpBackward>), tensor(20.0781))
    """

    _variable = CONTEXT

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack = pack_hook
        self.unpack = unpack_hook

    def _inner(self, before: ExecutionContext) -> ExecutionContext:
        end_trace(before)
        return ExecutionContext(before.grad, before.inference, _Packing(self.pack, self.unpack), before.quiet)


class _Packing(Observer):
    """Replaces what nodes save by what the pack hook makes of it."""

    def __init__(self, pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]) -> None:
        super().__init__()
        self.pack = pack
        self.unpack = unpack
        self.packed: WeakTable[Node, Any] = WeakTable()

    def ran(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], node: Node | None) -> None:
        if node is None or not node.saved:
            return
        saved = take_away(node, self)
        with Swap(self._outer_mode()):
            self.packed[node] = [self._packed(entry, node) for entry in saved]

    def _packed(self, entry: Any, node: Node) -> Any:
        position, array, storage = entry[:3]
        if type(array) is tuple:
            return _Several(tuple(self._packed(part, node) for part in array))
        if storage is None:
            return entry
        t = new(Tensor)
        type_ = type_of_array(array)
        t._data, t._memory, t._type, t._alias, t._grad_barrier, t._history = array, storage, type_, None, None, None
        t._source = None
        return _Packed(position, type_, self.pack(t))

    def refill(self, node: Node) -> None:
        """Bring back what a node has saved."""
        node.saved = tuple(self._unpacked(p) for p in self.packed.pop(node))

    def _unpacked(self, packed: Any) -> Any:
        if isinstance(packed, _Several):
            return 0, tuple(self._unpacked(part) for part in packed.parts), None, 0
        if not isinstance(packed, _Packed):
            return packed
        t = self.unpack(packed.value)
        got = t._type if isinstance(t, Tensor) else type(t).__name__
        if got != packed.type:
            raise DtypeError(
                f"saved_tensors_hooks: unpack_hook must return a tensor {packed.type}, as was packed, got {got}"
            )
        return entry(packed.position, t)


class _Packed(NamedTuple):
    """What the pack hook made of a saved value, and the value's place in (y, *inputs)."""

    position: int
    type: TensorType
    value: Any


class _Several(NamedTuple):
    """What was saved of the results of an op that has several."""

    parts: tuple[Any, ...]


explain_absent(
    __name__,
    {
        "allow_mutation_on_saved_tensors": "write into x.clone() where a saved value would be overwritten",
        "disable_saved_tensors_hooks": "leave the block out, or do not enter saved_tensors_hooks",
        "register_multi_grad_hook": "register a hook on each tensor, and count the calls",
        "increment_version": "every write in place counts the version by itself",
        "region_activation_memory_budget": "use utils.checkpoint to save memory",
    },
)
