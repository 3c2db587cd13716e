"""What a tensor says of itself: strides, dtypes, versions, its base."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import IndexRangeError


def test_strides_of_empty_and_single_dimensions_are_those_of_full_ones():
    assert ex.zeros(0, 3).stride() == (3, 1)
    assert ex.zeros(3)[:, None].stride() == (1, 1)
    assert ex.zeros(2, 3).stride(-1) == 1
    assert ex.zeros(2, 3).t().stride(0) == 1
    assert ex.zeros(()).stride() == ()


def test_questions_about_a_tensor():
    x = ex.zeros(2, 3, dtype=ex.int16)
    assert (x.size(), x.size(-1), x.dim(), x.ndimension(), x.numel(), x.nelement()) == ((2, 3), 3, 2, 2, 6, 6)
    assert (x.element_size(), x.itemsize, x.nbytes) == (2, 2, 12)
    assert not x.is_floating_point()
    assert x.is_signed()
    assert not ex.zeros(1, dtype=ex.uint8).is_signed()
    assert not ex.is_complex(x)
    assert not ex.is_conj(x)
    assert ex.is_tensor(x)
    assert not ex.is_tensor(x.numpy())
    assert x.is_same_size(ex.ones(2, 3))
    assert x.get_device() == -1
    assert x.device == ex.device("cpu")
    assert x.layout is ex.strided
    assert x.is_cpu
    assert not any((x.is_cuda, x.is_mps, x.is_sparse, x.is_quantized, x.is_meta, x.is_nested))
    assert x[1].storage_offset() == 3
    assert x[1].data_ptr() == x.data_ptr() + 6
    assert x.is_set_to(x.detach())
    assert not x.is_set_to(x.t())
    assert ex.is_nonzero(ex.tensor(2))
    for call in (lambda: x.size(5), lambda: ex.zeros(()).size(0), lambda: x.stride(2)):
        with pytest.raises(IndexRangeError):
            call()


def test_result_type_and_can_cast_follow_promotion():
    assert ex.result_type(ex.zeros(2, dtype=ex.int8), 3.5) is ex.float32
    assert ex.result_type(ex.zeros(2, dtype=ex.int8), 3) is ex.int8
    assert ex.result_type(2, 3.5) is ex.float32
    assert ex.result_type(ex.zeros(2, dtype=ex.float16), np.float64(1)) is ex.float16
    assert ex.can_cast(ex.int64, ex.float16)
    assert not ex.can_cast(ex.float64, ex.int8)
    assert not ex.can_cast(ex.int8, ex.bool)


def test_versions_count_writes_and_views_know_their_base():
    x = ex.zeros(4)
    view = x[1:3]
    assert view._is_view()
    assert view._base is x
    assert x._base is None
    before = x._version
    view.add_(1)
    assert x._version == view._version == before + 1
