"""PyTorch's zip files, assembled here by hand: read without PyTorch, and nothing in them runs."""

from __future__ import annotations

import builtins
import contextlib
import io
import pickle
import random
import struct
import tracemalloc
import zipfile
from collections import OrderedDict

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ExtempoError, UnsupportedError
from extempo.serialization import FileFormatError, load

# ---- an assembler for pickles


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def number(value: int) -> bytes:
    raw = value.to_bytes(16, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def several(*parts: bytes) -> bytes:
    return b"(" + b"".join(parts) + b"t"


def name(module: str, attribute: str) -> bytes:
    return f"c{module}\n{attribute}\n".encode()


def call(what: bytes, *args: bytes) -> bytes:
    return what + several(*args) + b"R"


def storage(key: str, kind: str = "FloatStorage", count: int = 6, place: str = "cuda:0") -> bytes:
    return several(text("storage"), name("torch", kind), text(key), text(place), number(count)) + b"Q"


NO_HOOKS = call(name("collections", "OrderedDict"))
FALSE, TRUE, NONE = b"\x89", b"\x88", b"N"


def tensor(memory: bytes, shape=(2, 3), stride=(3, 1), offset=0, requires_grad=FALSE, *rest: bytes) -> bytes:
    sizes = several(*map(number, shape)), several(*map(number, stride))
    rebuild = name("torch._utils", "_rebuild_tensor_v2")
    return call(rebuild, memory, number(offset), *sizes, requires_grad, NO_HOOKS, *rest)


def dict_of(**values: bytes) -> bytes:
    return b"}(" + b"".join(text(key) + value for key, value in values.items()) + b"u"


def archive(code: bytes, records: dict[str, bytes] | None = None, top: str = "archive/", **options) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as made:
        made.writestr(f"{top}data.pkl", b"\x80\x02" + code + b".")
        for key, value in {"byteorder": b"little", "version": b"3\n", **(records or {})}.items():
            made.writestr(f"{top}{key}", value)
    return file.getvalue()


SIX = {"data/0": np.arange(6, dtype=np.float32).tobytes()}


def read(code: bytes, records: dict[str, bytes] | None = None, **options):
    return load(io.BytesIO(archive(code, SIX if records is None else records)), **options)


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


@pytest.mark.parametrize(
    ("kind", "d"),
    [
        ("FloatStorage", ex.float32),
        ("DoubleStorage", ex.float64),
        ("HalfStorage", ex.float16),
        ("BFloat16Storage", ex.bfloat16),
        ("LongStorage", ex.int64),
        ("IntStorage", ex.int32),
        ("ShortStorage", ex.int16),
        ("CharStorage", ex.int8),
        ("ByteStorage", ex.uint8),
        ("BoolStorage", ex.bool),
    ],
)
def test_every_dtype_is_read(kind, d):
    x = ex.tensor([1, 0, 1]).to(d)
    back = read(tensor(storage("7", kind, 3), (3,), (1,)), {"data/7": x.numpy().tobytes()})
    assert back.dtype is d
    assert back.equal(x)


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


def test_the_other_plain_values():
    code = dict_of(
        size=call(name("torch", "Size"), several(number(2), number(3))),
        dtype=name("torch", "bfloat16"),
        device=call(name("torch", "device"), text("cuda"), number(1)),
        layout=call(name("torch.serialization", "_get_layout"), text("torch.strided")),
        version=call(name("torch.torch_version", "TorchVersion"), text("2.0")),
        set=call(name("__builtin__", "set"), b"](" + number(1) + number(1) + b"e"),
        slice=call(name("__builtin__", "slice"), NONE, number(2), NONE),
        bytes=call(name("_codecs", "encode"), text("\xff\x00"), text("latin1")),
        default=call(name("collections", "defaultdict"), name("__builtin__", "list")) + text("k") + number(1) + b"s",
        counter=call(name("collections", "Counter"), b"}" + text("a") + number(2) + b"s"),
        large=number(2**100),
    )
    back = read(code)
    assert back.pop("layout") is ex.strided
    assert back.pop("dtype") is ex.bfloat16
    assert back == {
        "size": ex.Size([2, 3]),
        "device": ex.device("cuda:1"),
        "version": "2.0",
        "set": {1},
        "slice": slice(None, 2),
        "bytes": b"\xff\x00",
        "default": {"k": 1},
        "counter": {"a": 2},
        "large": 2**100,
    }
    assert type(back["default"]) is dict


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_pickles_of_plain_python_and_numpy_data_are_read_in_every_protocol(protocol):
    shared = [1.5, "ü", b"raw", True, None]
    obj = {
        "again": [shared, shared],
        5: (1, 300, 70_000, -(2**70)),
        "sets": [{1, 2}, frozenset([3])],
        "bytes": bytearray(b"b"),
        "numpy": [np.float64(2.5), np.int8(-1), np.bool_(True)],
        "tuples": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
        "range": range(3),
    }
    arrays = {
        "c": np.arange(6).reshape(2, 3),
        "f": np.asfortranarray(np.ones((2, 3), np.float32)),
        "e": np.zeros((0, 2)),
    }
    body = pickle.dumps({**obj, "arrays": arrays}, protocol)
    back = read(body[2:-1])
    for key, array in back.pop("arrays").items():
        np.testing.assert_array_equal(array, arrays[key])
        assert array.dtype == arrays[key].dtype
        assert array.flags.writeable
    assert back == obj
    assert [type(v) for v in back["numpy"]] == [np.float64, np.int8, np.bool_]
    assert back["again"][0] is back["again"][1]


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


class Attack:
    def __init__(self, *how):
        self.how = how

    def __reduce__(self):
        return self.how


RUN = "import builtins; builtins.extempo_was_here = True"


@pytest.mark.parametrize("protocol", [0, 1, 2, 4])
@pytest.mark.parametrize(
    "how",
    [
        (exec, (RUN,)),
        (eval, ("__import__('builtins').__setattr__('extempo_was_here', True)",)),
        (getattr, (str, "join")),
        (__import__, ("os",)),
    ],
    ids=["exec", "eval", "getattr", "import"],
)
def test_a_pickle_that_calls_something_is_refused_and_not_run(how, protocol):
    body = pickle.dumps({"model": Attack(*how)}, protocol)
    with pytest.raises(UnsupportedError, match=rf"builtins\.{how[0].__name__}, which is refused|opcode"):
        read(body[2:-1] if protocol >= 2 else body[:-1])
    assert not hasattr(builtins, "extempo_was_here")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (call(name("os", "system"), text("true")), r"needs os\.system, which is refused: only.*nothing is executed"),
        (call(name("posix", "system"), text("true")), r"posix\.system"),
        (name("torch.nn.modules.linear", "Linear"), r"whole module; save model\.state_dict\(\)"),
        (name("torch.optim.adam", "Adam"), r"whole optimizer; save optimizer\.state_dict\(\)"),
        (name("torch._utils", "_rebuild_sparse_tensor"), r"sparse tensor; save x\.to_dense\(\)"),
        (name("torch._utils", "_rebuild_qtensor"), r"quantised tensor; save x\.dequantize\(\)"),
        (storage("0", "ComplexFloatStorage"), r"complex tensor; save torch\.view_as_real"),
        (name("torch", "complex64"), r"complex dtype"),
        (name("torch", "uint16"), r"torch\.uint16, which is refused"),
        (name("argparse", "Namespace"), r"save vars\(args\)"),
        (name("pathlib", "PosixPath"), r"save str\(path\)"),
        (name("builtins", "list"), r"holds builtins\.list, which is not plain data"),
        (b"](" + name("collections", "OrderedDict") + b"e", r"holds collections\.OrderedDict"),
        (storage("0"), r"a storage without a tensor"),
        (call(name("builtins", "int"), text("3")), r"calls builtins\.int"),
        (call(text("print"), text("3")), r"calls a str"),
        (call(tensor(storage("0"))), r"calls a Tensor"),
        (tensor(storage("0")) + dict_of(data=NONE) + b"b", r"gives state to a Tensor"),
        (NO_HOOKS + dict_of(__class__=NONE) + b"b", r"OrderedDict in the file has attributes"),
        (tensor(storage("0"), (2, 3), (3, 1), 0, FALSE, dict_of(neg=TRUE)), r"resolve_neg"),
        (call(name("torch.serialization", "_get_layout"), text("torch.sparse_coo")), r"strided tensors only"),
        (call(name("numpy", "dtype"), text("O8"), FALSE, TRUE), r"the dtype 'O8'; save numbers"),
        (several(text("module"), NONE) + b"Q", r"outside object that is not a storage"),
        (b"\x82\x01", r"opcode EXT1"),
        (b"(" + name("os", "system")[1:] + b"i", r"unknown opcode|opcode"),
        (b"P0\n", r"opcode PERSID"),
    ],
    ids=lambda v: v[:25] if isinstance(v, str) else "",
)  # fmt: skip
def test_anything_but_plain_data_is_refused_by_name(code, message):
    with pytest.raises(UnsupportedError, match=message):
        read(code)


