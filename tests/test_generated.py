"""Files written by scripts are what the scripts would write now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.mark.parametrize("script", ["make_stubs.py", "make_error_docs.py", "make_gallery.py", "make_onnx_docs.py"])
def test_generated_files_are_up_to_date(script):
    if "onnx" in script:
        pytest.importorskip("onnx", reason="the extra onnx is not installed")
    done = subprocess.run([sys.executable, SCRIPTS / script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
