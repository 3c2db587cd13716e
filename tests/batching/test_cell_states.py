"""What one cell knows of its calls, for another one that does the same."""

from __future__ import annotations

import extempo as ex
from extempo.batching.cell_twins import Pairing
from extempo.batching.cells import find

from .cell_calls import call


def make():
    factor = 2.0

    @ex.cell
    def scaled(x):
        return x * factor

    def change(to):
        nonlocal factor
        factor = to

    return scaled, change


def known_of(fn):
    (layout,) = find(fn)._layouts.values()
    return layout


def test_a_moved_layout_looks_at_the_variables_of_the_twin():
    (one, change_one), (other, change_other) = make(), make()
    made = call(one, ex.ones(3))
    pairing = Pairing()
    assert pairing.pair(one, other)
    layout = known_of(one).moved(pairing.forth)
    ((state,),) = layout.states.values()
    assert state.kind is made.kind
    assert state.reads.same()
    change_one(3.0)
    assert state.reads.same()
    change_other(3.0)
    assert not state.reads.same()
    ((own,),) = known_of(one).states.values()
    assert not own.reads.same()


def test_a_moved_cached_call_has_the_guards_of_the_twin():
    (one, _), (other, _) = make(), make()
    args = (ex.ones(3),)
    find(one).learn(call(one, *args), args, {}, True)
    pairing = Pairing()
    assert pairing.pair(one, other)
    ((state,),) = known_of(one).moved(pairing.forth).states.values()
    ((own,),) = known_of(one).states.values()
    assert state.cached.kind is own.cached.kind
    assert state.cached.reads is state.reads is not own.reads


def test_both_layouts_hear_of_objects_that_are_gone():
    (one, _), _ = make(), make()
    call(one, ex.ones(3))
    layout = known_of(one)
    assert layout.moved({}).marks is layout.marks
