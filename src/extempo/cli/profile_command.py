"""`extempo profile script.py`: runs a program with a profile around it, and prints and writes what that found."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import click

from extempo.cli import main as own
from extempo.profiling.api import profile


def profile_script(script: str, args: Sequence[str], mode: str, out: Path | None, n_rows: int) -> int:
    """Run it; returns its exit status. A program that raises or is interrupted is reported up to there."""
    sys.argv = [script, *args]
    sys.path.insert(0, str(Path(script).resolve().parent))
    status = 0
    with profile(mode=mode) as found:
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
            if isinstance(end.code, str):
                click.echo(end.code, err=True)
        except KeyboardInterrupt:
            status = own.INTERRUPTED
        except Exception as error:
            status = 1
            frames = error.__traceback__
            while frames is not None and frames.tb_frame.f_code.co_filename != script:
                frames = frames.tb_next
            traceback.print_exception(type(error), error, frames or error.__traceback__)
    click.echo(found.text(n_rows), err=True)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        found.flame(out / "flame.svg")
        found.html(out / "profile.html")
        names = ["flame.svg", "profile.html"]
        if mode == "trace":
            found.chrome(out / "trace.json")
            names.append("trace.json (open it at ui.perfetto.dev)")
        click.echo(f"written to {out}: {', '.join(names)}", err=True)
    return status
