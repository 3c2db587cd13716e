"""Where a nan is made: the checks of every op's result, and of what leaves plans and batches, that a guard puts there.

Native code looks at results in one pass (`backends.llvm.calls.nan_checks`) and calls `found_nan` where there is a nan;
in Python `run_eager` is looked at. Only an op that made one of inputs without any is stopped: a nan that came in with
data goes on to the loss. What a plan or a batch ran is run again op by op from its inputs, to name the op.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any

import numpy as np

from ..autograd import native_engine
from ..backends.selection import native
from ..compat.settings import get_num_threads
from ..core.context import switch
from ..core.graph import Leaf, Node, Pick, describe_where
from ..core.op import REGISTRY, Op
from ..core.source_location import user_line
from ..core.tensor import Tensor, from_array, wrap
from ..core.trace_tree import NONE, NUMBER
from ..dispatch import dispatcher
from ..dispatch.dispatcher import apply, quietly
from ..errors import NonFiniteError
from ..nn import Module
from ..tracing import executor
from ..tracing.api import eager
from . import blaming
from .nonfinite import counted_text, range_text
from .owners import models_of, running_path

_MOST_BEFORE = 5  # ops of the way to one that made a nan
Look = Callable[[type[Op], Sequence[Any], Sequence[Tensor], Any], None]


class _Pausing(threading.local):
    is_on = False


_pausing = _Pausing()


class paused:
    """Within the block, in this thread, nothing is looked at: ops run to find out what others did, or for backward."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before, _pausing.is_on = _pausing.is_on, True

    def __exit__(self, *raised: object) -> None:
        _pausing.is_on = self._before


# ---- one op


def found_nan(op: type[Op], inputs: tuple[Any, ...], result: Any) -> None:
    """An op has made a nan, or what native code cannot look at: raise if it made it of inputs without any."""
    if not _pausing.is_on:
        stop_if_made(op, inputs, (result,), running_path)


def stop_if_made(
    op: type[Op], inputs: Sequence[Any], results: Sequence[Any], module: Callable[[], str], where: Any = None
) -> None:
    """Raise if the op made a nan of tensors without any."""
    arrays = [a for t in results if (a := _floats(t)) is not None]
    if native_engine.all_finite(arrays):  # in a quarter of the time that NumPy takes
        return
    if not any(np.isnan(a).any() for a in arrays) or not is_made(inputs):
        return
    node = next((t._history for t in results if isinstance(t, Tensor) and type(t._history) is Node), None)
    if node is not None and any(_is_nan(value) for value in node.attrs.values()):
        return
    with paused():
        tensors = [a for x in inputs if (a := _floats(x)) is not None]
        blame = blaming.Blame(
            op.public_name,
            counted_text(*arrays),
            ", ".join(map(range_text, tensors)) or "that are no floats",
            describe_where(where or user_line()),
            module(),
            [*_way_to(inputs), op.public_name],
            in_backward=False,
            leads_there=True,
        )
    raise NonFiniteError(f"guard: {blame}")


def is_made(inputs: Sequence[Any]) -> bool:
    """Whether a nan that comes of these inputs was not among them; where there is no tensor nothing was computed."""
    if not any(isinstance(x, Tensor) for x in inputs):
        return False
    arrays = [a for x in inputs if (a := _floats(x)) is not None]
    return not any(np.isnan(a).any() for a in arrays) and not any(map(_is_nan, inputs))


def _is_nan(x: Any) -> bool:
    return isinstance(x, float) and x != x


def _floats(x: Any) -> Any:
    """The values of a tensor of floats that has some; None of everything else."""
    array = x._data if isinstance(x, Tensor) and x.dtype.is_floating_point else None
    return array if isinstance(array, np.ndarray) else None


def _way_to(inputs: Sequence[Any]) -> list[str]:
    """The ops that led to these inputs, the nearest last, as far as they were recorded."""
    nodes = [x._history for x in inputs if isinstance(x, Tensor) and type(x._history) is Node]
    way: list[str] = []
    while nodes and len(way) < _MOST_BEFORE:
        node = max(nodes, key=lambda n: n.number)  # the one that ran last
        if node.op is Leaf:
            break
        if node.op is not Pick:
            way.append(blaming.short(node))
        nodes = [i for i in node.inputs if isinstance(i, Node)]
    return way[::-1]


# ---- a trace


