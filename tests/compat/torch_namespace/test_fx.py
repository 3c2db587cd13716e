"""Marks for a tracer have no effect."""

from __future__ import annotations

from extempo.compat.torch_namespace import fx


def test_a_marked_function_is_the_function():
    assert fx.wrap(len) is len
    assert fx.wrap("len") == "len"
    assert fx.has_side_effect(print) is print
