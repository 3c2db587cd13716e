"""Functions here are batched in every call, however small the batches are; but for those that are about that choice."""

import pytest


@pytest.fixture(autouse=True)
def _always_batched(always_planned):
    pass
