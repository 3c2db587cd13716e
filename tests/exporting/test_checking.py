"""Programs are checked against their models, and the first op that differs is named."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.errors import ExportError
from extempo.exporting.checking import check_program


def test_a_model_that_does_something_else_at_its_second_call_is_found_out():
    calls = []

    def fn(x):
        calls.append(x)
        return (x + 1).exp() * len(calls)

    with pytest.raises(ExportError, match=r"on the example the program and the model differ, by up to .*first op that"):
        ex.program(fn, ex.ones(3))


def test_the_first_op_that_differs_is_named_with_its_line():
    def fn(x):
        y = x * 2
        z = y.exp()
        return z.sum()

    program = ex.program(fn, ex.ones(3))
    other = lambda x: (x * 2).exp().sum() if False else (x * 2 + 0.1 * 0).exp().mul(1).sum() * 1  # noqa: E731 - short
    check_program(program, other, [{"x": ex.ones(3)}], [[ex.ones(3)]])
    wrong = lambda x: ((x * 2) + 1).exp().sum()  # noqa: E731 - short
    with pytest.raises(ExportError, match=rf"first op that differs is exp, at .*:{fn.__code__.co_firstlineno + 2}"):
        check_program(program, wrong, [{"x": ex.ones(3)}], [[ex.ones(3)]])


def test_a_size_that_went_into_the_program_through_another_door_is_found_at_other_sizes():
    def fn(x):
        return x * len(x.detach().__reduce__.__self__.shape) + known[0] * 0 + hidden(x)

    known = [1]

    def hidden(x):
        return float(x.shape[0].value if hasattr(x.shape[0], "value") else x.shape[0])

    with pytest.raises(ExportError, match="on n = 4 the program and the model differ"):
        ex.program(fn, ex.ones(3), dynamic={"x": {0: "n"}})
    assert ex.program(fn, ex.ones(3), dynamic={"x": {0: "n"}}, check=False)(ex.ones(3)).tolist() == [4.0] * 3


def test_sizes_on_which_loops_never_end_are_left_out():
    def fn(x):
        return ex.while_loop(lambda x: x.sum() < 9, lambda x: (x * 2,), (x,))[0]

    assert ex.program(fn, ex.ones(3), dynamic={"x": {0: "n"}})(ex.ones(1)).tolist() == [16.0]


def test_a_model_that_fails_on_its_example_says_so():
    def fn(x):
        if not hasattr(x.shape[0], "value"):
            raise ValueError("no")
        return x

    with pytest.raises(ExportError, match="the model itself fails on the example: no"):
        ex.program(fn, ex.ones(3), dynamic={"x": {0: "n"}})


def test_guards_of_the_library_go_where_they_make_no_difference():
    program = ex.program(lambda x: ex.zeros(x.shape[0], 2) + x, ex.ones(3, 2), dynamic={"x": {0: "n"}})
    assert program.guards == []
    assert program(ex.ones(0, 2)).shape == (0, 2)
    program = ex.program(lambda x: x[2], ex.ones(3, 2), dynamic={"x": {0: "n"}})
    assert [str(g) for g in program.guards] == ["n > 2"]
