"""Functions here are recorded and batched in every call, however small batches are; but for those about that choice.

Those that run in lockstep have tests of their own (`lockstep`), and so have those of which parts become cells
(`outlining`), which allow it again.
"""

import pytest


@pytest.fixture(autouse=True)
def _always_batched(always_planned):
    pass


@pytest.fixture(autouse=True)
def _recorded(monkeypatch, request):
    if "lockstep" not in request.node.nodeid:
        monkeypatch.setattr("extempo.batching.api.in_lockstep", lambda fn, kwargs, samples, prefers, prepare: None)


@pytest.fixture(autouse=True)
def _as_they_are(monkeypatch, request):
    if "outlining" not in request.node.nodeid:
        monkeypatch.setattr("extempo.batching.api.for_samples", lambda call, is_ordinary: call)
