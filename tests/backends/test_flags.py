"""The switches of libraries that Extempo does not use: they keep what is set and change nothing."""

import importlib
import sys

import pytest

import extempo as ex
from extempo.backends.flags import Switches


@pytest.fixture
def switches():
    made = Switches("imagined", enabled=True, level=3)
    yield made
    del sys.modules[made.__name__]


def test_a_switch_keeps_what_it_was_set_to(switches):
    switches.level = "high"
    switches.new_one = (1, 2)
    assert (switches.level, switches.new_one, switches.enabled) == ("high", (1, 2), True)


def test_settings_hold_inside_the_block_and_are_put_back_after_an_error(switches):
    def fails():
        with switches.flags(level=7, added=1):
            assert (switches.level, switches.added) == (7, 1)
            switches.set_inside = True
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert switches.level == 3
    for name in ("added", "set_inside"):
        with pytest.raises(AttributeError, match=name):
            getattr(switches, name)


def test_asking_for_a_switch_that_was_never_set_names_it(switches):
    with pytest.raises(AttributeError, match=r"never set: 'turbo'"):
        _ = switches.turbo


def test_a_library_is_a_module_that_says_it_is_not_there():
    for name in ("cudnn", "cuda", "cuda.matmul", "mps", "mkl", "mkldnn", "openmp"):
        module = importlib.import_module(f"extempo.backends.{name}")
        assert (module.is_available(), module.is_built(), module.version()) == (False, False, None)
    assert importlib.import_module("extempo.backends.cudnn") is ex.backends.cudnn
    assert ex.backends.cuda.matmul.allow_tf32 is False
