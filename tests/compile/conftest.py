"""Functions here are recorded in every call and planned at the second sighting, however little that pays."""

from math import inf

import pytest

from extempo.accounting import Account


@pytest.fixture(autouse=True)
def always_recorded(monkeypatch):
    monkeypatch.setattr(Account, "eager_next", lambda self: False)
    monkeypatch.setattr(Account, "allows_plan", lambda self, n_steps, is_loop=False: True)
    monkeypatch.setattr(Account, "planning_per_step", lambda self: inf)
    monkeypatch.setattr(Account, "new_steps_allowed", lambda self: 1_000_000)
