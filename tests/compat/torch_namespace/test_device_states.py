"""Other devices have no random states."""

from __future__ import annotations

import extempo as ex
from extempo.compat.torch_namespace.device_states import get_device_states, set_device_states


def test_there_is_no_state_of_another_device_and_it_can_be_put_back():
    assert get_device_states(ex.ones(2)) == ([], [])
    assert set_device_states([], []) is None
