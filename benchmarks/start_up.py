"""CPU seconds of imports, and wall seconds from the shell until `extempo demo` has done its first training step, or a
program that was exported from the demo's model has been loaded and has made its first prediction.

Fresh processes, in turn. Warm: kernels come from the disk cache that an earlier run left; cold: that cache is empty.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from interleave import ONE_THREAD
from report import machine, table, verdict

REPEATS = 7
IMPORT_FLOOR, WARM_FLOOR, COLD_FLOOR, PREDICTION_FLOOR = 0.25, 1.0, 3.0, 0.5

IMPORTS = {"nothing": "pass", "numpy": "import numpy", "extempo": "import extempo", "torch": "import torch"}
FIRST_STEP = """
import os, sys
from extempo.cli import demo, main

class UntilFirstStep(demo.Adam):
    def step(self, closure=None):
        super().step(closure)
        os._exit(0)

demo.Adam = UntilFirstStep
sys.argv = ["extempo", "demo"]
main.main()
"""


EXPORT = """
import extempo as ex
from extempo.cli.demo_task import Classifier

ex.program(Classifier().eval(), ex.tensor([1, 2, 3]), dynamic={"words": {0: "n"}}).save("{file}")
"""
PREDICT = """
import extempo as ex
ex.load_program("{file}")(ex.tensor([1, 2, 3, 4, 5]))
"""


def seconds(code: str, home: Path, cache: str = "warm") -> tuple[float, float] | None:
    """(CPU, wall) of a fresh interpreter, None if it fails. Bytecode is kept in `home`, as if pip had installed it."""
    kept = {"PYTHONPYCACHEPREFIX": str(home / "bytecode"), "EXTEMPO_CACHE_DIR": str(home / cache)}
    environment = {**os.environ, **ONE_THREAD, **kept}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.perf_counter()
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=quiet, stderr=quiet)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return None if process.returncode else (used.ru_utime + used.ru_stime, time.perf_counter() - start)


def import_times(home: Path) -> dict[str, list[float]]:
    """CPU seconds; a library that is not there is left out. The first turn fills caches and does not count."""
    found: dict[str, list[float]] = {name: [] for name, code in IMPORTS.items() if seconds(code, home)}
    for _ in range(REPEATS):
        for name, times in found.items():
            taken = seconds(IMPORTS[name], home)
            times.extend(taken[:1] if taken else [])
    return found


def demo_times(home: Path) -> dict[str, list[float]]:
    """Wall seconds; empty where the demo fails."""
    found: dict[str, list[float]] = {"warm": [], "cold": []}
    seconds(FIRST_STEP, home)
    for number in range(REPEATS):
        for name, cache in (("warm", "warm"), ("cold", f"cold{number}")):
            taken = seconds(FIRST_STEP, home, cache)
            found[name].extend(taken[1:] if taken else [])
    return found


def prediction_times(home: Path) -> list[float]:
    """Wall seconds of processes that load a program and predict; empty where that fails."""
    file, found = str(home / "demo.extempo"), []
    script = home / "export.py"
    script.write_text(EXPORT.replace("{file}", file))  # loops are found in source files
    if seconds(f"import runpy; runpy.run_path({str(script)!r})", home):
        predict = PREDICT.replace("{file}", file)
        seconds(predict, home)
        for _ in range(REPEATS):
            taken = seconds(predict, home)
            found.extend(taken[1:] if taken else [])
    return found


def row(name: str, times: list[float], minus: list[float], floor: float | None = None) -> list[str]:
    if not times:
        return [name, "failed", "", ""]
    least, middle = min(times) - min(minus), statistics.median(times) - statistics.median(minus)
    return [name, f"{least:.2f}", f"{middle:.2f}", verdict(least, floor) if floor else ""]


def section(wanted: str | None, rounds: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        imports = import_times(Path(folder))
        demo = demo_times(Path(folder))
        predictions = prediction_times(Path(folder))
    nothing = imports.pop("nothing")
    rows = [row(f"import {name}, CPU", times, nothing) for name, times in imports.items()]
    rows += [
        row("import extempo beyond numpy, CPU", imports["extempo"], imports["numpy"], IMPORT_FLOOR),
        row("first training step of the demo, warm", demo["warm"], [0.0], WARM_FLOOR),
        row("first training step of the demo, cold", demo["cold"], [0.0], COLD_FLOOR),
        row("loading a program and its first prediction, warm", predictions, [0.0], PREDICTION_FLOOR),
    ]
    text = table(["seconds", "minimum", "median", "floor"], rows)
    return f"### import\n\n{__doc__.strip()}\n\n{text}\n\n{machine()}; {REPEATS} repeats"
