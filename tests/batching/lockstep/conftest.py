"""No function here is known from another test."""

import pytest

from extempo.batching.lockstep import programs


@pytest.fixture(autouse=True)
def _unknown():
    programs.forget()
    yield
    programs.forget()
