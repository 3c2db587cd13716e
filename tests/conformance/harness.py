"""One op_db name in, its Outcome out.

For every OpInfo of the name, every dtype of `DTYPES` that it supports on the CPU and every sample of PyTorch's own:
the same arguments go to both libraries, results are compared (structure, shape, dtype, values) and, where PyTorch
differentiates the op, gradients for the same random cotangents. A name passes if all its samples do.
A sample does not count where a complex or sparse tensor is involved (Extempo refuses them by design) or where PyTorch
itself raises. All samples are compared; none is left out for time.
"""

from __future__ import annotations

import contextlib
import random
import signal
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo

import extempo as ex

from . import excuses
from .compare import (
    Mismatch,
    describe,
    dtype_name,
    match_arrays,
    match_structure,
    match_values,
    our_array,
    tolerance,
)
from .convert import LeftOut, Twins, Unmappable, leaves, rebuild, refuse_by_design, to_numpy
from .naming import absent_methods, resolve
from .properties import PROPERTIES, Inputs

Status = Literal["pass", "fail", "missing", "left out", "not covered"]
DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool)
SECONDS_PER_NAME = 120.0
# A coin of probability 1/2 falls the same way this often once in 2 ** 11 runs.
SEEDS_TO_CALL_IT_CONSTANT = 12

OPS: dict[str, list[Any]] = {}
for _op in op_db:
    OPS.setdefault(_op.name, []).append(_op)


@dataclass
class Outcome:
    """What became of one name."""

    name: str
    status: Status
    reason: str = ""
    n_compared: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    absent_methods: list[str] = field(default_factory=list)
    seconds: float = 0.0


class TooSlow(BaseException):
    """The name's time is up. Not an Exception, so no op's own error handling can swallow it."""


def run(name: str, *, every_failure: bool = False) -> Outcome:
    """Compare all samples of one op_db name; without `every_failure`, stop at the first that differs."""
    started = time.perf_counter()
    torch.set_num_threads(1)
    outcome = Outcome(name, "pass")
    with warnings.catch_warnings(), np.errstate(all="ignore"), _time_limit(SECONDS_PER_NAME):
        warnings.simplefilter("ignore")
        try:
            _run_all(name, outcome, every_failure=every_failure)
        except TooSlow:
            outcome.status, outcome.reason = "fail", f"took more than {SECONDS_PER_NAME:.0f} s"
        except Exception as error:  # one name's surprise must not cost the report of all others
            outcome.status, outcome.reason = "fail", f"the comparison raises {type(error).__name__}: {error}"
    outcome.seconds = time.perf_counter() - started
    return outcome


def _run_all(name: str, outcome: Outcome, *, every_failure: bool) -> None:
    if name in excuses.NOT_COMPARABLE:
        outcome.status, outcome.reason = "not covered", excuses.NOT_COMPARABLE[name]
        return
    for op in OPS[name]:
        ours = resolve(ex, op)
        outcome.absent_methods += absent_methods(ex, op)
        for dtype, sample in _samples(op, outcome):
            label = " ".join(filter(None, (op.variant_test_name, str(dtype).removeprefix("torch."))))
            try:
                check_sample(op, ours, sample)
            except LeftOut as left_out:
                outcome.left_out[str(left_out)] += 1
            except Absent:
                outcome.status, outcome.reason = "missing", ""
                return
            except Unmappable as unmappable:
                outcome.status, outcome.reason = "not covered", str(unmappable)
                return
            except Mismatch as mismatch:
                outcome.n_compared += 1
                text = " ".join(str(mismatch).split())
                outcome.failures.append(f"{label}: {text}\n      with {_arguments(sample)}")
                if outcome.status == "pass":
                    outcome.status, outcome.reason = "fail", f"{label}: {text}"
                if not every_failure:
                    return
            else:
                outcome.n_compared += 1
    if outcome.status == "pass" and outcome.n_compared == 0:
        outcome.status = "left out"
        outcome.reason = outcome.left_out.most_common(1)[0][0] if outcome.left_out else "no sample of these dtypes"


def _samples(op: Any, outcome: Outcome) -> Iterator[tuple[torch.dtype, Any]]:
    for dtype in DTYPES:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        differentiable = dtype.is_floating_point and op.supports_autograd
        _seed(zlib.crc32(f"{op.name} {op.variant_test_name} {dtype}".encode()))
        try:
            samples = list(op.sample_inputs("cpu", dtype, requires_grad=differentiable))
        except Exception as error:
            outcome.left_out[f"PyTorch gives no samples: {type(error).__name__}"] += 1
            continue
        for sample in samples:
            yield dtype, sample


