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


def test_a_size_that_an_op_fixes_is_reported_with_its_line():
    weight = ex.ones(3, 2)

    def fn(x):
        return x @ weight

    line = fn.__code__.co_firstlineno + 1
    with pytest.raises(ExportError, match=rf"test_checking.py:{line}: the size d was to stay open.*takes d = 3 only: "):
        ex.program(fn, ex.ones(4, 3), dynamic={"x": {0: "n", 1: "d"}})


def test_sizes_that_must_be_alike_or_multiples_stay_open():
    program = ex.program(ex.dot, (ex.ones(4), ex.ones(4)), dynamic={"input": {0: "n"}, "tensor": {0: "n"}})
    assert program(ex.ones(6), ex.ones(6)) == 6
    program = ex.program(lambda x: x.reshape(-1, 5).sum(1), ex.ones(10), dynamic={"x": {0: "n"}})
    assert program(ex.ones(15)).tolist() == [5, 5, 5]


def test_two_names_for_sizes_that_must_be_alike_are_refused_in_words():
    with pytest.raises(ExportError, match=r"test_checking.py:\d+: add: .*those that are always alike have one name"):
        ex.program(lambda x, y: x + y, (ex.ones(4), ex.ones(4)), dynamic={"x": {0: "n"}, "y": {0: "m"}})


def test_a_size_that_code_decided_about_is_reported_with_its_line():
    def fn(x):
        if len(x) != 4:
            return x
        return x * 2

    line = fn.__code__.co_firstlineno + 1
    with pytest.raises(ExportError, match=rf"test_checking.py:{line}: the size n was to stay open.*n == 4"):
        ex.program(fn, ex.ones(4), dynamic={"x": {0: "n"}})
    assert ex.program(fn, ex.ones(4), dynamic={"x": {0: ex.exporting.Dim("n", min=4, max=4)}})(ex.ones(4)).sum() == 8


def test_new_states_are_compared_too():
    class Counts(ex.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", ex.zeros(2))

        def forward(self, x):
            self.n.add_(x)
            return x

    model = Counts().eval()
    program = ex.program(model, ex.ones(2))
    with program.edit() as graph:
        (node,) = graph.find("add")
        graph.replace(node, graph.call(lambda y: y * 2, node))
    with pytest.raises(ExportError, match="differ"):
        check_program(program, model, [{"x": ex.ones(2)}], [[ex.ones(2)]])
