"""`backward` and `grad`: by a plan where a trace has one, else by the engine; or by an interceptor that listens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.context import CONTEXT
from ..core.graph import Node
from ..core.tensor import Tensor, TensorLike
from ..core.tensor_methods import method
from ..dispatch.dispatcher import quietly
from ..errors import AutogradError
from . import engine
from .observers import listener
from .seeds import as_list, like_inputs, roots_of, values_of
from .traced_backward import accumulate_planned, backward_by_plan, grad_by_plan
from .waiting import WAITING, require_nobody_waits, tell_waiting


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors` to the `.grad` of the leaves they depend on (or only of `inputs`).

    >>> x = ex.tensor(3.0, requires_grad=True)
    >>> ex.autograd.backward([x * x, 10 * x])
    >>> x.grad
    tensor(16.)
    """
    if (mode := CONTEXT.get()).interceptor is not None and (heard := listener(mode)) is not None:
        require_nobody_waits()
        given = values_of(grad_tensors, tensors)
        heard(backward, values_of(tensors), given, retain_graph, create_graph, values_of(inputs))
        return
    outputs = [tensors] if isinstance(tensors, Tensor) else as_list(tensors, "tensors")
    if grad_tensors is not None:
        grad_tensors = values_of(grad_tensors, tensors)
    if not create_graph and inputs is None:
        planned = backward_by_plan(outputs, grad_tensors, "backward", None, bool(retain_graph))
        if planned is not None:
            if planned:
                accumulate_planned(planned, bool(retain_graph))
            if WAITING:
                tell_waiting()
            return
    roots = roots_of(outputs, grad_tensors, "backward", create_graph)
    wanted = None
    if inputs is not None:
        given = as_list(inputs, "inputs")
        if not given:
            raise AutogradError("backward: `inputs` is empty; leave it out to accumulate into every leaf")
        for x in given:
            if not x.requires_grad:
                raise AutogradError(
                    "backward: a tensor in `inputs` does not require grad; call x.requires_grad_() before the forward"
                )
        wanted = {x._own_node() for x in given}
    keep = create_graph if retain_graph is None else retain_graph
    quietly(engine.BackwardEngine(bool(keep), bool(create_graph), wanted, accumulate=True).run, roots)
    if WAITING:
        tell_waiting()


def _backward_of_tensor(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradient of this tensor to the `.grad` of every leaf it depends on, and free the graph."""
    backward(self, gradient, retain_graph, create_graph, inputs)


_backward_of_tensor.__name__ = _backward_of_tensor.__qualname__ = "backward"
method(_backward_of_tensor, "backward")


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of `outputs` with respect to `inputs`, as a tuple; nothing is accumulated.

    >>> x = ex.tensor(3.0, requires_grad=True)
    >>> ex.autograd.grad(x * x, x)
    (tensor(6.),)
    """
    if (mode := CONTEXT.get()).interceptor is not None and (heard := listener(mode)) is not None:
        options = (retain_graph, create_graph, only_inputs, allow_unused, is_grads_batched, materialize_grads)
        asked = inputs if isinstance(inputs, Tensor | TensorLike) else list(inputs)
        given = values_of(grad_outputs, outputs)
        return like_inputs(asked, heard(grad, values_of(outputs), values_of(asked), given, *options))
    if is_grads_batched:
        from ..func import vmap

        fixed: dict[str, Any] = {"retain_graph": True, "create_graph": create_graph, "allow_unused": allow_unused}
        return tuple(vmap(lambda *g: grad(outputs, inputs, g, **fixed))(*as_list(grad_outputs, "grad_outputs")))
    asked = inputs if isinstance(inputs, Tensor | TensorLike) else list(inputs)
    grad_outputs = values_of(grad_outputs, outputs)
    given, ends = as_list(asked, "inputs"), as_list(outputs, "outputs")
    keep = bool(create_graph if retain_graph is None else retain_graph)
    results: list[Any] | None = None
    may_be_unused = bool(allow_unused or materialize_grads)
    if not create_graph and (may_be_unused or all(x.requires_grad for x in given)):
        results = grad_by_plan(ends, grad_outputs, given, keep)
    if results is None:
        results = _grad_by_engine(ends, grad_outputs, given, keep, create_graph, may_be_unused)
    for i, x in enumerate(given):
        if results[i] is None and materialize_grads:
            results[i] = x.new_zeros(x.shape)
        elif results[i] is None and not allow_unused:
            raise AutogradError(
                f"grad: the output does not depend on input {i}; pass allow_unused=True to get None for it, "
                "or check that this very tensor (not a copy) went into the computation"
            )
    return like_inputs(asked, results)


def _grad_by_engine(
    outputs: list[Tensor], gradients: Any, inputs: list[Tensor], keep: bool, create_graph: bool, may_be_unused: bool
) -> list[Any]:
    roots = roots_of(outputs, gradients, "grad", create_graph)
    nodes: list[Node | None] = []
    for i, x in enumerate(inputs):
        if not x.requires_grad:
            if may_be_unused:
                nodes.append(None)
                continue
            raise AutogradError(
                f"grad: input {i} does not require grad; call x.requires_grad_() before computing the output"
            )
        nodes.append(x._own_node())
    job = engine.BackwardEngine(keep, bool(create_graph), {n for n in nodes if n is not None}, accumulate=False)
    found = quietly(job.run, roots)
    return [found.get(node) for node in nodes]
