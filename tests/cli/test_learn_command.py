"""`extempo learn` in a terminal and without one."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from extempo import learn
from extempo.cli import learn_command
from extempo.cli.main import command
from extempo.learn.progress import FILE

pty = pytest.importorskip("pty", reason="terminals of this kind are those of POSIX")

RIGHT = "b\n\na\n\nb\n\nc\n"  # for lesson 1, with Enter between the questions


@pytest.fixture
def state(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("EXTEMPO_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "60")
    return tmp_path / "state"


def run(*arguments: str, typed: str | None = None) -> Result:
    result = CliRunner().invoke(command, ["learn", *arguments], prog_name="extempo", input=typed)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_list_has_every_lesson_and_what_was_done_of_it(state):
    shown = run().output
    for lesson in learn.lessons():
        assert re.search(rf"^ *{lesson.number} +{re.escape(lesson.title)}$", shown, re.M)
    assert shown.endswith("Begin with `extempo learn 1`.\n")
    assert not state.exists()
    run("1", typed=RIGHT)
    shown = run().output
    assert re.search(r"^  1    4/4  What a computation graph is$", shown, re.M)
    assert shown.endswith("Go on with `extempo learn 2`.\n")


def test_a_lesson_is_taken_to_its_end(state):
    result = run("1", typed=RIGHT)
    assert result.exit_code == 0
    assert result.output.count("Right.") == 4
    assert "Done: 4 of 4 answers right." in result.output
    assert "Next: `extempo learn 2`, Static against dynamic" in result.output
    assert max(map(len, result.output.splitlines())) <= 60 + len("Your answer (a-c, q to leave): ")
    assert "\x1b" not in result.output


def test_the_code_runs_after_the_answer_and_not_before(state):
    before, answered = run("1", typed="").output, run("1", typed="a\n").output
    assert "['leaf', 'add', 'mul']" not in before
    assert "['leaf', 'add', 'mul']" in answered
    assert "No, it is b." in answered
    assert "Decided by the run: `len(graph) == 3`" in answered


def test_what_is_no_answer_is_asked_again_and_a_number_is_one(state):
    output = run("1", typed="x\n9\n\n2\n").output
    assert output.count("Type a letter from a to c, then Enter.") == 3
    assert "Right." in output


@pytest.mark.parametrize("leaving", ["b\n", "b\nq\n", "b\n\nq\n"])
def test_who_leaves_comes_back_to_where_he_was(state, leaving):
    left = run("1", typed=leaving)
    assert left.exit_code == 0
    assert "Until next time: `extempo learn 1` goes on here." in left.output
    assert re.search(r"^  1    \.\.\.  What", run().output, re.M)
    again = run("1", typed="a\n\nb\n\nc\n").output
    assert "the code before it is run again" in again
    assert "Done: 4 of 4 answers right." in again


def test_a_lesson_taken_again_keeps_the_better_score(state):
    run("1", typed=RIGHT)
    assert "Done: 3 of 4" in run("1", typed="a\n\na\n\nb\n\nc\n").output
    assert re.search(r"^  1    4/4  What", run().output, re.M)


def test_a_broken_file_of_progress_is_told_and_stops_nobody(state):
    state.mkdir()
    (state / FILE).write_text("{")
    assert "Note: progress in" in run().output
    assert "Done: 4 of 4" in run("1", typed=RIGHT).output
    assert "Note" not in run().output


def test_reset_forgets(state):
    run("1", typed=RIGHT)
    assert "every lesson is new again" in run("--reset").output
    assert "Begin with" in run().output


def test_answers_come_from_a_file_and_leave_progress_alone(state, tmp_path):
    file = tmp_path / "answers.txt"
    file.write_text("1: b a b c\n3: b c c")
    result = run("1", "3", "--answers", str(file))
    assert result.exit_code == 0
    assert result.output.endswith("2 lessons, 6 of 7 answers right.\n")
    assert not state.exists()


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        (("--all",), "1: a", "lesson 1 (graph) has 4 questions, the file 1 answers"),
        (("1",), "one: a", "line 1: expected a lesson's number or name"),
        ((), "*: a", "--answers needs lessons"),
        (("99",), "*: a", "there is no lesson 99; there are 1 to"),
    ],
)
def test_a_mistake_in_the_call_is_named_before_anything_runs(state, tmp_path, arguments, text, message):
    file = tmp_path / "answers.txt"
    file.write_text(text)
    result = run(*arguments, "--answers", str(file))
    assert result.exit_code in (1, 2)
    assert message in " ".join(result.output.split())
    assert "running" not in result.output


def test_code_that_fails_is_told_and_makes_the_exit_status_1(state, tmp_path, monkeypatch):
    text = "# T\npart: P\n\n```python\n1 / 0\n```\n\n? A?\n\n- 1 :: 1 == 1\n  Y.\n- 2 :: 1 == 2\n  N.\n"
    broken = learn.read(text, 1, "broken")
    monkeypatch.setattr(learn_command, "lesson", lambda number: broken)
    file = tmp_path / "answers.txt"
    file.write_text("*: a")
    assert learn_command.take_alone([1], file) == 1


def test_an_undecided_question_does_not_count(state, capsys, monkeypatch):
    text = "# T\npart: P\n\n```python\nx = 3\n```\n\n? A?\n\n- 1 :: x == 1\n  It was {x}.\n- 2 :: x == 2\n  N.\n"
    unclear = learn.read(text, 1, "unclear")
    place = learn_command._Taking(unclear, None, lambda step: 0).go()
    assert (place.asked, place.right) == (0, 0)
    told = capsys.readouterr().out
    assert "Undecided" in told
    assert "a) It was 3." in told


def test_pictures_in_a_row_stand_side_by_side_as_far_as_there_is_room():
    pictures = ["one\n●", "two\n●\n●", "three\n●"]
    wide, narrow = (learn_command._side_by_side(pictures, width) for width in (60, 20))
    assert wide == ["one      two      three", "●        ●        ●", "         ●"]
    assert narrow == ["one      two", "●        ●", "         ●", "", "three", "●"]
    assert learn_command._side_by_side(pictures[:1], 2) == ["one", "●"]


def test_lessons_are_told_as_json(state):
    found = json.loads(run("--json").output)
    assert [one["number"] for one in found] == [lesson.number for lesson in learn.lessons()]
    assert found[0]["progress"] == {"step": 0, "right": 0, "asked": 0, "finished": False}


def in_a_terminal(state: Path, keys: bytes, wait_for: bytes) -> tuple[bytes, int]:
    """Lesson 1 in a dumb terminal; `keys` are pressed when the text has come. What is shown, and the exit status.

    They are pressed again after a while: what comes while a line is being set up may be lost, as for any program.
    """
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "EXTEMPO_STATE_DIR": str(state), "COLUMNS": "60"}
    program = [sys.executable, "-m", "extempo", "learn", "1"]
    process = subprocess.Popen(
        program, stdin=follower, stdout=follower, stderr=follower, env=environment, start_new_session=True
    )
    os.close(follower)
    shown, deadline = b"", time.monotonic() + 120
    try:
        while process.poll() is None:
            assert time.monotonic() < deadline, shown
            piece = _read(leader)
            shown += piece
            if wait_for in shown and (wait_for in piece or not piece):
                # A session of its own has no terminal that would send the signal.
                process.send_signal(signal.SIGINT) if keys == b"\x03" else os.write(leader, keys)
        return shown + _read(leader), process.wait()
    finally:
        process.kill()
        process.wait()
        os.close(leader)


def _read(terminal: int) -> bytes:
    """What has come, after at most ten seconds; nothing at the end, which Linux tells by an error."""
    if not select.select([terminal], [], [], 10)[0]:
        return b""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


@pytest.mark.alone
@pytest.mark.parametrize(("keys", "status"), [(b"\x03", 130), (b"\x04", 0)], ids=["ctrl-c", "ctrl-d"])
def test_a_terminal_is_left_cleanly_and_progress_is_kept(state, keys, status):
    run("1", typed="b\n")
    shown, code = in_a_terminal(state, keys, b"q to leave): ")
    assert code == status
    assert b"Until next time" in shown
    assert b"Traceback" not in shown
    assert b"\x1b" not in shown
    assert json.loads((state / FILE).read_text())["lessons"]["graph"]["step"] == 5
