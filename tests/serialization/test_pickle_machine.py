"""Pickles read without running them."""

from __future__ import annotations

import builtins
import contextlib
import pickle
import random
import struct
import tracemalloc

import numpy as np
import pytest

from extempo.errors import ExtempoError, UnsupportedError
from extempo.serialization import FileFormatError

from .pickles import NONE, TRUE, call, dict_of, name, number, read, several, storage, tensor, text


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


def test_random_pickles_never_do_anything_but_fail_or_return_data():
    rng = random.Random(2)
    seed = dict_of(w=tensor(storage("0")), n=call(name("builtins", "set"), b"](" + number(1) + b"e"))
    for _ in range(2000):
        code = bytearray(seed)
        for _ in range(rng.randrange(1, 6)):
            code[rng.randrange(len(code))] = rng.randrange(256)
        with contextlib.suppress(ExtempoError):
            read(bytes(code))
