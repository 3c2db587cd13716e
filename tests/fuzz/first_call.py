"""A result never depends on what ran before: the first call of a process has the bits and strides of every later one.

Every op's own samples (`samples` of the registry) are run as they are, with sizes of 1 and 0, and laid out in other
ways: by columns, as a part of something larger, expanded, at odd addresses. Each case is run through several histories,
each in a process of its own that has loaded Extempo and run nothing: plainly first, with gradients first, compiled
first, after other sizes. All of them must show the same: results and gradients, bit for bit, laid out alike, or the
same error.

    python tests/fuzz first_call --seed 0 --seconds 600       the seed says which cases come first
    FIRST_CALL="matmul" python tests/fuzz first_call          the cases whose label has this text
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

import extempo as ex
from extempo.core.op import REGISTRY, Elementwise, Reduction, Refuse
from extempo.dispatch.dispatcher import apply

N_CALLS = 3  # of each kind: the first one, one by what it left behind, one more
N_COMPILED_CALLS = 4  # replayed, planned, and two by the plan
SECONDS_PER_HISTORY = 120
LEAST_OF_ALL = 64  # bytes a vector may be aligned to

CHECK_THEIR_SIZES = {"cat", "linear", "log_softmax", "matmul", "permute", "softmax"}

Array = np.ndarray[Any, Any]
Seen = tuple[Any, ...]


class Case(NamedTuple):
    """A call of something on arrays (and whatever else it takes), which become tensors that share their memory."""

    label: str
    call: Callable[..., Any]
    inputs: tuple[Any, ...]
    resizable: bool  # whether it gives an answer or an error for other sizes and values


class Sight(NamedTuple):
    """What one call showed, and when."""

    when: str
    kind: str  # "values", or "gradients" for values and gradients
    seen: Seen


# ---- cases


def _is_array(x: Any) -> bool:
    return isinstance(x, np.ndarray)


def _float_array(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def _of_arrays(change: Callable[[Array], Array]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    return lambda inputs: tuple([change(x) if _is_array(x) else x for x in inputs])


def _one_along(dims: slice) -> Callable[[Array], Array]:
    """Sizes of 1 in some of the dimensions."""
    return lambda x: x[tuple([slice(0, 1) if d in range(x.ndim)[dims] else slice(None) for d in range(x.ndim)])].copy()


def by_columns(x: Array) -> Array:
    return np.asfortranarray(x) if x.ndim > 1 else x


def part_of_larger(x: Array) -> Array:
    """Every second element along the last dimension, of rows that have others between them."""
    larger = np.zeros([2 * size + 1 for size in x.shape], x.dtype)
    part: Array = larger[tuple([slice(0, 2 * size, 2) for size in x.shape])] if x.ndim else larger
    part[...] = x
    return part


def rows_of_wider(x: Array) -> Array:
    """Rows side by side with others: elements of a row lie together."""
    if x.ndim == 0:
        return x
    wider = np.zeros((*x.shape[:-1], x.shape[-1] + 3), x.dtype)
    wider[..., 1:-2] = x
    return wider[..., 1:-2]


def expanded(x: Array) -> Array:
    """The first of each dimension but the last for all of it, by a stride of 0."""
    if x.ndim < 2 or 0 in x.shape:
        return x
    return np.broadcast_to(x[(slice(0, 1),) * (x.ndim - 1)], x.shape)


def at_offset(n_bytes: int) -> Callable[[Array], Array]:
    """The same at an address that is this far from a multiple of 64."""

    def moved(x: Array) -> Array:
        room = np.zeros(x.nbytes + 2 * LEAST_OF_ALL + n_bytes, np.uint8)
        start = -room.ctypes.data % LEAST_OF_ALL + n_bytes
        there: Array = room[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
        there[...] = x
        return there

    return moved


def strange_ones(x: Array) -> Array:
    """Dimensions of size 1 with strides that nothing explains: they say nothing about where elements lie."""
    strides = [123 * x.itemsize if size == 1 else stride for size, stride in zip(x.shape, x.strides, strict=True)]
    return np.lib.stride_tricks.as_strided(x, x.shape, strides)


# Variants that change values, and for each what lies in memory another way.
SIZES: dict[str, Callable[[Array], Array]] = {
    "": lambda x: x,
    "one row": _one_along(slice(0, 1)),
    "one column": _one_along(slice(-1, None)),
    "ones": _one_along(slice(None)),
    "all but the last one": _one_along(slice(0, -1)),
    "no row": lambda x: x[:0] if x.ndim else x,
    "no column": lambda x: x[..., :0] if x.ndim else x,
}
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "": lambda x: x,
    "by columns": by_columns,
    "part of larger": part_of_larger,
    "rows of wider": rows_of_wider,
    "expanded": expanded,
    "strange strides of ones": strange_ones,
}
PLACES = {"16 bytes on": 16, "8 bytes on": 8, "1 byte on": 1}


def variants(case: Case) -> Iterator[Case]:
    """The case at other sizes and in other layouts."""
    for size, resize in SIZES.items():
        if size and not case.resizable:
            return
        resized = _of_arrays(resize)(case.inputs)
        if size and _same_shapes(resized, case.inputs):
            continue
        for layout, lay_out in LAYOUTS.items():
            if lay_out is expanded and not case.resizable:
                continue
            laid_out = _of_arrays(lay_out)(resized)
            if layout and _same_strides(laid_out, resized):
                continue
            yield Case(" | ".join(filter(None, (case.label, size, layout))), case.call, laid_out, case.resizable)


def _same_shapes(these: tuple[Any, ...], those: tuple[Any, ...]) -> bool:
    return all(a.shape == b.shape for a, b in zip(these, those, strict=True) if _is_array(a))


def _same_strides(these: tuple[Any, ...], those: tuple[Any, ...]) -> bool:
    return all(a.strides == b.strides for a, b in zip(these, those, strict=True) if _is_array(a))


def _op_call(op: Any, attrs: dict[str, Any]) -> Callable[..., Any]:
    return lambda *inputs: apply(op, inputs, dict(attrs))


def op_cases(name: str) -> Iterator[Case]:
    """The samples of an op of the registry, in two dtypes by turns.

    Shape rules of these families check all that they are given. Other ops trust the functions that users call.
    """
    op = REGISTRY[name]
    assert not isinstance(op.samples, Refuse)
    resizable = issubclass(op, Elementwise | Reduction) or name in CHECK_THEIR_SIZES
    for number, sample in enumerate(op.samples(np.random.default_rng(1))):
        dtype = (np.float32, np.float64)[number % 2]
        inputs = tuple([x.astype(dtype) if _float_array(x) else x for x in sample.inputs])
        yield Case(f"{name} {number} {dtype.__name__} {sample}", _op_call(op, sample.attrs), inputs, resizable)


def op_names() -> list[str]:
    return sorted(name for name, op in REGISTRY.items() if not isinstance(op.samples, Refuse))


# ---- what a call shows


def _strides(array: Array) -> tuple[int, ...]:
    return array.strides if array.size else ()  # of nothing at all they say nothing


def _order(array: Array) -> tuple[int, ...]:
    """The dimensions by how far apart their elements lie: whether a gradient is part of a larger one may differ."""
    return tuple(
        sorted([d for d in range(array.ndim) if array.size > 1 < array.shape[d]], key=lambda d: -array.strides[d])
    )


def _see(value: Any, layout: Callable[[Array], Any] = _strides) -> Any:
    if isinstance(value, ex.Tensor):
        array = value.detach().numpy()
        lies = layout(array)
        if value.is_floating_point():
            array = np.where(np.isnan(array), np.asarray(np.nan, array.dtype), array)
        return "tensor", str(value.dtype), array.shape, lies, array.tobytes()
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return tuple([_see(v, layout) for v in value])
    return repr(value)


def _tensors_in(value: Any) -> Iterator[ex.Tensor]:
    if isinstance(value, ex.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for v in value:
            yield from _tensors_in(v)


def _called(case: Case, wrap: Callable[..., Any], tracked: bool) -> Seen:
    """One call from the same state: what it returns or raises, what became of the inputs, and gradients."""
    ex.manual_seed(5)
    inputs = [ex.from_numpy(x) if _is_array(x) else x for x in case.inputs]
    leaves = []
    for x in inputs if tracked else ():
        if isinstance(x, ex.Tensor) and x.is_floating_point():
            leaves.append(x.requires_grad_())
    try:
        result = wrap(*inputs)
        values = _see(result)
    except Exception as error:
        return (_error(error),)
    return values, _gradients([t for t in _tensors_in(result) if t.requires_grad], leaves)


def _gradients(ends: list[ex.Tensor], leaves: list[ex.Tensor]) -> Any:
    if not ends:
        return None
    rng = np.random.default_rng(7)
    starts = [ex.tensor(np.asarray(rng.normal(size=tuple(t.shape))), dtype=t.dtype) for t in ends]
    try:
        return _see(ex.autograd.grad(ends, leaves, starts, allow_unused=True), _order)
    except Exception as error:
        return _error(error)


def _error(error: Exception) -> tuple[str, str, str]:
    return "error", type(error).__name__, str(error)


def _calls(case: Case, when: str, wrap: Callable[..., Any], tracked: bool, n_calls: int) -> Iterator[Sight]:
    kind = "gradients" if tracked else "values"
    for number in range(n_calls):
        yield Sight(f"{when}, call {number + 1}", kind, _called(case, wrap, tracked))


# ---- histories


def _plainly(case: Case) -> Iterator[Sight]:
    yield from _calls(case, "eager", case.call, False, N_CALLS)


def _tracked(case: Case) -> Iterator[Sight]:
    yield from _calls(case, "eager", case.call, True, N_CALLS)


def _compiled(case: Case, tracked: bool) -> Iterator[Sight]:
    yield from _calls(case, "compiled", ex.compile(case.call), tracked, N_COMPILED_CALLS)


def _other_sizes(case: Case) -> None:
    """Calls that nobody looks at: every size two, three and four times as large."""
    for times in (2, 3, 4):
        for dims in (slice(0, 1), slice(-1, None), slice(None)):

            def larger(x: Array, times: int = times, dims: slice = dims) -> Array:
                return np.tile(x, [times if d in range(x.ndim)[dims] else 1 for d in range(x.ndim)])

            other = case._replace(inputs=_of_arrays(larger)(case.inputs))
            for tracked in (False, True):
                _called(other, case.call, tracked)


def _plain_first(case: Case) -> Iterator[Sight]:
    yield from _plainly(case)
    yield from _tracked(case)
    yield from _compiled(case, False)


def _tracked_first(case: Case) -> Iterator[Sight]:
    yield from _tracked(case)
    yield from _plainly(case)


def _compiled_first(case: Case) -> Iterator[Sight]:
    yield from _compiled(case, True)
    yield from _compiled(case, False)
    yield from _plainly(case)


def _after_other_sizes(case: Case) -> Iterator[Sight]:
    if not case.resizable:
        return
    _other_sizes(case)
    yield from _plainly(case)
    yield from _tracked(case)


def _elsewhere(case: Case) -> Iterator[Sight]:
    """The same layout at other addresses, in memory that NumPy owns."""
    for where, n_bytes in PLACES.items():
        moved = case._replace(inputs=_of_arrays(at_offset(n_bytes))(case.inputs))
        if _same_strides(moved.inputs, case.inputs):
            yield from _calls(moved, f"eager, {where}", case.call, False, 1)
            yield from _calls(moved, f"eager, {where}", case.call, True, 1)


HISTORIES: dict[str, Callable[[Case], Iterator[Sight]]] = {
    "values first": _plain_first,
    "gradients first": _tracked_first,
    "compiled first": _compiled_first,
    "after other sizes": _after_other_sizes,
    "at other addresses": _elsewhere,
}


def load_extempo() -> None:
    """What a process loads at its first ops, by ops at a rank that no case has: forks then take a tenth of the time."""
    x = ex.ones((1, 1, 1, 1, 1, 1, 37), requires_grad=True)

    def body() -> ex.Tensor:
        y = (x.mT * 2).sin() @ ex.ones((1, 1, 1, 1, 1, 1, 1))
        y.sum().backward()
        return y.detach().reshape(1, 1, 1, 37, 1, 1, 1)

    compiled = ex.compile(body)
    for _ in range(N_COMPILED_CALLS):
        body()
        compiled()


def in_a_child(work: Callable[[], Any]) -> Any:
    """What `work` returns, done by a fork of this process, which must have run none of its ops."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            os.close(reading)
            signal.alarm(SECONDS_PER_HISTORY)
            with warnings.catch_warnings(), os.fdopen(writing, "wb") as out:
                warnings.simplefilter("ignore")
                pickle.dump(work(), out)
            status = 0
        os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        answer = answers.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise ChildProcessError(f"the process ended with status {status}")
    return pickle.loads(answer)


