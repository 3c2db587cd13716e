"""Arrays in files: values as they were written, and memory that stays flat however large the file is."""

from __future__ import annotations

import pickle
import struct
import sys

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import extempo as ex
from extempo.data import ArrowDataset, DataLoader, NpyDataset, ParquetDataset, SafetensorsDataset, StackDataset

MEGABYTE = 1 << 20


@pytest.fixture
def rows(tmp_path):
    array = np.arange(60, dtype=np.float32).reshape(20, 3)
    np.save(tmp_path / "x.npy", array)
    return tmp_path / "x.npy", array


def test_npy_rows_and_slices_are_those_of_the_array(rows):
    path, array = rows
    data = NpyDataset(path)
    assert len(data) == 20
    assert data[4].dtype is ex.float32
    assert np.array_equal(data[4].numpy(), array[4])
    assert np.array_equal(data[-1].numpy(), array[-1])
    assert np.array_equal(data[5:9].numpy(), array[5:9])
    assert len(list(data)) == 20
    with pytest.raises(IndexError, match="20 samples"):
        data[20]


def test_writing_to_a_sample_does_not_reach_the_file(rows):
    path, array = rows
    data = NpyDataset(path)
    data[0].fill_(7)
    assert np.array_equal(data[0].numpy(), array[0])


@pytest.mark.parametrize(("stored", "loaded"), [("uint16", ex.int32), ("uint32", ex.int64), (">f4", ex.float32)])
def test_kinds_that_only_files_have_are_widened(tmp_path, stored, loaded):
    np.save(tmp_path / "x.npy", np.array([1, 60000], stored))
    data = NpyDataset(tmp_path / "x.npy")
    assert data[1].dtype is loaded
    assert data[1].item() == 60000


def test_broken_npy_files_say_what_is_wrong(tmp_path, rows):
    path, _ = rows
    (tmp_path / "short.npy").write_bytes(path.read_bytes()[:-4])
    (tmp_path / "text.npy").write_text("hello")
    np.save(tmp_path / "object.npy", np.array([None]), allow_pickle=True)
    np.save(tmp_path / "number.npy", np.float32(1))
    np.savez(tmp_path / "several.npz", a=np.ones(2))
    for name in ("short.npy", "text.npy", "object.npy", "number.npy", "several.npz"):
        with pytest.raises(ex.errors.ExtempoError, match=f"NpyDataset: .*{name}"):
            NpyDataset(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        NpyDataset(tmp_path / "none.npy")


def test_files_pickle_as_their_path(rows, tmp_path):
    path, array = rows
    save_file({"x": array}, tmp_path / "x.safetensors")
    for data in (NpyDataset(path), SafetensorsDataset(tmp_path / "x.safetensors", "x")):
        data[0]
        pickled = pickle.dumps(data)
        assert len(pickled) < 600
        assert np.array_equal(pickle.loads(pickled)[3].numpy(), array[3])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_read_files(rows, tmp_path, method):
    if method == "fork" and sys.platform != "linux":
        pytest.skip("fork is the default on Linux only")
    path, array = rows
    save_file({"y": np.arange(20)}, tmp_path / "y.safetensors")
    data = StackDataset(x=NpyDataset(path), y=SafetensorsDataset(tmp_path / "y.safetensors", "y"))
    loader = DataLoader(data, batch_size=8, num_workers=2, multiprocessing_context=method)
    batches = list(loader)
    assert np.array_equal(np.concatenate([batch["x"].numpy() for batch in batches]), array)
    assert [y for batch in batches for y in batch["y"].tolist()] == list(range(20))


def test_safetensors_rows_are_dicts_with_every_kind(tmp_path):
    arrays = {
        "f": np.arange(12, dtype=np.float64).reshape(4, 3),
        "i": np.arange(4, dtype=np.int16),
        "b": np.array([True, False, True, True]),
        "h": np.arange(4).astype(ml_dtypes.bfloat16),
        "u": np.array([1, 2, 3, 60000], np.uint16),
    }
    save_file(arrays, tmp_path / "x.safetensors")
    data = SafetensorsDataset(tmp_path / "x.safetensors")
    assert len(data) == 4
    assert {name: (str(t.dtype), t.tolist()) for name, t in data[3].items()} == {
        "f": ("extempo.float64", [9.0, 10.0, 11.0]),
        "i": ("extempo.int16", 3),
        "b": ("extempo.bool", True),
        "h": ("extempo.bfloat16", 3.0),
        "u": ("extempo.int32", 60000),
    }
    assert data[1:3]["i"].tolist() == [1, 2]
    assert data[3:1]["f"].shape == (0, 3)
    assert [row["i"].item() for row in data] == [0, 1, 2, 3]
    assert SafetensorsDataset(tmp_path / "x.safetensors", ["i"])[0].keys() == {"i"}
    with pytest.raises(IndexError, match="step of 1"):
        data[::2]


def test_safetensors_that_do_not_fit_together_are_refused(tmp_path):
    save_file({"x": np.ones((4, 2)), "table": np.ones(3), "n": np.array(1.0)}, tmp_path / "x.safetensors")
    with pytest.raises(ValueError, match=r"same first size.*names="):
        SafetensorsDataset(tmp_path / "x.safetensors")
    assert len(SafetensorsDataset(tmp_path / "x.safetensors", "x")) == 4
    with pytest.raises(IndexError, match="no tensor 'y', only"):
        SafetensorsDataset(tmp_path / "x.safetensors", "y")


def test_broken_safetensors_files_say_what_is_wrong(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(b"\xff" * 64)
    with pytest.raises(ex.errors.ExtempoError, match="not a safetensors file"):
        SafetensorsDataset(path)
    with pytest.raises(FileNotFoundError):
        SafetensorsDataset(tmp_path / "none")


def test_a_npy_file_of_256_megabytes_is_read_in_flat_memory(tmp_path, growth):
    # The file is a hole: the system reads zeros from it without there being a disk that holds them.
    path = tmp_path / "x.npy"
    mapped = np.lib.format.open_memmap(path, "w+", np.float32, (4096, 16384))
    mapped[-1, -1] = 3
    del mapped
    assert growth(lambda: NpyDataset(path)) < 24
    data = NpyDataset(path)
    assert len(data) * data[0].nbytes == 256 * MEGABYTE
    assert data[-1][-1].item() == 3


def test_a_safetensors_file_of_128_megabytes_is_read_in_flat_memory(tmp_path, growth):
    path = tmp_path / "x.safetensors"
    size = 128 * MEGABYTE
    header = b'{"x":{"dtype":"F32","shape":[2048,16384],"data_offsets":[0,%d]}}' % size
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)
    assert growth(lambda: SafetensorsDataset(path, "x")) < 24


def test_batches_that_workers_send_leave_memory_flat(tmp_path, growth):
    path = tmp_path / "x.npy"
    np.lib.format.open_memmap(path, "w+", np.float32, (2048, 16384))
    assert growth(lambda: NpyDataset(path), num_workers=2) < 40


@pytest.mark.parametrize("cls", [ArrowDataset, ParquetDataset])
def test_tables_without_pyarrow_say_what_to_install(cls, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=rf"{cls.__name__}: .*pip install 'extempo\[arrow\]'"):
        cls("x")
