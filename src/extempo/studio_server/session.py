"""The session: all that pages see of a process, kept while its runs come and go, and what pages ask for.

The server's thread reads and asks; the training thread writes, and does what was asked at the end of a step. There is
one session in a process: runs that follow each other share its page.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .._version import __version__
from ..core import locks
from ..optim.optimizer import number
from .capturing import (
    IterationCapture,
    KeptCapture,
    KeptCaptures,
    capture_message,
    diagram_of_failure,
    error_message,
)
from .commands import PageCommand, RefusedCommand
from .layers import listed_layers, structure_of
from .lesson_runs import run_lesson
from .lessons import lessons_message
from .measures import ScoreBoard
from .messages import to_json
from .obeying import OF_TRAINING, obey_command
from .outboxes import Outbox, Outboxes
from .run_history import RunHistory
from .step_figures import quietly
from .watching import TrainingWatch

MOST_RUNS = 8
MOST_REQUESTS = 64  # that wait for the training thread
GRACE = 5.0  # seconds that a pause outlives the last page: enough for a page to be loaded again
BETWEEN_STATES = 0.25  # seconds


class Session:
    """What is known of the program, its runs, captures and metrics."""

    def __init__(self) -> None:
        self._lock = locks.renewed()
        self._arrived = threading.Event()  # something was asked, or a page came or went
        self.outboxes = Outboxes(self._pages_changed)
        self.captures = KeptCaptures()
        self.runs: list[RunHistory] = []
        self.requests: deque[tuple[PageCommand, Outbox]] = deque()
        self.program: dict[str, Any] = {"type": "program", "name": "", "status": "running", "exit": None, "message": ""}
        self.every: int | None = None
        self.classes: Sequence[str] | None = None
        self.make_torch_step: Any = None
        self.board: ScoreBoard | None = None
        self.watch: TrainingWatch | None = None
        self.is_paused = False
        self.is_measuring = False
        self.wants_capture = False  # the next iteration, whatever it costs
        self.steps_once = False  # one more step, then pause again
        self.structure: dict[str, Any] | None = None
        self.pipeline: dict[str, Any] | None = None
        self.error_text: str | None = None
        self._n_runs = 0
        self._n_captures = 0
        self._last_state = 0.0
        self._left_at: float | None = None  # when the last page went

    # ---- for the server

    @property
    def run(self) -> RunHistory:
        """The newest one."""
        return self.runs[-1]

    def hello(self) -> dict[str, Any]:
        with self._lock:
            ready = self.watch is not None and self.watch.model is not None and bool(self.watch.samples)
            return {
                "type": "hello",
                "version": __version__,
                "program": {k: v for k, v in self.program.items() if k != "type"},
                "run": self.runs[-1].number if self.runs else None,
                "runs": [run.summary() for run in self.runs],
                "state": self.state(),
                "structure": self.structure,
                "captures": [{"number": number} for number in self.captures.numbers()],
                "layers": listed_layers(),
                "can": {
                    "predict": ready,
                    "compare": ready,
                    "metrics": self.board is not None,
                    "pipeline": ready,
                    "lessons": lessons_message()["available"],
                },
            }

    def greeting(self) -> list[str]:
        """What a page gets that has just come."""
        with self._lock:
            texts = [to_json(self.hello()), *(to_json(run.message()) for run in self.runs)]
            newest = self.captures.newest
            if newest is not None and newest.text:
                texts.append(newest.text)
            for message in (self.pipeline, self.board.message() if self.board is not None else None):
                if message is not None:
                    texts.append(to_json(message))
            if self.error_text is not None:
                texts.append(self.error_text)
            return texts

    def csv(self, number: int) -> str | None:
        with self._lock:
            return next((run.csv() for run in self.runs if run.number == number), None)

    def ask(self, command: PageCommand, outbox: Outbox) -> None:
        """A command from a page: answered at once, or put before the training thread."""
        fields = command.fields
        if command.kind == "node":
            outbox.answer(self.captures.node(fields["capture"], fields["node"]))
        elif command.kind == "history":
            with self._lock:
                found = next((run for run in self.runs if run.number == fields["run"]), None)
                if found is None:
                    raise RefusedCommand(f"history: there is no run {fields['run']}")
                outbox.answer(found.message())
        elif command.kind == "every":
            self.every = fields["every"]
            self._answer(outbox, command, "captures " + (f"one in {self.every}" if self.every else "as cost allows"))
            self.post_state()
        elif command.kind == "learn":
            run_lesson(command, outbox)
        elif command.kind == "metrics" and not fields["refresh"]:
            outbox.answer(self.metrics_message(fields["threshold"], fields["positive"]))
        else:
            self._queue(command, outbox)

    def _queue(self, command: PageCommand, outbox: Outbox) -> None:
        if command.kind in OF_TRAINING and (self.watch is None or self.program["status"] != "running"):
            raise RefusedCommand(f"{command.kind}: nothing is being trained any more")
        if self.watch is None:
            raise RefusedCommand(f"{command.kind}: nothing is being trained yet")
        if len(self.requests) >= MOST_REQUESTS:
            raise RefusedCommand(f"{command.kind}: {MOST_REQUESTS} commands wait already; let a step end first")
        self.requests.append((command, outbox))
        self._arrived.set()
        self.post_state()

    def _answer(self, outbox: Outbox, command: PageCommand, text: str) -> None:
        outbox.answer({"type": "answer", "id": command.id, "ok": True, "text": text})

    def metrics_message(self, threshold: float | None = None, positive: int | None = None) -> dict[str, Any]:
        if self.board is None:
            return {"type": "metrics", "available": False, "why": "nothing was evaluated yet"}
        return self.board.message(threshold, positive)

    def _pages_changed(self) -> None:
        self._left_at = None if self.outboxes.n_pages else time.monotonic()
        self._arrived.set()
        self.post_state()

    # ---- state

    def state(self) -> dict[str, Any]:
        watch = self.watch
        pacing = watch.pacing if watch is not None else None
        every = self.every or (pacing.between if pacing is not None else 1)
        share = pacing.share if pacing is not None else 0.0
        rate = watch.optimizer.param_groups if watch is not None and watch.optimizer is not None else []
        return {
            "type": "state",
            "status": self._status(),
            "step": watch.n_steps if watch is not None else 0,
            "epoch": watch.epoch if watch is not None else 0,
            "lr": [float(number(group["lr"])) for group in rate if "lr" in group],
            "every": every,
            "every_mode": "auto" if self.every is None else "fixed",
            "budget": 0.1,
            "share": round(share, 4),
            "watching": self.outboxes.n_pages,
            "message": f"captures one iteration in {every}: looking takes {share:.1%} of the time",
            "pending": [{"id": command.id, "text": command.kind} for command, _ in list(self.requests)],
        }

    def _status(self) -> str:
        if self.program["status"] != "running":
            return str(self.program["status"])
        if self.watch is None or not self.watch.n_steps:
            return "ended" if self.runs and self.runs[-1].status == "ended" else "waiting"
        return "measuring" if self.is_measuring else "paused" if self.is_paused else "running"

    def post_state(self) -> None:
        self._last_state = time.monotonic()
        self.outboxes.post(self.state())

    # ---- runs, by the training thread

    def begin_run(self, watch: TrainingWatch, name: str) -> None:
        with self._lock:
            self._n_runs += 1
            self.watch = watch
            run = RunHistory(self._n_runs, name or f"run {self._n_runs}", "")
            self.runs = [*self.runs[1 - MOST_RUNS :], run]
        self.post_state()  # pages hear of the run with its first step

    def drop_run(self, run: RunHistory) -> None:
        """A run without a step, within which another one begins."""
        with self._lock:
            self.runs = [one for one in self.runs if one is not run]
            self._n_runs -= 1

    def end_run(self, watch: TrainingWatch, run: RunHistory) -> None:
        watch.end()
        run.status, run.n_steps = "ended", watch.n_steps
        self.is_paused = False
        self.outboxes.post({"type": "run", "run": run.summary()})
        self.post_state()

    def note_step(self, record: dict[str, Any]) -> None:
        watch, run = self.watch, self.run
        if not run.model and watch is not None and watch.model is not None:
            run.model = type(watch.model).__name__
            self.outboxes.post({"type": "run", "run": run.summary()})
        if self.structure is None:
            self.note_structure()
        with self._lock:
            run.add(record)
        self.outboxes.post_step(run.number, record)
        if time.monotonic() - self._last_state > BETWEEN_STATES:
            self.post_state()

    def note_structure(self) -> None:
        watch = self.watch
        if watch is not None and watch.model is not None:
            self.structure = structure_of(watch.model, watch.optimizer)
            self.outboxes.post(self.structure)

    def note_epoch(self, watch: TrainingWatch, figures: dict[str, float], remark: str) -> None:
        epoch = {"epoch": watch.epoch, "step": watch.n_steps, "figures": figures, "remark": remark}
        with self._lock:
            self.run.add_epoch(epoch)
        self.outboxes.post({"type": "epoch", "run": self.run.number, "epoch": epoch})

    def note_mark(self, kind: str, text: str) -> None:
        mark = {"step": self.watch.n_steps if self.watch is not None else 0, "kind": kind, "text": text}
        with self._lock:
            self.run.add_mark(mark)
        self.outboxes.post({"type": "mark", "run": self.run.number, "mark": mark})

    def note_scores(self, board: ScoreBoard) -> None:
        self.board = board
        self.outboxes.post(board.message())

    def keep_capture(self, captured: IterationCapture, step: int, seconds: float) -> int:
        """Keep what was captured, tell pages of it, and give its number."""
        kept = KeptCapture(self._next_capture(), captured.finished(), captured)
        about = {"run": self.run.number, "step": step, "title": f"step {step}", "seconds": seconds}
        previous = self.captures.newest
        capture_message(kept, about, previous, captured)
        self.captures.add(kept)
        self.outboxes.post_text("capture", kept.text)
        return kept.number

    def _next_capture(self) -> int:
        self._n_captures += 1
        return self._n_captures

    # ---- requests, by the training thread

    def obey(self, watch: TrainingWatch) -> None:
        """Do all that waits; while it is paused, wait for more."""
        if self.steps_once:
            self.steps_once, self.is_paused = False, True
            self.post_state()
        self._obey_all(watch)
        while self.is_paused and not self.steps_once and not self._is_left_alone(watch):
            self._arrived.wait(0.1)
            self._arrived.clear()
            self._obey_all(watch)
        if self.is_paused and self._is_left_alone(watch):
            self.is_paused = False

    def answer_waiting(self) -> None:
        """Do what was asked after the program has ended; called by the thread that ran it."""
        if self.requests and self.watch is not None:
            self._obey_all(self.watch)

    def _is_left_alone(self, watch: TrainingWatch) -> bool:
        """Nobody is there to resume, or the training is told to end."""
        gone = self._left_at is not None and time.monotonic() - self._left_at > GRACE
        return gone or (watch.trainer is not None and watch.trainer.stop is not None)

    def _obey_all(self, watch: TrainingWatch) -> None:
        while self.requests:
            command, outbox = self.requests[0]
            try:
                text = obey_command(self, watch, command, outbox)
            except RefusedCommand as refused:
                outbox.answer({"type": "answer", "id": command.id, "ok": False, "error": str(refused)})
            else:
                if text is not None:
                    self._answer(outbox, command, text)
            finally:
                self.requests.popleft()
            self.post_state()
            if command.kind == "step" and self.steps_once:
                return

    # ---- the program

    def note_program(self, status: str, exit_status: int | None = None, message: str = "") -> None:
        self.program.update(status=status, exit=exit_status, message=message)
        self.outboxes.post(self.program)
        self.post_state()

    def note_error(self, error: BaseException) -> None:
        """The program raised: the graph up to the failing op stays."""
        watch = self.watch
        captured = watch.capture if watch is not None else None
        if captured is not None:
            captured.stop()
        diagram = quietly(lambda: diagram_of_failure(error, captured))
        if diagram is None:
            return
        kept = KeptCapture(self._next_capture(), diagram, captured)
        step = watch.n_steps + 1 if watch is not None else 1
        about = {"run": self.run.number if self.runs else 0, "step": step, "title": f"step {step}, which failed"}
        message = capture_message(kept, {**about, "seconds": None}, None, captured)
        self.captures.add(kept)
        self.error_text = to_json(error_message(error, kept, message, _traceback_text(error)))
        self.outboxes.post_text("error", self.error_text)


def _traceback_text(error: BaseException) -> str:
    """The traceback without the frames of the studio itself and of what runs scripts."""
    own = str(Path(__file__).parent)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith((own, "<frozen runpy"))]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)]
    return "".join([*lines, *traceback.format_exception_only(error)])[-20000:]