def histories_of(cases: list[Case]) -> list[list[Sight]]:
    """What each case shows through all histories; each history of all cases has a process."""
    sights: list[list[Sight]] = [[] for _ in cases]
    for name, history in HISTORIES.items():

        def all_of_them(history: Callable[[Case], Iterator[Sight]] = history) -> list[list[Sight]]:
            return [list(history(case)) for case in cases]

        for kept, found in zip(sights, in_a_child(all_of_them), strict=True):
            kept += [sight._replace(when=f"{name}: {sight.when}") for sight in found]
    return sights


def differences(sights: Iterable[Sight]) -> list[str]:
    """Sentences on what differs from the first sight of its kind, and on tracked values that differ from plain ones."""
    first: dict[str, Sight] = {}
    wrong = []
    for sight in sights:
        known = first.setdefault(sight.kind, sight)
        if sight.seen != known.seen:
            wrong.append(f"{sight.kind} of [{sight.when}] are not those of [{known.when}]: {_how(known, sight)}")
    if len(first) == 2:
        plain, tracked = first["values"], first["gradients"]
        if plain.seen[0] != tracked.seen[0]:
            wrong.append(f"values with gradients differ from values without: {_how(plain, tracked)}")
    return wrong


def _how(one: Sight, other: Sight) -> str:
    a, b = _first_difference(one.seen, other.seen)
    return f"\n        {_shown(a)}\n        {_shown(b)}"


