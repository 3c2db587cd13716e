"""Sizes as polynomials: arithmetic, what is always so, text and back, and what a trace notes of them."""

from __future__ import annotations

import itertools
import math

import pytest

from extempo.errors import ExportError, ShapeError
from extempo.exporting.sizes import SizeExpr, SizeLog, at_sizes, frozen, parse_guard, parse_size
from extempo.serialization.files import FileFormatError

TEXTS = [
    "b",
    "2 * b * t + 1",
    "((b + 1) // 2)",
    "max(0, t - 3) + b",
    "-b + 7",
    "(b % 4) * t",
    "((b / 2) + 0.5)",
    "0",
    "12",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_read_back(text):
    expression = parse_size(text)
    assert parse_size(str(expression)) == expression
    for b, t in itertools.product((1, 2, 5, 8), repeat=2):
        assert expression.evaluate({"b": b, "t": t}) == eval(text, {"b": b, "t": t, "max": max})


@pytest.mark.parametrize(
    "text", ["b +", "f(b)", "b.c", "'x'", "10**10**10", "1e999", "(" * 500, "b" * 3000, "1 << 9999"]
)
def test_what_is_no_size_is_refused(text):
    with pytest.raises(FileFormatError, match="sizes: "):
        parse_size(text)


def test_symbols_compute_like_numbers_and_cancel():
    log = SizeLog()
    b, t = log.symbol("b", 3), log.symbol("t", 5)
    assert str(log.expression(b * t * 8 // (b * 8))) == "t"
    assert str(log.expression((b + 2) * (t - 1))) == "b * t - b + 2 * t - 2"
    assert b * 8 % 4 == 0
    assert t + 1 - t == 1
    assert str(log.expression((t - 1) // 2)) == "((t - 1) // 2)"
    assert (t * 2 + 1).value == 11
    assert not log.guards


def test_only_what_depends_on_sizes_becomes_a_guard_with_its_line():
    log = SizeLog()
    b, t = log.symbol("b", 3), log.symbol("t", 5)
    assert b >= 0
    assert t + 1 > 0
    assert not b < b
    assert b + 1 != b
    assert not log.guards
    assert t > b
    assert b != 1
    guards = list(log.guards.values())
    assert [str(g) for g in guards] == ["t > b", "b != 1"]
    assert "test_sizes.py:" in guards[0].line
    assert not guards[0].by_library
    assert guards[0].holds({"b": 1, "t": 2})
    assert not guards[1].holds({"b": 1, "t": 2})
    assert parse_guard(str(guards[0]), "") == guards[0]._replace(line="")


def test_shape_rules_decide_without_a_guard():
    log = SizeLog()
    b = log.symbol("b", 3)
    log.in_rule += 1
    assert b == 3
    assert not log.guards


def test_a_size_that_is_needed_as_a_number_is_an_error_with_its_line():
    log = SizeLog()
    b = log.symbol("b", 3)
    for use in (lambda: range(b), lambda: [0][b], lambda: {b: 1}, lambda: int(b), lambda: float(b)):
        with pytest.raises(ExportError, match=r"test_sizes.py:\d+: the size b is needed as a number"):
            use()
    assert f"{b} and {b + 1!r}" == "b and b + 1"


def test_frozen_values_are_those_of_any_sizes():
    log = SizeLog()
    b = log.symbol("b", 3)
    value = frozen({"shape": (b, [b * 2], 4), "dim": 1}, log)
    assert value["shape"][0] == SizeExpr.of("b")
    assert at_sizes(value, {"b": 5}) == {"shape": (5, [10], 4), "dim": 1}


def test_a_size_divided_by_an_empty_one_is_0():
    assert parse_size("(t // b)").evaluate({"t": 0, "b": 0}) == 0


@pytest.mark.parametrize("text", ["sqrt(n)", "2 * int(n / 2)", "log(n + 1)", "(round(n / 2) // 2)", "ceil(n / 4)"])
def test_functions_of_sizes_are_read_back_as_they_are_written(text):
    made = parse_size(text)
    assert parse_size(str(made)) == made
    assert made.evaluate({"n": 7}) == eval(text, {"n": 7, **vars(math)})


def test_a_product_of_fractions_is_not_divided_as_if_it_were_whole():
    assert parse_size("(2 * (n / 4)) // 2").evaluate({"n": 2}) == 0


def test_a_function_without_a_value_is_an_error_of_sizes():
    with pytest.raises(ShapeError, match=r"log\(n\) has no value for these sizes"):
        parse_size("log(n)").evaluate({"n": 0})
