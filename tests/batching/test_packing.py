"""Which weights of a template are packed once for all levels."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.backends.selection import native
from extempo.batching.packing import LEAST_COLUMNS, packed_parts
from extempo.batching.programs import Programs

from .runners import kind_of, parameters, x

pytestmark = pytest.mark.skipif(native() is None, reason="plans need the native backend")


def packed(fn, samples, captured, weights=None):
    """What is packed of the forward of a kind; of its reads, those that are captured are the weights."""
    programs = Programs(kind_of(fn, samples, captured), (False,) * len(samples), ())
    parts, _, _ = programs._forward._given
    return packed_parts(parts, programs._forward._weights if weights is None else weights)


def test_the_weight_of_a_linear_layer_is_packed_as_its_transpose():
    layer = nn.Linear(64, 32)
    parts, turned = packed(layer, [x(64)], parameters(layer))
    assert list(turned.values()) == [True]
    assert len(parts) > 1


def test_the_weight_of_a_product_is_packed_as_it_is():
    w = nn.Parameter(x(64, 32))
    assert list(packed(lambda a: a @ w, [x(64)], (w,))[1].values()) == [False]


@pytest.mark.parametrize(
    "layer", [nn.Linear(64, LEAST_COLUMNS - 1), nn.Linear(8, 16), nn.Linear(64, 32, dtype=ex.float64)]
)
def test_small_weights_and_other_dtypes_are_not_worth_it(layer):
    dtype = layer.weight.dtype
    assert packed(layer, [x(layer.in_features, dtype=dtype)], parameters(layer)) is None


def test_a_weight_that_is_read_otherwise_too_stays_as_it_is():
    w = nn.Parameter(x(64, 64))
    assert packed(lambda a: a @ w + w.sum(), [x(64)], (w,)) is None
    assert packed(lambda a: a @ w, [x(64)], (w,), weights=()) is None
