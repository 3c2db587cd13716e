"""What is asked about the memory behind tensors: address and size, of the whole that views share."""

from __future__ import annotations

import sys

import pytest

import extempo as ex
from extempo.compat.storages import UntypedStorage
from extempo.core.absent_names import RefusedName


def test_views_have_the_storage_of_their_base():
    x = ex.zeros(3, 4, dtype=ex.float64)
    for view in (x, x[1:], x.T, x.flatten(), x.detach()):
        assert view.untyped_storage() == x.untyped_storage()
        assert view.untyped_storage().data_ptr() == x.data_ptr()
    assert len({x.untyped_storage(), x[1:].untyped_storage()}) == 1
    assert x.clone().untyped_storage() != x.untyped_storage()


def test_sizes_are_those_of_pytorch():
    torch = pytest.importorskip("torch", reason="compares with PyTorch; install the conformance extra")

    def sizes(lib):
        x = lib.ones(3, 4, dtype=lib.float16)[1:]
        storage, typed = x.untyped_storage(), x.untyped_storage()
        found = [storage.nbytes(), storage.size(), len(storage), storage.element_size(), storage.is_shared()]
        return [*found, typed.nbytes(), str(storage.device), storage.is_cuda, x.data_ptr() - storage.data_ptr()]

    assert sizes(ex) == sizes(torch)


def test_a_typed_storage_counts_elements():
    typed = ex.ones(3, 4)[1:].storage()
    assert (typed.size(), len(typed), typed.element_size(), typed.nbytes()) == (12, 12, 4, 48)
    assert typed.dtype is ex.float32
    assert (typed.untyped().size(), typed.untyped() == typed) == (48, True)


def test_parameters_and_results_that_wait_have_storages():
    layer = ex.nn.Linear(2, 3)
    assert layer.weight.untyped_storage().nbytes() == 24
    assert ex.compile(lambda x: x * 2)(ex.ones(5)).untyped_storage().nbytes() == 20


def test_a_storage_is_not_read_or_resized():
    storage = ex.ones(3).untyped_storage()
    assert not hasattr(storage, "resize_")
    with pytest.raises(RefusedName, match=r"UntypedStorage\.resize_: .* through the tensor"):
        storage.resize_(0)


def test_the_size_of_a_storage_includes_its_memory():
    assert sys.getsizeof(ex.zeros(1000).untyped_storage()) - sys.getsizeof(ex.zeros(0).untyped_storage()) == 4000


def test_bytes_of_a_file_become_tensors(tmp_path):
    (tmp_path / "file").write_bytes(bytes([9, 0, 0, 128, 63]))
    raw = UntypedStorage.from_file(str(tmp_path / "file"), False, 5).untyped()
    assert ex.asarray(raw[1:5], dtype=ex.uint8).view(dtype=ex.float32).tolist() == [1.0]


def test_a_storage_of_no_tensor_is_refused():
    with pytest.raises(ex.errors.UnsupportedError, match="UntypedStorage: a storage is that of a tensor"):
        UntypedStorage(10)
