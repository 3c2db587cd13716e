"""Arguments and results of cells, taken apart and put together again."""

from __future__ import annotations

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import extempo as ex
from extempo.batching.signatures import filled, objects, rebuilder, structure_of, take_apart

Pair = namedtuple("Pair", ["h", "c"])
T = ex.ones(2, 3)


def signature(*args, grad=True):
    marks, inputs = [], []
    take_apart(args, marks, inputs, grad)
    return marks, inputs


def test_values_are_no_part_of_a_signature():
    first, second = signature(ex.ones(2), 3, 0.5), signature(ex.zeros(2), 4, float("nan"))
    assert first[0] == second[0]
    assert [type(x) for x in first[1]] == [ex.Tensor, int, float]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ex.ones(2), ex.ones(3)),
        (ex.ones(2), ex.ones(2, dtype=ex.float64)),
        (ex.ones(2), ex.ones(2, requires_grad=True)),
        (1, 1.0),
        (True, False),
        (True, 1),
        (None, "None"),
        ((T, T), [T, T]),
        ((T, (T,)), (T, T)),
        ({"a": T}, {"b": T}),
        ((), ((),)),
        (Pair(T, T), (T, T)),
        (object(), object()),
    ],
)
def test_whatever_else_differs_makes_another_signature(one, other):
    assert signature(one)[0] != signature(other)[0]


def test_tracking_counts_only_where_gradients_are_on():
    tracked = ex.ones(2, requires_grad=True)
    assert signature(tracked, grad=False)[0] == signature(ex.ones(2), grad=False)[0]


def test_arrays_are_tensors_and_numpy_numbers_are_numbers():
    marks, inputs = signature(np.ones(2, np.float32), np.float64(0.5), np.bool_(True))
    assert marks == signature(ex.ones(2), 0.5, True)[0]
    assert isinstance(inputs[0], ex.Tensor)
    assert inputs[1] == 0.5


@pytest.mark.parametrize("args", [(), (1, [2.0, (T, None)], {"k": Pair(T, "x")}), (np.ones(2), np.float32(1))])
def test_arguments_are_filled_in_the_order_in_which_they_were_taken_apart(args):
    n = len(signature(*args)[1])
    got = filled(args, iter(range(n)))
    assert signature(*got)[1] == list(range(n))
    assert [type(x) for x in got if isinstance(x, list | dict)] == [type(x) for x in args if isinstance(x, list | dict)]


def test_filled_keeps_classes_of_containers():
    got = filled((OrderedDict(a=1), Pair(1, 2), [3]), iter("wxyz"))
    assert got == (OrderedDict(a="w"), Pair("x", "y"), ["z"])
    assert (type(got[0]), type(got[1])) == (OrderedDict, Pair)


def test_objects_are_what_no_signature_can_hold_by_value():
    one, other = object(), object()
    assert objects((1, "a", None, T, [one, {"k": (other, 2.0)}])) == [one, other]
    assert objects(()) == []


@pytest.mark.parametrize(
    "result", [T, (T, T), [T], Pair(T, T), {"a": T, "b": [T, 3, None]}, (T, "text", Pair(T, {"k": T})), []]
)
def test_results_go_back_where_they_were(result):
    tensors = []
    rebuild = rebuilder(structure_of(result, tensors))
    got = rebuild(tensors)
    again = []
    structure_of(got, again)
    assert type(got) is type(result)
    assert all(a is b for a, b in zip(tensors, again, strict=True))


def test_a_tensor_that_is_returned_twice_is_one_tensor_again():
    a, b = ex.ones(1), ex.zeros(1)
    found = []
    rebuild = rebuilder(structure_of((a, [a, b], {"a": a}), found))
    assert len(found) == 2
    x, y = object(), object()
    assert rebuild([x, y]) == (x, [x, y], {"a": x})
    again = []
    assert rebuilder(structure_of((a, a), again))([x]) == (x, x)
    assert rebuilder(structure_of((a, b), []))([x, y]) == (x, y)
