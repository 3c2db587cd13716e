"""Functions here are batched in every call, however small the batches are."""

import pytest

from extempo.batching.report import Notes


@pytest.fixture(autouse=True)
def always_batched(monkeypatch, request):
    if "outlook" not in request.fixturenames:
        monkeypatch.setattr(Notes, "pays", lambda self: True)


@pytest.fixture
def outlook():
    """Whether batching pays is decided as for users."""
