"""`extempo run`: a program as it is, with its arguments, its exit status and its own traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(script, *args, module="extempo.run"):
    command = [sys.executable, "-m", *module.split(), *args[: args.index("--") if "--" in args else 0], str(script)]
    command += [arg for arg in args if arg != "--"] if "--" not in args else args[args.index("--") + 1 :]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", ["extempo.run", "extempo run"])
def test_a_program_has_its_arguments_its_name_and_its_neighbours(tmp_path, module):
    (tmp_path / "beside.py").write_text("import torch\nvalue = torch.ones(2)\n")
    script = tmp_path / "program.py"
    script.write_text("import sys, beside\nprint(__name__, sys.argv[1:], beside.value.tolist())\n")
    done = run(script, "--lr", "3", module=module)
    assert done.stdout == "__main__ ['--lr', '3'] [1.0, 1.0]\n", done.stderr


def test_the_exit_status_is_the_programs(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("raise SystemExit(7)\n")
    assert run(script).returncode == 7


def test_an_error_is_shown_from_the_programs_first_line_on(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("import torch\ntorch.ones(2) @ torch.ones(3)\n")
    done = run(script)
    assert done.returncode == 1
    assert "runpy" not in done.stderr
    assert f'File "{script}", line 2' in done.stderr
    assert "ShapeError" in done.stderr


def test_names_that_were_only_tried_are_listed_when_asked_for(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("import torch\nprint(hasattr(torch, 'nonsense'))\n")
    assert run(script).stderr == ""
    done = run(script, "--report", "--")
    assert done.stdout == "False\n"
    assert "torch.nonsense" in done.stderr


def test_a_file_that_is_not_there_is_said(tmp_path):
    done = run(tmp_path / "none.py")
    assert (done.returncode, "there is no file" in done.stderr) == (2, True)
