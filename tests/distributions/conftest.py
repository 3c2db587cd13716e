"""Each test draws from the same stream, whatever ran before it."""

from __future__ import annotations

import pytest

import extempo as ex


@pytest.fixture(autouse=True)
def fixed_stream():
    ex.manual_seed(0)