NESTED = b")" + b"q\x00h\x00\x86" * 60  # a tuple of two of a tuple of two of ...: 2**60 parts


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (b"", "breaks off"),
        (b"R", "breaks off"),
        (b"h\x09", "breaks off"),
        (b"K", "breaks off"),
        (b"X\xff\xff\xff\xff", "breaks off"),
        (b"X\x01\x00\x00\x00\xff", "breaks off"),
        (b"\x8e" + b"\xff" * 8, "breaks off"),
        (b"cos", "breaks off"),
        (b"\x87", "breaks off"),
        (b"t", "breaks off"),
        (b"Na", "breaks off"),
        (b"}(Nu", "breaks off"),
        (b"}]Ns", "breaks off"),
        (b"}" + NESTED + b"Ns", "too many parts"),
        (b"\x8f(" + NESTED + b"\x90", "too many parts"),
        (call(name("builtins", "bytearray"), number(2**40)), "something else than bytes"),
        (call(name("builtins", "range"), text("a")), "something else than ints"),
        (call(name("torch", "Size"), several(number(-1))), "something else than ints"),
        (tensor(storage("1")), "no record 'data/1'"),
        (tensor(storage("../../etc/passwd")), "no record"),
        (tensor(storage("0", count=7)), "has 24 bytes and should have 28"),
        (tensor(storage("0", count=-1)), "described wrongly"),
        (tensor(storage("0"), (2, 3), (3, 1), 1), "outside of its storage"),
        (tensor(storage("0"), (2, 3), (3, 1), -1), "no sizes"),
        (tensor(storage("0"), (-2, 3), (3, 1)), "no sizes"),
        (tensor(storage("0"), (2, 3), (3, -1)), "no sizes"),
        (tensor(storage("0"), (2**50,), (1,)), "outside of its storage"),
        (tensor(storage("0"), (2,), (2**50,)), "outside of its storage"),
        (tensor(storage("0"), (2, 3), (1,)), "outside of its storage"),
        (tensor(text("memory")), "something else than a storage"),
        (call(name("torch._utils", "_rebuild_tensor_v2"), text("x")), "breaks off"),
        (call(name("torch._utils", "_rebuild_tensor_v3"), *[NONE] * 7), "breaks off"),
        (call(name("torch._utils", "_rebuild_parameter"), NONE, TRUE, NONE), "something else than a tensor"),
        (call(name("numpy._core.multiarray", "scalar"), NONE, b"C\x00"), "described wrongly"),
    ],
    ids=lambda v: v[:25] if isinstance(v, str) else "",
)  # fmt: skip
def test_a_damaged_or_crafted_pickle_is_refused(code, message):
    with pytest.raises(FileFormatError, match=f"damaged or cut short: .*{message}"):
        read(code)


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


def test_copies_that_grow_faster_than_the_pickle_are_refused():
    many = b"](" + b"".join(b"M" + struct.pack("<H", i) for i in range(5000)) + b"e"
    copies = (b"h\x01h\x00\x85R0") * 5000
    code = many + b"q\x00" + name("builtins", "set") + b"q\x01" + copies + b"0"
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match="copies far more data than it holds"):
            read(code)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


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


def test_random_pickles_never_do_anything_but_fail_or_return_data():
    rng = random.Random(2)
    seed = dict_of(w=tensor(storage("0")), n=call(name("builtins", "set"), b"](" + number(1) + b"e"))
    for _ in range(2000):
        code = bytearray(seed)
        for _ in range(rng.randrange(1, 6)):
            code[rng.randrange(len(code))] = rng.randrange(256)
        with contextlib.suppress(ExtempoError):
            read(bytes(code))
