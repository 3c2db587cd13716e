"""PyTorch's zip files, assembled here by hand: read without PyTorch, and nothing in them runs."""

from __future__ import annotations

import io
import random
import struct
import zipfile
from collections import OrderedDict

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ExtempoError, UnsupportedError
from extempo.serialization import FileFormatError, load

from .pickles import FALSE, NO_HOOKS, NONE, SIX, TRUE, archive, call, dict_of, name, number, read, storage, tensor, text

# ---- what is read


def test_a_state_dict_is_read_with_its_order_and_versions():
    versions = dict_of(_metadata=NO_HOOKS)
    items = b"(" + text("0.weight") + tensor(storage("0")) + text("0.bias") + tensor(storage("0"), (2,), (1,), 4) + b"u"
    back = read(NO_HOOKS + items + versions + b"b")
    assert type(back) is OrderedDict
    assert list(back) == ["0.weight", "0.bias"]
    assert back._metadata == OrderedDict()
    assert back["0.weight"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert back["0.bias"].tolist() == [4.0, 5.0]


def test_tensors_on_one_storage_share_memory_and_keep_their_strides():
    x, t = read(b"](" + tensor(storage("0")) + tensor(storage("0"), (3, 2), (1, 3)) + b"e")
    assert t.stride() == (1, 3)
    x.add_(10.0)
    assert t.equal(x.t())


def test_parameters_gradients_flags_and_attributes():
    weight = tensor(storage("0"))
    parameter = call(name("torch._utils", "_rebuild_parameter"), weight, TRUE, NO_HOOKS)
    state = dict_of(color=text("red"))
    stateful = call(name("torch._utils", "_rebuild_parameter_with_state"), weight, FALSE, NO_HOOKS, state)
    arguments = weight[len(name("torch._utils", "_rebuild_tensor_v2")) : -1]
    typed = call(
        name("torch._tensor", "_rebuild_from_type_v2"),
        name("torch._utils", "_rebuild_tensor_v2"),
        name("torch", "Tensor"),
        arguments,
        state,
    )
    p, s, t, g = read(b"](" + parameter + stateful + typed + tensor(storage("0"), requires_grad=TRUE) + b"e")
    assert type(p) is nn.Parameter
    assert p.requires_grad
    assert type(s) is nn.Parameter
    assert not s.requires_grad
    assert type(t) is ex.Tensor
    assert t.shape == (2, 3)
    assert g.requires_grad
    assert type(g) is ex.Tensor


def test_a_mapped_archive_is_read_too(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(archive(tensor(storage("0")), SIX))
    back = load(path, mmap=True)
    back.add_(1.0)
    assert load(path).tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert back.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def test_an_archive_behind_other_bytes_in_a_file_object_is_read():
    file = io.BytesIO(b"some bytes" + archive(tensor(storage("0")), SIX))
    file.seek(10)
    assert load(file).shape == (2, 3)


# ---- what is refused


def test_a_boolean_tensor_of_other_bytes_is_refused():
    with pytest.raises(FileFormatError, match="other bytes than 0 and 1"):
        read(tensor(storage("0", "BoolStorage", 1), (1,), (1,)), {"data/0": b"\x07"})


def test_an_expanded_boolean_tensor_is_not_looked_at_element_by_element():
    one = {"data/0": b"\1"}
    back = read(tensor(storage("0", "BoolStorage", 1), (2**45,), (0,)), one)
    assert (back.shape, back.stride()) == ((2**45,), (0,))
    assert back[2**44].item() is True
    with pytest.raises(FileFormatError, match="other bytes than 0 and 1"):
        read(tensor(storage("0", "BoolStorage", 1), (2**45,), (0,)), {"data/0": b"\2"})
    windows = tensor(storage("0", "BoolStorage", 2**20), (2**19, 2**19), (1, 1))
    assert read(windows, {"data/0": bytes(2**20)}).shape == (2**19, 2**19)
    with pytest.raises(FileFormatError, match="other bytes than 0 and 1"):
        read(windows, {"data/0": bytes(2**20 - 1) + b"\2"})


def test_a_boolean_part_of_a_storage_with_other_bytes_is_read():
    assert read(tensor(storage("0", "BoolStorage", 4), (2,), (1,), 2), {"data/0": b"\7\7\0\1"}).tolist() == [
        False,
        True,
    ]


def test_archives_of_other_kinds_are_named():
    with pytest.raises(UnsupportedError, match="big-endian machine"):
        read(NONE, {"byteorder": b"big"})
    with pytest.raises(UnsupportedError, match="TorchScript archive"):
        read(NONE, {"constants.pkl": b""})
    with pytest.raises(UnsupportedError, match=r"zip file without data\.pkl"):
        load(io.BytesIO(archive(NONE, top="a/b/")))
    with pytest.raises(UnsupportedError, match=r"compressed or encrypted"):
        load(io.BytesIO(archive(text("a" * 1000), compression=zipfile.ZIP_DEFLATED)))


def test_records_that_overlap_cannot_multiply_a_file():
    records = {f"data/{i}": b"\0" * 4096 for i in range(20)}
    data = bytearray(archive(b"](" + b"".join(storage(str(i), count=1024) for i in range(20)) + b"e", records))
    directory = data.index(b"PK\x01\x02")
    first = data.index(b"archive/data/0", directory)
    offset = bytes(data[first - 4 : first])
    for i in range(20):  # every record is the first one
        at = data.index(b"archive/data/%d" % i, directory)
        data[at - 4 : at] = offset
    small = data[: data.index(b"archive/data/1") - 30] + data[directory:]
    end = small.index(b"PK\x05\x06")
    small[end + 16 : end + 20] = struct.pack("<I", small.index(b"PK\x01\x02"))
    assert len(small) < 10_000
    with pytest.raises(FileFormatError, match="its records overlap"):
        load(io.BytesIO(bytes(small)))


def damaged_copies(data: bytes, count: int):
    rng = random.Random(1)
    for length in range(4, len(data), 3):
        yield data[:length]
    for _ in range(count):
        copy = bytearray(data)
        copy[rng.randrange(len(copy))] ^= 1 << rng.randrange(8)
        yield bytes(copy)


def test_truncations_and_flipped_bits_of_an_archive_are_errors_or_change_nothing():
    data = archive(dict_of(w=tensor(storage("0")), step=number(3)), SIX)
    whole = repr(load(io.BytesIO(data)))
    refused = 0
    for copy in damaged_copies(data, 1000):
        try:
            assert repr(load(io.BytesIO(copy))) == whole
        except ExtempoError:
            refused += 1
    assert refused > 700
