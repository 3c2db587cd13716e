"""Which classes and functions a file may name. The gadgets of `test_gadgets` are refused by this rule."""

from __future__ import annotations

import abc
import dataclasses
import os
import subprocess
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import pytest

import extempo as ex
import extempo.nn.functional as F
from extempo import nn, optim
from extempo.data import Dataset, TensorDataset
from extempo.serialization import safe_globals
from extempo.serialization.class_rule import MISSING, has_plain_hash, look_up, path_of, why_not

from . import victims

T = TypeVar("T")


class Abstract(nn.Module, abc.ABC):
    @abc.abstractmethod
    def size(self): ...


class Typed(Dataset[T], Generic[T]):
    pass


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    x: int


class Pair(NamedTuple):
    x: int


@pytest.mark.parametrize(
    "cls",
    [
        *(Abstract, Typed, Frozen, Pair, victims.Small, victims.Config, victims.Watchful, victims.Colour, nn.Linear),
        *(nn.utils.rnn.PackedSequence, optim.Adam, optim.lr_scheduler.StepLR, TensorDataset, ex.distributions.Normal),
    ],
    ids=lambda cls: cls.__name__,
)
def test_classes_that_a_file_may_name(cls):
    assert why_not(cls) == ""
    module, name = path_of(cls).split(":")
    assert look_up(module, name) is cls


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (victims.Restores, "Restores has a __setstate__ of its own"),
        (victims.RestoresBelow, "Restores has a __setstate__ of its own"),
        (victims.Point, "Point has a __new__ of its own"),
        (victims.DictModule, "a kind of dict"),
        (victims.WithMeta, "metaclass Meta is its own"),
        (victims.OwnDict, "a __dict__ of its own"),
        (victims.Plain, "no subclass of nn.Module or Dataset, no dataclass and no namedtuple"),
        (subprocess.Popen, "no subclass of nn.Module"),
        (os.system, "not a class, nor a function of Extempo's that computes"),
        (ex.load, "not a class, nor a function"),
        (ex.manual_seed, "not a class, nor a function"),
        (os, "not a class"),
        (ex.Generator, "a part of Extempo that files have no use for"),
        (RuntimeError, "no subclass"),
    ],
    ids=lambda v: getattr(v, "__name__", "") if not isinstance(v, str) else "",
)
def test_names_that_are_refused(found, reason):
    assert reason in why_not(found)
    with safe_globals([found] if callable(found) else []):
        assert not callable(found) or why_not(found) == ""


@pytest.mark.parametrize("function", [F.relu, F.gelu, ex.tanh, ex.sigmoid, nn.init.xavier_uniform_, ex.matmul])
def test_functions_that_compute_are_named_by_their_public_path(function):
    assert why_not(function) == ""
    module, name = path_of(function).split(":")
    assert look_up(module, name) is function


def test_names_of_pytorch_are_those_of_extempo():
    assert look_up("torch.nn.modules.linear", "Linear") is nn.Linear
    assert look_up("torch.optim.adam", "Adam") is optim.Adam
    assert look_up("torch.utils.data.dataset", "TensorDataset") is TensorDataset
    assert look_up("torch.nn.functional", "relu") is F.relu
    assert look_up("torch._C._nn", "gelu") is F.gelu
    assert look_up("torch.nothing", "Linear") is MISSING


def test_looking_up_imports_and_asks_nothing():
    before = len(victims.CANARY)
    for name in ("made_up", "lazy.x", "WithMeta.Inner.x", "Small.fc.weight", "sing.__globals__"):
        assert look_up(victims.__name__, name) is MISSING
    assert look_up("antigravity", "fly") is MISSING
    assert victims.CANARY[before:] == []


def test_a_class_inside_of_a_function_has_no_path():
    class Local(nn.Module):
        pass

    assert path_of(Local) is None


@pytest.mark.parametrize(
    ("key", "plain"),
    [
        *((key, True) for key in ("a", 1, 2.5, None, True, b"x", (1, ("a",)), frozenset({1}), ex.float32)),
        *(
            (key, True)
            for key in (ex.device("cpu"), ex.Size([2]), ex.ones(1), victims.Colour.RED, Pair(1), np.int64(3))
        ),
        (victims.Small(), True),
        (victims.Hashed(), False),
        ((1, victims.Hashed()), False),
        (Frozen(1), False),
    ],
    ids=str,
)
def test_keys_are_plain_if_comparing_them_runs_no_code_of_a_class(key, plain):
    assert has_plain_hash(key) is plain
