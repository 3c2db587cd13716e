"""Processes that are killed or forked at any moment: training goes on with the same bits, and no child hangs.

A *killed run* is trained with checkpoints, killed again and again at moments that are drawn, and resumed each time: it
ends as one that was left alone. A *storm* forks children while other threads draw, compile, record static functions, go
backward and ask for statistics; each child does all of that and must end.
"""

from __future__ import annotations

import functools
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import extempo as ex

from .files import module_at

resuming = module_at("train/resumable.py")

_CHILDREN = 8  # of one storm
_SECONDS_FOR_A_CHILD = 60


@functools.cache
def _uninterrupted() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return resuming.run_whole(Path(folder))


def _killed_run(draws: random.Random) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            _, result = resuming.run_and_kill(draws, Path(folder), draws.randint(1, 6))
            resuming.same(result, _uninterrupted())
        except AssertionError as error:
            return f"a run that was killed ended otherwise: {error}"
        left = [path.name for path in (Path(folder) / "run").iterdir() if path.name.endswith((".tmp", ".lock"))]
    return f"left behind by a killed run: {left}" if left else None


# ---- storms

_GENERATOR = ex.Generator().manual_seed(1)


def _draw() -> None:
    ex.rand(8, generator=_GENERATOR)
    _GENERATOR.get_state()
    ex.randn(8)


def _compile() -> None:
    f = ex.compile(lambda x, n: sum((x * i for i in range(n)), x).tanh().sum())
    for n in (1, 2, 1, 2):
        f(ex.ones(4), n).item()


def _call_static() -> None:
    f = ex.compile(lambda x: (x.exp() * 2).sum(), static=True)
    for _ in range(3):
        f(ex.ones(4)).item()


_WEIGHT = ex.ones(4, requires_grad=True)


def _go_backward() -> None:
    (_WEIGHT * 3.0).sum().backward()


def _batch() -> None:
    ex.batch(lambda x: (x * 2).sum())([ex.ones(n) for n in (1, 2, 3)])


def _ask() -> None:
    str(ex.compile.stats())
    ex.backends.stats()


DEEDS: tuple[Callable[[], None], ...] = (_draw, _compile, _call_static, _go_backward, _batch, _ask)


def _ended(child: int) -> str | None:
    """Wait for a child; what was wrong with its end."""
    deadline = time.monotonic() + _SECONDS_FOR_A_CHILD
    while time.monotonic() < deadline:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            code = os.waitstatus_to_exitcode(status)
            return f"a forked child ended with {code}" if code else None
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "a forked child hangs"


def _forked(deeds: list[Callable[[], None]]) -> int:
    child = os.fork()
    if not child:
        code = 1
        try:
            for deed in deeds:
                deed()
            code = 0
        finally:
            os._exit(code)
    return child


def _storm(draws: random.Random) -> str | None:
    stop = threading.Event()

    def work(deed: Callable[[], None]) -> None:
        while not stop.is_set():
            deed()

    threads = [threading.Thread(target=work, args=(deed,)) for deed in draws.sample(DEEDS, 3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(_CHILDREN):
            time.sleep(draws.random() * 0.01)
            if wrong := _ended(_forked(draws.sample(DEEDS, len(DEEDS)))):
                return wrong
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    return None


# ---- running


def case(seed: int, number: int) -> str | None:
    """What went wrong in one run or storm; None if nothing did."""
    draws = random.Random(f"{seed} {number}")
    return _storm(draws) if number % 2 else _killed_run(draws)


def run(seed: int, seconds: float) -> int:
    """Kill and fork until the time is up; returns how many cases failed."""
    end, number, n_failures = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        if wrong := case(seed, number):
            n_failures += 1
            print(f"kills.case({seed}, {number}) {wrong}", flush=True)
        number += 1
    return n_failures
