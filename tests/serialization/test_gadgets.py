"""Malicious files in both formats: none executes anything, none hangs or takes much memory, each error teaches."""

from __future__ import annotations

import io
import pickle
import struct
import sys
import tracemalloc
import zipfile

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ExtempoError
from extempo.serialization import load

from . import victims
from .pickles import NONE, archive, call, dict_of, name, number, several, storage, tensor, text
from .raw_files import raw_description

HERE = victims.__name__


def new(module: str, attribute: str, *args: bytes, state: bytes = b"") -> bytes:
    """NEWOBJ, and BUILD where there is a state."""
    return name(module, attribute) + several(*args) + b"\x81" + (state + b"b" if state else b"")


def victim(attribute: str, *args: bytes, state: bytes = b"") -> bytes:
    return new(HERE, attribute, *args, state=state)


def stack_name(module: str, attribute: str) -> bytes:
    return text(module) + text(attribute) + b"\x93"


SING = name(HERE, "sing")
EMPTY = dict_of(x=number(1))
LINEAR = dict_of(_parameters=b"}", _buffers=b"}", _modules=b"}", training=b"\x88")


def linear(**more: bytes) -> bytes:
    return new(
        "torch.nn.modules.linear", "Linear", state=dict_of(_parameters=b"}", _buffers=b"}", _modules=b"}", **more)
    )


