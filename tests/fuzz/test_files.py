"""Damaged and crafted files, some hundred of each kind."""

from __future__ import annotations

import contextlib
import io
import os
import threading

import pytest

import extempo as ex
from extempo.errors import ExtempoError

from . import files

_CASES = 150  # of each kind
KINDS = ["damaged", "spliced", "described wrongly", "pickled wrongly", "kernels"]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="cases run in forked children")


def test_files_to_begin_with_are_whole():
    assert all(files.case(0, number) is None for number in range(5))
    refused = sum(_is_refused(data) for data in files.WHOLE)
    assert refused <= 3, "a bare pickle, NumPy's and PyTorch's from before 1.6"


def _is_refused(data: bytes) -> bool:
    try:
        ex.load(io.BytesIO(data))
    except ExtempoError:
        return True
    return False


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_a_file_gives_a_value_or_a_clear_error(kind):
    numbers = [kind + i * len(KINDS) for i in range(_CASES)]
    assert [(number, wrong) for number in numbers if (wrong := files.case(0, number))] == []


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs to know how much memory there is")
def test_cases_that_fail_crash_hang_or_take_too_much_memory_are_found(monkeypatch, capfd):
    def bad(seed, number):
        if number == 1:
            os._exit(1)
        if number == 2:
            with contextlib.suppress(MemoryError):
                return f"{len(bytearray(8 << 30))} bytes"
            return "memory"
        if number == 3:
            threading.Event().wait()
        return "wrong"

    monkeypatch.setattr(files, "case", bad)
    monkeypatch.setattr(files, "_SECONDS_FOR_A_CASE", 2.0)
    assert [files.watch(7, number, 0.0) for number in range(4)] == [(1, number) for number in range(4)]
    told = ["files.case(7, 0) wrong", "files.case(7, 1) crashes", "files.case(7, 2) memory", "files.case(7, 3) hangs"]
    assert capfd.readouterr().out.splitlines() == told
