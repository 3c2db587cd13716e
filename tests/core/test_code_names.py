"""What code can read by name, found without running it."""

from __future__ import annotations

import math
import os.path

import pytest

from extempo.core.code_names import codes_in, globals_of, is_library

FACTOR = 2.0


def scaled(x):
    return [math.sin(FACTOR * y) for y in x] + (lambda: os.path.join("a", "b"))()


def test_globals_come_with_the_attributes_that_they_are_asked_for():
    found = {(name, tuple(attributes)) for code in codes_in(scaled.__code__) for name, attributes in globals_of(code)}
    assert {("FACTOR", ()), ("math", ("sin",)), ("os", ("path", "join"))} <= found


def test_locals_and_attributes_of_results_are_no_globals():
    def plain(x):
        return x.shape, len(x).real

    assert list(globals_of(plain.__code__)) == [("len", [])]


def test_the_code_of_inner_functions_is_part_of_a_function():
    names = [code.co_name for code in codes_in(scaled.__code__)]
    assert names[0] == "scaled"
    assert "<lambda>" in names


@pytest.mark.parametrize("module", ["math", "os.path", "numpy", "extempo.nn", "pytest"])
def test_what_is_installed_is_a_library(module):
    assert is_library(module)


@pytest.mark.parametrize("module", [None, "", "__main__", "my_model"])
def test_the_users_own_modules_are_none(module):
    assert not is_library(module)
