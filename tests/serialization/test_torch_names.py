"""The names that a pickle of PyTorch may use, and what they become."""

from __future__ import annotations

from collections import defaultdict

import pytest

import extempo as ex
from extempo.errors import UnsupportedError

from .pickles import FALSE, NO_HOOKS, NONE, TRUE, call, dict_of, name, number, read, several, storage, tensor, text


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


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (call(name("os", "system"), text("true")), r"needs os\.system, which is refused.*Nothing of the file"),
        (call(name("posix", "system"), text("true")), r"posix\.system"),
        (name("torch.nn.modules.linear", "Linaer"), r"no such module; save model\.state_dict\(\)"),
        (name("torch.optim.adam", "Adamant"), r"no such optimizer; save optimizer\.state_dict\(\)"),
        (call(name("torch.nn.modules.linear", "Linear"), number(2), number(3)), r"calls extempo\.nn\.Linear; "),
        (name("torch._utils", "_rebuild_sparse_tensor"), r"sparse tensor; save x\.to_dense\(\)"),
        (name("torch._utils", "_rebuild_qtensor"), r"quantised tensor; save x\.dequantize\(\)"),
        (storage("0", "ComplexFloatStorage"), r"complex tensor; save torch\.view_as_real"),
        (name("torch", "complex64"), r"complex dtype"),
        (name("torch", "uint16"), r"torch\.uint16, which is refused"),
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
    assert type(back["default"]) is defaultdict
