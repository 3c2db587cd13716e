"""A step with its batches, in one mode or another."""

from __future__ import annotations

import extempo as ex
from extempo.comparing.variants import loss_of


def test_the_loss_is_found_in_what_a_step_returns():
    assert loss_of(ex.tensor(2.0)) == 2.0
    assert loss_of((ex.tensor(2.0), "more")) == 2.0
    assert loss_of({"loss": 1.5}) == 1.5
    assert loss_of(None) is None
    assert loss_of(ex.ones(3)) is None
