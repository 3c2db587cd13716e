"""A module that hands on to others."""

from __future__ import annotations

from types import ModuleType

import pytest

import extempo as ex
from extempo.compat.torch_namespace.facade import TorchModule
from extempo.compat.torch_namespace.layout import is_module


def module(name, **contents):
    made = ModuleType(name)
    made.__dict__.update(contents)
    return made


def test_the_first_module_that_has_a_name_gives_it():
    facade = TorchModule("torch.nn.modules", [module("a", x=1), module("b", x=2, y=3)])
    assert (facade.x, facade.y) == (1, 3)
    assert {"x", "y"} <= set(dir(facade))


def test_values_are_asked_for_each_time_and_functions_kept():
    home = module("a", flag=False, fn=len)
    facade = TorchModule("torch.nn.modules", [home])
    assert facade.fn is len
    assert "fn" in vars(facade)
    home.flag = True
    assert facade.flag is True
    assert "flag" not in vars(facade)


def test_what_is_assigned_goes_to_who_has_it():
    home = module("a", flag=False, fn=len)
    facade = TorchModule("torch.nn.modules", [home])
    assert facade.fn is len
    facade.flag, facade.fn, facade.own = True, sum, 7
    assert (home.flag, home.fn, facade.fn, facade.own) == (True, sum, sum, 7)
    assert not hasattr(home, "own")


def test_what_is_refused_stands_there_and_says_why_when_it_is_called():
    facade = TorchModule("torch.fx", [], "no symbols")
    assert facade.wrap is facade.wrap
    with pytest.raises(ex.errors.UnsupportedError, match=r"^torch\.fx\.wrap: no symbols$"):
        facade.wrap(len)


def test_names_that_extempo_refuses_are_refused_in_its_words():
    stands_for = TorchModule("torch", [ex]).sparse_coo_tensor
    with pytest.raises(ex.errors.UnsupportedError, match=r"^torch\.sparse_coo_tensor: sparse tensors are not part"):
        stands_for(2)


def test_misspelt_names_get_the_nearest_suggested():
    with pytest.raises(AttributeError, match=r"^module 'torch' has no attribute 'tensr'; did you mean 'tensor'\?$"):
        _ = TorchModule("torch", [ex]).tensr


def test_python_may_ask_for_its_own_names():
    assert not hasattr(TorchModule("torch.fx", [], "no symbols"), "__wrapped__")


def test_a_star_takes_no_module_that_pytorch_has_not():
    facade = TorchModule("torch", [ex])
    public = facade.__all__
    assert {"tanh", "Tensor", "nn", "hann_window"} <= set(public)
    assert not {"data", "metrics", "train", "inspect"} & {*public, *dir(facade)}
    found = [name for name in public if not is_module(name)]  # modules need the finder, which is another test's
    assert [name for name in found if not hasattr(facade, name)] == []


def test_functions_and_classes_stand_in_its_dict():
    module = TorchModule("torch.optim", [ex.optim])
    assert module.__dict__["SGD"] is ex.optim.SGD
    assert "lr_scheduler" not in module.__dict__


def test_a_module_of_extempos_hides_no_name_of_pytorchs():
    facade = TorchModule("torch.backends", [ex.backends, module("b", flags=len)])
    assert facade.flags is len