class Recorded:
    """A trace that has run: it still has all that it takes to run it again, op by op."""

    def __init__(self, trace: Any) -> None:
        self.nodes, self._leaves, self._arrays = trace.nodes, trace.leaves, trace.arrays
        self._makers, self._numbers = list(trace.makers), trace.numbers

    def run(self, look: Look | None = None) -> tuple[dict[int, Tensor], blaming.Values]:
        """All results again, by value id, with nodes that know their lines; and the values of all nodes.

        `look(op, inputs, results, where)` is called for each op.
        """
        given = [self._leaf(k) for k in range(len(self._arrays))]
        results: dict[int, Tensor] = {}
        with paused(), eager(), switch(interceptor=None, recording=None, grad=True):
            for place, step in enumerate(self._makers):
                if step.place == place:
                    self._run_step(step, given, results, look)
        values: blaming.Values = {}
        for t in (*given, *results.values()):
            if t._history is not None:
                values[t._history] = t._values()
        return results, values

    def parameters(self) -> list[Tensor]:
        """The tensors among its leaves that require a gradient."""
        return [t for t in self._leaves if isinstance(t, Tensor) and t.requires_grad]

    def _leaf(self, k: int) -> Tensor:
        node, tensor = self.nodes[k], self._leaves[k]
        if type(node) is Node and isinstance(tensor, Tensor) and tensor._history is node:
            return tensor
        made = from_array(self._arrays[k])
        return made.requires_grad_() if type(node) is Node else made

    def _run_step(self, step: Any, given: list[Tensor], results: dict[int, Tensor], look: Look | None) -> None:
        baked = iter(step.baked or ())
        inputs: list[Any] = []
        for ref, kind in zip(step.refs, step.kinds, strict=True):
            if ref >= NUMBER:
                inputs.append(self._numbers[ref - NUMBER])
            elif ref >= 0:
                inputs.append(results[ref])
            elif ref > NONE:
                inputs.append(given[-1 - ref])
            else:
                inputs.append(None if kind is NoneType else next(baked))
        with switch(grad=bool(step.grad)):
            out = inputs[0].detach() if step.op.name == "detach" else quietly(apply, step.op, tuple(inputs), step.attrs)
        made = out if isinstance(out, tuple) else (out,)
        for i, t in enumerate(made):
            results[step.place + i] = t
            blaming.note_line(t, step.op, step.where)
        if look is not None:
            look(step.op, inputs, made, step.where)


def look_through(trace: Any, model: Module | None) -> None:
    """A plan has given out a nan: run what it ran op by op, and raise where an op makes one."""
    recorded = Recorded(trace)

    def look(op: type[Op], inputs: Sequence[Any], results: Sequence[Tensor], where: Any) -> None:
        def module() -> str:
            models = [model] if model is not None else models_of(recorded.parameters())
            found = blaming.modules_at(where, models)
            return found[0] if len(found) == 1 else ""

        stop_if_made(op, inputs, results, module, where)

    recorded.run(look)


# ---- a batch


def look_through_batch(run: Any) -> None:
    """A batch has given out a nan: find the first call that makes one, run it op by op, and raise there."""
    for calls, members, _ in run.notes.batches:
        refs = calls.inputs()
        for call in members.tolist():
            kind = calls.kinds[call] if calls.kinds else calls.kind
            first = calls.firsts[call]
            made = [_row(run, first + i, type_) for i, type_ in enumerate(kind.results)]
            if not any(a is not None and np.isnan(a).any() for a in made):
                continue
            inputs = [_input(run, int(ref), i.type) for ref, i in zip(refs[call], kind.inputs, strict=False)]
            if not is_made([*inputs, *kind.captured]):
                continue
            try:
                with eager(), switch(interceptor=None, recording=None):
                    kind.fn(*inputs)
                results = [wrap(a, t) for a, t in zip(made, kind.results, strict=True) if a is not None]
                _stop_at_call(kind.name, inputs, results, calls.wheres[call])
            except NonFiniteError as error:
                calls.blame(error, call)
                raise


def _stop_at_call(name: str, inputs: Sequence[Any], results: Sequence[Tensor], where: Any) -> None:
    """What is known if none of a call's ops makes a nan when they run one by one."""
    ranges = ", ".join(range_text(a) for x in inputs if (a := _floats(x)) is not None)
    made = counted_text(*(a for t in results if (a := _floats(t)) is not None))
    raise NonFiniteError(f"guard: {name} ({describe_where(where)}) gave {made} from inputs {ranges}")


