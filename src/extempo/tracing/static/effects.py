"""Effects of a static function's body: what it does besides ops, reported to the tracer of its first call.

Reading values, `.grad`, optimizers, schedules, generators and calls of modules go through a handful of methods. Effect
hooks stand in for these while some static function makes its first call, and at no other time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from ...autograd.observers import Observer
from ...core.effect_hooks import EffectHooks, reports_to
from ...core.tensor import Tensor
from ...core.tensor_methods import TensorMethods
from ...ops import creation, factories
from ...random import Generator, _SampleGenerator
from .sym_numbers import FOLLOWED, holds_followed, plain
from .tracer import StaticTracer

_RESHAPING = ("squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_")  # a tensor becomes its own view
_reporting = functools.partial(reports_to, StaticTracer)


def _read(recorder: StaticTracer, method: Any, x: Tensor, *args: Any, **kwargs: Any) -> Any:
    if recorder.is_constant(x):
        return method(x, *args, **kwargs)
    raise recorder.refusal(
        "a value is read",
        "the body does not run again, so it would be that value for ever: keep it a tensor (ex.where), return it and "
        "read it outside, or leave static=True out",
    )


def _size(recorder: StaticTracer, method: Any, x: Tensor) -> Any:
    if recorder.is_constant(x):
        return method(x)
    raise recorder.refusal(
        "the size of the result depends on values",
        "a static function's sizes are fixed: use x.masked_fill(mask, number) or ex.where, which keep the size, or "
        "leave static=True out",
    )


def _effect(recorder: StaticTracer, method: Any, *args: Any, **kwargs: Any) -> Any:
    return recorder.effect(method, args, kwargs)


def _view(recorder: StaticTracer, method: Any, x: Tensor) -> Any:
    """`detach()` of a tensor that has values, which is no op."""
    return method(x) if x._data is None else recorder.effect(method, (x,), flushes=False)


def _set_grad(recorder: StaticTracer, method: Any, x: Tensor, value: Any) -> None:
    recorder.effect(method, (x, value), flushes=value is not None)
    recorder.may_stay(value)


def _step(recorder: StaticTracer, method: Any, optimizer: Any, closure: Any = None, **kwargs: Any) -> Any:
    recorder.set_options(optimizer)
    if closure is not None:
        raise recorder.refusal("optimizer.step(closure) runs Python as often as it likes")
    return recorder.effect(method, (optimizer,), kwargs)


def _zero_grad(recorder: StaticTracer, method: Any, optimizer: Any, set_to_none: bool = True) -> None:
    recorder.set_options(optimizer)
    recorder.effect(method, (optimizer, set_to_none), flushes=not set_to_none)


def _schedule(recorder: StaticTracer, method: Any, schedule: Any, *args: Any, **kwargs: Any) -> None:
    reads = any(isinstance(x, Tensor) for x in (*args, *kwargs.values()))  # a metric
    if hasattr(schedule, "optimizer"):
        recorder.set_options(schedule.optimizer)
    recorder.effect(method, (schedule, *args), kwargs, flushes=reads)


def _call_module(recorder: StaticTracer, method: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
    recorder.modules[id(module)] = module
    return method(module, *args, **kwargs)


def _take_draw(recorder: StaticTracer, method: Any, generator: Generator) -> Any:
    return recorder.streams.draw(method, generator)


def _count_batch(recorder: StaticTracer, method: Any, generator: Generator) -> Any:
    return recorder.streams.count_batch(method, generator)


def _begin_stream(
    recorder: StaticTracer, method: Any, generator: _SampleGenerator, seed: int, number: Any, sample: int
) -> None:
    if type(number) not in FOLLOWED:
        raise recorder.refusal("the generator of a sample is made by hand")
    method(generator, seed, plain(number), sample)
    recorder.streams.begin(generator, number, sample)


def _seed(recorder: StaticTracer, method: Any, generator: Generator, *args: Any, **kwargs: Any) -> Any:
    if recorder.streams.begins_anew(generator):
        raise recorder.refusal("the generator of a sample is seeded, or its state asked for")
    return recorder.effect(method, (generator, *args), kwargs, flushes=False)


def _observe(recorder: StaticTracer, method: Any, *args: Any, **kwargs: Any) -> Any:
    raise recorder.refusal("checkpoints, saved_tensors_hooks and anomaly mode look at every op as it runs")


def _anew(recorder: StaticTracer, method: Any, *args: Any) -> Any:
    """What makes or fills a tensor, where it does so by followed numbers."""
    return recorder.make(method, args) if holds_followed(args) else method(*args)


def _classes(cls: Any) -> Iterator[type]:
    yield cls
    for child in cls.__subclasses__():
        yield from _classes(child)


def _watched() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """(owner, name, hook) of every method."""
    from ...nn.module import Module
    from ...nn.utils import clip_grad
    from ...optim.lr_scheduler import LRScheduler
    from ...optim.optimizer import Optimizer

    for name in ("item", "_values"):
        yield Tensor, name, _read
    for name in ("requires_grad_", "detach_"):
        yield Tensor, name, _effect
    for name in ("retain_grad", "register_hook", "register_post_accumulate_grad_hook", *_RESHAPING):
        yield TensorMethods, name, _effect
    yield Tensor, "detach", _view
    yield Generator, "take", _take_draw
    yield Generator, "next_batch", _count_batch
    yield _SampleGenerator, "__init__", _begin_stream
    for name in ("manual_seed", "get_state", "set_state"):
        yield Generator, name, _seed
    yield Observer, "__init__", _observe
    yield creation, "of_data", _anew
    yield factories, "of_number", _anew
    yield TensorMethods, "fill_", _anew
    yield Tensor, "_values_for_size", _size
    for name in ("total_norm", "clip_by_norm", "clip_by_value"):
        yield clip_grad, name, _effect
    for base, name, tell in (
        (Module, "__call__", _call_module),
        (Optimizer, "step", _step),
        (Optimizer, "zero_grad", _zero_grad),
        (LRScheduler, "step", _schedule),
    ):
        for cls in _classes(base):
            if name in vars(cls):
                yield cls, name, tell


def _replacements() -> Iterator[tuple[Any, str, Any]]:
    for owner, name, tell in _watched():
        yield owner, name, _reporting(tell)(vars(owner)[name])
    grad, data = vars(Tensor)["grad"], vars(Tensor)["data"]
    get_grad = _reporting(lambda recorder, get, x: recorder.gradient(get, x))(grad.fget)
    yield Tensor, "grad", property(get_grad, _reporting(_set_grad)(grad.fset), grad.fdel, grad.__doc__)
    yield Tensor, "data", property(_reporting(_effect)(data.fget), _reporting(_effect)(data.fset), None, data.__doc__)


watching = EffectHooks(_replacements)  # inside, effects are reported to tracers
