"""ex.compile(fn, static=True): the structure is fixed at the first call, and the body does not run again.

    first call   the body runs and is recorded (tracer; effects reports what is no op)
                 -> script: actions on slots, with their plans (script, plan_script), and the same op by op as generated
                    Python (python_codegen)
    later calls  arguments into slots (guard_codegen, guards), one or the other (script_cost), results out of slots

There is a script for each train/eval setting of the modules called and each grad mode. Read anew at each call: the
arguments, every tensor from outside, `.grad`, what optimizers and schedules keep, random draws. Anything else that
Python computed (numbers from outside, attributes of modules, the way that control flow took) is what it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...backends.selection import native
from ...core import locks
from ...core.active_traces import ACTIVE, end_active
from ...core.context import CONTEXT, ExecutionContext
from ...core.debuggers import has_breakpoint, is_debugged
from ...core.tensor import Tensor, TensorLike, tensors_in
from ...core.trace_tree import TraceNode
from ...core.types import Size
from ...errors import GraphError
from ..compiled_function import EAGER, FUNCTIONS, log
from ..executor import TraceExecutor
from ..policy import new_policy
from ..segment import Counters, Segment
from .effects import watching
from .guard_codegen import fits_of
from .guards import Arguments, Slots, is_named_tuple, rebuilt
from .modules import Modules
from .plan_script import ScriptPlanner
from .python_codegen import PythonWriter
from .script import ScriptCall, filler
from .script_cost import script_cost
from .sym_numbers import FOLLOWED, plain
from .trace_actions import Extend
from .tracer import StaticTracer

Run = Callable[[Slots, ExecutionContext], None]

MOST_SCRIPTS = 32  # settings of one function; the oldest is forgotten then
_OP_BY_OP = "op by op, without the body, it takes less time than by plans"
_PLAIN = (str, bytes, bool, int, float, complex, type(None), range, slice, Size)


class Script:
    """All that later calls in one setting do."""

    def __init__(
        self,
        function: StaticFunction,
        arguments: Arguments,
        recorder: StaticTracer,
        result: Any,
        mode: ExecutionContext,
    ) -> None:
        self.grad, self.inference = mode.grad, mode.inference
        self.mode: ExecutionContext | None = None  # that it was last run in
        self.is_op_by_op = False  # plans would take longer
        self._function = function
        self._arguments = arguments
        found: list[int] = []

        def slot_of(x: Any) -> int:
            found.append(recorder.slot_of(x))
            return found[-1]

        _check_result(result, f"{function.name} (static)")
        self._make_result = filler(result, slot_of, anew=True)
        self._result = result if self._make_result is None else None
        self.modules = Modules(recorder.modules.values(), recorder.outside)
        recorder.labels.of_slots = self.modules.labels()
        self.has_modules = bool(recorder.modules)
        self._actions = ScriptPlanner(recorder, function.counters, found).actions
        self._writer = PythonWriter(len(recorder.slots), mode, recorder.labels)
        self._writer.write([*recorder.renewals, *recorder.moves], set(found))
        self._slots = recorder.slots + [None] * (self._writer.n_slots - len(recorder.slots))
        arguments.outside = frozenset(map(id, recorder.outside.values()))
        self._fits = fits_of(arguments)
        self._derive = recorder.numbers.end()
        self._root = TraceNode()
        self._run = self._chosen(self._by_plans, self._writer.only_part() or self._op_by_op)

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any], mode: ExecutionContext) -> Any:
        slots = self._slots.copy()
        if not self._fits(args, kwargs, slots):
            self._arguments.take(args, kwargs, slots)
        if self._derive is not None:
            self._derive(slots)
        if self.has_modules:
            self.modules.bind(slots, self._function.name)
        try:
            self._run(slots, mode)
        except BaseException as error:
            self._writer.tell(error)
            raise
        return self._result if self._make_result is None else self._make_result(slots)

    def _chosen(self, by_plans: Run, op_by_op: Run) -> Run:
        """What calls are to do."""
        has_tape = any(isinstance(action, Extend) for action in self._actions)
        if has_tape and self._function.counters.policy.prefers(*script_cost(self._actions)):
            return by_plans
        self.is_op_by_op = True
        self._function.counters.log(f"{self._function.name}: {_OP_BY_OP}")
        return op_by_op

    def _by_plans(self, slots: Slots, mode: ExecutionContext) -> None:
        recording = TraceExecutor(self._root, self._function.counters, _seen_before)
        call = ScriptCall(slots, recording, mode)
        try:
            try:
                ACTIVE.recordings.append(recording)
                for action in self._actions:
                    action.run(call)
                    for slot in action.drops:
                        slots[slot] = None
            finally:
                _end(recording, mode)
        except BaseException:  # an interrupt may have come before that was done
            _end(recording, mode)
            raise

    def _op_by_op(self, slots: Slots, mode: ExecutionContext) -> None:
        writer = self._writer
        call = ScriptCall(slots, None, mode) if writer.needs_call else None
        try:
            for part in writer.parts:
                part(slots, call)
            if writer.changes_mode:
                CONTEXT.set(mode)
        except BaseException:
            CONTEXT.set(mode)
            raise


def _end(recording: TraceExecutor, mode: ExecutionContext) -> None:
    """Nothing is active any more, if that has not been said yet; `mode`: as it was before."""
    end_active(recording)
    if CONTEXT.get() is not mode:
        CONTEXT.set(mode)


def _seen_before(flush: Segment, n_steps: int, is_range: bool = False, is_loop: bool = False) -> bool:
    flush.seen += 1
    return flush.seen > 1


class StaticFunction:
    """A static function and its scripts."""

    def __init__(self, fn: Callable[..., Any], name: str, log: Callable[[str], None], steps_aside: bool) -> None:
        self.fn = fn
        self.name = name
        self.counters = Counters(name, log, new_policy())
        self._policy = self.counters.policy
        self._steps_aside = steps_aside
        self._has_breakpoint = has_breakpoint(fn)
        self._scripts: list[Script] = []
        self._last: Script | None = None  # that was run
        self._lock = locks.renewed()  # a script is there when it is whole

    def run(self, *args: Any, **kwargs: Any) -> Any:
        mode = CONTEXT.get()
        last = self._last
        if is_debugged() or self._has_breakpoint:
            return self.fn(*args, **kwargs)
        is_known = last is not None and last.mode is mode and mode.interceptor is None
        if last is not None and is_known and (not last.has_modules or last.modules.are_set()):
            self._policy.calls += 1
            return last.run(args, kwargs, mode)
        if mode.recording is not None or mode.interceptor is not None or mode.stepped_aside or self._steps_aside:
            return self.fn(*args, **kwargs)
        script = self._script(mode)
        if script is None:
            if native() is None:
                return self.fn(*args, **kwargs)
            with self._lock:
                script = self._script(mode)  # another thread may have recorded it meanwhile
                if script is None:
                    return self._record(args, kwargs, mode)
        script.mode, self._last = mode, script
        self._policy.calls += 1
        return script.run(args, kwargs, mode)

    def _script(self, mode: ExecutionContext) -> Script | None:
        for script in self._scripts:
            if script.grad is mode.grad and script.inference is mode.inference and script.modules.are_set():
                return script
        return None

    def _record(self, args: tuple[Any, ...], kwargs: dict[str, Any], mode: ExecutionContext) -> Any:
        """The first call in a setting."""
        self._policy.calls += 1
        recorder = StaticTracer(self.name, self.counters)
        for x in _bound_to(self.fn):
            recorder.modules[id(x)] = x
        arguments = Arguments(self.fn, self.name)
        given, named = recorder.begin(arguments, args, kwargs)
        recording = recorder.recording
        try:
            try:
                ACTIVE.recordings.append(recording)
                CONTEXT.set(ExecutionContext(mode.grad, mode.inference, recorder, False))
                with watching:
                    result = self.fn(*given, **named)
                self._check_mode(mode)
                recorder.end()
                CONTEXT.set(mode)
                script = Script(self, arguments, recorder, result, mode)
            finally:
                _end(recording, mode)
                recording.leave()
        except BaseException:  # an interrupt may have come before that was done
            _end(recording, mode)
            raise
        del given, named
        self._check_kept(recorder, result)
        self._scripts = [*self._scripts[1 - MOST_SCRIPTS :], script]
        return _as_returned(result)

    def _check_mode(self, mode: ExecutionContext) -> None:
        now = CONTEXT.get()
        if now.grad is not mode.grad or now.inference is not mode.inference:
            raise GraphError(
                f"{self.name} (static): the body leaves another grad mode than it found, which later calls would not "
                "do; write `with ex.set_grad_enabled(...):`"
            )

    def _check_kept(self, recorder: StaticTracer, result: Any) -> None:
        line = recorder.keeps(list(tensors_in(result)))
        if line is not None:
            raise GraphError(
                f"{self.name} (static): a tensor made at {line} is kept after the call (in an attribute, a list, a "
                "variable outside), where later calls would not put theirs; return it, or write it into a buffer with "
                "copy_()"
            )

    def forget(self) -> None:
        """Record anew at the next call."""
        self._scripts, self._last = [], None

    def stats(self) -> dict[str, Any]:
        aside = self._last is not None and self._last.is_op_by_op
        return {
            "name": self.name,
            "calls": self._policy.calls,
            "static": True,
            "eager_calls": 0,
            "waiting_calls": 0,
            "aside": aside,
            "why": _OP_BY_OP if aside else None,
            "steps_known": self.counters.new_steps,
            "steps_evicted": 0,
            **self.counters.stats(),
        }


def _bound_to(fn: Any) -> list[Any]:
    """The modules that a callable carries along: of a method, of a partial, itself."""
    from ...nn.module import Module

    parts = [fn, getattr(fn, "__self__", None), *getattr(fn, "args", ())]
    return [x for x in parts if isinstance(x, Module)]


def _check_result(value: Any, name: str) -> None:
    """Raise where a result is something that cannot be made again."""
    if isinstance(value, (Tensor, TensorLike, *_PLAIN)) or type(value) in FOLLOWED:
        return
    if type(value) in (list, tuple) or is_named_tuple(value):
        for x in value:
            _check_result(x, name)
    elif type(value) is dict:
        for x in value.values():
            _check_result(x, name)
    else:
        raise GraphError(
            f"{name}: the result holds a {type(value).__name__}, which later calls could not make anew; return "
            "tensors, numbers, strings, None, and lists, tuples and dicts of them"
        )


def _as_returned(value: Any) -> Any:
    """The result of the recorded call, with followed numbers as they are."""
    if type(value) in FOLLOWED:
        return plain(value)
    if type(value) in (list, tuple) or is_named_tuple(value):
        items = [_as_returned(x) for x in value]
        return value if all(x is y for x, y in zip(items, value, strict=True)) else rebuilt(type(value), items)
    if type(value) is dict:
        made = {k: _as_returned(x) for k, x in value.items()}
        return value if all(made[k] is x for k, x in value.items()) else made
    return value


def make(fn: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A static function of `fn`."""
    made = StaticFunction(fn, name, log, EAGER)
    FUNCTIONS.add(made)  # type: ignore[arg-type] # it counts and forgets like a Compiled
    run = made.run

    def compiled(*args: Any, **kwargs: Any) -> Any:
        return run(*args, **kwargs)

    return compiled