# Pickles inside of PyTorch's zip files, by what they try.
PICKLES = {
    "REDUCE of os.system": call(name("os", "system"), text("touch /tmp/extempo-was-here")),
    "REDUCE of posix.system": call(name("posix", "system"), text("true")),
    "REDUCE of a function of the program": call(SING, text("x")),
    "REDUCE of eval": call(name("builtins", "eval"), text("1")),
    "REDUCE of exec under its old name": call(name("__builtin__", "execfile"), text("x")),
    "REDUCE of __import__": call(name("builtins", "__import__"), text("antigravity")),
    "getattr of os": call(name("builtins", "getattr"), name("os", "path"), text("join")),
    "getattr of torch's functions that is dotted": call(
        name("builtins", "getattr"), name("torch._C", "_VariableFunctionsClass"), text("load.__globals__")
    ),
    "getattr of torch's functions that loads": call(
        name("builtins", "getattr"), name("torch._C", "_VariableFunctionsClass"), text("load")
    ),
    "subprocess": call(name("subprocess", "Popen"), text("true")),
    "operator.attrgetter": call(name("operator", "attrgetter"), text("system")),
    "types.CodeType": call(name("types", "CodeType"), number(0)),
    "types.FunctionType": call(name("types", "FunctionType"), NONE),
    "partial of os.system": call(name("functools", "partial"), name("os", "system")),
    "partial whose function is exchanged": call(name("functools", "partial"), name("torch.nn.functional", "relu"))
    + several(name("os", "system"), b")", b"}", NONE)
    + b"b",
    "a partial that is called": call(
        call(name("functools", "partial"), name("torch.nn.functional", "relu")), number(1)
    ),
    "pickle in a pickle": call(name("pickle", "loads"), b"C\x02N."),
    "torch.load in a file": call(name("torch", "load"), text("/etc/passwd")),
    "torch.hub": call(name("torch.hub", "load"), text("x"), text("y")),
    "extempo's own loader": call(name("extempo", "load"), text("/etc/passwd")),
    "extempo's modules through its globals": stack_name("extempo", "sys.modules"),
    "a module as a name": stack_name("extempo", "ops"),
    "dotted os.system": stack_name("os", "system.__call__"),
    "dotted through a class": stack_name(HERE, "Small.forward.__globals__"),
    "a method of a class": stack_name(HERE, "Small.forward"),
    "a class of a module that is not imported": victim("Small")[:0] + new("antigravity", "Flyer", state=EMPTY),
    "a name that the module makes when asked": new(HERE, "made_up", state=EMPTY),
    "an attribute that calls itself a class": new(HERE, "lazy", state=EMPTY),
    "a module with __reduce__": victim("Reduces", state=LINEAR),
    "a module with __reduce_ex__": victim("ReducesEx", state=LINEAR),
    "a module with __setstate__": victim("Restores", state=LINEAR),
    "a module with __setstate__ above": victim("RestoresBelow", state=LINEAR),
    "a module with __new__": victim("MakesItself", state=LINEAR),
    "a data set with __del__": victim("DeletesItself", state=EMPTY),
    "a data set with __getnewargs__": victim("Arguments", state=EMPTY),
    "a data set with __getnewargs_ex__": victim("ArgumentsEx", state=EMPTY),
    "a data set with a __dict__ of its own": victim("OwnDict", state=EMPTY),
    "a class with a metaclass": victim("WithMeta", state=EMPTY),
    "a class inside of one with a metaclass": stack_name(HERE, "WithMeta.Inner.forward"),
    "a plain class": victim("Plain", state=EMPTY),
    "a dataclass with __setstate__": victim("Restored", state=EMPTY),
    "a dataclass as a key": b"}" + victim("Hashed", state=dict_of(size=number(1))) + number(1) + b"s",
    "a dataclass in a tuple as a key": b"}" + victim("Hashed") + b"\x85" + number(1) + b"s",
    "a dataclass in a set": call(name("builtins", "set"), b"](" + victim("Hashed") + b"e"),
    "a dataclass that is called": call(name(HERE, "Config"), number(3)),
    "a namedtuple with __new__": victim("Point", number(1), number(2)),
    "a namedtuple of the wrong length": victim("Pair", number(1)),
    "an enum's _missing_": call(name(HERE, "Colour"), number(7)),
    "an enum that gets attributes": call(name(HERE, "Colour"), number(1)) + EMPTY + b"b",
    "a module that is a dict": victim("DictModule", state=LINEAR),
    "a module that is called": call(name("torch.nn.modules.linear", "Linear"), number(2), number(3)),
    "a module with arguments for __new__": new("torch.nn.modules.linear", "Linear", number(1), state=LINEAR),
    "attributes of a class": name(HERE, "Small") + dict_of(forward=SING[:0] + NONE) + b"b",
    "forward of an instance": victim("Small", state=dict_of(forward=SING)),
    "__call__ of an instance": linear(__call__=name("os", "system")),
    "a hook": linear(_forward_hooks=dict_of(a=number(1))),
    "one of extempo's hook holders": linear(_call_hooks=number(1)),
    "a parameter that is none": new(
        "torch.nn.modules.linear", "Linear", state=dict_of(_parameters=dict_of(weight=text("x")), _modules=b"}")
    ),
    "tables that are no dicts": new("torch.nn.modules.linear", "Linear", state=dict_of(_parameters=text("x"))),
    "state that is no dict": new("torch.nn.modules.linear", "Linear", state=text("x")),
    "state with names that are no text": new("torch.nn.modules.linear", "Linear", state=b"}" + number(1) + NONE + b"s"),
    "an internal class": new("extempo.core.storage", "Storage", state=EMPTY),
    "a class of the native backend": new("extempo.scheduling.request", "Plan", state=EMPTY),
    "an optimizer of nothing": new("torch.optim.adam", "Adam", state=EMPTY),
    "INST": b"(" + text("true") + b"ios\nsystem\n",
    "OBJ": b"(" + name("os", "system") + text("true") + b"o",
    "NEWOBJ_EX": name(HERE, "Small") + b")}\x92",
    "EXT1": b"\x82\x01",
    "a persistent id that is a name": SING + b"Q",
    "a persistent id that is text": text("../../etc/passwd") + b"Q",
    "a storage of another place": several(
        text("storage"), name("torch", "FloatStorage"), text("../../../etc/passwd"), text("cpu"), number(6)
    )
    + b"Q",
    "a storage of huge size": tensor(storage("0", "FloatStorage", 1 << 60)),
    "a tensor of huge size": tensor(storage("0"), (1 << 40, 1 << 40), (0, 0)),
    "a tensor of negative size": tensor(storage("0"), (-1,), (1,)),
    "a tuple of tuples as a key": b"}" + b")" + b"q\x00h\x00\x86" * 60 + number(1) + b"s",
    "lists that are copied again and again": b"]" + b"q\x00" + b"".join(
        name("builtins", "set") + b"h\x00\x85R0" for _ in range(50)
    )
    + b"(" + b"N" * 5000 + b"e" + (name("builtins", "frozenset") + b"h\x00\x85R0") * 2000,
    "a memo that was never filled": b"h\xff",
    "a length beyond the end": b"\x8e" + struct.pack("<Q", 1 << 60),
    "deep nesting that breaks off": b"]" * 200_000 + b"a" * 200_001,
    "an array of huge size": call(
        name("numpy._core.numeric", "_frombuffer"), b"C\x01a", call(name("numpy", "dtype"), text("i8")),
        several(number(1 << 50)), text("C")
    ),
    "bytes of huge size": call(name("builtins", "bytearray"), number(1 << 50)),
    "a deque of odd length": call(name("collections", "deque"), b")", text("x")),
}  # fmt: skip


