"""`draw`: whatever has a graph becomes a Drawing."""

from __future__ import annotations

import inspect
from contextlib import ExitStack
from typing import Any

from ...batching.api import batch
from ...core.graph import Graph, Node
from ...core.tensor import Tensor
from ...exporting.program import Program
from ...func.tree import leaves
from ...nn import Module
from ...ragged_tensors.tensor import RaggedTensor
from ..tracing import unchanged
from .capture import Capture, models_in
from .drawn import Drawing
from .errors import diagram_of_error, keep
from .model import Diagram
from .rolling import roll
from .runs import compiled_of, note_batches, note_plans
from .tape import diagram_of


def draw(
    what: Any,
    *inputs: Any,
    title: str = "",
    model: Module | None = None,
    depth: int | None = None,
    loops: str = "rolled",
    gradients: bool = False,
    to: str | int | None = None,
    values: bool = True,
) -> Drawing:
    """The graph of something: `print` it, `.save("graph.html")` it, or let a notebook show it.

    A module or function is run with `inputs`, and every op is noted, with its module (buffers and the random stream are
    afterwards as they were); of tensors the recorded history is drawn; a Graph, a Program and an exception have theirs.
    Modules fold, loops are rolled up (`cell x 10`), parameters stand beside the ops that read them, arrows carry
    shapes, results have a bold frame.

    title: what stands above it.
    model: names of parameters, for tensors; modules that a function calls, where they are not found by themselves.
    depth: how many levels of modules are unfolded; by default as many as fit a screen.
    loops: "rolled" or "unrolled".
    gradients: show where gradients flow.
    to: the name of a module, op or input, or a line such as "model.py:12": the way to it is highlighted.
    values: summarise the values that ops gave.

    >>> print(ex.inspect.draw(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), ex.ones(4, 2)).text(60))
    Sequential: 2 ops, 9 parameters
    ○  input                            (4, 2)
    ■  ▸ 0: Linear  1 op, 9 parameters  (4, 3)
    ■  ▸ 1: ReLU  1 op                  (4, 3)
    """
    if loops not in ("rolled", "unrolled"):
        raise ValueError(f"draw: loops is 'rolled' or 'unrolled', got {loops!r}")
    diagram = _diagram(what, inputs, title, model, values)
    diagram.title = title or diagram.title
    return Drawing(diagram, depth, loops, gradients, to)


def _diagram(what: Any, inputs: tuple[Any, ...], title: str, model: Module | None, values: bool) -> Diagram:
    if isinstance(what, Drawing):
        return what.diagram
    if isinstance(what, Program):
        nodes = list(what.leaf_names.items())
        given, weights = dict(nodes[: len(what.inputs)]), dict(nodes[len(what.inputs) :])
        return diagram_of(what.graph, weights, given, title or "program")
    if isinstance(what, Graph):
        return diagram_of(what, _names(model), {}, title)
    if isinstance(what, BaseException):
        return diagram_of_error(what)
    if isinstance(what, batch):
        return _batched(what, inputs, model, values)
    if isinstance(what, Module) or (callable(what) and not isinstance(what, type)):
        return captured(what, inputs, model, values)
    if inputs:
        raise TypeError(f"draw: inputs are for a module or function, got {type(what).__name__}; title= names a picture")
    return diagram_of(_graph(what), _names(model), {}, title)


def _batched(fn: Any, inputs: tuple[Any, ...], model: Module | None, values: bool) -> Diagram:
    """One sample op by op, and how many of them ran together."""
    fn(*inputs)
    diagram = captured(fn._fn, tuple(next(iter(argument)) for argument in inputs), model, values)
    note_batches(diagram, fn.explain())
    return diagram


def captured(fn: Any, inputs: tuple[Any, ...], model: Module | None, values: bool) -> Diagram:
    """Run it and note every op. If it raises, the error keeps the ops up to there, for `draw(error)`."""
    models = models_in(fn, inputs)
    if model is not None and not any(model is known for known in models.values()):
        models = {"": model} | models
    capture = Capture(models, values)
    name = type(fn).__name__ if isinstance(fn, Module) else getattr(fn, "__name__", "")
    capture.diagram.root.detail = "" if name == "<lambda>" else name
    capture.name_inputs(inputs, argument_names(fn))
    with ExitStack() as kept:
        for known in models.values():
            kept.enter_context(unchanged(known))
        kept.enter_context(capture)
        try:
            result = fn(*inputs)
        except Exception as error:
            roll(capture.diagram)
            keep(error, capture.diagram)
            raise
    capture.mark_outputs(result)
    roll(capture.diagram)
    compiled = compiled_of(fn)
    if compiled is not None:
        note_plans(capture.diagram, compiled)
    return capture.diagram


def argument_names(fn: Any) -> list[str]:
    """What the arguments of a module or function are called, [] if nobody knows."""
    try:
        signature = inspect.signature(fn.forward if isinstance(fn, Module) else fn)
    except (TypeError, ValueError):
        return []
    return [p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _names(model: Module | None) -> dict[Node, str]:
    if model is None:
        return {}
    return {node: name for name, parameter in model.named_parameters() for node in Graph.of(parameter).outputs}


def _graph(what: Any) -> Graph:
    """Of a tensor, ragged or not, or of all in a tuple, list or dict."""
    found = [leaf.values() if isinstance(leaf, RaggedTensor) else leaf for leaf in leaves(what)]
    strange = next((type(leaf).__name__ for leaf in found if not isinstance(leaf, Tensor)), None)
    if strange is not None:
        raise TypeError(f"draw: expected a module, a function, tensors, a Graph, a Program or an error, got {strange}")
    return Graph.of(*found)
