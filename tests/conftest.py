"""Kernels that tests compile are kept apart from the user's own, and shared by the processes of one run."""

import getpass
import os
import tempfile
from pathlib import Path

# Plans are made at once and not when LLVM finds the time, so that tests can count them.
os.environ.setdefault("EXTEMPO_COMPILE_WAIT", "1")
os.environ.setdefault("EXTEMPO_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"extempo-tests-{getpass.getuser()}"))
