"""Checkpoints: keep the inputs of a function instead of what its gradient needs, and run it again in backward.

The first run is recorded as always, but its nodes keep no values. When backward reaches one of them, the function is
run again on the same inputs, with the random numbers of the first run, and every node gets back what its op would have
saved. The graph itself stays as it was: higher derivatives, several backwards, hooks and parameters in closures work
as without a checkpoint. Checkpoints inside a checkpointed function take effect when that function is run again.

The second run must repeat the first: the same ops on the same types in the same order. The first difference is a
CheckpointError that names both lines.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ..core.context import CONTEXT, ExecutionContext, Swap, end_trace
from ..core.graph import Node, Where, describe_where, type_text
from ..core.interrupts import block, certainly
from ..core.op import Op
from ..core.source_location import user_line
from ..core.tensor import Tensor, tensors_in
from ..core.weak import WeakTable
from ..errors import AutogradError, CheckpointError, OverwrittenError
from ..random import get_rng_state, set_rng_state
from .observers import Observer, Refill, drop_refill, leave_refill, refill_of, take_away

Step = tuple[type[Op], tuple[Any, ...], Where | None]


class Frame:
    """One call of a checkpointed function: how to run it again, and which nodes wait for their values."""

    def __init__(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], options: CheckpointOptions
    ) -> None:
        self.fn = fn
        self.args = args
        self.kwargs = kwargs
        self.options = options
        self.mode = CONTEXT.get()
        self.random_state = get_rng_state() if options.preserve_rng_state else None
        self.versions = [(t, t._storage.version) for t in tensors_in((args, kwargs)) if t._storage is not None]
        self.steps: list[Step] = []
        self.waiting: WeakTable[Node, int] = WeakTable()  # node -> its step

    def first_run(self) -> Any:
        with _within(self.mode, _Stripping(self)), self.options.contexts()[0]:
            return self.fn(*self.args, **self.kwargs)

    def refill(self, node: Node) -> None:
        """Run the function again and give every waiting node its values."""
        for t, version in self.versions:
            if t._storage.version != version:
                raise OverwrittenError(
                    "checkpoint: an input of the checkpointed function was overwritten in place at "
                    f"{describe_where(t._storage.written_at)} before backward ran the function again; write into "
                    "x.clone()"
                )
        again = _Repeating(self)
        mode = ExecutionContext(True, self.mode.inference, self.mode.interceptor, CONTEXT.get().quiet)
        with _replayed(self.random_state), _within(mode, again), self.options.contexts()[1]:
            self.fn(*self.args, **self.kwargs)
        again.finish()
        for waiting, step in self.waiting.items():
            _hand_over(again.nodes[step], waiting, step)
        self.waiting.clear()
        again.retire()


class CheckpointOptions:
    """The settings of a call of `checkpoint`."""

    def __init__(self, preserve_rng_state: bool, context_fn: Any, check: bool, debug: bool) -> None:
        self.preserve_rng_state = preserve_rng_state
        self.contexts: Callable[[], tuple[Any, Any]] = context_fn or _no_contexts
        self.check = check
        self.debug = debug


def _no_contexts() -> tuple[Any, Any]:
    return contextlib.nullcontext(), contextlib.nullcontext()


def _hand_over(again: Node | None, node: Node, step: int) -> None:
    """Give a node the values of its double in the second run, or its place in a checkpoint nested there."""
    if again is None:
        raise CheckpointError(
            f"checkpoint: {node.op.name} (op {step} of the function, recorded at {node.line}) was recorded for "
            "backward in the first run but not in the second; a tensor must require grad, and grad mode be on, in "
            "both or in neither"
        )
    drop_refill(node)
    node.saved = again.saved
    nested = refill_of(again)
    if nested is not None:
        inner: Frame = nested.keeper
        inner.waiting[node] = inner.waiting.pop(again)
        leave_refill(node, Refill(inner, node))


def _within(mode: ExecutionContext, observer: Observer) -> Swap:
    """Run a block with an observer on top of a mode."""
    observer.outer = mode
    end_trace(mode)
    return Swap(ExecutionContext(mode.grad, mode.inference, observer, mode.quiet))


class _Stripping(Observer):
    """The first run: note every op, and take away what its node saved."""

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self.frame = frame

    def ran(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], node: Node | None) -> None:
        frame = self.frame
        if node is not None and node.saved:
            frame.waiting[node] = len(frame.steps)
            take_away(node, frame)
        frame.steps.append((op, _types(inputs), user_line()))


class _Repeating(Observer):
    """The second run: compare every op with the first, and keep its node."""

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self.frame = frame
        self.nodes: list[Node | None] = []
        self.seen: list[Step] = []
        self.retired = False

    def ran(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], node: Node | None) -> None:
        if self.retired:
            return
        step = (op, _types(inputs), user_line())
        place = len(self.nodes)
        first = self.frame.steps[place] if place < len(self.frame.steps) else None
        self.nodes.append(node)
        if self.frame.options.debug:
            self.seen.append(step)
        if first is None or not self.frame.options.check or first[:2] == step[:2]:
            return
        raise CheckpointError(
            f"checkpoint: the second run of the function took another path. Its op {place} was {_say(first)} in the "
            f"first run and is {_say(step)} in the second; the function must do the same both times. Values that it "
            f"reads from outside (globals, counters, module state) must not have changed{self._trace()}"
        )

    def finish(self) -> None:
        """Raise if the second run ended early."""
        expected = len(self.frame.steps)
        if len(self.nodes) < expected:
            raise CheckpointError(
                f"checkpoint: the second run of the function took another path. It ended after {len(self.nodes)} "
                f"ops, the first run went on with {_say(self.frame.steps[len(self.nodes)])} and had {expected}; the "
                f"function must do the same both times{self._trace()}"
            )

    def retire(self) -> None:
        """Let go of everything: nested checkpoints still run their functions in a mode that this is part of."""
        self.retired = True
        self.nodes = []

    def _trace(self) -> str:
        if not self.frame.options.debug:
            return ""
        lines = [f"\n  first  {i}: {_say(s)}" for i, s in enumerate(self.frame.steps)]
        return "".join(lines + [f"\n  second {i}: {_say(s)}" for i, s in enumerate(self.seen)])


def _types(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(x._type if isinstance(x, Tensor) else x.type if isinstance(x, Node) else type(x) for x in inputs)


def _say(step: Step) -> str:
    op, types, where = step
    return f"{op.name}({', '.join(map(type_text, types))}) at {describe_where(where)}"


@block
def _replayed(state: Any) -> Iterator[None]:
    """Draw the random numbers that follow `state`, and go on with those of now afterwards."""
    if state is None:
        yield
        return
    now = get_rng_state()
    try:
        set_rng_state(state)
        yield
    finally:
        certainly(set_rng_state, now)


def _inside_first_run(mode: ExecutionContext) -> bool:
    """Whether an enclosing checkpoint takes everything away already."""
    interceptor: Any = mode.interceptor
    while interceptor is not None:
        if isinstance(interceptor, _Stripping):
            return True
        interceptor = getattr(getattr(interceptor, "outer", None), "interceptor", None)
    return False


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    preserve_rng_state: bool = True,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """function(*args, **kwargs), keeping only the arguments for backward, which runs the function again.

    preserve_rng_state: the second run draws the random numbers of the first. determinism_check: "none" lets the second
    run do other ops of the same number. debug: errors list every op of both runs. context_fn: gives a pair of context
    managers for the two runs. use_reentrant and early_stop are accepted: there is one way, and it runs to the end.

    >>> x = ex.tensor(3.0, requires_grad=True)
    >>> ex.utils.checkpoint.checkpoint(lambda x: x.sin().cos(), x, use_reentrant=False).backward()
    >>> x.grad
    tensor(0.1392)
    """
    if determinism_check not in ("default", "none"):
        raise AutogradError(f"checkpoint: determinism_check must be 'default' or 'none', got {determinism_check!r}")
    mode = CONTEXT.get()
    if not mode.grad or _inside_first_run(mode):
        return function(*args, **kwargs)
    if use_reentrant and not any(t.requires_grad for t in tensors_in(args)):
        warnings.warn(
            "checkpoint: none of the inputs requires grad; with use_reentrant=True PyTorch would give no gradients "
            "here. Extempo does, also for parameters in closures",
            stacklevel=2,
        )
    options = CheckpointOptions(preserve_rng_state, context_fn, determinism_check == "default", debug)
    return Frame(function, args, kwargs, options).first_run()


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run functions one after another in `segments` groups, each but the last a checkpoint.

    >>> x = ex.tensor([1.0, 2.0], requires_grad=True)
    >>> layers = [ex.sin, ex.exp, ex.sum]
    >>> ex.utils.checkpoint.checkpoint_sequential(layers, 2, x, use_reentrant=False).backward()
    >>> x.grad
    tensor([ 1.2534, -1.0331])
    """
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)
    if not 1 <= segments <= max(len(steps), 1):
        raise AutogradError(f"checkpoint_sequential: segments must be from 1 to {len(steps)}, got {segments}")

    def run(first: int, last: int) -> Callable[[Any], Any]:
        def group(x: Any) -> Any:
            for step in steps[first:last]:
                x = step(x)
            return x

        return group

    size = len(steps) // segments
    start = 0
    for start in range(0, size * (segments - 1), size):
        input = checkpoint(run(start, start + size), input, use_reentrant=use_reentrant, **kwargs)
    rest = size * (segments - 1)
    return run(rest, len(steps))(input)
