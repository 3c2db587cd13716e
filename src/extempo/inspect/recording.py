"""`ex.record`: one iteration in a file: its ops as a program, with inputs, parameters, random state and all values.

Every op that runs inside the block becomes a node, those of backward's formulas too, so that forward and backward are
one graph whose leaves are given: parameters and buffers by their names, everything else as inputs. Values are those of
the moment, and copies: what is written in place later stays as it was. A value that was written in place by something
that is no op (an optimizer, a sum into `.grad`) is a leaf from then on. Steps of optimizers are kept beside the graph,
with state, gradients and what they made of the parameters.

The file is one of `ex.save`, the program in it has the text of `program.save`: nothing of it is executed when it is
read. `extempo replay` (`replaying`) runs it again.
"""

from __future__ import annotations

import math
import os
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from .. import optim
from ..core.graph import Constant, Graph, Leaf, Node, Pick
from ..core.interrupts import guarded
from ..core.op import REGISTRY
from ..core.storage import Array
from ..core.tensor import Tensor, from_array
from ..core.types import TensorType
from ..errors import ArgumentError, ExportError
from ..exporting.calls import ProgramInput
from ..exporting.program import Program
from ..exporting.text import program_text, value_text
from ..nn import Module
from ..nn.parameter import Parameter
from ..optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from ..random import get_rng_state
from ..serialization.saving import save
from .observing import FORWARD, Event, Watcher, running_modules, watch_ops
from .replaying import FORMAT, VERSION, environment


class _Step(NamedTuple):
    """An op of the recording."""

    node: Node
    phase: str
    module: str
    line: str


class _Given(NamedTuple):
    """A leaf."""

    node: Node
    name: str
    value: Array
    is_weight: bool
    is_trainable: bool


class record:
    """Within the block, record one iteration; at its end write it to a file that `extempo replay` runs again.

    f: a path or a binary file. most_bytes: values that take more are an error, with the file as far as it goes.
    Forward, backward and steps of optimizers inside the block are in it; the file is written also if the block raises.
    Functions of `ex.compile` and `ex.batch` run op by op inside.

    >>> import io
    >>> model, file = nn.Linear(2, 1), io.BytesIO()
    >>> with ex.record(file):
    ...     model(ex.ones(3, 2)).sum().backward()
    >>> position = file.seek(0)
    >>> replay = ex.inspect.replay(file)
    >>> [node.op for node in replay.nodes][:2], replay.first_difference
    (['linear', 'sum'], None)
    """

    def __init__(self, f: Any = "recording.extempo", most_bytes: float = math.inf) -> None:
        self._file = f
        self._most_bytes = most_bytes
        self._recorder: _Recorder | None = None
        self._ends: list[Any] = []  # what has a `remove`

    def __enter__(self) -> Self:
        try:
            self._recorder = recorder = _Recorder(self._most_bytes)
            self._ends.append(register_optimizer_step_pre_hook(recorder.before_update))
            self._ends.append(register_optimizer_step_post_hook(recorder.after_update))
            self._ends.append(watch_ops(recorder))
            return self
        except BaseException:  # the block is never entered, and so never left
            self._end()
            raise

    @guarded
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._end()
        except BaseException:
            self._end()
            raise
        if self._recorder is not None and (error is None or isinstance(error, Exception)):
            save(self._recorder.content("" if error is None else f"{type(error).__name__}: {error}"), self._file)
        self._recorder = None

    def _end(self) -> None:
        for registered in self._ends:
            registered.remove()


