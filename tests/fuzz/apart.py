"""Fuzzers that need a process which has run nothing get one: that of the tests has run everything."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
_CODE = """
import pickle, sys
sys.path.insert(0, sys.argv[1])
from importlib import import_module
function, arguments = pickle.load(sys.stdin.buffer)
print(*getattr(import_module("fuzz." + sys.argv[2]), function)(*arguments), sep="\\n")
"""


def texts_of(module: str, function: str, *arguments: Any, seconds: float = 600.0) -> str:
    """The texts that a function of a module here returns, called in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", _CODE, str(TESTS), module],
        input=pickle.dumps((function, arguments)),
        capture_output=True,
        timeout=seconds,
        env=dict(os.environ, PYTHONWARNINGS="ignore"),
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return done.stdout.decode().strip()
