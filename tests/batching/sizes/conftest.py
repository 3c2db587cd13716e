"""Which calls are recorded together depends on which sizes were seen before: here, on those of the same test."""

import pytest

from extempo.batching.sizes import together


@pytest.fixture(autouse=True)
def _nothing_seen():
    together.forget()
