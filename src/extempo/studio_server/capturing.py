"""Capturing one iteration: its graph in the order in which it formed, its gradients in the order of backward.

The graph is drawn up by `inspect.drawing.Capture`, told by a watcher of `inspect.observing`, which needs no block
around the user's code: it is put on at the end of one step of the optimizer and taken off before the next one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from ..core.graph import describe_where
from ..core.source_location import user_line
from ..core.tensor import Tensor, TensorLike
from ..inspect.drawing.api import argument_names
from ..inspect.drawing.capture import Capture
from ..inspect.drawing.differences import marked_differences
from ..inspect.drawing.errors import diagram_of_error
from ..inspect.drawing.html_writer import code_around, data_of
from ..inspect.drawing.model import Diagram, Group, Item
from ..inspect.drawing.rolling import roll
from ..inspect.drawing.view import opened_to
from ..inspect.observing import FORWARD, Event, Watcher, watch_ops
from ..nn import Module
from .messages import to_json
from .values import ValueSketch

MOST_ITEMS = 2000  # that a captured iteration shows
MOST_SAMPLES = 8  # calls of the model whose arguments are remembered
MOST_CALLS = 2  # of the model that are drawn: a batch of samples calls it once for each
MOST_COMPARED = 1_000_000  # pairs of ops: comparing sequences takes time by their product
MOST_CHANGES = 200  # that are listed
_KEPT_TEXTS, _KEPT_BYTES = 20, 32 << 20  # captures, and bytes of the values in them


class IterationCapture(Watcher, Capture):
    """The ops and gradients of one thread, from `start()` to `stop()`.

    Gradients are told by hooks on the results that were drawn, so that the rest of backward costs nothing more.
    """

    watches_backward = False

    def __init__(self, models: dict[str, Module]) -> None:
        super().__init__(models, values=False)
        self._thread = threading.get_ident()
        self._watching: watch_ops | None = None
        self._root = next(iter(models.values()), None)
        self._argument_names = argument_names(self._root) if self._root is not None else []
        self._has_differentiated = False
        self.n_left_out = 0  # ops
        self.n_calls = 0  # of the model
        self.backward: list[int] = []
        self.values: dict[int, ValueSketch] = {}
        self.gradients: dict[int, ValueSketch] = {}
        self.samples: list[tuple[tuple[Any, ...], dict[str, Any]]] = []  # what the model was called with

    # ---- on and off

    def start(self) -> None:
        self._without_hooks = [module for module in self._modules if module._call_hooks is None]
        for module in self._modules:
            self._handles.append(module.register_forward_pre_hook(self._enter_with, with_kwargs=True))
            self._handles.append(module.register_forward_hook(self._leave_module, always_call=True))
        self._watching = watch_ops(self, here=True)

    def stop(self) -> None:
        """Look no more; once is enough, and more do no harm."""
        if self._watching is not None:
            self._watching.remove()
            self._watching = None
        self._end()

    def _enter_with(self, module: Module, args: Any, kwargs: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        if module is not self._root:
            self._enter_module(module, args)
            return
        self.n_calls += 1
        self.is_idle = self.n_calls > MOST_CALLS
        if len(self.samples) < MOST_SAMPLES:
            self.samples.append((args, kwargs))
        if len(self.diagram.elements) <= MOST_ITEMS and not self.is_idle:
            self.name_inputs((*args, *kwargs.values()), [*self._argument_names[: len(args)], *kwargs])
        # A group of its own for each call: a loop over samples calls the model many times.
        n_parameters = sum(p.numel() for p in module.parameters())
        group = Group("", "module", type(module).__name__, describe_where(user_line()), n_parameters=n_parameters)
        self._within.append(self.diagram.add(group, self._within[-1]))

    def _leave_module(self, module: Module, args: Any, output: Any) -> None:
        if threading.get_ident() == self._thread and len(self._within) > 1:
            super()._leave_module(module, args, output)

    # ---- what a watcher is told

    def ran(self, event: Event) -> None:  # type: ignore[override] # an Observer's is never called: this one watches
        if event.phase != FORWARD or threading.get_ident() != self._thread:
            return
        if self._has_differentiated and event.node is None:
            return  # clipping, metrics, what a loop prints: they are not in the graph that learns
        if len(self.diagram.elements) > MOST_ITEMS:
            self.n_left_out += 1
            return
        result = event.results if len(event.results) != 1 else event.results[0]
        number = self._finish(self._item(event.op.name, event.inputs, event.attrs), result)
        first = event.results[0] if event.results else None
        if isinstance(first, Tensor):
            self.values[number] = _sketch(first)
            if event.node is not None and first.requires_grad:
                first.register_hook(lambda gradient: self._differentiated(number, gradient))

    def wrote(self, target: Tensor, value: Tensor, event: Event) -> None:
        if threading.get_ident() != self._thread or self._has_differentiated or event.phase != FORWARD or self.is_idle:
            return
        if len(self.diagram.elements) > MOST_ITEMS:
            self.n_left_out += 1
            return
        number = self._finish(self._item(str(event.attrs["name"]), (target, value), {}), target)
        self._written[id(target._storage)] = (target._storage, number)
        self.values[number] = _sketch(target)

    def _differentiated(self, number: int, gradient: Any) -> None:
        self._has_differentiated = True
        if number not in self.gradients and self._watching is not None:
            self.backward.append(number)
            self.gradients[number] = _sketch(gradient)

    def failed(self, event: Event, error: Exception) -> None:
        if threading.get_ident() == self._thread and event.phase == FORWARD:
            self.fail(error, event.op.name, event.inputs, event.attrs)

    # ---- what came of it

    def finished(self, has_failed: bool = False) -> Diagram:
        """The diagram, its loops rolled up. An error that the program has handled is no error of the diagram."""
        if not has_failed and self.diagram.error:
            self.diagram.error = ""
            for item in self.diagram.items():
                if item.kind == "error":
                    item.kind, item.notes = "op", ["raised, and the program went on"]
        last = next((item for item in reversed(list(self.diagram.ops()))), None)
        if last is not None and last.kind == "op":
            last.is_output = True
        roll(self.diagram)
        return self.diagram


def _sketch(t: Any) -> ValueSketch:
    flat = t._flat if isinstance(t, TensorLike) else t
    return ValueSketch(flat.detach()._values(), str(flat.dtype).rpartition(".")[2])


class KeptCapture:
    """A captured iteration that a page may still ask about."""

    def __init__(self, number: int, diagram: Diagram, captured: IterationCapture | None = None) -> None:
        self.number = number
        self.diagram = diagram
        self.values = captured.values if captured is not None else {}
        self.gradients = captured.gradients if captured is not None else {}
        self.text = ""

    @property
    def n_bytes(self) -> int:
        return sum(s.n_bytes for sketches in (self.values, self.gradients) for s in sketches.values())

    def node(self, number: int) -> dict[str, Any] | None:
        """All that is known of a node; None if there is no such one."""
        if not 0 < number < len(self.diagram.elements):
            return None
        element = self.diagram.elements[number]
        value, gradient = self.values.get(number), self.gradients.get(number)
        return {
            "type": "node",
            "capture": self.number,
            "node": number,
            "op": element.title,
            "types": element.types if isinstance(element, Item) else [],
            "where": element.where,
            "code": code_around(element.where),
            "value": value.as_json() if value is not None else None,
            "gradient": gradient.as_json() if gradient is not None else None,
            "parameters": [list(p) for p in _parameters(element)],
        }


def _parameters(element: Item | Group) -> Iterable[tuple[str, str, bool]]:
    return [(p.name, p.shape, p.learns) for p in element.parameters] if isinstance(element, Item) else []


class KeptCaptures:
    """The last captures: their pictures, and of the newest ones the values, in bounded memory."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, KeptCapture] = OrderedDict()

    def add(self, capture: KeptCapture) -> None:
        self._kept[capture.number] = capture
        while len(self._kept) > _KEPT_TEXTS:
            self._kept.popitem(last=False)
        n_bytes = 0
        for kept in reversed(list(self._kept.values())):
            n_bytes += kept.n_bytes
            if n_bytes > _KEPT_BYTES and kept is not capture:
                kept.values, kept.gradients = {}, {}

    def text(self, number: int) -> str | None:
        """The message of a capture."""
        kept = self._kept.get(number)
        return kept.text if kept is not None and kept.text else None

    def node(self, number: int, node: int) -> dict[str, Any]:
        kept = self._kept.get(number)
        found = kept.node(node) if kept is not None else None
        return found or {"type": "node", "capture": number, "node": node, "gone": True}

    @property
    def newest(self) -> KeptCapture | None:
        return next((kept for n, kept in reversed(self._kept.items()) if n >= 0), None)

    def numbers(self) -> list[int]:
        return [number for number in self._kept if number >= 0]


