"""Values of the standard library."""

from __future__ import annotations

import argparse
import datetime
import enum
import io
import pathlib
import types
from collections import deque

import numpy as np
import pytest

from extempo.errors import UnsupportedError
from extempo.serialization import load, save


class Mode(enum.Enum):
    FAST = "fast"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


def there_and_back(obj):
    file = io.BytesIO()
    save(obj, file)
    return load(io.BytesIO(file.getvalue()))


@pytest.mark.parametrize(
    "value",
    [
        datetime.datetime(2026, 2, 3, 4, 5, 6, 7),
        datetime.datetime(2026, 2, 3, tzinfo=datetime.UTC),
        datetime.date(2026, 2, 3),
        datetime.time(1, 2, 3),
        datetime.timedelta(-3, 5, 7),
        pathlib.Path("runs/a"),
        pathlib.PurePosixPath("/a/b"),
        pathlib.PureWindowsPath("c:\\a"),
        np.dtype("float32"),
        np.dtype("complex128"),
        deque([1, [2]], maxlen=3),
        argparse.Namespace(lr=0.1, layers=[1, 2]),
        types.SimpleNamespace(a=1),
        Rights.READ,
    ],
    ids=repr,
)
def test_a_value_comes_back_equal_and_of_its_type(value):
    back = there_and_back({"v": value})["v"]
    assert type(back) is type(value)
    assert back == value
    assert getattr(back, "maxlen", None) == getattr(value, "maxlen", None)


def test_a_member_of_an_enum_is_the_member_and_may_be_a_key():
    assert there_and_back([Mode.FAST, {Mode.FAST: 1}]) == [Mode.FAST, {Mode.FAST: 1}]
    assert there_and_back(Mode.FAST) is Mode.FAST


def test_several_flags_at_once_say_to_save_their_value():
    with pytest.raises(UnsupportedError, match=r"obj\[0\] is of type Rights; it is no single member.*x\.value"):
        save([Rights.READ | Rights.WRITE], io.BytesIO())
