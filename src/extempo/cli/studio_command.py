"""`extempo studio [SCRIPT[:FUNCTION]]`: runs a program within a studio, and keeps its page after the program's end."""

from __future__ import annotations

import runpy
import sys
import threading
import traceback
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from extempo.cli import main as own
from extempo.studio_server.api import process_studio, studio
from extempo.studio_server.session import Session

FIRST_PAGE = 30.0  # seconds that the program waits for the first page: what is over in a second would not be seen
BETWEEN_LOOKS = 0.05


def run(
    target: str | None, args: Sequence[str], port: int, every: int | None, open_page: bool, wait: float, stay: bool
) -> int:
    """Run the program; its exit status, when the page is no longer wanted (Ctrl-C)."""
    script, function = split(target)
    session, server = process_studio(port)
    session.program["name"] = Path(script).name if script else "demo"
    click.echo(f"Studio: {server.address}  (Ctrl-C ends)", err=True)
    if open_page:
        threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
    try:
        _wait_for_page(session, wait)
        with studio(every=every, show=False) as block:
            program = _demo if script is None else (lambda: _script(script, function, args))
            status = _status_of(program, session)
        if stay and status != own.INTERRUPTED:
            click.echo(f"The program has ended with exit status {status}; its page stays until Ctrl-C.", err=True)
            _serve_on(session, block)
        return status
    except KeyboardInterrupt:
        return own.INTERRUPTED


def split(target: str | None) -> tuple[str | None, str | None]:
    """`train.py:main` in two; a colon of a drive's letter stays with the path.

    >>> from extempo.cli.studio_command import split
    >>> split("train.py:main"), split("train.py"), split(None)
    (('train.py', 'main'), ('train.py', None), (None, None))
    """
    if target is None:
        return None, None
    script, colon, function = target.rpartition(":")
    if not colon or not script or not function.isidentifier():
        script, function = target, ""
    if not Path(script).is_file():
        raise click.UsageError(f"there is no file {script}")
    return script, function or None


def _wait_for_page(session: Session, seconds: float) -> None:
    pause = threading.Event()
    for _ in range(int(seconds / BETWEEN_LOOKS)):
        if session.outboxes.n_pages:
            return
        pause.wait(BETWEEN_LOOKS)


def _status_of(program: Callable[[], Any], session: Session) -> int:
    """Run it, and tell the page how it ended; an error is shown as the line of the script."""
    try:
        program()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            click.echo(end.code, err=True)
    except KeyboardInterrupt:
        session.note_program("ended", own.INTERRUPTED, "interrupted")
        return own.INTERRUPTED
    except Exception as error:
        session.note_error(error)
        traceback.print_exception(type(error), error, _own_frames(error))
        session.note_program("failed", 1, f"raised {type(error).__name__}")
        return 1
    else:
        status = 0
    session.note_program("ended", status, f"ended with exit status {status}")
    return status


def _own_frames(error: BaseException) -> Any:
    """The traceback from the script on."""
    frames = error.__traceback__
    here = str(Path(__file__))
    while frames is not None and (
        frames.tb_frame.f_code.co_filename == here or "runpy" in frames.tb_frame.f_code.co_filename
    ):
        frames = frames.tb_next
    return frames or error.__traceback__


def _script(script: str, function: str | None, args: Sequence[str]) -> None:
    sys.argv = [script, *args]
    sys.path.insert(0, str(Path(script).resolve().parent))
    found = runpy.run_path(script, run_name="__main__" if function is None else Path(script).stem)
    if function is None:
        return
    if not callable(found.get(function)):
        raise click.UsageError(f"{script} has no function {function}")
    found[function](*args)


def _demo() -> None:
    from extempo.cli.studio_demo import train

    train()


def _serve_on(session: Session, block: studio) -> None:
    """Predictions, metrics and comparisons are still answered; Ctrl-C ends it."""
    pause = threading.Event()
    while True:
        session.answer_waiting()
        pause.wait(BETWEEN_LOOKS)
