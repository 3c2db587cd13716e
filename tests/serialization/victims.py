"""Classes that malicious files name. Each would set off the canary if any of its code ran."""

from __future__ import annotations

import dataclasses
import enum
from collections import namedtuple
from typing import NamedTuple

import extempo as ex
from extempo import nn
from extempo.data import Dataset

CANARY: list[str] = []


def sing(*args, **kwargs):
    CANARY.append(repr(args)[:80])


class Reduces(nn.Module):
    def __reduce__(self):
        sing()
        return sing, ()


class ReducesEx(nn.Module):
    def __reduce_ex__(self, protocol):
        sing()
        return sing, ()


class Restores(nn.Module):
    def __setstate__(self, state):
        sing(state)


class RestoresBelow(Restores):
    """The code stands in a class above it."""


class MakesItself(nn.Module):
    def __new__(cls, *args):
        sing()
        return super().__new__(cls)


class DeletesItself(Dataset):
    def __del__(self):
        sing()


class Arguments(Dataset):
    def __getnewargs__(self):
        sing()
        return ()


class ArgumentsEx(Dataset):
    def __getnewargs_ex__(self):
        sing()
        return (), {}


class Plain:
    """No module, no data set, no dataclass."""

    def __init__(self):
        sing()


class Watchful(nn.Module):
    """Everything that plain attributes could run; none of it should."""

    def __init__(self):
        sing()

    def __setattr__(self, name, value):
        sing(name)

    def __getattribute__(self, name):
        if not name.startswith("__"):
            sing(name)
        return super().__getattribute__(name)

    @property
    def weight(self):
        sing()

    @weight.setter
    def weight(self, value):
        sing(value)


class Descriptor:
    def __set__(self, instance, value):
        sing(value)

    def __get__(self, instance, owner):
        sing()
        return self


class Described(Dataset):
    field = Descriptor()


class OwnDict(Dataset):
    @property
    def __dict__(self):
        sing()
        return {}


class Meta(type):
    def __call__(cls, *args, **kwargs):
        sing()
        return super().__call__(*args, **kwargs)

    def __getattribute__(cls, name):
        if name in ("__dict__", "__mro__", "__qualname__", "Inner"):
            sing(name)
        return super().__getattribute__(name)

    def __instancecheck__(cls, instance):
        sing()
        return True


class WithMeta(Dataset, metaclass=Meta):
    class Inner(nn.Module):
        pass


@dataclasses.dataclass
class Config:
    size: int = 3
    names: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        sing("post init")


@dataclasses.dataclass
class Restored:
    size: int = 3

    def __setstate__(self, state):
        sing(state)


@dataclasses.dataclass(frozen=True)
class Hashed:
    size: int = 3

    def __hash__(self):
        sing()
        return 3

    def __eq__(self, other):
        sing()
        return True


class Point(namedtuple("Point", "x y")):  # the old form is the one to test
    def __new__(cls, x, y):
        sing()
        return super().__new__(cls, x, y)


class Pair(NamedTuple):
    x: int
    y: int


class Colour(enum.Enum):
    RED = 1

    @classmethod
    def _missing_(cls, value):
        sing(value)
        return cls.RED


class DictModule(nn.Module, dict):
    pass


class Lazy:
    """A module attribute that runs code when it is asked what it is."""

    def __getattr__(self, name):
        sing(name)
        raise AttributeError(name)

    @property
    def __class__(self):
        sing()
        return type


lazy = Lazy()


def __getattr__(name):
    sing(name)
    return sing


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        return self.fc(x)


ONES = ex.ones(2)
