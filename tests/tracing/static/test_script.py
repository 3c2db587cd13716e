"""Actions of a script: effects that are done again, and that refuse another outcome."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import extempo as ex
from extempo.core.context import CONTEXT
from extempo.errors import ShapeError
from extempo.tracing.static.script import Effect, Labels, Renew, ScriptCall, filler

from ..agreement import draw, needs_native_code
from .static_agreement import WAYS, going, static

pytestmark = needs_native_code


@pytest.fixture(params=WAYS)
def way(request):
    with going(request.param):
        yield


@pytest.mark.usefixtures("way")
def test_gradients_that_are_there_where_there_were_none():
    w = draw(0, 3, grad=True)

    @static
    def f(x):
        before = w.grad is None
        (x * w).sum().backward()
        return before

    assert f(ex.ones(3)) is True
    with pytest.raises(ShapeError, match=r"f \(static\): the result of grad at .*is not None"):
        f(ex.ones(3))
    w.grad = None
    assert f(ex.ones(3)) is True


def slots_of(*tensors):
    """Slots by identity: the n-th tensor is in slot n."""
    return lambda x: next(i for i, t in enumerate(tensors) if t is x)


def test_a_filler_makes_a_value_again_from_slots():
    a, b = ex.ones(2), ex.zeros(2)
    value = (a, [b, 3], {"k": a, "n": None}, "text")
    make = filler(value, slots_of(a, b))
    first, (second, three), named, text = make(["x", "y"])
    assert (first, second, three, named, text) == ("x", "y", 3, {"k": "x", "n": None}, "text")
    assert filler(a, slots_of(a))(["x"]) == "x"


def test_what_holds_no_tensor_is_made_again_only_where_that_is_asked_for():
    value = ([1, 2], {"k": 3})
    assert filler(value, slots_of()) is None
    make = filler(value, slots_of(), anew=True)
    assert make([]) == value
    assert make([])[0] is not make([])[0]  # each call returns lists of its own
    assert filler((1, "text"), slots_of(), anew=True) is None


def test_a_named_tuple_stays_one():
    class Pair(NamedTuple):
        a: object
        b: object

    a = ex.ones(2)
    made = filler(Pair(a, 2), slots_of(a))(["x"])
    assert made == Pair("x", 2)
    assert type(made) is Pair


def effect_of(fn, *args):
    made = Effect(fn, args, {}, CONTEXT.get())
    made.labels = Labels("f")
    return made


def test_an_effect_refuses_a_result_of_another_type():
    effect = effect_of(abs, 2)
    effect.results = [(None, 1, ex.ones(3)._type)]
    slots = [None, None]
    x = ex.ones(3)
    effect.keep(x, slots)
    assert slots[1] is x
    with pytest.raises(ShapeError, match=r"f \(static\): the result of abs .* is f32\[4\], .* it was f32\[3\]"):
        effect.keep(ex.ones(4), slots)
    with pytest.raises(ShapeError, match="is None"):
        effect.keep(None, slots)


def test_an_effect_says_where_it_was_recorded_when_it_fails():
    effect = effect_of(divmod, 1, 0)
    effect.fill_from(slots_of())
    with pytest.raises(ZeroDivisionError) as caught:
        effect.run(ScriptCall([], None, CONTEXT.get()))
    assert "divmod was recorded at" in caught.value.__notes__[0]


def test_what_a_body_makes_from_nothing_is_new_in_every_call():
    source = ex.tensor([[1.0, 2.0], [3.0, 4.0]]).T
    renew = Renew(0, source)
    slots = [None]
    renew.run(ScriptCall(slots, None, CONTEXT.get()))
    first = slots[0]
    first.add_(10.0)
    renew.run(ScriptCall(slots, None, CONTEXT.get()))
    assert slots[0].tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert slots[0].stride() == (1, 2)
