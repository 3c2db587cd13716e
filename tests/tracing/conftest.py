"""Functions here are recorded in every call and planned at the second sighting, however little that pays.

Static ones run by plans; `static_agreement` makes them run op by op, too. A module with `AS_USERS_RUN_IT` has the
policy that users have.
"""

from math import inf

import pytest

from extempo.tracing.policy import CountingPolicy
from extempo.tracing.static.autotune import Autotuner


@pytest.fixture(autouse=True)
def always_recorded(request, monkeypatch):
    if getattr(request.module, "AS_USERS_RUN_IT", False):
        return
    monkeypatch.setattr(CountingPolicy, "eager_next", lambda self: False)
    monkeypatch.setattr(CountingPolicy, "allows_plan", lambda self, n_steps, is_loop=False: True)
    monkeypatch.setattr(CountingPolicy, "planning_per_step", lambda self: inf)
    monkeypatch.setattr(CountingPolicy, "new_steps_allowed", lambda self: 1_000_000)
    monkeypatch.setattr(Autotuner, "first", lambda self: self._ways[0])