def entries(*nodes, structure=None, **more) -> bytes:
    """A file in Extempo's own format whose entries are these."""
    tree = {"$": "entry", "number": 0} if structure is None else structure
    return raw_description(
        {"version": 2, "structure": tree, "entries": list(nodes), "objects": [], "crc32": {}, **more}
    )


def instance(cls: str, *state, tables=None, **more):
    return {"$": "instance", "class": cls, "state": [list(pair) for pair in state], "tables": tables or {}, **more}


def function(path: str):
    return {"$": "name", "name": path}


MODULE_TABLES = {"_parameters": [], "_buffers": [], "_modules": []}
OWN = {
    "a name of os": entries(structure=function("os:system")),
    "a function of the program": entries(structure=function(f"{HERE}:sing")),
    "a builtin": entries(structure=function("builtins:eval")),
    "a dotted name": entries(structure=function("extempo:sys.modules")),
    "a method": entries(structure=function(f"{HERE}:Small.forward")),
    "a name without a module": entries(structure=function("eval")),
    "a name that is a list": entries(structure={"$": "name", "name": ["os", "system"]}),
    "a module that is not imported": entries(instance("antigravity:Flyer")),
    "a name that the module makes": entries(instance(f"{HERE}:made_up")),
    "what calls itself a class": entries(instance(f"{HERE}:lazy")),
    **{
        f"an instance of {kind}": entries(instance(f"{HERE}:{kind}", ("x", 1)))
        for kind in (
            *("Reduces", "ReducesEx", "Restores", "RestoresBelow", "MakesItself", "DeletesItself", "Arguments"),
            *("ArgumentsEx", "OwnDict", "WithMeta", "Plain", "Restored", "Point", "DictModule", "Colour"),
        )
    },
    "a function as forward": entries(instance(f"{HERE}:Small", ("forward", function(f"{HERE}:sing")))),
    "os.system as an activation": entries(instance("extempo.nn:ReLU", ("act", function("os:system")))),
    "hooks": entries(instance("extempo.nn:ReLU", ("_call_hooks", 1), tables=MODULE_TABLES)),
    "a parameter that is none": entries(instance("extempo.nn:ReLU", tables={"_parameters": [["w", 1]]})),
    "a table of an odd name": entries(instance("extempo.nn:ReLU", tables={"__class__": []})),
    "a submodule that is none": entries(instance("extempo.nn:ReLU", tables={"_modules": [["w", "x"]]})),
    "a call of os.system": entries({"$": "call", "name": "os:system", "new": False, "args": ["true"]}),
    "a call of the program": entries({"$": "call", "name": f"{HERE}:sing", "new": False, "args": []}),
    "a call of a module": entries({"$": "call", "name": f"{HERE}:Small", "new": False, "args": [], "items": []}),
    "a call of object.__new__": entries({"$": "call", "name": f"{HERE}:Plain", "new": True, "args": []}),
    "a partial of os.system": entries(
        {"$": "partial", "function": function("os:system"), "args": [], "keywords": {}}
    ),
    "a member that there is not": entries(structure={"$": "member", "class": f"{HERE}:Colour", "name": "_missing_"}),
    "a member of a class": entries(structure={"$": "member", "class": f"{HERE}:Small", "name": "forward"}),
    "a namedtuple of the wrong length": entries(
        structure={"$": "namedtuple", "class": f"{HERE}:Pair", "items": [1, 2, 3]}
    ),
    "a module as a namedtuple": entries(structure={"$": "namedtuple", "class": "extempo.nn:ReLU", "items": []}),
    "a slot that there is not": entries(instance(f"{HERE}:Config", slots=[["__class__", 1]])),
    "a dataclass as a key": entries(
        instance(f"{HERE}:Hashed", ("size", 1)),
        structure={"$": "dict", "items": [[{"$": "entry", "number": 0}, 1]]},
    ),
    "a dataclass in a set": entries(
        instance(f"{HERE}:Hashed", ("size", 1)), structure={"$": "set", "items": [{"$": "entry", "number": 0}]}
    ),
    "an entry that is not there": entries(structure={"$": "entry", "number": 5}),
    "an entry of a negative number": entries([1], structure={"$": "entry", "number": -1}),
    "an entry that is itself": entries({"$": "entry", "number": 0}),
    "a tuple made of itself": entries({"$": "tuple", "items": [{"$": "entry", "number": 0}]}),
    "entries that are a number": entries(structure=[], entries=7),
    "an entry that is a number": entries(7),
    "a kind that is a list": entries({"$": []}),
    "an unknown kind": entries(structure={"$": "exec", "code": "1"}),
    "a factory of a defaultdict": entries({"$": "defaultdict", "factory": "eval", "items": []}),
    "a deque of negative length": entries({"$": "deque", "items": [], "maxlen": -1}),
    "a scalar of a list": entries(structure={"$": "scalar", "dtype": "float32", "value": [1, 2]}),
    "an internal class": entries(instance("extempo.scheduling.request:Plan")),
    "extempo.cli": entries(structure=function("extempo.cli.main:command")),
    "a date that is none": entries(structure={"$": "text", "type": "datetime", "text": "x" * 1000}),
    "a state of a generator that is none": entries({"$": "Generator", "state": "00" * 7}),
    "a range of the wrong parts": entries(structure={"$": "range", "items": ["a"]}),
    "a long chain of entries made of each other": entries(
        *({"$": "tuple", "items": [{"$": "entry", "number": max(0, i - 1)}]} for i in range(5000))
    ),
}  # fmt: skip


