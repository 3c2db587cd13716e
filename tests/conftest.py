"""Kernels that tests compile are kept apart from the user's own, and shared by the processes of one run."""

import getpass
import os
import tempfile
from pathlib import Path

os.environ.setdefault("EXTEMPO_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"extempo-tests-{getpass.getuser()}"))