def capture_message(
    kept: KeptCapture, about: dict[str, Any], previous: KeptCapture | None, captured: IterationCapture | None = None
) -> dict[str, Any]:
    """What a page gets of a capture, which remembers it as text. `about`: run, step, title, seconds."""
    diagram = kept.diagram
    opened = opened_to(diagram, None)  # before changes are marked: groups with changes would all be opened
    difference = _difference(previous, diagram) if previous is not None else None
    message = {
        "type": "capture",
        "number": kept.number,
        **about,
        "n_ops": sum(1 for _ in diagram.ops()),
        "left_out": captured.n_left_out if captured is not None else 0,
        "calls": _calls(captured) if captured is not None else None,
        "graph": data_of(diagram, opened),
        "order": [item.number for item in diagram.items()],
        "backward": captured.backward if captured is not None else [],
        "diff": difference,
        "error": diagram.error or None,
    }
    kept.text = to_json(message)
    return message


def _calls(captured: IterationCapture) -> dict[str, int]:
    return {"all": captured.n_calls, "shown": min(captured.n_calls, MOST_CALLS)}


def _difference(previous: KeptCapture, diagram: Diagram) -> dict[str, Any]:
    n_pairs = sum(1 for _ in previous.diagram.items()) * sum(1 for _ in diagram.items())
    if n_pairs > MOST_COMPARED:
        return {"previous": previous.number, "text": "too many ops to compare", "changes": [], "status": {}}
    found = marked_differences(previous.diagram, diagram)
    return {
        "previous": previous.number,
        "text": str(found).partition("\n")[0],
        "changes": [change._asdict() for change in found.changes[:MOST_CHANGES]],
        "status": {str(item.number): item.status for item in diagram.items() if item.status},
    }


def error_message(error: BaseException, kept: KeptCapture, capture: dict[str, Any], traceback: str) -> dict[str, Any]:
    """The program raised: where, and the graph up to there."""
    failing = next((item for item in kept.diagram.items() if item.kind == "error"), None)
    where = failing.where if failing is not None else ""
    said = str(error).splitlines() or [""]
    return {
        "type": "error",
        "message": f"{type(error).__name__}: {said[0]}",
        "where": where,
        "code": code_around(where),
        "traceback": traceback,
        "capture": capture,
    }


def diagram_of_failure(error: BaseException, captured: IterationCapture | None) -> Diagram:
    """The graph up to the op that failed: all of it if the iteration was being captured, else what led to it."""
    if captured is not None and captured._failed is error:
        return captured.finished(has_failed=True)
    return diagram_of_error(error)