def _row(run: Any, value: int, type_: Any) -> Any:
    if not type_.dtype.is_floating_point or not run.values.has([value])[0]:
        return None
    return run.values.gather([value], type_.shape, type_.dtype.numpy)[0]


def _input(run: Any, ref: int, type_: Any) -> Any:
    return run.number(ref) if ref < 0 else wrap(run.values.gather([ref], type_.shape, type_.dtype.numpy)[0], type_)


# ---- in place


class NanChecks:
    """What is exchanged while a guard is on."""

    def __init__(self, model: Callable[[], Module | None]) -> None:
        """`model`: whose modules are named, if it is known."""
        self._model = model
        self._counts: Any = None  # of arrays that have left plans and are not finite
        self._before: list[tuple[Any, str, Any]] = []

    def install(self) -> None:
        if native() is not None:
            self._check_natively()
        run_eager, replay = dispatcher.run_eager, vars(executor)["replay"]
        flush, flush_known = executor.TraceExecutor._flush, executor._flush_known

        def checked_run(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], mode: Any) -> Any:
            out = run_eager(op, inputs, attrs, mode)
            if not _pausing.is_on and not op.aliases_input:
                stop_if_made(op, inputs, out if isinstance(out, tuple) else (out,), running_path)
            return out

        def checked_replay(found: Any, trace: Any, state: Any, fail: Any) -> list[Any]:
            arrays: list[Any] = replay(found, trace, state, fail)
            floats = [a for a in arrays if isinstance(a, np.ndarray) and a.dtype.kind not in "biu"]
            if any(np.isnan(a).any() for a in floats) and not _pausing.is_on:
                look_through(trace, self._model())
            return arrays

        def checked_flush(self_: Any) -> None:
            trace = self_.trace
            flush(self_)
            self.look_at_plans(trace)

        def checked_flush_known(run: Any) -> Any:
            trace = run.trace
            done = flush_known(run)
            self.look_at_plans(trace)
            return done

        self._put(dispatcher, "run_eager", checked_run)
        self._put(executor, "run_eager", checked_run)
        self._put(executor, "replay", checked_replay)
        self._put(executor.TraceExecutor, "_flush", checked_flush)
        self._put(executor, "_flush_known", checked_flush_known)
        self._check_batches()

    def _check_natively(self) -> None:
        from ..backends.llvm.calls import callables
        from ..backends.llvm.calls.nan_checks import BY_FLAG
        from ..backends.llvm.plans import runtime
        from ..dispatch.fast_path import launcher

        run, self._counts = runtime.checked_run()
        self._counts.begin()
        by_flag = frozenset(REGISTRY[name] for name in BY_FLAG if name in REGISTRY)
        calls = launcher().checked(found_nan, by_flag, get_num_threads() == 1)
        callables.use_variants({**calls, runtime.runtime()["extempo_plan_run"]: run})

    def _check_batches(self) -> None:
        from ..batching.run import BatchExecutor

        fill = BatchExecutor._fill

        def checked_fill(run: Any, tensors: Sequence[Tensor]) -> None:
            fill(run, tensors)
            rows = tensors[0]._data.base if len(tensors) > 1 else tensors[0]._data
            if rows.dtype.kind not in "biu" and np.isnan(np.add.reduce(rows, None)) and not _pausing.is_on:
                look_through_batch(run)

        self._put(BatchExecutor, "_fill", checked_fill)

    def _put(self, owner: Any, name: str, function: Any) -> None:
        self._before.append((owner, name, vars(owner)[name]))  # as it stands: a class binds what is looked up
        setattr(owner, name, function)

    def look_at_plans(self, trace: Any) -> None:
        """A plan of a trace has run."""
        if self._counts is not None and self._counts.n_with_nan and not _pausing.is_on:
            self._counts.begin()
            look_through(trace, self._model())

    def begin_plan(self) -> None:
        """A plan is about to run."""
        if self._counts is not None:
            self._counts.begin()

    def is_plan_fine(self) -> bool:
        """Whether one plan has run since, and all that left it is known to be finite."""
        return self._counts is not None and self._counts.is_one_and_fine()

    def remove(self) -> None:
        while self._before:
            owner, name, before = self._before.pop()
            setattr(owner, name, before)
        if self._counts is not None:
            from ..backends.llvm.calls import callables

            callables.use_variants({})
