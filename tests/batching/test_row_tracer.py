"""A kind's function traced on rows: what becomes a step, and what cannot be traced."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.batching.row_tracer import KindTrace
from extempo.core.context import CONTEXT
from extempo.core.types import TensorType
from extempo.scheduling.request import Unplannable

from .runners import kind_of, x


def trace(fn, samples, captured=(), n=11, shared=(), variant=0):
    kind = kind_of(fn, samples, captured)
    inputs = []
    for k, i in enumerate(kind.inputs):
        is_shared = k in shared
        if isinstance(i.type, TensorType) and not is_shared:
            inputs.append((False, TensorType((n, *i.type.shape), i.type.dtype)))
        else:
            inputs.append((is_shared, i.type))
    return KindTrace(kind, inputs, n, variant)


def test_an_op_on_a_sample_is_one_step_on_all_rows():
    w = nn.Parameter(x(3))
    made = trace(lambda a: (a * w).exp(), [x(3)], (w,))
    assert [step.op.name for step in made.steps] == ["mul", "exp"]
    assert made.steps[-1].type == TensorType((11, 3), ex.float32)
    assert made.of_inputs == [0]
    assert list(made.tensors.values()) == [w]
    assert made.is_tracked(made.results[0])


def test_numbers_stay_open_and_those_of_the_function_come_behind_them():
    first, second = (trace(lambda a, s: a * s + 0.25, [x(3), 2.0], shared=(1,), variant=v) for v in (0, 1))
    assert first.n_open == 1
    assert first.numbers[1:] == second.numbers[1:] == [0.25]
    assert first.numbers[0] != second.numbers[0]
    assert first.steps[0].refs == second.steps[0].refs


@pytest.mark.parametrize(
    ("fn", "samples", "why"),
    [
        (lambda a, s: a if s > 1 else -a, [ex.ones(3), 2.0], "looked at"),
        (lambda a, s: a * (s + 1), [ex.ones(3), 2.0], "looked at"),
        (lambda a: ex.nn.functional.dropout(a), [ex.ones(3)], "random draw"),
        (lambda a: a.exp().mul_(2), [ex.ones(3)], "writes in place"),
        (lambda a: ex.stack([a.sum() for _ in range(1_001)]).sum(), [ex.ones(3)], "too many steps"),
    ],
)
def test_what_depends_on_more_than_types_is_not_traced(fn, samples, why):
    before = CONTEXT.get()
    with pytest.raises(Unplannable, match=why):
        trace(fn, samples, shared=range(1, len(samples)))
    assert CONTEXT.get() is before


def test_tracing_draws_no_random_numbers():
    ex.manual_seed(3)
    expected = ex.rand(2).tolist()
    ex.manual_seed(3)
    kind = kind_of(lambda a: a * 2, [ex.ones(3)])
    KindTrace(kind, [(False, TensorType((7, 3), ex.float32))], 7, 0)
    assert ex.rand(2).tolist() == expected
