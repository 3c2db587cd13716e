"""`ex.studio`: the block inside of which a training loop can be watched and changed in a browser."""

from __future__ import annotations

import os
import sys
import time
import webbrowser
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from ..core.interrupts import Undone, guarded
from ..errors import ArgumentError
from ..nn import Module
from ..train.callbacks import Callback
from ..train.history import History
from .measures import CollectedScores, ScoreBoard
from .obeying import note_collected, pipeline_message
from .run_history import RunHistory
from .server import StudioServer
from .session import Session
from .step_figures import quietly
from .watching import TrainingWatch

REMARKED = 100  # epochs that a remark looks back at
BETWEEN_TELLINGS = 1.0  # seconds between two pipelines, or two evaluations, of epochs that are short


class _Process:
    """The studio of this process: made when it is first wanted, there until the process ends."""

    session: Session | None = None
    server: StudioServer | None = None
    within: list[studio] = []  # noqa: RUF012 - of the process, not of an object


def process_studio(port: int = 0) -> tuple[Session, StudioServer]:
    """The session and server of this process."""
    if _Process.session is None or _Process.server is None:
        session = Session()
        _Process.server = StudioServer(session, port)
        _Process.session = session
    return _Process.session, _Process.server


def close_studio() -> None:
    """End the server of this process; the next studio has a new one, with another address."""
    server, _Process.server, _Process.session = _Process.server, None, None
    if server is not None:
        server.close()


def _forget_in_child() -> None:
    """A forked child has no thread that serves, and nothing to show."""
    for block in _Process.within:
        block._forget()
    _Process.session = _Process.server = None
    _Process.within.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


class studio(Undone):  # a function to its users
    """Watch a training loop in a browser: `with ex.studio():` around it; the address is printed.

    While no page is open the loop pays nothing that can be measured; with one, at most a tenth: iterations are captured
    at a rate that keeps within it. The page shows the graph as it forms, the pipeline, the curves and the metrics;
    there training can be paused, and layers inserted, removed, widened, frozen and replaced. Needs
    `pip install 'extempo[studio]'`. `Trainer(..., studio=True)` does the same for `fit`.

    Args:
        model: the model that is trained; if none is given, the outermost module that has the optimizer's parameters.
        port: where the server listens, on this machine alone; 0 is any that is free.
        every: capture one iteration in so many, at any price; None: as often as a tenth of the time allows.
        classes: names of the classes, for predictions and metrics.
        torch: a function that makes the training step in PyTorch, as `ex.compare` takes it, when it is asked for in the
            panel "Does it pay?".
        name: of the run, in the page.
        show: print the address; with "open", also open a browser.

    Inside, `as watched` tells more than the loop shows by itself:

        with ex.studio() as watched:
            for epoch in range(10):
                for x, y in data:
                    ...
                    optimizer.step()
                    watched.log(accuracy=0.5)
                watched.epoch(train_loss=0.3, valid_loss=0.4)
                watched.scores(y_true, y_scores)

    One server serves all studios of a process, until the process ends; a second run stands beside the first. It starts
    where the block begins, not before:

    >>> watching = ex.studio(nn.Linear(2, 1), every=10)
    >>> watching.address
    ''
    """

    def __init__(
        self,
        model: Module | None = None,
        *,
        port: int = 0,
        every: int | None = None,
        classes: Sequence[str] | None = None,
        torch: Callable[[], Any] | None = None,
        name: str = "",
        show: bool | str = True,
    ) -> None:
        if model is not None and not isinstance(model, Module):
            raise ArgumentError(f"studio: model must be a module, got {type(model).__name__}; ex.studio() finds it")
        if every is not None and (not isinstance(every, int) or isinstance(every, bool) or every < 1):
            raise ArgumentError(f"studio: every must be a whole number from 1 on, or None, got {every!r}")
        if not isinstance(port, int) or not 0 <= port <= 65535:
            raise ArgumentError(f"studio: port must be from 0 (any that is free) to 65535, got {port!r}")
        self._model = model
        self._options = {"every": every, "classes": classes, "make_torch_step": torch}
        self._port = port
        self._name = name
        self._show = show
        self._trainer: Any = None  # of which this is the studio
        self._history = History()
        self._session: Session | None = None
        self._watch: TrainingWatch | None = None
        self._run: RunHistory | None = None
        self._outer: studio | None = None
        self._last_told = 0.0
        self.address = ""

    def _begin(self) -> None:
        is_new = _Process.server is None
        session, server = process_studio(self._port)
        self.address = server.address
        self._outer = _Process.within[-1] if _Process.within else None
        if self._outer is not None:
            self._outer._rest()
        for name, value in self._options.items():
            if value is not None:
                setattr(session, name, value)
        self._session = session
        self._watch = TrainingWatch(session, self._model, self._trainer)
        session.structure = None
        session.begin_run(self._watch, self._name)
        self._run = session.run
        _Process.within.append(self)
        if is_new and self._show:
            print(f"Studio: {self.address}", file=sys.stderr, flush=True)
            if self._show == "open":
                quietly(lambda: webbrowser.open(self.address))

    def _end(self) -> None:
        if self._session is not None and self._watch is not None and self._run is not None:
            self._session.end_run(self._watch, self._run)
        if self in _Process.within:
            _Process.within.remove(self)
        self._forget()

    @guarded
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if isinstance(error, Exception) and self._session is not None:
                self._session.note_error(error)
            self._end()
        except BaseException:
            self._end()
            raise

    def _rest(self) -> None:
        """A studio inside of this one watches."""
        if self._watch is not None and self._session is not None and self._run is not None:
            if self._watch.n_steps:
                self._session.end_run(self._watch, self._run)
            else:
                self._watch.end()
                self._session.drop_run(self._run)
            self._watch = None

    def _forget(self) -> None:
        if self._watch is not None:
            self._watch.end()
        self._watch = self._session = None

    # ---- what a loop may tell

    def log(self, **figures: float) -> None:
        """Figures of this step, beside the loss.

        Args:
            figures: numbers by name, such as `accuracy=0.5`.
        """
        if self._watch is not None:
            self._watch.figures.update({name: float(value) for name, value in figures.items()})

    def epoch(self, **figures: float) -> None:
        """An epoch is over; the page shows its figures, and a remark on them.

        Args:
            figures: numbers by name: `train_loss`, `valid_loss` and others.
        """
        if self._watch is None or self._session is None:
            return
        self._watch.epoch += 1
        self._history.append({"epoch": self._watch.epoch, **{name: float(value) for name, value in figures.items()}})
        self._tell_epoch(self._history)

    def _tell_epoch(self, history: History) -> None:
        if self._watch is None or self._session is None:
            return
        record = {k: v for k, v in history.records[-1].items() if isinstance(v, int | float) and k != "epoch"}
        recent = History(history.records[-REMARKED:])
        self._session.note_epoch(self._watch, record, str(quietly(recent.observation) or ""))
        if self._session.outboxes.n_pages and self._watch.samples and self._is_time_to_tell():
            session, watch = self._session, self._watch
            session.pipeline = quietly(lambda: pipeline_message(session, watch)) or session.pipeline
            if session.pipeline is not None:
                session.outboxes.post(session.pipeline)

    def _is_time_to_tell(self) -> bool:
        """Whether what takes a while may be told again: epochs may be shorter than that."""
        now = time.monotonic()
        if now - self._last_told < BETWEEN_TELLINGS:
            return False
        self._last_told = now
        return True

    def scores(self, truth: Any, predicted: Any) -> None:
        """What an evaluation has found, for the metrics panel.

        Args:
            truth: the true classes, a number for each sample.
            predicted: scores or probabilities of the classes, a row for each sample, or one number of two classes.
        """
        if self._watch is not None and self._session is not None:
            self._session.note_scores(ScoreBoard(truth, predicted, self._session.classes, self._watch.n_steps))


