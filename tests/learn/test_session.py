"""Code of lessons runs as it is shown, and the run decides which answer is right."""

from __future__ import annotations

import json
import os
import pdb
import sys

import pytest

from extempo import learn
from extempo.learn.session import is_there

HEAD = "# Title\npart: Part\n\n"
ASKED = "? And?\n\n- One :: x == 1\n  It is {x}.\n- Two :: x == 2\n  It is {x:.1f}.\n"


def session(body: str, **options: int) -> learn.Session:
    return learn.Session(learn.read(HEAD + body, 7, "new"), **options)


def code(text: str, needs: str = "") -> str:
    return f"```python{needs}\n{text}\n```\n\n"


@pytest.mark.parametrize(("x", "right"), [(1, 0), (2, 1), (3, None)])
@pytest.mark.parametrize("choice", [0, 1])
def test_the_run_decides(x, right, choice):
    verdict = session(code(f"x = {x}") + ASKED).answer(0, choice)
    assert (verdict.right, verdict.is_right) == (right, choice == right)
    assert verdict.whys == (f"It is {x}.", f"It is {x:.1f}.")
    assert verdict.decided_by == ("" if right is None else f"x == {right + 1}")


def test_two_answers_that_hold_decide_nothing():
    verdict = session(code("x = 1") + "? And?\n\n- A :: x\n  A.\n- B :: x\n  B.\n").answer(0, 0)
    assert verdict.right is None


def test_code_above_runs_first_and_once():
    taken = session(code("x = 0") + code("x += 1\nprint(x)") + code("print(x + 1)"))
    assert taken.run(2).text == "2\n"
    assert taken.run(2).text == "2\n"


def test_output_is_kept_and_a_last_value_shown_as_in_a_notebook(capsys):
    outcome = session(code("print('a')\nprint('b')\n3 + 4")).run(0)
    assert outcome.text == "a\nb\n7\n"
    assert capsys.readouterr().out == ""
    assert session(code("None")).run(0).parts == ()


def test_drawings_are_pictures_of_the_width_asked_for():
    draws = (
        "import extempo as ex\nprint('two')\n[ex.inspect.draw(ex.exp, ex.ones(2)), ex.inspect.draw(ex.sin, ex.ones(2))]"
    )
    outcome = session(code(draws), width=30).run(0)
    text, first, second = outcome.parts
    assert text == "two\n"
    assert first.svg.startswith("<svg")
    assert "exp" in first.text
    assert "sin" in second.text
    assert [part["kind"] for part in outcome.as_dict()["output"]] == ["text", "picture", "picture"]


def test_an_error_is_told_with_the_lines_of_the_lesson_alone():
    broken = "def f():\n    return 1 / 0\n\n\nprint('before')\nf()"
    taken = session("Text.\n\n" + code("x = 1") + code(broken) + ASKED)
    verdict = taken.answer(2, 0)
    assert verdict.right is None
    assert verdict.outcome.text == "before\n"
    assert 'File "lesson_7.py", line 4, in f\n    return 1 / 0' in verdict.outcome.error
    assert "session.py" not in verdict.outcome.error
    json.dumps(verdict.as_dict())


def test_an_error_above_stops_what_stands_below():
    assert "ZeroDivisionError" in session(code("1 / 0") + code("x = 1")).run(1).error


def test_what_is_missing_is_said_and_the_lesson_goes_on():
    taken = session(code("x = 1", " needs=no_such_package,ex.no_such_tool") + ASKED + "\n" + code("print('on')"))
    verdict = taken.answer(0, 0)
    said = "this step needs no_such_package and ex.no_such_tool, which is not there: it is left out"
    assert (verdict.outcome.left_out, verdict.right) == (said, None)
    assert taken.run(1).text == "on\n"
    assert is_there("ex.memory.track")
    assert is_there("json")


def test_tools_find_the_source_of_what_a_lesson_defines():
    text = "import inspect\n\n\nclass A:\n    def f(self):\n        return 1\n\n\nprint(inspect.getsource(A.f), end='')"
    assert session("Text.\n\n" + code("y = 1") + code(text)).run(2).text == "    def f(self):\n        return 1\n"


def test_what_is_typed_for_a_debugger_is_put_back(monkeypatch):
    monkeypatch.setattr(pdb, "set_trace", lambda: pdb.Pdb().set_trace(sys._getframe().f_back))  # pytest has its own
    monkeypatch.setenv("PYTHONBREAKPOINT", "0")
    before = sys.stdin
    typed = "import io, sys\nx = 5\nsys.stdin = io.StringIO('p x\\nc\\n')\nbreakpoint()\ny = 1"
    outcome = session(code(typed)).run(0)
    assert "(Pdb) p x\n5\n(Pdb) c\n" in outcome.text
    assert "lesson_7.py(5)" in outcome.text
    assert "/lesson_7.py" not in outcome.text
    assert sys.stdin is before
    assert os.environ["PYTHONBREAKPOINT"] == "0"


def test_an_interrupt_is_not_swallowed():
    with pytest.raises(KeyboardInterrupt):
        session(code("raise KeyboardInterrupt")).run(0)


def test_a_session_forgets_at_its_end():
    with session(code("x = 1")) as taken:
        taken.run(0)
        assert sys.modules["lesson_7"].x == 1
    assert "lesson_7" not in sys.modules


def test_a_choice_that_there_is_not_is_refused():
    taken = session("Text.\n\n" + code("x = 1") + ASKED)
    with pytest.raises(ValueError, match="asks nothing: it is text"):
        taken.answer(0, 0)
    with pytest.raises(ValueError, match="has answers 0 to 1, got 2"):
        taken.answer(1, 2)
