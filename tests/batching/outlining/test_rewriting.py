"""Statements in a row that look as if they only computed become regions; the rest stays, in its order."""

from __future__ import annotations

import ast
import textwrap

import extempo as ex
from extempo import nn
from extempo.batching.outlining.callees import Callees
from extempo.batching.outlining.rewriting import Learned, position_of, refused, rewritten

LINEAR = nn.Linear(2, 2)


def visit(t):
    return visit(t[0]) + ex.tanh(LINEAR(t))


def made_of(body, arguments="t, x, y, log", outside=(), varying=()):
    """Regions as text, and the new definition."""
    text = f"def fn({arguments}):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"
    names = {"ex": ex, "visit": visit, "LINEAR": LINEAR}
    exec(text, names)
    definition = ast.parse(text).body[0]
    learned = Learned(frozenset(outside), frozenset(varying))
    made, regions, calls_others = rewritten(definition, Callees(names["fn"]), learned)
    ast.fix_missing_locations(made)
    return [ast.unparse(s.body) for s in regions], ast.unparse(made), calls_others


def regions_of(*args, **kwargs):
    return made_of(*args, **kwargs)[0]


def test_ops_in_a_row_are_a_region_of_what_they_read():
    assert regions_of("a = ex.tanh(x)\nb = a * y\nreturn b + a") == [
        "def fn(x, y):\n    a = ex.tanh(x)\n    b = a * y\n    return b + a"
    ]


def test_a_region_gives_what_is_read_after_it():
    found = regions_of("a = ex.tanh(x)\nb = a * y\nc = b + 1\nprint(c)\nreturn b")
    assert found == ["def fn(x, y):\n    a = ex.tanh(x)\n    b = a * y\n    c = b + 1\n    return (b, c)"]


def test_what_a_loop_carries_is_given():
    found = regions_of("for i in range(3):\n    x = ex.tanh(x) * y\n    log.append(i)\nreturn 1")
    assert found == ["def fn(x, y):\n    x = ex.tanh(x) * y\n    return x"]


def test_one_op_is_no_region():
    assert regions_of("a = ex.tanh(x)\nprint(a)\nreturn a") == []


def test_effects_stay_between_regions():
    found, text, _ = made_of("a = ex.tanh(x) * y\nlog.append(1)\nb = ex.exp(a) * y\nprint(b)\nreturn b")
    assert len(found) == 2
    assert text.index("__cell__0") < text.index("log.append(1)") < text.index("__cell__1") < text.index("print(b)")


def test_arguments_that_recurse_come_first_and_the_function_must_be_the_same_still():
    found, text, calls_others = made_of("return ex.cat([visit(t[0]), visit(t[1])]).tanh() * x")
    assert calls_others
    assert len(found) == 1
    assert "visit" not in found[0]
    assert text.count("__outlined__(") == 2
    assert text.index("= ex.cat") < text.index("__outlined__")
    assert " is ex.cat" in text


def test_elements_and_attributes_of_the_samples_own_objects_are_read_outside():
    found = regions_of("a = ex.tanh(t.value) + t[0]\nreturn a * x")
    assert len(found) == 1
    assert "t." not in found[0]
    assert "t[" not in found[0]


def test_elements_of_what_ops_have_made_are_read_inside():
    assert "a[0]" in regions_of("a = ex.tanh(x).chunk(2)\nreturn a[0] * a[1]")[0]


def test_a_value_that_is_read_ends_a_region():
    found, text, _ = made_of("a = ex.tanh(x) * y\nif (a * 2).sum().item() > 0:\n    return a\nreturn x")
    assert len(found) == 1
    assert ".sum()" in found[0]
    assert ".item()" in text
    assert ".item()" not in found[0]


def test_what_is_learned_to_do_more_than_compute_is_left_out():
    body = "a = ex.tanh(x) * y\nb = LINEAR(a) + a\nreturn ex.exp(b) * 2"
    call = ast.parse(textwrap.indent(body.splitlines()[1], "    ").strip()).body[0].value.left
    at = (3, call.col_offset + 4, 3, call.end_col_offset + 4)
    assert len(regions_of(body)) == 1
    found = regions_of(body, outside={at})
    assert len(found) == 2
    assert not any("LINEAR" in text for text in found)


def test_what_varies_is_left_out():
    body = "a = ex.tanh(x)\nb = a * 2\nc = ex.tanh(y)\nd = c * b\nreturn d"
    found = regions_of(body, varying={"x"})
    assert len(found) == 1
    assert "tanh(x)" not in found[0]


def test_conditions_and_comprehensions_with_effects_stay_whole():
    found, text, _ = made_of("a = (print(1) or x) if log else y\nb = [visit(c) for c in t]\nreturn ex.tanh(a) * b[0]")
    assert "a = print(1) or x if log else y" in text
    assert "[__outlined__(visit)(c) for c in t]" in text
    assert len(found) == 1


def test_names_stay_where_a_call_may_rebind_them():
    _, text, _ = made_of("return ex.tanh(x) * visit(t) + LINEAR(x)")
    assert text.index("ex.tanh(x)") < text.index("__outlined__")


def test_functions_that_look_at_themselves_are_left_alone():
    for body in ("yield 1", "locals()", "global a", "breakpoint()", "(a := 1)", "self.__private"):
        assert refused(ast.parse(f"def fn(self):\n    {body}").body[0])
    assert not refused(ast.parse("def fn(self):\n    return self.__class__").body[0])


def test_a_place_in_a_region_is_an_expression_or_its_statement():
    definition = ast.parse("def fn(x, y):\n    a = ex.tanh(x) * y\n    return a + ex.exp(a)").body[0]
    names = {"ex": ex}
    exec("def fn(x, y):\n    a = 1\n    return ex", names)
    _, (region,), _ = rewritten(definition, Callees(names["fn"]), Learned(frozenset(), frozenset()))
    call = definition.body[0].value.left
    assert region.culprit(position_of(call)) == {position_of(call)}
    assert region.culprit((3, 0, 3, 1)) == {position_of(definition.body[1])}
    assert region.culprit((9, 0, 9, 1)) == set(region.statements)


def test_few_ops_gain_nothing_and_what_is_no_call_does_not_count():
    assert regions_of("a = ex.tanh(x)\nb = a * y\nprint(b)\nreturn b") == []
    assert regions_of("a = ex.cat([x, y], -1)[0]\nb = LINEAR(a[1])\nc = b[2]\nprint(c)\nreturn c") == []
    assert len(regions_of("a = ex.tanh(x)\nb = a * y\nc = LINEAR(b)\nd = c.relu()\nprint(d)\nreturn d")) == 1
