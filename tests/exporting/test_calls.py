"""How programs are called: examples, names, nesting, dynamic sizes, and what does not fit."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.errors import DtypeError, ExportError, ShapeError
from extempo.exporting.calls import Dim, bound_examples, called, nest, rebuilt


def two(x, y, scale=2.0):
    return (x + y) * scale


def test_an_example_is_a_tuple_a_dict_or_the_one_argument():
    x, y = ex.ones(2), ex.ones(2)
    for examples in ((x, y), ((x, y),), ({"x": x, "y": y},)):
        assert list(bound_examples(two, examples)[0]) == ["x", "y"]
    assert len(bound_examples(lambda x: x, (x, y))) == 2
    with pytest.raises(ExportError, match=r"does not fit the arguments .* a tuple of its arguments, ex\.program"):
        bound_examples(two, ((x,),))
    with pytest.raises(ExportError, match="at least one example"):
        bound_examples(two, ())


def test_functions_are_called_with_arguments_by_name():
    def fn(a, *rest, b=1, **more):
        return a, rest, b, more

    call = bound_examples(fn, ((1, 2, 3),))[0]
    assert called(fn, {**call, "b": 5, "c": 6}) == (1, (2, 3), 5, {"c": 6})
    assert called(two, {"x": 1, "y": 2, "scale": 3}) == 9


def test_nesting_is_taken_apart_and_put_together():
    found = []
    tree = {"a": (ex.ones(1), 3), "b": [None, ex.ones(2)]}
    nesting = nest(tree, "x", found, "argument")
    assert [name for name, _ in found] == ["x.a.0", "x.b.1"]
    again = rebuilt(nesting, [t for _, t in found], str)
    assert again["a"][1] == 3
    assert again["b"][1] is found[1][1]
    with pytest.raises(ExportError, match="is a object"):
        nest(object(), "x", [], "the argument")


def test_sizes_are_named_by_dynamic_in_every_form():
    x, y = ex.ones(3, 4), ex.ones(3, 4)
    forms = [
        {"x": {0: "n"}, "y": {0: "n"}},
        [{0: "n"}, {0: "n"}],
        ({0: Dim("n")}, {-2: Dim("n")}),
        {"x": ("n", None), "y": ["n", None]},
    ]
    for dynamic in forms:
        program = ex.program(two, (x, y), dynamic=dynamic)
        assert repr(program) == "program(x: f32[n, 4], y: f32[n, 4]) -> (output: f32[n, 4])"
        assert program(ex.ones(5, 4), ex.ones(5, 4)).shape == (5, 4)


def test_sizes_are_dynamic_where_examples_differ_and_equal_where_they_agree():
    program = ex.program(two, (ex.ones(3, 4), ex.ones(3, 4)), (ex.ones(5, 4), ex.ones(5, 4)))
    assert repr(program) == "program(x: f32[x_0, 4], y: f32[x_0, 4]) -> (output: f32[x_0, 4])"


def test_nested_arguments_have_dotted_names():
    def fn(x, state):
        return x + state[0], {"c": state[1] * 2}

    program = ex.program(fn, (ex.ones(3), (ex.ones(3), ex.ones(3))), dynamic={"x": {0: "n"}, "state": [{0: "n"}] * 2})
    assert [str(i) for i in program.inputs] == ["x: f32[n]", "state.0: f32[n]", "state.1: f32[n]"]
    assert program.outputs == ["output.0", "output.1.c"]
    y, more = program(ex.ones(2), state=(ex.ones(2), ex.ones(2)))
    assert y.tolist() == more["c"].tolist() == [2.0, 2.0]


def test_what_does_not_fit_is_refused_in_words():
    program = ex.program(two, (ex.ones(3, 4), ex.ones(3, 4)), dynamic={"x": {0: Dim("n", max=8)}, "y": {0: "n"}})
    x = ex.ones(2, 4)
    with pytest.raises(
        ShapeError, match=r"expected y: f32\[n, 4\], got f32\[3, 4\]: dimension 0 must be 2, as the size n"
    ):
        program(x, ex.ones(3, 4))
    with pytest.raises(ShapeError, match="the size n is 9, and must be from 0 to 8"):
        program(ex.ones(9, 4), ex.ones(9, 4))
    with pytest.raises(DtypeError, match=r"expected x: f32\[n, 4\], got i64\[2, 4\]"):
        program(x.long(), x)
    with pytest.raises(DtypeError, match="the argument 'y' is missing"):
        program(x)
    with pytest.raises(DtypeError, match="'z' is not one of the arguments: x, y"):
        program(x, x, z=1)
    with pytest.raises(DtypeError, match="x must be a tensor, got list"):
        program([1.0], x)


def test_mistakes_in_dynamic_are_named():
    x = ex.ones(3)
    for dynamic, message in [
        ({"z": {0: "n"}}, "dynamic names 'z', and the tensors among the arguments are x;"),
        ({"x": {3: "n"}}, "dynamic names dimension 3 of x, which has 1"),
        ({"x": "n"}, "write {'x': {0: \"batch\"}}"),
        ({"x": {0: "a b"}}, "a size needs a name of letters"),
    ]:
        with pytest.raises(ExportError, match=message.replace("{", "\\{")):
            ex.program(lambda x: x * 2, x, dynamic=dynamic)


def test_numbers_are_part_of_the_program():
    program = ex.program(two, (ex.ones(2), ex.ones(2), 3.0))
    assert program(ex.ones(2), ex.ones(2), 3.0).tolist() == [6.0, 6.0]
    assert program(ex.ones(2), ex.ones(2)).tolist() == [6.0, 6.0]
    with pytest.raises(ExportError, match=r"scale was 3.0 when the program was made"):
        program(ex.ones(2), ex.ones(2), 4.0)
