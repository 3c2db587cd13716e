"""Functions here are compiled however often they do new things: that is what is tested."""

import pytest

from extempo import compiling


@pytest.fixture(autouse=True)
def never_aside(monkeypatch):
    monkeypatch.setattr(compiling, "_STRANGE", 1 << 30)
