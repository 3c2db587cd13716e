"""What scripts ask an accelerator that is not there."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.compat.accelerators import refuse_rest
from extempo.core.absent_names import RefusedName


@pytest.mark.parametrize("name", ["cuda", "mps", "xpu"])
def test_accelerators_are_not_there(name):
    module = getattr(ex, name)
    assert module.is_available() is False
    assert module.device_count() == 0
    module.manual_seed(0)
    module.manual_seed_all(0)
    module.empty_cache()
    assert module.memory_allocated() == 0
    assert not hasattr(module, "synchronize")
    with pytest.raises(RefusedName, match="is_available"):
        module.synchronize()


def test_pythons_own_questions_are_plain_attribute_errors():
    ask = refuse_rest("tpu")
    with pytest.raises(AttributeError, match="__wrapped__") as caught:
        ask("__wrapped__")
    assert not isinstance(caught.value, RefusedName)
    with pytest.raises(RefusedName, match=r"guard the line with `if ex\.tpu\.is_available\(\):`"):
        ask("synchronize")
