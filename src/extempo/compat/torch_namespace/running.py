"""Runs a program that was written for PyTorch as it is: `extempo run script.py`, `python -m extempo.run script.py`."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from .finder import install
from .missing import MissingName, missing_names


def run_script(script: str, args: Sequence[str], report: bool = False) -> int:
    """Run a program with `import torch` meaning Extempo; returns the exit status.

    If it ends by an error, or `report` asks for it, the names of PyTorch that it did not find are listed on stderr.
    """
    path = Path(script)
    if not path.exists():
        print(f"extempo run: there is no file {script}", file=sys.stderr)
        return 2
    install()
    sys.argv = [script, *args]
    sys.path.insert(0, str(path.resolve().parent))
    failed = False
    try:
        runpy.run_path(script, run_name="__main__")
    except Exception as error:
        failed = True
        _show_error(error, script)
    missing = missing_names()
    if missing and (failed or report):
        print(report_of(missing), file=sys.stderr)
    return int(failed)


def report_of(missing: Sequence[MissingName]) -> str:
    """Names with the lines that asked for them."""
    lines = [f"  {name}" for name in missing]
    return "\n".join(["names of PyTorch that Extempo does not have (some were only tried):", *lines])


def _show_error(error: Exception, script: str) -> None:
    """The traceback as Python shows it, from the first line of the program on."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != script:
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames or error.__traceback__)
