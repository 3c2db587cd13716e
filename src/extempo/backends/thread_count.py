"""How many threads a kernel may use: one number for the process, known before any native code and without it.

The number set last, or that of the environment when first asked for, or one for each core that this process may use.
Who keeps threads follows the number and hears of every change.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable

ENVIRONMENT = ("EXTEMPO_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_chosen: list[int] = []
_followers: list[Callable[[int], None]] = []


def number() -> int:
    """The threads that a kernel may use, the caller's among them."""
    if not _chosen:
        _chosen.append(available())
    return _chosen[0]


def choose(n_threads: int) -> None:
    """Set the number for all kernels from now on."""
    _chosen[:] = [n_threads]
    for follower in list(_followers):
        follower(n_threads)


def follow(follower: Callable[[int], None]) -> None:
    """Call it with the number of now, and with every later one."""
    _followers.append(follower)
    follower(number())


def unfollow(follower: Callable[[int], None]) -> None:
    """Call it no more."""
    if follower in _followers:
        _followers.remove(follower)


def available() -> int:
    """The environment's number, or else one thread for each core that this process may use."""
    for name in ENVIRONMENT:
        value = os.environ.get(name, "").strip()
        if value.isdecimal() and int(value) > 0:
            return int(value)
    if sys.platform != "linux":
        return os.cpu_count() or 1
    return max(1, min(_cores(os.sched_getaffinity(0)), _quota()))


def _cores(cpus: set[int]) -> int:
    """Cores behind these CPUs: two that share a core would only take turns with its multipliers."""
    siblings = set()
    for cpu in cpus:
        try:
            siblings.add(_read(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"))
        except OSError:
            return len(cpus)
    return len(siblings)


def _quota() -> int:
    """CPUs that a container's limit grants: more threads would only use it up sooner, then all would stand still."""
    try:
        granted, _, period = _read("/sys/fs/cgroup/cpu.max").partition(" ")
        return max(1, math.ceil(int(granted) / int(period)))
    except (OSError, ValueError):
        return sys.maxsize


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()
