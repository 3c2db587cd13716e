"""Memory of this process, as the operating system counts it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def resident_bytes() -> int:
    """What the process holds now; where that cannot be known, the most it ever held."""
    return _status("VmRSS") or _most()


def peak_bytes() -> int:
    """The most that the process held, since `reset_peak` where the system can forget (Linux); 0 if nobody knows."""
    return _status("VmHWM") or _most()


def reset_peak() -> bool:
    """Let `peak_bytes` count anew. False where the system cannot."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _status(field: str) -> int:
    try:
        for line in _STATUS.read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def _most() -> int:
    try:
        resource = importlib.import_module("resource")
    except ImportError:  # Windows has none
        return 0
    held = int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return held if sys.platform == "darwin" else held * 1024
