"""`extempo profile script.py`."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import sys
import extempo as ex

print("arguments", sys.argv[1:])
for _ in range(100):
    y = ex.tanh(ex.ones(8))
"""


def profiled(tmp_path, program, *options, args=()):
    script = tmp_path / "train.py"
    script.write_text(program)
    command = [sys.executable, "-m", "extempo", "profile", *options, str(script), *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_script_runs_with_its_arguments_and_a_report_follows(tmp_path):
    out = tmp_path / "out"
    done = profiled(tmp_path, PROGRAM, "--out", str(out), args=["--lr", "3"])
    assert done.returncode == 0, done.stderr
    assert done.stdout == "arguments ['--lr', '3']\n"
    assert "train.py:7 y = ex.tanh(ex.ones(8))" in done.stderr
    assert {path.name for path in out.iterdir()} == {"flame.svg", "profile.html", "trace.json"}
    assert json.loads((out / "trace.json").read_text())["traceEvents"]


def test_a_script_that_raises_is_reported_up_to_there(tmp_path):
    done = profiled(tmp_path, PROGRAM + "raise ValueError('mine')\n", "--mode", "sample")
    assert done.returncode == 1
    assert "ValueError: mine" in done.stderr
    assert "runpy" not in done.stderr
    assert "by the clock" in done.stderr


def test_a_script_that_exits_keeps_its_status(tmp_path):
    assert profiled(tmp_path, PROGRAM + "sys.exit(3)\n").returncode == 3
    done = profiled(tmp_path, PROGRAM + "sys.exit('no data')\n")
    assert done.returncode == 1
    assert "no data" in done.stderr