class _Recorder(Watcher):
    """The nodes and values so far."""

    def __init__(self, most_bytes: float) -> None:
        self._steps: list[_Step] = []
        self._given: list[_Given] = []
        self._values: dict[Node, Array] = {}
        self._known: dict[Any, Node] = {}  # by the memory that a value lies in
        self._held: list[Any] = []  # that memory, so that nothing else comes to lie there
        self._gradients: dict[Node, Node] = {}  # of parameters: by the leaf of the user's graph
        self._leaves: dict[Node, str] = {}  # names of those leaves
        self._names: set[str] = set()
        self._updates: list[dict[str, Any]] = []
        self._random = get_rng_state()
        self._bytes_left = most_bytes

    # ---- as a watcher

    def ran(self, event: Event) -> None:
        results = [r for r in event.results if isinstance(r, Tensor)]
        if len(results) != len(event.results):
            return
        line = event.node.line if event.phase != FORWARD and event.node is not None else event.line
        types: Any = tuple(r._type for r in results) if len(results) > 1 else results[0]._type
        inputs = tuple([self._node_of(x) if isinstance(x, Tensor | np.ndarray) else x for x in event.inputs])
        if not _has_text(event, inputs):
            for r in results:
                self._give(r, f"{event.op.name}_{len(self._given)}", False, False)
            return
        where = event.node.where if event.phase != FORWARD and event.node is not None else event.where
        node = Constant(event.op, inputs, event.attrs, types, (), where)
        self._add(node, event, line)
        if len(results) == 1:
            self._put(node, results[0])
            return
        for i, r in enumerate(results):
            pick = Constant(Pick, (node,), {"index": i}, r._type, (), where)
            self._add(pick, event, line)
            self._put(pick, r)

    def wrote(self, target: Tensor, value: Tensor, event: Event) -> None:
        if target._type == value._type and _key(value) in self._known:
            self._known[_key(target)] = self._known[_key(value)]
            self._held.append(_memory(target))

    def accumulated(self, leaf: Node, gradient: Tensor) -> None:
        self._gradients[leaf] = self._node_of(gradient)

    # ---- nodes and values

    def _add(self, node: Node, event: Event, line: str) -> None:
        self._steps.append(_Step(node, event.phase, event.module, line))

    def _put(self, node: Node, t: Tensor) -> None:
        array = t._values()
        self._bytes_left -= array.nbytes
        if self._bytes_left < 0:
            raise ArgumentError("record: this iteration's values take more than most_bytes; record a smaller batch")
        self._known[_key(t)] = node
        self._held.append(_memory(t))
        self._values[node] = np.array(array, order="K")

    def _node_of(self, x: Any) -> Node:
        t = from_array(x) if isinstance(x, np.ndarray) else x
        t._values()
        found = self._known.get(_key(t))
        return self._give(t, *_name_of(t, len(self._given))) if found is None else found

    def _give(self, t: Tensor, name: str, is_weight: bool, is_trainable: bool) -> Node:
        while name in self._names:
            name += "_again"  # a parameter that was written, or one of another model
        self._names.add(name)
        node = Constant(Leaf, (), {}, TensorType(tuple(t.shape), t.dtype), (), None)
        self._known[_key(t)] = node
        self._held.append(_memory(t))
        self._given.append(_Given(node, name, np.array(t._values(), order="K"), is_weight, is_trainable))
        own = t._node
        if own is not None and own.op is Leaf:
            self._leaves[own] = name
        return node

    # ---- optimizers

    def before_update(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self._updates.append(
            {
                "optimizer": type(optimizer).__name__,
                "is_known": getattr(optim, type(optimizer).__name__, None) is type(optimizer),
                "state": _copied(optimizer.state_dict()),
                "before": _copied(parameters),
                "gradients": _copied([p.grad for p in parameters]),
            }
        )

    def after_update(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self._updates[-1]["after"] = _copied(parameters)

    # ---- the file

    def content(self, error: str) -> dict[str, Any]:
        """What the file holds. error: what ended the block."""
        inputs, weights = ([g for g in self._given if g.is_weight is kind] for kind in (False, True))
        nodes = [g.node for g in (*inputs, *weights)] + [step.node for step in self._steps]
        read = {i for step in self._steps for i in step.node.inputs if isinstance(i, Node)}
        gradients = {f"grad.{self._leaves[leaf]}": n for leaf, n in self._gradients.items() if leaf in self._leaves}
        ends = [s.node for s in self._steps if s.node not in read and type(s.node.type) is not tuple]
        outputs = {f"output_{i}": node for i, node in enumerate(ends) if node not in gradients.values()} | gradients
        program = Program(
            Graph(nodes, outputs.values()),
            {g.name: ["tensor", i] for i, g in enumerate(inputs)},
            [ProgramInput(g.name, g.node.type) for g in inputs],
            {g.name: from_array(g.value) for g in weights},
            ["tuple", [["tensor", i] for i in range(len(outputs))]],
            list(outputs),
            trainable=[g.name for g in weights if g.is_trainable],
        )
        numbers = {node: str(i) for i, node in enumerate(nodes)}
        return {
            "format": FORMAT,
            "version": VERSION,
            "program": program_text(program),
            "weights": program.weights,
            "inputs": {g.name: from_array(g.value) for g in inputs},
            "values": {numbers[node]: from_array(value) for node, value in self._values.items()},
            "orders": {numbers[g.node]: order for g in self._given if (order := _order(g.value)) is not None},
            "notes": [[s.phase, s.module, os.path.basename(s.line)] for s in self._steps],
            "updates": self._updates,
            "random": self._random,
            "environment": environment(),
            "error": error,
        }


def _has_text(event: Event, inputs: tuple[Any, ...]) -> bool:
    """Whether a file can hold the op: a registered one, whose other arguments are plain values."""
    if REGISTRY.get(event.op.name) is not event.op:
        return False
    try:
        value_text([x for x in inputs if not isinstance(x, Node)])
        value_text(event.attrs)
    except ExportError:
        return False
    return True


def _memory(t: Tensor) -> Any:
    return t._storage, t._values()


def _key(t: Tensor) -> Any:
    """The place of a value in memory, and how often that was written: tensors come and go around it."""
    array, storage = t._values(), t._storage
    return id(storage), storage.version, array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def _name_of(t: Tensor, number: int) -> tuple[str, bool, bool]:
    """(name, whether it belongs to a module, whether it is trained)."""
    modules = running_modules()
    for module in modules[::-1]:  # from the outermost: it has the whole path
        name = _name_in(module, t)
        if name:
            return name, True, isinstance(t, Parameter)
    return (f"parameter_{number}", True, True) if isinstance(t, Parameter) else (f"input_{number}", False, False)


def _name_in(module: Module, t: Tensor) -> str:
    for name, own in (*module.named_parameters(), *module.named_buffers()):
        if own is t:
            return name
    return ""


def _order(array: Array) -> list[int] | None:
    """The order of dimensions in memory, None if it is row-major."""
    if array.flags.c_contiguous:
        return None
    return [int(i) for i in np.argsort([-s for s in array.strides], kind="stable")]


def _copied(tree: Any) -> Any:
    """A state without anything that steps write into; by no op, which would be recorded."""
    if isinstance(tree, Tensor):
        return from_array(np.array(tree._values()))
    if isinstance(tree, dict):
        return {key: _copied(value) for key, value in tree.items()}
    return type(tree)(map(_copied, tree)) if type(tree) in (list, tuple) else tree
