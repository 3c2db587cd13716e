"""Code that could bring the process down if it went wrong, run in a process of its own."""

import os
import subprocess
import sys
import textwrap

_HEAD = """\
import gc, os, signal, sys, threading, time
import numpy as np
import extempo as ex
import extempo.nn.functional as F
"""


def run_apart(code, **environment):
    """Run the code with NumPy and Extempo imported; what it printed. It must end well within a minute."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", _HEAD + textwrap.dedent(code)],
        env=dict(os.environ, **environment),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip()
