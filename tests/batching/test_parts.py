"""Parts of values: views that are a stretch of memory need no call, and their gradients are sums already."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.batching.parts import Parts, Stretch, stretch_of
from extempo.core.types import TensorType, float32
from extempo.errors import AutogradError
from extempo.ops.view import Permute, Reshape, Slice

from .agreement import check, rows

MATRIX = TensorType((3, 4), float32)


@pytest.mark.parametrize(
    ("op", "numbers", "attrs", "expected"),
    [
        (Slice, (2,), {"spec": ("i",)}, ((4,), 32, 16)),
        (Slice, (1,), {"spec": ((2, 1),)}, ((2, 4), 16, 32)),
        (Slice, (1, 2), {"spec": ("i", "i")}, ((), 24, 4)),
        (Slice, (3,), {"spec": ((0, 1),)}, ((0, 4), 0, 0)),
        (Reshape, (), {"shape": (2, 6)}, ((2, 6), 0, 48)),
        (Permute, (), {"dims": (0, 1)}, ((3, 4), 0, 48)),
    ],
)
def test_a_contiguous_view_is_a_stretch(op, numbers, attrs, expected):
    shape, offset, size = expected
    for _ in range(2):
        assert stretch_of(op, MATRIX, numbers, attrs) == Stretch(TensorType(shape, float32), offset, size)


@pytest.mark.parametrize(
    ("op", "numbers", "attrs"),
    [
        (Slice, (0,), {"spec": ((2, 2),)}),
        (Slice, (1,), {"spec": (":", "i")}),
        (Permute, (), {"dims": (1, 0)}),
    ],
)
def test_other_views_are_none(op, numbers, attrs):
    assert stretch_of(op, MATRIX, numbers, attrs) is None


def test_parts_of_parts_are_parts_of_the_whole():
    parts = Parts()
    parts.add(7, 3, Stretch(MATRIX, 16, 32))
    parts.add(8, 7, Stretch(MATRIX, 4, 8))
    assert parts.is_waiting()
    assert parts.take_waiting().tolist() == [[7, 3, 16, 32], [8, 3, 20, 8]]
    assert not parts.is_waiting()
    assert parts.take_waiting() is None
    parts.add(9, 8, Stretch(MATRIX, 0, 4))
    assert parts.take_waiting().tolist() == [[9, 3, 20, 4]]


LAYER = nn.Linear(3, 4)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: LAYER(x)[0] * 2.0,
        lambda x: [LAYER(x)[t] * float(t) for t in range(4)],
        lambda x: LAYER(x)[1:3].exp() + LAYER(x)[:2],
        lambda x: LAYER(x).view(2, 2)[1].sum(),
        lambda x: ex.stack([*LAYER(x)]).softmax(0),
        lambda x: LAYER(x).view(2, 2)[1][0],
        lambda x: sum(LAYER(x).unbind()),
        lambda x: LAYER(x).unsqueeze(0).squeeze(0).detach() * LAYER(x)[-1],
        lambda x: LAYER(x)[2:2].sum() + LAYER(x)[3],
        lambda x: LAYER(x)[0] if LAYER(x)[1] > 0 else LAYER(x)[2],  # read in the middle
        lambda x: LAYER(x)[:2],  # a part leaves the run
    ],
)
def test_parts_agree_with_the_loop(fn):
    check(fn, rows(5, 3), parameters=LAYER.parameters())


def test_no_call_runs_for_a_part():
    batched = ex.batch(lambda x: [(x * 2.0)[t].view(1, 1) for t in range(3)])
    made = batched([ex.arange(3.0), ex.ones(3)])
    assert [y.item() for y in made[0]] == [0.0, 2.0, 4.0]
    assert batched.stats()["launches"] == 1


def test_a_part_of_a_value_that_has_been_made_can_be_read_at_once():
    def fn(x):
        y = x * 2.0
        total = y.sum().item()  # everything so far has run
        return y[0].item() + total

    assert ex.batch(fn)([ex.ones(2), ex.ones(3)]) == [6.0, 8.0]


def test_parts_made_without_gradients_have_none():
    def fn(x):
        y = x * 2.0
        with ex.no_grad():
            part = y[0]
        return part.requires_grad, y[0].requires_grad

    assert ex.batch(fn)([ex.ones(2) * ex.ones(1, requires_grad=True)]) == [(False, True)]


def test_a_part_is_a_view_that_cannot_be_written():
    def fn(x):
        y = x * 2.0
        y[0].add_(1.0)
        return y

    with pytest.raises(AutogradError, match="view"):
        ex.batch(fn)([ex.ones(2), ex.ones(2)])


def test_rows_of_a_sentence_of_any_length_are_one_batch():
    batched = ex.batch(lambda x: ex.stack([(x * 2.0)[t].exp() for t in range(len(x))]).sum())
    batched([ex.ones(n, 3) for n in (2, 3, 4)])
    counts = {calls.kind.name: len(members) for calls, members, _ in batched._notes.batches}
    assert counts["exp"] == 9
