"""Which functions fork."""

from __future__ import annotations

import pytest

import extempo as ex
from batching.outlining import forked_functions as functions
from extempo.batching.outlining.independence import forking, is_plain
from extempo.exporting.source import definition_of


def proof_of(fn, owner=None):
    found = definition_of(fn.__code__)
    assert found is not None
    return forking(found[0], fn, owner)


def test_a_function_that_computes_asks_and_appends_forks():
    proof = proof_of(functions.grow)
    assert len(proof.forks) == 1
    assert proof.grown == {"nodes", "chances"}
    assert proof.holds(functions.grow, None)


def test_a_method_forks_with_the_methods_that_it_calls():
    grower = functions.Grower()
    proof = proof_of(functions.Grower.grow, grower)
    assert proof.is_method
    assert proof.holds(functions.Grower.grow, grower)


def test_lists_of_its_own_may_be_read():
    assert proof_of(functions.own_lists_grow).grown == {"nodes"}


@pytest.mark.parametrize("fn", functions.IN_ORDER, ids=lambda fn: fn.__name__)
def test_whatever_does_more_stays_in_order(fn):
    assert proof_of(fn) is None


def test_what_asks_for_nothing_gains_nothing():
    def visit(h, depth, nodes):
        nodes.append(ex.tanh(h))
        if depth:
            visit(h + 1, depth - 1, nodes)
            visit(h - 1, depth - 1, nodes)

    assert proof_of(visit) is None


def test_a_proof_holds_while_names_refer_to_the_same(monkeypatch):
    proof = proof_of(functions.grow)
    monkeypatch.setattr(functions, "MORE", ex.nn.Linear(functions.N, 1))
    assert not proof.holds(functions.grow, None)


def test_a_proof_does_not_keep_a_module_alive():
    import weakref

    grower = functions.Grower()
    proof = proof_of(functions.Grower.grow, grower)
    gone = weakref.ref(grower)
    del grower
    assert proof is not None
    assert gone() is None


def test_plain_values_are_those_without_code():
    class Own(list):
        pass

    assert is_plain([1, (2.0, "a", None), {"b": ex.zeros(2)}])
    assert not is_plain([iter([1])])
    assert not is_plain(Own())
    assert not is_plain({1, 2})
