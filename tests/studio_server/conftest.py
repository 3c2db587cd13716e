"""What the studio's tests share."""

from __future__ import annotations

import pytest


@pytest.fixture
def fresh_studio():
    """No studio before, and none after."""
    pytest.importorskip("uvicorn", reason="the studio needs uvicorn")
    pytest.importorskip("websockets", reason="the studio needs websockets")
    from extempo.studio_server import api

    api.close_studio()
    yield
    api.close_studio()
