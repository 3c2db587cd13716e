"""Choices of ops: patterns of ops and modules."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.inspect.choosing import Choice, _is_in


@pytest.mark.parametrize(
    ("path", "pattern", "is_in"),
    [
        ("encoder", "encoder.*", True),
        ("encoder.layers.0", "encoder.*", True),
        ("encoders", "encoder.*", False),
        ("decoder", "encoder.*", False),
        ("encoder.layers.0", "*.0", True),
        ("", "encoder", False),
    ],
)
def test_a_pattern_with_a_dot_and_a_star_means_all_of_a_module(path, pattern, is_in):
    assert _is_in(path, pattern) is is_in


def test_a_choice_says_what_it_takes():
    assert str(Choice("watch", ["exp", "log*"], "encoder", (None, 3), "forward")) == (
        "op=exp, log*, module=encoder, shape=(None, 3), phase=forward"
    )
    assert str(Choice("watch", None, None, None, None)) == "every op"


def test_an_op_that_does_not_exist_is_refused():
    with pytest.raises(ex.errors.ArgumentError, match="watch: no op is called 'sotfmax'; did you mean"):
        Choice("watch", "sotfmax", None, None, None)
