"""Writes in place: the same memory, counted once, with the history rewritten."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, LeafWriteError, OverwrittenError, ShapeError


def test_augmented_assignment_writes_into_the_same_memory():
    x = ex.ones(3)
    same, address = x, x.data_ptr()
    x += 1
    x -= 0.5
    x *= 4
    x /= 2
    x **= 2
    assert x is same
    assert x.data_ptr() == address
    assert x.tolist() == [9, 9, 9]
    whole = ex.tensor([7])
    whole //= 2
    whole %= 2
    whole |= 6
    whole &= 3
    whole ^= 1
    whole <<= 3
    whole >>= 1
    assert whole.tolist() == [((((7 // 2) % 2 | 6) & 3) ^ 1) << 3 >> 1]


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(1),
        lambda x: x.mul_(2),
        lambda x: x.zero_(),
        lambda x: x.copy_(ex.ones(3)),
        lambda x: x.clamp_(0, 1),
        lambda x: x.fill_(2),
        lambda x: x.__setitem__(0, 5),
        lambda x: x.__setitem__(x > 0, 5),
        lambda x: x[1:].exp_(),
        lambda x: x.view(3, 1).neg_(),
        lambda x: x.uniform_(),
        lambda x: ex.add(x, 1, out=x),
    ],
)
def test_every_write_is_counted_once(write):
    x = ex.arange(3.0)
    before = x._version
    write(x)
    assert x._version == before + 1


def test_backward_notices_what_was_overwritten():
    x = ex.ones(3, requires_grad=True)
    y = x * 2
    z = y * y
    y += 1
    with pytest.raises(OverwrittenError):
        z.sum().backward()


def test_leaves_that_require_grad_are_written_under_no_grad_only():
    x = ex.ones(3, requires_grad=True)
    with pytest.raises(LeafWriteError):
        x += 1
    with ex.no_grad():
        x += 1
    assert x.tolist() == [2, 2, 2]
    x.data.mul_(2)
    assert x.tolist() == [4, 4, 4]


def test_in_place_ops_cannot_change_shape_or_category():
    with pytest.raises(ShapeError, match="add_"):
        ex.zeros(3).add_(ex.zeros(2, 3))
    with pytest.raises(DtypeError, match="add_"):
        ex.zeros(3, dtype=ex.int64).add_(0.5)
    with pytest.raises(ShapeError, match=r"clone\(\)"):
        ex.zeros(1).expand(3).add_(1)


@pytest.mark.parametrize("d", [ex.float32, ex.float64, ex.int64, ex.int32, ex.bool, ex.uint8, ex.float16])
def test_a_number_written_to_a_place_is_the_one_that_a_tensor_would_be(d):
    for number in (1, -3, 0.5, True, 2**40, 1e300, float("nan"), float("inf")):
        if not d.is_floating_point and number not in (1, True, 0.5):
            continue
        x, y = ex.zeros(2, 3, dtype=d), ex.zeros(2, 3, dtype=d)
        x[1, -1] = number
        x[0] = number
        y[1, 2:3] = ex.full((1,), number, dtype=ex.float64).to(d)
        y[:1] = ex.full((3,), number, dtype=ex.float64).to(d)
        np.testing.assert_array_equal(x.float().numpy(), y.float().numpy())


def test_a_number_written_to_a_place_counts_as_a_write_and_is_refused_where_one_is():
    x = ex.zeros(3, 3)
    view = x[1]
    before = x._version
    x[1, 1] = 2.0
    assert (x._version, view.tolist()) == (before + 1, [0.0, 2.0, 0.0])
    leaf = ex.zeros(2, 2, requires_grad=True)
    with pytest.raises(LeafWriteError):
        leaf[0, 0] = 1.0
    with pytest.raises(ShapeError, match="share memory"):
        ex.zeros(1).expand(3)[0:2] = 1.0
    y = leaf * 2
    square = y * y
    y[0, 1] = 3.0
    with pytest.raises(ex.errors.AutogradError):
        square.sum().backward()


def test_a_place_written_in_a_compiled_function_is_the_one_of_eager_mode():
    def fill(x):
        table = ex.zeros(3, 3)
        for i in range(3):
            table[i, -1 - i] = i + 1
        return table @ x

    compiled, x = ex.compile(fill), ex.rand(3, 2)
    for _ in range(3):
        assert ex.equal(compiled(x), fill(x))
