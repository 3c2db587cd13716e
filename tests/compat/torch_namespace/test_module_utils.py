"""Tuples of n, and prefixes of state_dicts."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import extempo as ex
from extempo.compat.torch_namespace import module_utils


def test_one_number_becomes_a_tuple_and_a_tuple_stays_one():
    assert module_utils._pair(3) == (3, 3)
    assert module_utils._triple([1, 2, 3]) == (1, 2, 3)
    assert module_utils._single(1) == (1,)
    assert module_utils._reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
    assert module_utils._list_with_default([None, 4], [9, 7, 8]) == [7, 4]


def test_a_prefix_is_taken_from_the_keys_and_their_metadata():
    wrapped = ex.nn.ModuleDict({"module": ex.nn.Linear(2, 1)}).state_dict()
    module_utils.consume_prefix_in_state_dict_if_present(wrapped, "module.")
    assert list(wrapped) == ["weight", "bias"]
    assert isinstance(wrapped, OrderedDict)
    ex.nn.Linear(2, 1).load_state_dict(wrapped)


def test_what_makes_parameters_is_gathered_from_a_layers_arguments():
    assert module_utils.factory_kwargs(None) == {}
    assert module_utils.factory_kwargs({"device": "cpu", "factory_kwargs": {"dtype": ex.float64}}) == {
        "device": "cpu",
        "dtype": ex.float64,
    }
    with pytest.raises(TypeError, match="given twice"):
        module_utils.factory_kwargs({"device": "cpu", "factory_kwargs": {"device": "cpu"}})
    with pytest.raises(TypeError, match="got 'bias'"):
        module_utils.factory_kwargs({"bias": True})
