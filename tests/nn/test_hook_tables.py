"""Tables of hooks by PyTorch's names: what is registered is seen there, and what is changed there holds."""

from __future__ import annotations

import copy

import pytest

import extempo as ex
from extempo import nn
from extempo.autograd.graph import RemovableHandle

CALLS = {
    "_forward_pre_hooks": "register_forward_pre_hook",
    "_forward_hooks": "register_forward_hook",
    "_backward_pre_hooks": "register_full_backward_pre_hook",
    "_backward_hooks": "register_full_backward_hook",
    "_state_dict_pre_hooks": "register_state_dict_pre_hook",
    "_state_dict_hooks": "register_state_dict_post_hook",
    "_load_state_dict_pre_hooks": "register_load_state_dict_pre_hook",
    "_load_state_dict_post_hooks": "register_load_state_dict_post_hook",
}


@pytest.mark.parametrize(("table", "register"), CALLS.items())
def test_a_registered_hook_is_in_its_table_alone(table, register):
    def hook(*args):
        pass

    layer = nn.Linear(2, 2)
    assert all(len(getattr(layer, name)) == 0 for name in CALLS)
    handle = getattr(layer, register)(hook)
    assert dict(getattr(layer, table)) == {handle.id: hook}
    assert sum(len(getattr(layer, name)) for name in CALLS) == 1
    getattr(layer, table).clear()
    assert len(getattr(layer, table)) == 0


def test_hooks_can_be_taken_away_and_put_back():
    layer, seen = nn.Identity(), []
    layer.register_forward_hook(lambda module, args, output: seen.append("hook"))
    kept = dict(layer._forward_hooks)
    layer._forward_hooks.clear()
    layer(ex.ones(1))
    assert seen == []
    layer._forward_hooks = kept
    layer(ex.ones(1))
    assert seen == ["hook"]
    layer._forward_hooks = layer._forward_hooks  # itself
    assert dict(layer._forward_hooks) == kept


def test_a_hook_that_is_put_into_a_table_runs_until_its_handle_is_removed():
    layer = nn.Identity()
    handle = RemovableHandle(layer._forward_pre_hooks)
    layer._forward_pre_hooks[handle.id] = lambda module, args: (2 * args[0],)
    assert layer(ex.tensor(3.0)).item() == 6.0
    handle.remove()
    assert layer(ex.tensor(3.0)).item() == 3.0


def test_looking_at_tables_changes_nothing_of_a_module():
    layer = nn.Linear(1, 1)
    before = copy.deepcopy(layer)
    assert "_forward_hooks" not in vars(layer)
    assert len(layer._forward_hooks) == len(layer._state_dict_hooks) == 0
    assert repr(layer._forward_hooks) == "HookTable({})"
    assert layer.state_dict().keys() == before.state_dict().keys()
