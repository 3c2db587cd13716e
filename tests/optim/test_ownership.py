"""Which parameters' memory can be moved: that of those that nobody else can see."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.core.storage import ALIGNMENT
from extempo.optim.ownership import buffer, unseen


def parameter(*shape: int) -> ex.Tensor:
    return ex.ones(*shape, requires_grad=True)


def test_a_parameter_of_its_own_can_be_moved():
    p, q = parameter(3), parameter(2, 2)
    assert [x is y for x, y in zip(unseen([p, q]), [p, q], strict=True)] == [True, True]


@pytest.mark.parametrize(
    "look", [lambda p: p.detach(), lambda p: p.detach().numpy(), lambda p: p.view(-1), lambda p: (p * p).sum()]
)
def test_whoever_sees_the_memory_keeps_it_where_it_is(look):
    p = parameter(4)
    seen = look(p)
    assert unseen([p]) == []
    del seen
    assert len(unseen([p])) == 1


def test_parameters_on_one_array_of_the_users_stay():
    array = np.ones((2, 3), np.float32)
    p, q = (ex.from_numpy(row).requires_grad_() for row in array)
    assert unseen([p, q]) == []


def test_memory_without_elements_or_with_gaps_stays():
    assert unseen([parameter(0)]) == []
    assert unseen([ex.ones(3, 2).T.requires_grad_()]) == []
    assert unseen([]) == []


@pytest.mark.parametrize("n_elements", [1, 7, 1001])
def test_a_buffer_is_zero_and_aligned(n_elements):
    flat = buffer(n_elements, np.dtype(np.float64))
    assert (flat.shape, flat.dtype) == ((n_elements,), np.float64)
    assert flat.ctypes.data % ALIGNMENT == 0
    assert not flat.any()
