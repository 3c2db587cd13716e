"""Notes of errors: what others added, and where the error rose."""

from __future__ import annotations

import pytest

from extempo.errors import AutogradError, ExtempoError, ShapeError


def test_an_error_that_was_never_raised_has_the_notes_that_were_added():
    for kind in (ExtempoError, AutogradError, ShapeError):
        error = kind("no")
        assert error.__notes__ == []
        error.add_note("a")
        error.add_note("b")
        assert error.__notes__ == ["a", "b"]


def test_an_error_about_no_operands_has_no_notes_of_its_own():
    with pytest.raises(AutogradError) as raised:
        raise AutogradError("no")
    assert raised.value.__notes__ == []
