"""Python programs that can use the probes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def program(text: str) -> subprocess.Popen[str]:
    """A Python program that can use the probes."""
    head = f"import os, signal, sys, threading, time; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    head += "import extempo as ex, thread_probes as probes\n"
    head += "from extempo.backends.llvm.threads import pool as threads\n"
    environment = os.environ | {"EXTEMPO_NUM_THREADS": "3"}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", head + text], stdout=pipe, stderr=pipe, text=True, env=environment
    )


def output_of(text: str) -> str:
    """What the program printed; it must end by itself, without complaint."""
    started = program(text)
    printed, complaints = started.communicate(timeout=60)
    assert (started.returncode, complaints) == (0, "")
    return printed
