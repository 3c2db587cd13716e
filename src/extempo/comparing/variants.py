"""A training step with all that is needed to run it in several modes; a `Runner` is one of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from itertools import islice
from typing import Any

from ..errors import DtypeError, ShapeError, UnsupportedError
from ..memory.referrers import is_tensor
from ..tracing.api import compile as compile_
from ..tracing.api import eager
from ..tracing.compiled_function import CompiledFunction
from .batches import as_torch, caller, has_torch
from .states import State, find_state, unwrapped

MODES = ("eager", "compile", "static")
MOST_STEPS = 200  # of a round, if the user does not say
FEWEST_STEPS = 20


class Variant:
    """A step, its batches in order, and its state."""

    def __init__(
        self,
        name: str,
        step: Callable[..., Any],
        data: Iterable[Any],
        n_steps: int | None = None,
        state: Iterable[Any] | None = None,
        metric: Callable[[], float] | None = None,
        is_torch: bool = False,
    ) -> None:
        if not callable(step):
            raise DtypeError(f"compare: the step is a {type(step).__name__}; pass a function that takes a batch")
        if is_torch and not has_torch():
            raise UnsupportedError("compare: PyTorch is not installed: pip install torch, or leave torch= out")
        self.name = name
        self.step = step if is_torch else unwrapped(step)
        asked = n_steps is not None
        given = list(islice(data, n_steps or MOST_STEPS))
        if not given:
            raise ValueError("compare: there are no batches in data")
        batches = [as_torch(batch) for batch in given] if is_torch else given
        n_steps = n_steps or max(len(batches), FEWEST_STEPS)
        self.batches = [batches[i % len(batches)] for i in range(n_steps)]
        self.n_different = min(len(batches), n_steps)
        arguments = caller(self.step)
        self.arguments = [arguments(batch) for batch in self.batches]
        _check_call(name, self.step, self.batches[0], self.arguments[0])
        self.is_torch = is_torch
        self.may_shorten = not asked
        self.metric = metric
        self.state = State(find_state(self.step) if state is None else state)
        if not self.state:
            raise UnsupportedError(
                f"compare: {name} uses no module, optimizer or parameter that could be found in its closure, globals "
                "or attributes; pass them: compare(step, data, state=[model, optimizer])"
            )

    def shorten(self, n_steps: int) -> None:
        """Make rounds of fewer steps, with batches from all over the data."""
        share = max(self.n_different / n_steps, 1.0)
        kept = [int(k * share) for k in range(n_steps)]
        self.batches = [self.batches[k] for k in kept]
        self.arguments = [self.arguments[k] for k in kept]
        self.n_different = min(self.n_different, n_steps)


def _check_call(name: str, step: Callable[..., Any], batch: Any, arguments: tuple[Any, ...]) -> None:
    try:
        inspect.signature(step).bind(*arguments)
    except ValueError:  # a step without a signature
        return
    except TypeError as error:
        what = f"a {type(batch).__name__}" + (f" of {len(batch)}" if isinstance(batch, list | tuple) else "")
        raise ShapeError(f"compare: {name} cannot be called with the first batch, {what}: {error}") from None


class Runner:
    """A variant in one mode: `run(i)` does step i and returns its loss."""

    def __init__(self, variant: Variant, mode: str) -> None:
        if mode not in (*MODES, "torch"):
            raise ValueError(f"compare: the modes are {', '.join(MODES)}; got {mode!r}")
        self.variant = variant
        self.mode = mode
        self.compiled: CompiledFunction | None = None
        self.begin()

    def begin(self) -> None:
        """As if the step had never run in this mode."""
        variant = self.variant
        self._call = variant.step
        if self.mode == "compile":
            self.compiled = CompiledFunction(variant.step, variant.name)
            self._call = self.compiled.run
        elif self.mode == "static":
            self._call = compile_(variant.step, static=True)

    def run(self, i: int) -> float | None:
        """One step, all of it: the loss is read."""
        return loss_of(self._call(*self.variant.arguments[i]))

    def inside(self) -> Any:
        """The context in which this mode's steps run."""
        return eager() if self.mode == "eager" else nullcontext()


def loss_of(result: Any) -> float | None:
    """The loss among what a step returned: itself, the first of a tuple, or what a dict has under "loss"."""
    if isinstance(result, dict):
        result = result.get("loss")
    elif isinstance(result, tuple | list) and result:
        result = result[0]
    if is_tensor(result):
        return float(result.item()) if result.numel() == 1 else None
    return float(result) if isinstance(result, int | float) else None


def same_weights(ours: Variant, theirs: Variant) -> bool:
    """Copy the weights of one variant to another whose parameters have the same names; False if they have not."""
    trained = [{id(p) for p in variant.state.parameters()} for variant in (ours, theirs)]
    if trained[0] == trained[1]:
        return True
    mine, other = ours.state.named_parameters(), theirs.state.named_parameters()
    have_names = all(ids <= {id(p) for p in named.values()} for ids, named in zip(trained, (mine, other), strict=True))
    shapes = [{name: tuple(p.shape) for name, p in named.items()} for named in (mine, other)]
    if not have_names or shapes[0] != shapes[1]:
        return False
    for name, p in other.items():
        p.detach().copy_(as_torch(mine[name]) if theirs.is_torch else mine[name].detach())
    return True
