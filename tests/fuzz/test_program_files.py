"""Damaged and crafted files of programs, some hundred of them; ten thousand where there is time."""

from __future__ import annotations

import os
import time

import pytest

from . import files, program_files

_CASES = 300

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="cases run in forked children")


def cases(first: int, last: int) -> list[tuple[int, str]]:
    return [(number, wrong) for number in range(first, last) if (wrong := program_files.case(0, number))]


def test_programs_to_begin_with_run():
    for program, arguments in program_files.whole():
        program(*arguments)


def test_a_file_gives_a_program_or_a_clear_error_and_executes_nothing():
    assert cases(0, _CASES) == []


@pytest.mark.slow
def test_ten_thousand_files_in_bounded_memory():
    program_files.whole()
    number, n_failures = -1, 0
    while number < 10_000:
        n_more, number = files.watch(1, number + 1, time.monotonic() + 30.0, program_files.case, "program_files")
        n_failures += n_more
    assert n_failures == 0