def _first_difference(one: Any, other: Any) -> tuple[Any, Any]:
    """The first parts that differ, tensors whole."""
    if not isinstance(one, tuple) or not isinstance(other, tuple) or len(one) != len(other) or one[:1] == ("tensor",):
        return one, other
    return next((_first_difference(a, b) for a, b in zip(one, other, strict=True) if a != b), (one, other))


def _shown(seen: Any) -> str:
    if isinstance(seen, tuple) and len(seen) == 5 and seen[0] == "tensor":
        _, dtype, shape, layout, raw = seen
        return f"{dtype}{list(shape)} laid out {layout} bytes {raw[:32].hex()}"
    if isinstance(seen, tuple):
        return f"({', '.join(map(_shown, seen))})"
    return str(seen)


# ---- runs


def failures_of(cases: list[Case]) -> list[str]:
    """One text for each case whose histories differ."""
    try:
        found = histories_of(cases)
    except ChildProcessError as error:
        return [f"{cases[0].label} to {cases[-1].label}: {error}"]
    texts = []
    for case, sights in zip(cases, found, strict=True):
        wrong = differences(sights)
        if wrong:
            texts.append("\n    ".join([case.label, *wrong[:3]]))
    return texts


def sweep(names: list[str]) -> list[str]:
    """The failures of these ops: the first sample at all sizes and in all layouts, one more sample as it is."""
    load_extempo()
    failures = []
    for name in names:
        first, *others = op_cases(name)
        some = [case for case in variants(first) if case.label.count(" | ") <= 1]
        failures += failures_of([*some, *others[:1]])
    return failures


def run(seed: int, seconds: float) -> int:
    """Every variant of every op's samples, each through all histories in processes of its own."""
    end, n_failures, wanted = time.monotonic() + seconds, 0, os.environ.get("FIRST_CALL", "")
    load_extempo()
    names = op_names()
    np.random.default_rng(seed).shuffle(names)
    for name in names:
        for case in [case for sample in op_cases(name) for case in variants(sample) if wanted in case.label]:
            if time.monotonic() > end:
                print(f"time is up at {case.label}")
                return n_failures
            for text in failures_of([case]):
                n_failures += 1
                print(text, flush=True)
    return n_failures
