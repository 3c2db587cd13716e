"""One command for every fuzzer: draw cases from a seed, run them until the time is up, print what failed.

    python tests/fuzz                                         the fuzzers there are
    python tests/fuzz programs --seed 0 --seconds 600         one of them; exit status 1 if anything failed

A fuzzer is a module of this directory:

- its docstring says what must hold; the first line stands in the list,
- `run(seed: int, seconds: float) -> int` draws cases until `seconds` have passed and returns the number of failures. It
  prints each failure as it finds it, with what runs that case alone again. It finishes a case that it has begun, and
  bounds each case that could hang,
- a case depends on (seed, its number) alone, never on the clock nor on the cases before it,
- `test_<name>.py` beside it is the form for every day: a fixed number of cases, the same ones each time, plus one test
  for each failure that was ever found and mended.

Modules import one another relatively (`from . import programs`), and Extempo as a user would.
"""

from __future__ import annotations

import argparse
import getpass
import importlib
import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def fuzzers() -> list[str]:
    """The names of the modules that have a `run`, found by their text: importing all of them would import PyTorch."""
    return sorted(
        path.stem
        for path in HERE.glob("*.py")
        if not path.stem.startswith(("_", "test_")) and "\ndef run(" in path.read_text()
    )


def main() -> int:
    """Run what the command line asks for; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python tests/fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("name", nargs="?", choices=fuzzers())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    sys.path.insert(0, str(HERE.parent))  # the package is `fuzz` however this file was started, in children too
    _like_the_tests()
    if options.name is None:
        for name in fuzzers():
            print(f"{name:12} {(importlib.import_module(f'fuzz.{name}').__doc__ or '').partition(chr(10))[0]}")
        return 0
    n_failures = importlib.import_module(f"fuzz.{options.name}").run(options.seed, options.seconds)
    print(f"{options.name}: {n_failures} failures")
    return int(n_failures > 0)


def _like_the_tests() -> None:
    """The settings of tests/conftest.py: plans made at once, kernels kept apart from the user's own."""
    os.environ.setdefault("EXTEMPO_COMPILE_WAIT", "1")
    os.environ.setdefault("EXTEMPO_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"extempo-tests-{getpass.getuser()}"))


if __name__ == "__main__":
    sys.exit(main())
