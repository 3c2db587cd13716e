"""Text that becomes a function whose lines are those of other code."""

from __future__ import annotations

import traceback

import pytest

from extempo.tracing.static.source_lines import _signed, function_of, line_of


def like():
    pass


def raised_at(function, *args):
    """(file, line, function) where a call raises."""
    with pytest.raises(ZeroDivisionError) as caught:
        function(*args)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    return last.filename, last.lineno, last.name


@pytest.mark.parametrize("lines", [[10, 11, 12], [900, 3, 50_000], [7, 7, 7]])
def test_a_statement_is_on_the_line_that_it_is_said_to_be_on(lines):
    statements = ["s[0] == 0 and 1 / 0", "s[0] == 1 and 1 / 0", "s[0] == 2 and 1 / 0; s[1] = c"]
    function, text = function_of(statements, lines, like.__code__, {})
    for i, line in enumerate(lines):
        assert raised_at(function, [i, None], None) == (__file__, line, "like")
    assert text.co_firstlineno == 1


def test_the_function_does_what_its_text_says_with_the_names_that_it_got():
    function, _ = function_of(["s[1] = f(s[0], c)"], [4], None, {"f": divmod})
    slots = [17, None]
    function(slots, 5)
    assert slots == [17, (3, 2)]
    assert function.__code__.co_filename == "<static function>"


def test_a_statement_of_many_instructions_stays_on_its_line():
    function, _ = function_of(["; ".join(["s[0] += 1"] * 40 + ["1 / 0"]), "s[0] = 0"], [25, 26], like.__code__, {})
    assert raised_at(function, [0], None)[1] == 25


def test_the_line_of_an_instruction_is_found_in_its_code():
    code = like.__code__
    assert line_of((code, 0)) == code.co_firstlineno
    assert line_of((code, 2)) == code.co_firstlineno + 1


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, [0]), (1, [2]), (-1, [3]), (31, [62]), (32, [64, 1]), (-32, [65, 1])]
)
def test_numbers_of_location_tables_have_six_bits_a_byte_and_the_sign_first(value, encoded):
    assert list(_signed(value)) == encoded
