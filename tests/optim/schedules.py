"""An optimizer for schedules, and the rates that one gives."""

from __future__ import annotations

import extempo as ex
from extempo import optim


def sgd(lr=1.0, n_groups=1, **options):
    return optim.SGD([{"params": [ex.ones(1, requires_grad=True)]} for _ in range(n_groups)], lr=lr, **options)


def rates(schedule, n_steps):
    """The rate that each step is taken with."""
    found = []
    for _ in range(n_steps):
        found.append(schedule.optimizer.param_groups[0]["lr"])
        schedule.optimizer.step()
        schedule.step()
    return found