def zip_of(*records: tuple[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as made:
        for path, data in records:
            made.writestr(path, data)
    return file.getvalue()


BODY = b"\x80\x02" + b"]" + b"."
ZIPS = {
    "a record that climbs": zip_of(("../../../tmp/data.pkl", BODY), ("../../../tmp/version", b"3")),
    "an absolute record": zip_of(("/etc/x/data.pkl", BODY)),
    "a compressed bomb": zip_of(("a/data.pkl", b"\0" * (1 << 26)), compression=zipfile.ZIP_DEFLATED),
    "a zip cut short": archive(b"]")[:-30],
    "a zip that ends in its table": archive(b"]")[:60],
    "a zip without a pickle": zip_of(("a/readme", b"x")),
    "a bare pickle": pickle.dumps(victims.CANARY, 2),
    "TorchScript": zip_of(("a/data.pkl", BODY), ("a/constants.pkl", BODY), ("a/code/x.py", b"import os")),
}
FILES = {
    **{f"pickle: {key}": archive(code, {"data/0": b"\0" * 24}) for key, code in PICKLES.items()},
    **{f"own: {key}": data for key, data in OWN.items()},
    **{f"zip: {key}": data for key, data in ZIPS.items()},
}


def test_there_are_more_than_fifty_of_them():
    assert len(PICKLES) >= 50
    assert len(OWN) >= 50


@pytest.mark.parametrize("file", FILES.values(), ids=FILES.keys())
def test_a_malicious_file_runs_nothing_and_is_refused_in_words(file):
    before, loaded = len(victims.CANARY), set(sys.modules)
    tracemalloc.start()
    try:
        with pytest.raises(ExtempoError, match=r"^load: .{20}"):
            load(io.BytesIO(file), weights_only=False)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert victims.CANARY[before:] == []
    assert "antigravity" not in sys.modules
    assert not {m for m in set(sys.modules) - loaded if not m.startswith(("extempo", "encodings", "pickletools"))}
    assert most < 20 * len(file) + (1 << 24)


# Odd, but harmless: what such a file says comes back as data, and still nothing runs.
HARMLESS = {
    "properties and __setattr__": victim("Watchful", state=dict_of(weight=number(1), other=number(2))),
    "a descriptor": victim("Described", state=dict_of(field=number(1))),
    "__post_init__": victim("Config", state=dict_of(size=number(1))),
    "__class__ as an attribute": linear(__class__=text("x"), __dict__=text("y")),
    "a duplicate name": linear(training=b"\x89"),
    "a circle": b"]q\x00h\x00a",
}


@pytest.mark.parametrize("code", HARMLESS.values(), ids=HARMLESS.keys())
def test_an_odd_file_runs_nothing(code):
    before = len(victims.CANARY)
    made = load(io.BytesIO(archive(code)))
    assert victims.CANARY[before:] == []
    assert type(made) in (victims.Watchful, victims.Described, victims.Config, nn.Linear, list)


def test_the_record_that_comes_last_counts_where_a_name_is_there_twice():
    with pytest.warns(UserWarning, match="Duplicate name"):
        file = zip_of(("a/data.pkl", b"\x80\x02]."), ("a/data.pkl", b"\x80\x02}."))
    assert load(io.BytesIO(file)) == {}


def test_the_canary_sings_where_code_does_run():
    """Else the tests above would prove nothing."""
    before = len(victims.CANARY)
    with ex.serialization.safe_globals([victims.sing]):
        load(io.BytesIO(archive(call(SING, text("x")))))
    assert victims.CANARY[before:] == ["('x',)"]
    del victims.CANARY[before:]
