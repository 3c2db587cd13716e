"""`extempo info`: the facts a bug report needs, collected as plain values and then shown as text or JSON.

A fact that a platform does not give is "unknown"; nothing here fails because of where it runs.
"""

import json
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

import extempo as ex
from extempo.cli.showing import two_columns
from extempo.core.cache import CACHES

DEPENDENCIES = ("numpy", "ml_dtypes", "llvmlite", "greenlet", "safetensors", "click", "rich")
THREAD_VARIABLES = ("EXTEMPO_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# Of the hundred flags that Linux lists, the ones that decide which kernels a CPU can run.
VECTOR_FLAGS = ("sse4", "avx", "fma", "f16c", "bmi2", "amx", "asimd", "neon", "sve", "bf16", "i8mm")

# What `extempo info` shows without --all.
_SHORT = {
    "versions": ("extempo", "python", "numpy", "llvmlite"),
    "machine": ("system", "cpu", "cores"),
    "running": ("backend", "blas", "threads", "default dtype"),
}

Fact = str | int | list[str] | dict[str, int]
Facts = dict[str, dict[str, Fact]]


def collect() -> Facts:
    """The facts, by section."""
    return {
        "versions": {
            "extempo": ex.__version__,
            "python": f"{platform.python_version()} ({platform.python_implementation()}, {sys.executable})",
            **{name: _installed_version(name) for name in DEPENDENCIES},
        },
        "machine": {
            "system": platform.platform(),
            "cpu": _cpu_model(),
            "features": _cpu_features(),
            "cores": os.cpu_count() or "unknown",
            "usable cores": _usable_cores(),
        },
        "running": {
            "backend": _backend(),
            "blas": _blas(),
            "threads": _threads(),
            "default dtype": str(ex.get_default_dtype()),
        },
        "caches": {
            "kernels": _kernels(),
            "memory pool": ex.backends.stats().get("memory", "none, NumPy allocates"),
            **{
                name: {"entries": len(cache), "limit": cache.limit, "evicted": cache.evicted}
                for name, cache in CACHES.items()
            },
        },
    }


def _installed_version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def _cpuinfo(*names: str) -> str:
    """The first value that Linux gives under one of `names`, or an empty string."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in names:
            return value.strip()
    return ""


def _cpu_model() -> str:
    if sys.platform == "darwin":
        command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    else:
        answer = _cpuinfo("model name", "Hardware")
    return f"{answer or platform.processor() or 'unknown'} ({platform.machine()})"


def _cpu_features() -> list[str]:
    flags = _cpuinfo("flags", "Features").split()
    if flags:
        return [flag for flag in flags if flag.startswith(VECTOR_FLAGS)]
    found = _numpy_build("SIMD Extensions")
    return [*found.get("baseline", []), *found.get("found", [])]


def _numpy_build(section: str) -> dict[str, Any]:
    config: Any = np.show_config(mode="dicts")  # typed as printing only
    return config.get(section, {})


def _usable_cores() -> Fact:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return "unknown"


def _blas() -> str:
    blas = _numpy_build("Build Dependencies").get("blas", {})
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


def _backend() -> str:
    stats = ex.backends.stats()
    if stats["backend"] == "numpy":
        return "numpy: its kernels run, which are slower; see docs/installing.md"
    return f"native, for {stats['cpu']}"


def _kernels() -> Fact:
    """How many native kernels there are, and how many of them had to be compiled: the others came from the disk."""
    stats = ex.backends.stats()
    if stats["backend"] == "numpy":
        return "none"
    return {"loaded": stats["kernels_loaded"], "compiled just now": stats["kernels_compiled"]}


def _threads() -> str:
    limits = [f"{name}={os.environ[name]}" for name in THREAD_VARIABLES if name in os.environ]
    return f"{ex.get_num_threads()} ({', '.join(limits) or 'no limit is set'})"


def as_short_table(facts: Facts) -> Table:
    """What matters to somebody who looks for the first time; the others are one option away."""
    shown = {section: {name: facts[section][name] for name in names} for section, names in _SHORT.items()}
    shown["machine"]["cores"] = _cores(facts["machine"])
    shown["more"] = {"more": "extempo info --all: every package, the CPU's features, caches"}
    return as_table(shown)


def _cores(machine: dict[str, Fact]) -> Fact:
    """How many cores there are, and how many of them this process may use, if those are fewer."""
    cores, usable = machine["cores"], machine["usable cores"]
    return cores if usable in (cores, "unknown") else f"{cores}, of which {usable} may be used here"


def as_table(facts: Facts) -> Table:
    """The facts in two columns, a blank line between sections."""
    table = two_columns()
    for n_section, section in enumerate(facts.values()):
        if n_section:
            table.add_row()
        for name, value in section.items():
            table.add_row(name, Text(_in_words(value)))
    return table


def _in_words(value: Fact) -> str:
    if isinstance(value, list):
        return " ".join(value)
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in value.items())
    return str(value)


def as_json(facts: Facts) -> str:
    """The facts as one JSON object."""
    return json.dumps(facts, indent=2)
