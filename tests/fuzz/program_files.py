"""Files of programs that are damaged or crafted: a program or a clear error, nothing executed, in bounded memory.

Bytes of the file are changed and cut; and the text of the program, its weights and their names are changed below the
checksums, as somebody would who makes such a file on purpose: other ops, numbers, types, lines left out, doubled and
exchanged. What loads is called, and may refuse that or run out of memory or time, but not end the process.

Cases run in children, which are ended when one takes too long, and have a limit of memory.
"""

from __future__ import annotations

import functools
import io
import random
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import extempo as ex
from extempo import nn
from extempo.core.op import REGISTRY
from extempo.errors import ExtempoError
from extempo.exporting import Program

from . import files

_SECONDS_TO_RUN = 1.0
_NUMBERS = ("0", "1", "-1", "3", "2147483648", "4611686018427387904", "1e30", "nan", "n", "time // 0", "'x'", "None")
_FORBIDDEN = (
    "exec",
    "os.system",
    "os.exec",
    "subprocess.Popen",
    "socket.connect",
    "pickle.find_class",
    "ctypes.dlopen",
)


# ---- programs to begin with


class _Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.GRUCell(3, 4), nn.Linear(4, 2)
        self.register_buffer("seen", ex.zeros(4))

    def forward(self, x: Any) -> Any:
        h, scores = ex.zeros(4), []
        for row in x:
            h = self.cell(row, h)
            scores.append(self.out(h))
        while h.abs().sum() > 1:
            h = h / 2
        self.seen += h
        if h.sum() > 0:
            h = h * 2
        return ex.stack(scores), h, x.shape[0]


def _convolution(x: Any) -> Any:
    y = nn.functional.conv1d(x, _KERNEL, padding=1)
    return {"pooled": y[:, :, ::2].amax(-1), "sorted": x.flatten(1).sort(-1)[0], "n": x.shape[0] // 2}


_KERNEL = ex.arange(12.0).reshape(2, 2, 3)


@functools.cache
def whole() -> list[tuple[Program, tuple[Any, ...]]]:
    """Programs, and arguments to call them with."""
    ex.manual_seed(0)
    reader = ex.program(_Reader().eval(), ex.randn(4, 3), dynamic={"x": {0: "time"}})
    layers = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.Dropout(0.5), nn.Linear(32, 4)).eval()
    small = ex.program(layers, ex.randn(2, 16), dynamic={"input": {0: "n"}}).quantize("int8", dynamic=True)
    convolution = ex.program(_convolution, ex.randn(3, 2, 5), dynamic={"x": {0: "n"}})
    return [(reader, (ex.ones(3, 3),)), (small, (ex.ones(3, 16),)), (convolution, (ex.ones(3, 2, 5),))]


# ---- changes


def _written(program: Program) -> dict[str, Any]:
    file = io.BytesIO()
    program.save(file)
    file.seek(0)
    found: dict[str, Any] = ex.load(file)
    return found


def _changed_text(text: str, draws: random.Random) -> str:
    lines = text.split("\n")
    for _ in range(draws.randint(1, 3)):
        at = draws.randrange(len(lines))
        kind = draws.randrange(7)
        if kind == 0:
            del lines[at : at + draws.choice((1, 1, 2, 9))]
        elif kind == 1:
            lines.insert(draws.randrange(len(lines) + 1), lines[at])
        elif kind == 2:
            other = draws.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == 3:
            lines[at] = re.sub(r"= \w+\(", f"= {draws.choice(sorted(REGISTRY))}(", lines[at])
        elif kind == 4:
            lines[at] = _with_another(r"-?\d+(\.\d+)?", lines[at], draws.choice(_NUMBERS), draws)
        elif kind == 5:
            lines[at] = _with_another(
                r"\b(f32|i64|bool|i8|f16)\b", lines[at], draws.choice(("f64", "i64", "bool")), draws
            )
        else:
            lines[at] = files.changed(lines[at].encode(), draws).decode(errors="replace") if lines[at] else "x"
        lines = lines or [""]
    return "\n".join(lines)


def _with_another(pattern: str, line: str, new: str, draws: random.Random) -> str:
    found = list(re.finditer(pattern, line))
    if not found:
        return line
    chosen = draws.choice(found)
    return line[: chosen.start()] + new + line[chosen.end() :]


def _changed_weights(weights: dict[str, Any], draws: random.Random) -> dict[str, Any]:
    made = dict(weights)
    name = draws.choice(sorted(made))
    tensor = made.pop(name)
    kind = draws.randrange(5)
    if kind < 4:
        made[name] = (tensor.double(), tensor.reshape(-1), tensor[:0], "text")[kind]
    return made


def crafted(seed: int, number: int) -> tuple[bytes, tuple[Any, ...]]:
    """The bytes of a changed file, and arguments for what it may hold."""
    draws = random.Random(f"program {seed} {number}")
    program, arguments = draws.choice(whole())
    found = _written(program)
    if number % 3 == 0:
        file = io.BytesIO()
        program.save(file)
        return files.changed(file.getvalue(), draws), arguments
    if number % 12 == 1:
        found["weights"] = _changed_weights(found["weights"], draws)
    else:
        found["program"] = _changed_text(found["program"], draws)
    file = io.BytesIO()
    ex.save(found, file)
    return file.getvalue(), arguments


# ---- running


class _TimeIsUp(BaseException):
    pass


@contextmanager
def _bounded(seconds: float) -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise _TimeIsUp

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


_events: list[str] | None = None  # what happens while a file is read; None while none is


def _listen(event: str, arguments: Any) -> None:
    if _events is not None and event in _FORBIDDEN:
        _events.append(event)


@functools.cache
def _hooked() -> bool:
    for program, _ in whole():  # what reading a program imports is imported
        ex.save(_written(program), io.BytesIO())
    sys.addaudithook(_listen)
    return True


def case(seed: int, number: int) -> str | None:
    """What went wrong with one file; None if nothing did."""
    global _events
    data, arguments = crafted(seed, number)
    assert _hooked()
    _events = []
    try:
        program = ex.load_program(io.BytesIO(data))
    except ExtempoError as error:
        return None if len(str(error)) > 20 and not _events else f"{_events} {error}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    finally:
        events, _events = _events, None
    if events:
        return f"{events} happened while it was read"
    try:
        with _bounded(_SECONDS_TO_RUN):
            program(*arguments)
    except (_TimeIsUp, Exception):
        pass
    return None


def run(seed: int, seconds: float) -> int:
    """Read files until the time is up; returns how many cases failed."""
    end, number, n_failures = time.monotonic() + seconds, -1, 0
    whole()
    while time.monotonic() < end:
        n_more, number = files.watch(seed, number + 1, end, case, "program_files")
        n_failures += n_more
    print(f"{number + 1} files")
    return n_failures
