"""Pools apart from that of the process."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["platform", "posix"])
def eager(request):
    """One that always wakes its helpers, with each way of sleeping."""
    from . import thread_probes as probes

    pool = probes.eager_pool(probes.PLATFORM._replace(futex_call=None) if request.param == "posix" else probes.PLATFORM)
    yield pool
    pool.set_threads(1)


@pytest.fixture
def pool():
    from . import thread_probes as probes

    pool = probes.new_pool()
    yield pool
    pool.set_threads(1)
