"""One scenario run eagerly and compiled: everything that it shows must be the same, bit for bit.

A scenario is a generator function of `wrap`, which is `ex.compile` or does nothing. It makes its tensors, wraps its
functions, calls them often enough to meet a replay, the making of a plan and its later runs, and yields what there is
to see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import extempo as ex
from extempo.backends.selection import native
from extempo.core.context import CONTEXT

# For tests of what only a function that was recorded does; everything else holds without native code, too.
needs_native_code = pytest.mark.skipif(native() is None, reason="without native code compiled functions run eagerly")
CALLS = 5  # the first is replayed, the second planned, the others run the plan

Scenario = Callable[..., Iterator[Any]]


def draw(seed: int, *shape: int, grad: bool = False, dtype: Any = None, scale: float = 1.0) -> ex.Tensor:
    """Values that depend on seed and shape only."""
    values = np.random.default_rng([seed, *shape]).normal(size=shape) * scale
    return ex.tensor(values, dtype=dtype or ex.float32, requires_grad=grad)


def whole(seed: int, *shape: int, high: int = 5) -> ex.Tensor:
    """Integers in [0, high)."""
    return ex.tensor(np.random.default_rng([seed, *shape]).integers(0, high, size=shape))


def see(value: Any) -> Any:
    """A value that can be compared: NaN equals NaN, 0.0 does not equal -0.0."""
    if isinstance(value, ex.Tensor):
        array = np.array(value.numpy(force=True))
        if array.dtype.kind not in "biu":
            array = np.where(np.isnan(array), np.asarray(np.nan, array.dtype), array)
        kind = str(value.dtype), tuple(value.shape), value.stride(), value.requires_grad
        return "tensor", *kind, str(array.tolist()), array.tobytes()
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return [see(v) for v in value]
    if isinstance(value, dict):
        return {k: see(v) for k, v in value.items()}
    if isinstance(value, BaseException):
        return "error", type(value).__name__, str(value), ""
    return repr(value)


def grads(*tensors: ex.Tensor) -> list[Any]:
    return [t.grad for t in tensors]


def error_of(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> BaseException | None:
    """What the call raises, without the frames that would keep tensors alive."""
    try:
        fn(*args, **kwargs)
    except Exception as error:
        return error.with_traceback(None)
    return None


def agree(scenario: Scenario, *args: Any) -> None:
    """Compiled shows what eager shows."""
    expected = observe(scenario, lambda fn, **_: fn, *args)
    found = observe(scenario, ex.compile, *args)
    for i, (a, b) in enumerate(zip(expected, found, strict=False)):
        assert b == a, f"observation {i}: {_first_difference(a, b)}"
    assert len(expected) == len(found)
    assert CONTEXT.get().recording is None
    assert ex.is_grad_enabled()


def observe(scenario: Scenario, wrap: Callable[..., Any], *args: Any) -> list[Any]:
    ex.manual_seed(3)
    return [see(shown) for shown in scenario(wrap, *args)]


def agree_on_calls(
    fn: Callable[..., Any], make: Callable[[int], tuple[Any, ...]], calls: int = CALLS, then: Any = None
) -> None:
    """The same results, arguments and gradients after each call, or the same error; `then(result)` runs outside."""

    def scenario(wrap: Callable[..., Any]) -> Iterator[Any]:
        run = wrap(fn)
        for i in range(calls):
            args = make(i)
            error = result = None
            try:
                result = run(*args)
                if then is not None:
                    then(result)
            except Exception as e:
                error = e.with_traceback(None)
            tensors = [a for a in args if isinstance(a, ex.Tensor)]
            yield error, result, args, grads(*tensors)

    agree(scenario)


def _first_difference(a: Any, b: Any, path: str = "") -> str:
    """Where two things that were seen differ, and how."""
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        pairs = {f"{path}[{k}]": pair for k, pair in enumerate(zip(a, b, strict=True))}
    elif isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        pairs = {f"{path}[{k!r}]": (a[k], b[k]) for k in a}
    else:
        eager, compiled = (repr(shown[:-1] if isinstance(shown, tuple) else shown)[:700] for shown in (a, b))
        return f"{path} differs\n  eager    {eager}\n  compiled {compiled}"
    return next(_first_difference(x, y, where) for where, (x, y) in pairs.items() if x != y)
