"""How many calls of a batch Python had to record."""

from unittest import mock

import pytest

pytest.importorskip("greenlet")

import extempo as ex
from extempo.batching.run import BatchExecutor


def batched(fn, samples):
    """The results of a batch, whether or not such batches have paid before."""
    batch = ex.batch(fn)
    batch._outlooks = {}
    lockstep = mock.patch("extempo.batching.api.in_lockstep", return_value=None)  # which is no recording
    outlining = mock.patch("extempo.batching.api.for_samples", side_effect=lambda call, is_ordinary: call)
    with lockstep, outlining:
        results = batch(samples)
    assert batch.stats()["nodes"] > 0
    return results


def recorded_by_python(monkeypatch, fn, samples, times=3):
    """Run a batch some times: its results, and how many calls of the last run went through Python."""
    counted, plain = [0], BatchExecutor.call

    def call(self, *args):
        counted[0] += 1
        return plain(self, *args)

    monkeypatch.setattr(BatchExecutor, "call", call)
    for _ in range(times):
        counted[0] = 0
        results = batched(fn, samples)
    return results, counted[0]
