"""What a static function refuses, and in which words."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, GraphError, ShapeError

from ..agreement import needs_native_code
from .static_agreement import WAYS, going, static

pytestmark = needs_native_code


@pytest.fixture(autouse=True, params=WAYS)
def way(request):
    with going(request.param):
        yield


@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        ((ex.ones(4), 1.0), ShapeError, r"argument x is of shape \(4,\).*\(3,\)"),
        ((ex.ones(3, dtype=ex.float64), 1.0), DtypeError, r"argument x is a tensor of .*float64"),
        ((ex.ones(3, requires_grad=True), 1.0), GraphError, "requires grad"),
        ((ex.ones(6)[::2], 1.0), GraphError, r"strides \(2,\), .*it was in order; pass x\.contiguous\(\)$"),
        ((2.0, 1.0), DtypeError, "argument x is a value of type float"),
        (
            (np.ones(3), 1.0),
            DtypeError,
            r"argument x is a NumPy array of float64 \(3,\), .*; pass ex\.from_numpy\(x\)$",
        ),
        ((ex.ones(3), 1), DtypeError, "argument a is a value of type int"),
        ((ex.ones(3), ex.ones(())), DtypeError, "argument a is a tensor"),
        ((ex.ones(3),), GraphError, "called with 1 argument, .* 2 arguments"),
        ((ex.ones(3), 1.0, 2.0), GraphError, "called with 3 arguments"),
    ],
)
def test_calls_that_do_not_fit(args, error, words):
    run = static(lambda x, a=1.0, b=None: x * a)
    run(ex.ones(3), 2.0)
    with pytest.raises(error, match=words):
        run(*args)
    assert run(ex.ones(3), 3.0).tolist() == [3, 3, 3]


def test_structures_that_do_not_fit():
    run = static(lambda parts, mode="sum", table=None: parts["a"][0] * 2)
    x = ex.ones(2)
    run({"a": [x]}, "sum")
    for args, words in [
        (({"a": [x, x]}, "sum"), r"argument parts\['a'\] is a list of 2.*a list of 1"),
        (({"b": [x]}, "sum"), r"is a dict with the keys \['b'\], .* a dict with the keys \['a'\]"),
        (({"a": (x,)}, "sum"), r"a tuple of 1.*a list of 1"),
        (({"a": [x]}, "mean"), "argument mode is 'mean', .*'sum'"),
        (({"a": [x]}, np.ones(3)), r"argument mode is a NumPy array of float64 \(3,\), .*'sum'"),
    ]:
        with pytest.raises(GraphError, match=words):
            run(*args)
    with pytest.raises(GraphError, match="table by name"):
        run({"a": [x]}, "sum", table=x)


def test_tensors_that_share_memory_in_another_way():
    run = static(lambda x, y: x + y)
    a = ex.ones(4)
    run(a, ex.ones(4))
    with pytest.raises(GraphError, match="share memory"):
        run(a, a)
    twice = static(lambda x, y: x + y)
    twice(a, a)
    b = a * 2
    assert twice(b, b).tolist() == [4] * 4
    with pytest.raises(GraphError, match=r"argument y is another tensor, .* it was the same as argument x;"):
        twice(a, b)


def test_an_argument_lies_in_memory_as_it_did():
    run = static(lambda x: x.sum(1))
    x = ex.ones(3, 4)
    run(x.T)
    with pytest.raises(
        GraphError, match=r"strides \(3, 1\), .* strides \(1, 4\); pass x\.contiguous\(\) at every call"
    ):
        run(ex.ones(4, 3))
