"""Progress survives what happens to small files."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from extempo import learn
from extempo.learn.progress import FILE, Place, Progress, chosen_directory

ONE, TWO = learn.lessons()[:2]


def test_a_place_is_kept_and_found_again(tmp_path):
    Progress(tmp_path / "new").keep(ONE, Place(ONE.digest, step=3, right=1, asked=2))
    again = Progress(tmp_path / "new")
    assert again.of(ONE) == Place(ONE.digest, 3, 1, 2)
    assert again.of(TWO) == Place(TWO.digest)
    assert os.listdir(tmp_path / "new") == [FILE]  # no temporary file is left


def test_a_lesson_that_has_changed_begins_anew_unless_it_was_finished(tmp_path):
    progress = Progress(tmp_path)
    progress.keep(ONE, Place("old", step=3))
    assert progress.of(ONE).step == 0
    progress.keep(ONE, Place("old", step=9, right=2, asked=3, finished=True))
    assert progress.of(ONE).finished


NO_PLACES = ['{"lessons": []}', '{"lessons": {"graph": 1}}', '{"lessons": {"graph": {"step": 1}}}']
BAD_STEPS = [json.dumps({"lessons": {"graph": {"digest": "x", "step": bad}}}) for bad in (-1, "a", None, True)]


@pytest.mark.parametrize("broken", ["", "{", "[]", "\udcff", *NO_PLACES, *BAD_STEPS, "[" * 100_000])
def test_a_broken_file_is_told_and_written_over(tmp_path, broken):
    (tmp_path / FILE).write_bytes(broken.encode(errors="surrogateescape"))
    progress = Progress(tmp_path)
    assert "cannot be read" in progress.trouble
    assert progress.of(ONE).step == 0
    progress.keep(ONE, Place(ONE.digest, step=2))
    assert Progress(tmp_path).of(ONE).step == 2
    assert Progress(tmp_path).trouble == ""


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("no directory")
    progress = Progress(tmp_path / "file" / "below")
    progress.keep(ONE, Place(ONE.digest, step=2))
    assert "cannot be kept" in progress.trouble
    assert progress.of(ONE).step == 2  # for as long as this runs


def test_nothing_is_kept_where_none_is_wanted():
    progress = Progress(None)
    progress.keep(ONE, Place(ONE.digest, step=2))
    assert (progress.of(ONE).step, progress.trouble) == (2, "")


def test_reset_forgets(tmp_path):
    progress = Progress(tmp_path)
    progress.reset()
    assert os.listdir(tmp_path) == []
    progress.keep(ONE, Place(ONE.digest, step=2))
    progress.reset()
    assert Progress(tmp_path).of(ONE).step == 0


def test_the_directory_is_that_of_the_variable_or_of_the_platform(tmp_path, monkeypatch):
    assert chosen_directory({"EXTEMPO_STATE_DIR": str(tmp_path)}) == tmp_path
    assert chosen_directory({"EXTEMPO_STATE_DIR": "off"}) is None
    assert chosen_directory({"EXTEMPO_STATE_DIR": " "}) is None
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert chosen_directory({"XDG_STATE_HOME": str(tmp_path)}) == tmp_path / "extempo"
    assert chosen_directory({"XDG_STATE_HOME": "relative"}) == tmp_path / ".local/state/extempo"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert chosen_directory({}) == tmp_path / "Library/Application Support/extempo"
    monkeypatch.setattr(sys, "platform", "win32")
    assert chosen_directory({"LOCALAPPDATA": str(tmp_path)}) == Path(tmp_path) / "extempo"
    assert chosen_directory({}) is None
