"""Other devices have no random states."""

from __future__ import annotations

import extempo as ex
from extempo.compat.torch_namespace import device_states
from extempo.compat.torch_namespace.device_states import get_device_states, set_device_states


def test_there_is_no_state_of_another_device_and_it_can_be_put_back():
    assert get_device_states(ex.ones(2)) == ([], [])
    assert set_device_states([], []) is None


def test_parts_of_the_engine_of_checkpoints():
    x = ex.ones(2, requires_grad=True) * 2
    (detached, number) = device_states.detach_variable((x, 3))
    assert detached.is_leaf
    assert detached.requires_grad
    assert number == 3
    device_states.check_backward_validity([x])
    with (
        device_states.noop_context_fn()[0],
        device_states.set_checkpoint_early_stop(False),
        device_states.set_checkpoint_debug_enabled(True),
    ):
        device_states.DefaultDeviceType.set_device_type("cuda")
    assert device_states.DefaultDeviceType.get_device_type() == "cpu"
    assert issubclass(device_states.CheckpointError, RuntimeError)
