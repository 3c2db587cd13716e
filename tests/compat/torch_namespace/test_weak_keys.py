"""Values by the identity of tensors that may go away."""

from __future__ import annotations

import gc

import pytest

import extempo as ex
from extempo.compat.torch_namespace.weak_keys import WeakIdKeyDictionary, WeakIdRef


def test_equal_tensors_are_different_keys():
    a, b = ex.ones(2), ex.ones(2)
    table = WeakIdKeyDictionary({a: 1})
    table[b] = 2
    assert (table[a], table[b], len(table)) == (1, 2, 2)
    assert a in table
    assert ex.ones(2) not in table
    del table[a]
    with pytest.raises(KeyError):
        table[a]


def test_entries_go_with_their_keys():
    table, kept = WeakIdKeyDictionary(), ex.ones(1)
    table[kept] = 1
    table[ex.ones(1)] = 2
    gc.collect()
    assert len(table) == 1
    assert list(table.items()) == [(kept, 1)]
    table[kept] = 3
    assert len(table.data) == 1
    assert "of 1" in repr(table)


def test_references_of_one_object_are_equal():
    a = ex.ones(1)
    assert WeakIdRef(a) == WeakIdRef(a) != WeakIdRef(ex.ones(1))
    assert WeakIdRef(a)() is a
    assert WeakIdRef(a) != a
