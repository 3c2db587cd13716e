"""The fields of a record."""

from __future__ import annotations

from extempo.backends.llvm.calls.profile_records import RECORD, offset


def test_a_record_fills_a_line_of_the_cache():
    assert RECORD.itemsize == 64
    assert [offset(name) for name in RECORD.names] == [0, 8, 16, 20, 24, 32, 40, 48, 56]
