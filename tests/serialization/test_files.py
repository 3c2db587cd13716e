"""Paths and file objects, replacing a file in one step, memory maps, and other programs' safetensors."""

from __future__ import annotations

import io
import os
import stat
import sys
import threading
import tracemalloc

import ml_dtypes
import numpy as np
import pytest

import extempo as ex
from extempo.core.types import DTYPES
from extempo.errors import DtypeError, UnsupportedError
from extempo.serialization import FileFormatError, load, save

from .folders import names_in

# ---- replacing a file


def test_a_path_may_be_text_or_a_path_object(tmp_path):
    save({"x": 1}, str(tmp_path / "a.ex"))
    save({"x": 2}, tmp_path / "b.ex")
    assert load(tmp_path / "a.ex") == {"x": 1}
    assert load(os.fsencode(tmp_path / "b.ex")) == {"x": 2}
    assert names_in(tmp_path) == ["a.ex", "b.ex"]


@pytest.mark.skipif(os.name != "posix", reason="permissions and links as POSIX has them")
def test_permissions_and_links_stay_as_they_are(tmp_path):
    target, link = tmp_path / "target.ex", tmp_path / "link.ex"
    before = os.umask(0o027)
    try:
        save(1, target)
    finally:
        os.umask(before)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    target.chmod(0o604)
    link.symlink_to(target)
    save(2, link)
    assert link.is_symlink()
    assert load(target) == 2
    assert stat.S_IMODE(target.stat().st_mode) == 0o604


@pytest.mark.alone
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    save([1, 2], pipe)
    reader.join()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert load(io.BytesIO(got[0])) == [1, 2]


def test_a_directory_that_is_missing_is_pythons_own_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        save(1, tmp_path / "missing" / "a.ex")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "a.ex")


# ---- file objects


def test_a_file_object_is_read_from_where_it_stands(tmp_path):
    file = io.BytesIO(b"before")
    file.seek(6)
    save([ex.ones(2)], file)
    file.seek(6)
    assert load(file)[0].tolist() == [1.0, 1.0]
    with pytest.raises(FileFormatError, match=r"nothing to read.*seek\(0\)"):
        load(file)
    with open(tmp_path / "a.ex", "wb") as real:
        save("text", real)
    with open(tmp_path / "a.ex", "rb") as real:
        assert load(real) == "text"


def test_things_that_are_no_files_are_named():
    with pytest.raises(DtypeError, match="path or a binary file object, got int"):
        save(1, 5)
    with pytest.raises(DtypeError, match="path or a binary file object, got list"):
        load([])

    class Stream:
        def read(self, count):
            return b""

    with pytest.raises(DtypeError, match="can seek, got Stream"):
        load(Stream())


# ---- options


def test_every_way_to_say_cpu_is_accepted_and_other_places_are_refused(tmp_path):
    path = tmp_path / "a.ex"
    save(ex.ones(1), path)
    for place in (None, "cpu", ex.device("cpu"), lambda storage, where: storage, {"cuda:0": "cpu"}):
        assert load(path, map_location=place, weights_only=False).item() == 1.0
    for place in ("cuda", ex.device("cuda:1"), {"cpu": "cuda:0"}):
        with pytest.raises(UnsupportedError, match="there is no device 'cuda"):
            load(path, map_location=place)
    with pytest.raises(DtypeError, match="map_location"):
        load(path, 3)


def test_a_mapped_file_is_not_changed_by_writes_and_survives_its_replacement(tmp_path):
    path = tmp_path / "a.ex"
    save({name: ex.ones(3).to(d) for name, d in zip("abcdefghij", DTYPES, strict=True)}, path)
    mapped = load(path, mmap=True)
    assert all(x.numpy().flags.aligned for x in mapped.values())
    mapped["h"].add_(1)
    assert load(path)["h"].tolist() == [1.0, 1.0, 1.0]
    save(0, path)
    assert mapped["h"].tolist() == [2.0, 2.0, 2.0]
    assert mapped["j"].tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(DtypeError, match="mmap=True"):
        load(io.BytesIO(b""), mmap=True)


def test_a_map_takes_no_memory_until_it_is_used(tmp_path):
    path = tmp_path / "large.ex"
    save(ex.zeros(5_000_000), path)
    tracemalloc.start()
    try:
        mapped = load(path, mmap=True)
        assert mapped[1_234_567].item() == 0.0
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_big_endian_machine_is_told_so(monkeypatch):
    monkeypatch.setattr(sys, "byteorder", "big")
    with pytest.raises(UnsupportedError, match="big-endian"):
        save(1, io.BytesIO())
    with pytest.raises(UnsupportedError, match="big-endian"):
        load(io.BytesIO())


# ---- other programs


@pytest.fixture
def safetensors_numpy():
    return pytest.importorskip("safetensors.numpy", reason="the format's own reader: pip install safetensors")


def test_files_of_other_writers_are_a_dict_of_tensors(tmp_path, safetensors_numpy):
    path = tmp_path / "a.safetensors"
    arrays = {
        "w": np.arange(6, dtype=ml_dtypes.bfloat16).reshape(2, 3),
        "flag": np.array([True]),
        "e": np.zeros((0, 4)),
    }
    safetensors_numpy.save_file(arrays, path, {"format": "np"})
    for mmap in (False, True):
        back = load(path, mmap=mmap)
        assert back.keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(back[name].numpy(), array)
    safetensors_numpy.save_file({"u": np.zeros(2, np.uint32)}, path)
    with pytest.raises(UnsupportedError, match=r"tensor 'u'.*uint32 has no tensor dtype"):
        load(path)


def test_any_safetensors_reader_finds_the_tensors_by_their_paths(tmp_path, safetensors_numpy):
    path = tmp_path / "a.safetensors"
    tensors = {repr(d): (ex.arange(6.0).view(2, 3) - 2).to(d) for d in DTYPES}
    save({"model": tensors, "epoch": 3, "list": [ex.tensor(1.5), ex.zeros(0, 2)], "text": "\ud800"}, path)
    seen = safetensors_numpy.load_file(path)
    assert seen.keys() == {*(f"model.{name}" for name in tensors), "list.0", "list.1"}
    for name, x in tensors.items():
        np.testing.assert_array_equal(seen[f"model.{name}"], x.numpy())
    assert seen["list.0"].shape == ()
    assert seen["list.1"].shape == (0, 2)
