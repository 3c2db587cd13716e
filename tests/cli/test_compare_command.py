"""`extempo compare`: what it prints, how scripts are found, and how their errors are shown."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap

import pytest
from click.testing import CliRunner, Result

from extempo.cli.compare_command import coloured
from extempo.cli.main import command

SCRIPT = """
    import extempo as ex
    from extempo import nn, optim
    from extempo.nn import functional as F

    ex.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    data = [(ex.randn(6, 4), ex.randint(0, 2, (6,))) for _ in range(3)]
    pairs = data[:2]

    def metric():
        return 0.5

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    def wrong(x, y):
        return model(x) @ model(x)

    if __name__ == "__main__":
        raise RuntimeError("a script that is compared is imported, not run")
"""
QUICK = ("--rounds", "2", "--warm-up", "2", "--steps", "4")


@pytest.fixture(autouse=True)
def _no_modules_stay(monkeypatch, fake_clock):
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in ("first", "second", "broken"):
        if name not in before:
            sys.modules.pop(name, None)


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "first.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return path


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(command, ["compare", *map(str, arguments)], prog_name="extempo")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_it_prints_a_table_and_a_verdict_in_80_columns(script):
    result = run(f"{script}:step", *QUICK)
    assert result.exit_code == 0
    assert "Training time (s)" in result.output
    assert "Verdict: good" in result.output
    assert "metric, 4 steps" in result.output
    assert max(map(len, result.output.splitlines())) <= 80
    assert "\x1b" not in result.output


def test_json_has_all_figures_and_against_adds_what_changed(script, tmp_path):
    out = tmp_path / "figures.json"
    first = run(f"{script}:step", *QUICK, "--json", "--out", out)
    found = json.loads(first.output)
    assert [c["mode"] for c in found["columns"]] == ["eager", "compile", "static"]
    assert json.loads(out.read_text()) == found
    again = json.loads(run(f"{script}:step", *QUICK, "--json", "--against", out, "--modes", "eager").output)
    assert {row["column"] for row in again["against"]["changes"]} == {"eager"}
    text = run(f"{script}:step", *QUICK, "--against", out).output
    assert "What changed" in text
    assert "Still good." in text


def test_two_steps_are_compared_by_the_names_of_their_scripts(script, tmp_path):
    other = tmp_path / "second.py"
    other.write_text(script.read_text().replace("nn.Linear(4, 2)", "nn.Linear(4, 2, bias=False)"))
    result = run(f"{script}:step", f"{other}:step", *QUICK)
    assert "first:step and second:step" in result.output
    assert "Verdict: unfair: first:step has 10 parameters, second:step 8" in result.output


def test_the_name_of_the_data_can_be_given(script):
    found = json.loads(run(f"{script}:step", *QUICK, "--data", "pairs", "--modes", "eager", "--json").output)
    losses = found["columns"][0]["losses"]
    assert len(losses) == 4
    assert found["columns"][0]["batches_taken"] == 4


def test_scripts_of_the_same_name_are_told_apart_and_import_what_is_beside_them(script, tmp_path):
    for name, bias in (("old", True), ("new", False)):
        directory = tmp_path / name
        directory.mkdir()
        (directory / "second.py").write_text(f"bias = {bias}\n")
        text = script.read_text().replace("nn.Linear(4, 2)", "nn.Linear(4, 2, bias=second.bias)")
        (directory / "first.py").write_text(f"import second\n{text}")
    output = run(f"{tmp_path}/old/first.py:step", f"{tmp_path}/new/first.py:step", *QUICK).output
    assert "Verdict: unfair: old/first:step has 10 parameters, new/first:step 8" in output


def test_a_second_script_without_data_gets_the_firsts(script, tmp_path):
    other = tmp_path / "second.py"
    other.write_text(re.sub("(?m)^(data|pairs) = .*", "", script.read_text()))
    found = json.loads(run(f"{script}:step", f"{other}:step", *QUICK, "--json").output)
    assert found["columns"][0]["losses"] == found["columns"][1]["losses"]
    assert found["flags"] == []


def test_a_loader_that_shuffles_is_asked_once_for_both_steps(script):
    with script.open("a") as file:
        file.write("from extempo.data import DataLoader\n")
        file.write("loader = DataLoader(data, 1, shuffle=True, collate_fn=lambda batch: batch[0])\n")
        file.write("def again(x, y):\n    return step(x, y)\n")
    found = json.loads(run(f"{script}:step", f"{script}:again", *QUICK, "--data", "loader", "--json").output)
    assert found["columns"][0]["losses"] == found["columns"][1]["losses"]


def test_words_that_matter_have_a_colour_of_their_own():
    text = coloured("Verdict: bad: why.\nNext: this.\nNote: that.\nVerdicts are words.")
    styled = {text.plain[span.start : span.end]: span.style for span in text.spans}
    assert styled == {"Verdict: bad": "bold red", "Next:": "bold", "Note:": "yellow"}


@pytest.mark.alone
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
def test_on_a_terminal_the_verdict_is_in_colour(script):
    main, other = os.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "extempo", "compare", f"{script}:step", *QUICK]
    with subprocess.Popen(command, stdout=other, stderr=other, env=environment) as process:
        os.close(other)
        shown = b""
        while chunk := read(main):
            shown += chunk
    os.close(main)
    assert process.returncode == 0
    assert re.search(rb"\x1b\[1;3\dmVerdict: ", shown)


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # nobody writes there any more
        return b""


@pytest.mark.conformance
def test_pytorchs_step_adds_a_column(script, tmp_path):
    pytest.importorskip("torch", reason="compares with PyTorch: pip install -e '.[conformance]'")
    other = tmp_path / "second.py"
    lines = script.read_text().replace("import extempo as ex", "import torch").replace("from extempo ", "from torch ")
    lines = lines.replace("from extempo.nn", "from torch.nn").replace("ex.", "torch.")
    other.write_text(lines.replace("data = ", "from first import data\nunused = "))
    found = json.loads(run(f"{script}:step", *QUICK, "--torch", f"{other}:step", "--json").output)
    assert [c["name"] for c in found["columns"]] == ["eager", "compile", "static", "torch"]
    assert found["columns"][3]["losses"] == pytest.approx(found["columns"][0]["losses"], rel=1e-4)


def test_an_error_in_a_step_is_shown_with_its_line(script):
    result = run(f"{script}:wrong", *QUICK)
    assert result.exit_code == 1
    n_line = next(i for i, line in enumerate(script.read_text().splitlines(), 1) if "@" in line)
    assert f"{script}:{n_line}, in wrong\n    return model(x) @ model(x)\nShapeError: matmul" in result.output
    assert "Traceback" not in result.output
    assert "src/extempo" not in result.output


@pytest.mark.parametrize(
    ("text", "said"), [("x = 1\ny = x / 0\n", "broken.py:2, in <module>"), ("x = = 1\n", "broken.py:1: SyntaxError")]
)
def test_an_error_of_a_script_is_shown_with_its_line(tmp_path, text, said):
    path = tmp_path / "broken.py"
    path.write_text(text)
    result = run(f"{path}:step")
    assert result.exit_code == 1
    assert said in result.output
    assert "Traceback" not in result.output


def test_what_is_missing_is_named(script, tmp_path):
    assert "has no 'stride'; it has data, metric, model" in run(f"{script}:stride").output
    assert "has no 'batches'" in run(f"{script}:step", "--data", "batches").output
    assert "there is no script" in run(f"{tmp_path / 'none.py'}:step").output
    assert "expected SCRIPT.py:STEP" in run(script).output
    assert "not a function" in run(f"{script}:data").output
    assert "unknown mode 'fast'" in run(f"{script}:step", "--modes", "fast").output
    assert "name one step, or two" in run().output
    assert "is a Linear, not a list of batches" in run(f"{script}:step", "--data", "model").output
    assert "there is no directory" in run(f"{script}:step", "--out", tmp_path / "none" / "out.json").output
    saved = tmp_path / "no.json"
    saved.write_text("[]")
    assert "holds no saved comparison" in run(f"{script}:step", "--against", saved).output


def test_help_fits_80_columns():
    result = run("--help")
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= 80
