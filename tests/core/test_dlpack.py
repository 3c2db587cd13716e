"""DLPack: memory goes to other libraries and comes from them without a copy."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.core import dlpack
from extempo.core.types import DTYPES
from extempo.errors import DtypeError, UnsupportedError


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dlpack_round_trips_without_a_copy(dtype):
    x = ex.tensor([[0, 1, 1], [1, 0, 1]], dtype=dtype)
    back = ex.from_dlpack(x)
    assert back.dtype is dtype
    assert back.tolist() == x.tolist()
    assert back.data_ptr() == x.data_ptr()
    assert ex.from_dlpack(x.t()).stride() == (1, 3)
    assert x.__dlpack_device__() == (1, 0)


def test_dlpack_to_and_from_numpy():
    x = ex.arange(3.0)
    array = np.from_dlpack(x)
    assert np.shares_memory(array, x.numpy())
    source = np.arange(4)
    assert ex.from_dlpack(source).data_ptr() == source.ctypes.data
    assert ex.from_dlpack(source, copy=True).data_ptr() != source.ctypes.data
    assert ex.from_dlpack(dlpack.export(source)).tolist() == [0, 1, 2, 3]
    assert ex.from_dlpack(ex.ones(1).expand(3)).tolist() == [1, 1, 1]


def test_dlpack_refuses_what_it_cannot_take():
    with pytest.raises(DtypeError, match="expected an object with __dlpack__"):
        ex.from_dlpack([1, 2])
    capsule = np.arange(3).__dlpack__()
    ex.from_dlpack(capsule)
    with pytest.raises(DtypeError, match="used before"):
        ex.from_dlpack(capsule)

    class Elsewhere:
        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(UnsupportedError, match="move it to the CPU"):
        ex.from_dlpack(Elsewhere())


@pytest.mark.conformance
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "int8", "int64", "uint8", "bool"])
def test_dlpack_to_and_from_pytorch(name):
    torch = pytest.importorskip("torch", reason="exchanges tensors with PyTorch: pip install -e '.[conformance]'")
    theirs = torch.tensor([[0, 1], [1, 1]], dtype=getattr(torch, name))
    ours = ex.from_dlpack(theirs)
    assert ours.dtype is getattr(ex, name)
    assert ours.tolist() == theirs.tolist()
    assert ours.data_ptr() == theirs.data_ptr()
    ours[0, 0] = 1
    assert theirs[0, 0].item() == 1
    back = torch.from_dlpack(ours.t())
    assert back.dtype == theirs.dtype
    assert back.tolist() == theirs.t().tolist()
    assert back.data_ptr() == theirs.data_ptr()