class StudioCallback(Callback):
    """Tells a studio of the epochs of a Trainer, and of the scores that it has seen in validation."""

    def __init__(self, block: studio) -> None:
        self._block = block
        self._collected: CollectedScores | None = None  # None: metrics cannot take what the model gives
        self._is_possible = True
        self._last_shown = 0.0

    def on_validated(self, target: Any, output: Any) -> None:
        """A batch of validation, which costs no run of the model beside."""
        session = self._block._session
        if session is None or not session.outboxes.n_pages or not self._is_possible or not self._is_due():
            return
        collected = self._collected or CollectedScores()
        try:
            self._block._trainer.feeding.update({"scores": collected}, target, output)
            self._collected = collected
        except Exception:
            self._collected, self._is_possible = None, False

    def _is_due(self) -> bool:
        return self._collected is not None or time.monotonic() - self._last_shown > BETWEEN_TELLINGS

    def on_epoch(self, trainer: Any, record: dict[str, Any]) -> None:
        watch, session = self._block._watch, self._block._session
        if watch is None or session is None:
            return
        watch.epoch = trainer.epoch
        self._block._tell_epoch(trainer.history)
        collected, self._collected = self._collected, None
        if collected is not None:
            self._last_shown = time.monotonic()
            quietly(lambda: note_collected(session, collected, trainer.n_steps))


class trainer_studio(studio):
    """The studio around the `fit` of a Trainer."""

    def __init__(self, trainer: Any) -> None:
        super().__init__(trainer.model)
        self._trainer = trainer
        self._callback = StudioCallback(self)

    def _begin(self) -> None:
        super()._begin()
        self._trainer.callbacks.append(self._callback)
        self._trainer.on_validated = self._callback.on_validated

    def _end(self) -> None:
        self._trainer.on_validated = None
        if self._callback in self._trainer.callbacks:
            self._trainer.callbacks.remove(self._callback)
        super()._end()
