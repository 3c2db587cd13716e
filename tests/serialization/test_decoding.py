"""Reading the structure back: entries in any order, and files of the first version."""

from __future__ import annotations

import io

import pytest

from extempo.serialization import FileFormatError, load
from extempo.serialization.decoding import decode

from .raw_files import described


def ref(number):
    return {"$": "entry", "number": number}


def test_files_without_entries_are_read():
    assert load(io.BytesIO(described({"a": [1, {"$": "tuple", "items": [2]}]}, version=1))) == {"a": [1, (2,)]}


def test_entries_may_refer_to_earlier_later_and_to_themselves():
    made = decode(ref(0), [], [[ref(1), ref(0)], {"first": ref(0), "t": ref(2)}, {"$": "tuple", "items": [ref(1)]}])
    assert made[1] is made
    assert made[0]["first"] is made
    assert made[0]["t"][0] is made[0]


@pytest.mark.parametrize(
    ("tree", "entries"),
    [
        (ref(1), [[]]),
        (ref(True), [[]]),
        (ref(0), [{"$": "frozenset", "items": [ref(0)]}]),
        ({"$": "set", "items": [[1]]}, []),
        ({"$": "text", "type": "datetime", "text": 3}, []),
        ({"$": "path", "type": "Path", "text": ["a"]}, []),
        ({"$": "path", "type": "open", "text": "a"}, []),
        ({"$": "deque", "items": [], "maxlen": True}, []),
        ({"$": "partial", "function": 3, "args": [], "keywords": {}}, []),
    ],
    ids=str,
)
def test_what_save_does_not_write_is_a_damaged_file(tree, entries):
    with pytest.raises(FileFormatError, match=r"not one that ex\.save writes"):
        decode(tree, [], entries)
