"""Lines by code object and instruction."""

from __future__ import annotations

from extempo.profiling.lines import Line, line_of


def here():
    return 1 + 1


def test_the_line_of_an_instruction_has_file_number_and_text():
    code = here.__code__
    line = line_of(code, len(code.co_code) - 2)
    assert line.number == code.co_firstlineno + 1
    assert str(line) == f"test_lines.py:{line.number} return 1 + 1"


def test_a_line_of_no_file_has_no_text():
    assert str(Line("<string>", 3, "f")) == "<string>:3"