class Absent(Exception):
    """Extempo has no function of this name, and the sample asks for it."""


def check_sample(op: Any, ours: Callable[..., Any] | None, sample: Any) -> None:
    """Compare one sample; raises LeftOut, Absent, Unmappable or Mismatch, returns if the results agree."""
    arguments = ((sample.input, *sample.args), dict(sample.kwargs))
    refuse_by_design(arguments)
    if ours is None:
        _reference(op, op.op, *arguments)
        raise Absent
    twins = Twins(arguments, whole_storage=op.name.startswith("as_strided"))
    inputs = Inputs(*rebuild(twins.theirs, lambda leaf: _copied_array(leaf)))
    constant, reference = _constant(op, twins.theirs)
    theirs = _reference(op, reference, *twins.theirs)
    positional, named = twins.ours
    try:
        if op.name in excuses.RANDOM:
            ex.manual_seed(0)
        actual = ours(*positional, **named)
    except Exception as error:
        raise Mismatch(f"raises {type(error).__name__}: {error}") from error
    match_structure(theirs, actual)
    elementwise = isinstance(op, UnaryUfuncInfo | BinaryUfuncInfo)
    if op.name in excuses.UNINITIALISED:
        return
    if not constant:
        results = [our_array(leaf) for leaf in leaves(actual)]
        wrong = PROPERTIES[op.name](results, inputs)
        if wrong:
            raise Mismatch(wrong)
        _match_gradients(op, sample, twins, theirs, actual, values=False)
        return
    if op.name in excuses.FACTORS:
        theirs, actual = _processed(sample, theirs, actual)
    if op.name in excuses.TIES and _only_ties_differ(op.name, theirs, actual, inputs):
        return
    match_values(op.name, theirs, actual, elementwise=elementwise)
    _match_gradients(op, sample, twins, theirs, actual, values=True)


def _reference(op: Any, function: Callable[..., Any], positional: Any, named: Any) -> Any:
    try:
        theirs = function(*positional, **named)
    except Exception as error:
        raise LeftOut(f"PyTorch raises {type(error).__name__}") from error
    refuse_by_design(theirs)
    return theirs


def _constant(op: Any, arguments: Any) -> tuple[bool, Callable[..., Any]]:
    """Whether the seed makes no difference to PyTorch's result, and the function to call for it."""
    if op.name not in excuses.RANDOM:
        return True, op.op
    # OpInfos of random ops set the seed themselves, so the function is taken by name here.
    function = resolve(torch, op)
    assert function is not None
    draws = []
    for seed in range(SEEDS_TO_CALL_IT_CONSTANT):
        torch.manual_seed(seed)
        draws.append([_copied_array(leaf) for leaf in leaves(_reference(op, function, *arguments))])
    same = all(np.array_equal(first, other) for draw in draws[1:] for first, other in zip(draws[0], draw, strict=True))
    return same, function


def _only_ties_differ(name: str, theirs: Any, ours: Any, inputs: Inputs) -> bool:
    """True if values agree and each differing index names an equal element; False leaves the verdict to the values."""
    if not isinstance(theirs, tuple):
        return False
    values, indices = our_array(ours[0]), our_array(ours[1])
    if np.array_equal(to_numpy(theirs[1]), indices):
        return False
    source = np.atleast_1d(inputs.get(0, "input"))
    position = 2 if name in ("kthvalue", "topk") else 1
    dim = inputs.get(position, "dim", -1)
    if name == "topk" and not inputs.get(4, "sorted", True):
        match_arrays(np.sort(to_numpy(theirs[0]), dim), np.sort(values, dim), 0.0, 0.0, "values, sorted")
    else:
        match_values(name, theirs[0], ours[0], elementwise=True, where="values")
    keeps_dim = indices.ndim == source.ndim
    at = indices if keeps_dim else np.expand_dims(indices, dim)
    if ((at < 0) | (at >= source.shape[dim])).any():
        raise Mismatch("an index is out of range")
    named = np.take_along_axis(source, at, dim)
    match_arrays(named if keeps_dim else np.squeeze(named, dim), values, 0.0, 0.0, "the element that an index names")
    if name == "topk" and (np.diff(np.sort(at, dim), axis=dim) == 0).any():
        raise Mismatch("an index appears twice")
    return True


def _processed(sample: Any, theirs: Any, ours: Any) -> tuple[Any, Any]:
    """What the factors determine, by the sample's own function of a result."""
    try:
        return sample.output_process_fn_grad(theirs), sample.output_process_fn_grad(ours)
    except Exception as error:
        raise Mismatch(f"output_process_fn_grad raises {type(error).__name__}: {error}") from error


