"""Regions of two ops are regions here, though they gain nothing: tests of what becomes one need no longer ones."""

import pytest


@pytest.fixture(autouse=True)
def _short_regions(monkeypatch, request):
    if "gain" not in request.node.name:
        monkeypatch.setattr("extempo.batching.outlining.rewriting._LEAST_WORK", 2)
        monkeypatch.setattr("extempo.batching.outlining.outlines.RegionCandidate.least_ops", 0)
