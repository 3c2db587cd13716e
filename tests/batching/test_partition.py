"""A trace partitioned into forward, backward and what is deferred."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.backends.selection import native
from extempo.batching.partition import Partition
from extempo.core.types import TensorType

from .runners import kind_of, parameters, x
from .test_row_tracer import trace

pytestmark = pytest.mark.skipif(native() is None, reason="plans need the native backend")
N = 11


def partition(fn, samples, captured=(), seeded=None, shared=()):
    kind = kind_of(fn, samples, captured)
    return Partition(trace(fn, samples, captured, N, shared), N, kind.tracked if seeded is None else seeded)


def test_gradients_of_weights_are_deferred_and_those_of_inputs_are_not():
    layer = nn.Linear(4, 3)
    made = partition(layer, [x(4)], parameters(layer))
    assert made.backward_of == [0]
    assert sorted(made.deferred_of) == [1, 2]
    assert made.has_rows(made.gradients[0])
    assert not any(made.has_rows(made.gradients[leaf]) for leaf in made.deferred_of)
    assert set(made.deferred_reads) <= {made.leaf(0), *made.seeds, *made.made}


def test_the_gradient_of_an_input_that_all_calls_share_waits_as_that_of_a_weight_does():
    w = nn.Parameter(x(3))
    made = partition(lambda a, scale: a * (w * scale), [x(3), x(3)], (w,), shared=(1,))
    assert sorted(made.deferred_of) == [1, 2]
    assert made.backward_of == [0]


def test_the_gradient_of_a_weight_that_meets_a_number_of_some_calls_cannot_wait():
    w = nn.Parameter(x(3))
    made = partition(lambda a, scale: a * (w * scale), [x(3), 2.0], (w,), shared=(1,))
    (leaf,) = [leaf for leaf in made.gradients if leaf > 0]
    assert leaf in made.backward_of
    assert made.deferred is None


def test_without_seeds_there_is_only_forward():
    layer = nn.Linear(4, 3)
    made = partition(layer, [x(4)], parameters(layer), seeded=(False,))
    assert (made.backward, made.deferred, made.gradients, made.saved) == (None, None, {}, [])
    part, reads, values = made.forward([])
    assert part is not None
    assert values == made.results
    assert made.leaf(0) in reads


def test_what_backward_reads_of_forward_is_saved():
    made = partition(lambda a: (a * 2).exp(), [x(3)])
    assert made.saved == made.results
    assert made.row_type(made.results[0]) == TensorType((3,), ex.float32)


def test_a_result_that_is_an_input_takes_no_program():
    made = partition(lambda a: a, [x(3)], seeded=(False,))
    assert made.forward([]) == (None, [], [])
    assert made.name(made.results[0]) == ("leaf", 0)