def _match_gradients(op: Any, sample: Any, twins: Twins, theirs: Any, ours: Any, *, values: bool) -> None:
    pairs = twins.gradient_inputs()
    if not pairs:
        return
    if op.name not in excuses.FACTORS:
        theirs, ours = _processed(sample, theirs, ours)
    outputs = [pair for pair in zip(leaves(theirs), leaves(ours), strict=True) if isinstance(pair[0], torch.Tensor)]
    for index, (their_output, our_output) in enumerate(outputs):
        if their_output.requires_grad != our_output.requires_grad:
            raise Mismatch(f"result {index}: requires_grad is {our_output.requires_grad}")
    outputs = [pair for pair in outputs if pair[0].requires_grad]
    if not outputs:
        return
    generator = np.random.default_rng(0)
    cotangents = [_cotangent(generator, their_output) for their_output, _ in outputs]
    try:
        their_gradients = torch.autograd.grad(*_firsts(outputs, pairs, cotangents), allow_unused=True)
    except Exception:
        return  # PyTorch does not differentiate this sample; the forward result has been compared
    try:
        our_gradients = ex.autograd.grad(*_seconds(outputs, pairs, cotangents), allow_unused=True)
    except Exception as error:
        raise Mismatch(f"gradient raises {type(error).__name__}: {error}") from error
    for index, (pair, expected, actual) in enumerate(zip(pairs, their_gradients, our_gradients, strict=True)):
        _match_gradient(op, pair[0], expected, actual, f"gradient {index}", values=values)


def _match_gradient(op: Any, of: torch.Tensor, expected: Any, actual: Any, where: str, *, values: bool) -> None:
    zeros = np.zeros(tuple(of.shape), to_numpy(of).dtype)
    our_gradient = zeros if actual is None else our_array(actual)
    if actual is not None and (our_gradient.shape != zeros.shape or our_gradient.dtype != zeros.dtype):
        raise Mismatch(
            f"{where}: expected {zeros.dtype}{list(zeros.shape)}, got {our_gradient.dtype}{list(our_gradient.shape)}"
        )
    if not values:
        if not np.isfinite(our_gradient).all():
            raise Mismatch(f"{where}: not finite")
        return
    their_gradient = zeros if expected is None else to_numpy(expected)
    project = GRADIENT_PROJECTIONS.get(getattr(op.gradcheck_wrapper, "__name__", ""))
    if project is not None and our_gradient.ndim >= 2:
        their_gradient = project(their_gradient, to_numpy(of))
        our_gradient = project(our_gradient, to_numpy(of))
    relative, absolute = tolerance(op.name, dtype_name(of), elementwise=False)
    match_arrays(their_gradient, our_gradient, relative, absolute, where)


def _symmetric(gradient: Any, _: Any) -> Any:
    square = gradient.shape[-1] == gradient.shape[-2]
    return gradient + np.swapaxes(gradient, -1, -2) if square else gradient


def _triangular(gradient: Any, argument: Any) -> Any:
    return np.triu(gradient) if np.array_equal(argument, np.triu(argument)) else np.tril(gradient)


def _through_log_softmax(gradient: Any, log_probabilities: Any) -> Any:
    return gradient - np.exp(log_probabilities) * gradient.sum(axis=-1, keepdims=True)


GRADIENT_PROJECTIONS: dict[str, Callable[[Any, Any], Any]] = {
    excuses.SYMMETRIC_GRADIENT: _symmetric,
    excuses.TRIANGULAR_GRADIENT: _triangular,
    excuses.LOG_SOFTMAX_GRADIENT: _through_log_softmax,
}


def _firsts(*lists: list[tuple[Any, Any]]) -> list[list[Any]]:
    return [[theirs for theirs, _ in pairs] for pairs in lists]


def _seconds(*lists: list[tuple[Any, Any]]) -> list[list[Any]]:
    return [[ours for _, ours in pairs] for pairs in lists]


def _cotangent(generator: np.random.Generator, output: torch.Tensor) -> tuple[torch.Tensor, Any]:
    drawn = torch.from_numpy(np.asarray(generator.standard_normal(tuple(output.shape)))).to(output.dtype)
    return drawn, ex.from_numpy(to_numpy(drawn.clone()))


def _copied_array(value: Any) -> Any:
    return to_numpy(value).copy() if isinstance(value, torch.Tensor) else value


def _arguments(sample: Any) -> str:
    return ", ".join(filter(None, (describe(arg) for arg in (sample.input, *sample.args, sample.kwargs))))


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)  # PyTorch's sample makers draw from all three


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def stop(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
