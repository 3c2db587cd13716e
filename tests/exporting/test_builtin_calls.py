"""Python's own functions on traced values and sizes; on plain ones they do what Python does."""

from __future__ import annotations

import math

import pytest

import extempo as ex
from extempo.errors import ExportError
from extempo.exporting.builtin_calls import BuiltinCalls


def plain(fn, *args, **kwargs):
    calls = BuiltinCalls(lambda value: False, lambda f, items: [f(x) for x in items], True)
    return calls.find(fn)(fn, *args, **kwargs)


def test_plain_values_get_what_python_gives():
    assert plain(range, 1, 4) == range(1, 4)
    assert plain(len, [1, 2]) == 2
    assert list(plain(zip, [1], [2])) == [(1, 2)]
    assert list(plain(enumerate, "ab", 1)) == [(1, "a"), (2, "b")]
    assert list(plain(reversed, [1, 2])) == [2, 1]
    assert list(plain(map, str, [1])) == ["1"]
    assert plain(sum, [1, 2], 3) == 6
    assert plain(any, [0, 1])
    assert not plain(all, [0, 1])
    assert plain(max, 1, 2) == 2
    assert plain(min, [3, 1], key=lambda x: -x) == 3
    assert plain(max, [], default=5) == 5
    assert plain(round, 2.567, 1) == 2.6
    assert plain(abs, -2) == 2
    assert plain(int, "7") == 7
    assert plain(float, 2) == 2.0
    assert plain(math.log, 8, 2) == 3.0
    assert plain(ex.tensor, [1, 2]).tolist() == [1, 2]
    assert plain(list) == []


def test_a_function_that_has_no_stand_in_is_left_alone():
    calls = BuiltinCalls(lambda value: False, lambda f, items: [], True)
    assert calls.find(print) is None
    assert calls.find([]) is None


def test_functions_of_sizes_are_sizes_and_stay_open():
    def fn(x):
        n = len(x)
        return x[: round(n / 2)], x[: int(n * 0.75)], x[: abs(1 - n)], math.exp(n) * x[0], ex.tensor(n), float(n) * x

    program = ex.program(fn, ex.ones(4), dynamic={"x": {0: "n"}})
    for n in (1, 2, 7, 10):
        for ours, theirs in zip(program(ex.ones(n)), fn(ex.ones(n)), strict=True):
            assert ours.shape == theirs.shape
            assert ex.allclose(ours.double(), theirs.double())


def test_functions_of_values_are_tensors():
    def fn(x):
        s = x.sum()
        return x * math.sqrt(s) + math.floor(s) * math.ceil(s) + abs(min(s, 1.0)), list(x.unbind(0))[-1]

    program = ex.program(fn, ex.ones(4), dynamic={"x": {0: "n"}})
    x = ex.tensor([1.5, 2.0])
    assert all(ex.allclose(a, b) for a, b in zip(program(x), fn(x), strict=True))


def test_a_zip_with_what_is_no_tensor_is_refused():
    def fn(x):
        return sum(row * k for row, k in zip(x, ["a", "b"], strict=False))

    with pytest.raises(ExportError, match="zip of a tensor whose length stays open with a list"):
        ex.program(fn, ex.ones(4), dynamic={"x": {0: "n"}})
