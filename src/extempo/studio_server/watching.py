"""Watching a training loop: a hook at the end of every `optimizer.step()`, where the training thread looks and obeys.

Where no page looks, the hook counts and returns. Where one does, it notes the step, ends a look that was begun, does
what pages ask for, waits while they have paused, and begins the next look if there shall be one.
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

from ..core.effect_hooks import EffectHooks, Replaced
from ..core.tensor import Tensor
from ..inspect.owners import models_of
from ..nn import Module
from ..optim.optimizer import number, register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from ..profiling.api import profile
from .capturing import IterationCapture
from .pacing import LookPacing
from .step_figures import forget_peak, gradient_norms, memory_parts, phase_seconds, quietly

if TYPE_CHECKING:
    from .session import Session

CHEAP = 0.01  # share of a step that figures of memory and gradients may take to be had for every record
PROFILE_RECORDS = 1 << 16
MOST_LAYERS = 400  # whose gradients are shown

clock = time.perf_counter


class TrainingWatch:
    """The watch over one run."""

    def __init__(self, session: Session, model: Module | None, trainer: Any = None) -> None:
        self._session = session
        self._given_model = model
        self.trainer = trainer
        self.pacing = LookPacing(session.every)
        self.figures: dict[str, float] = {}  # that a loop has logged since the last record
        self.n_steps = 0
        self.epoch = 0
        self.samples: list[tuple[tuple[Any, ...], dict[str, Any]]] = []  # what the model was called with last
        self.last_loss: float | None = None
        self._thread: int | None = None
        self._optimizer: weakref.ref[Any] | None = None
        self._model: weakref.ref[Module] | None = None
        self._next_search = 0  # the step from which on a model is looked for again
        self._loss: weakref.ref[Tensor] | None = None
        self._listening: EffectHooks | None = None
        self._capture: IterationCapture | None = None
        self._profile: profile | None = None
        self._captured_seconds = 0.0
        self._figure_seconds = 0.0  # what memory and gradients took the last time
        self._began = clock()
        self._last_end: float | None = None
        self._last_record = 0.0
        self._handles = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]

    # ---- what is watched

    @property
    def model(self) -> Module | None:
        """The model that is trained: the one that was given, or the outermost one with parameters of the optimizer."""
        if self._given_model is not None:
            return self._given_model
        found = self._model() if self._model is not None else None
        optimizer = self.optimizer
        if found is None and optimizer is not None and self.n_steps >= self._next_search:
            self._next_search = 2 * self.n_steps + 1  # it asks the garbage collector for all objects: ever more rarely
            models = models_of(p for group in optimizer.param_groups for p in group["params"])
            if models:
                found = max(models, key=lambda m: sum(1 for _ in m.parameters()))
                self._model = weakref.ref(found)
        return found

    @property
    def optimizer(self) -> Any:
        return self._optimizer() if self._optimizer is not None else None

    @property
    def capture(self) -> IterationCapture | None:
        """The one that is going on."""
        return self._capture

    # ---- hooks

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._capture is not None and optimizer is self.optimizer and self._thread == threading.get_ident():
            self._capture.stop()
            self._captured_seconds = clock() - (self._last_end or self._began)

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._optimizer is None or self._optimizer() is not optimizer:
            if self.optimizer is not None:
                return  # a second optimizer, such as that of a discriminator: one iteration has a step of the first
            self._optimizer = weakref.ref(optimizer)
            self._thread = threading.get_ident()
        if self._thread != threading.get_ident() or self._session.is_measuring:
            return
        self.n_steps += 1
        session = self._session
        if session.outboxes.n_pages or session.requests or self._listening is not None or session.is_paused:
            self._watched_step()

    def _watched_step(self) -> None:
        session = self._session
        now = clock()
        if not session.outboxes.n_pages and not session.requests and not session.is_paused:
            self.rest()
            return
        seconds = now - self._last_end if self._last_end is not None else None
        looked = self._capture is not None or self._profile is not None
        if seconds is not None and not looked:
            self.pacing.stepped(seconds)
        if looked or now - self._last_record >= self.pacing.between_notes:
            self._note(now, seconds)
            self._last_record = now
        session.run.n_steps = self.n_steps
        if session.requests or session.is_paused:
            session.obey(self)
        self._last_end = clock()  # what beginning a look takes is part of what the look takes
        self._begin_look()

    def rest(self) -> None:
        """Nobody looks any more."""
        self._end_looks()
        if self._listening is not None:
            self._listening.__exit__(None, None, None)
            self._listening = None
        self._last_end = None

    def end(self) -> None:
        """The run is over."""
        for handle in self._handles:
            handle.remove()
        if self._thread in (None, threading.get_ident()):
            self.rest()

    # ---- looks

    def _begin_look(self) -> None:
        if self._listening is None:
            listening = EffectHooks(self._listening_backward)
            listening.__enter__()
            self._listening = listening
        self.pacing.every = self._session.every
        kind = "capture" if self._session.wants_capture else self.pacing.next_look()
        if kind == "capture":
            self._session.wants_capture = False
            model = self.model
            self._capture = IterationCapture({} if model is None else {"": model})
            self._capture.start()
        elif kind == "profile":
            self._profile = profile(records=PROFILE_RECORDS)
            self._profile.start()

    def _end_looks(self) -> None:
        if self._capture is not None:
            self._capture.stop()
            self._capture = None
        if self._profile is not None:
            self._profile.stop()
            self._profile = None

    def _listening_backward(self) -> list[Replaced]:
        """`Tensor.backward` that remembers what it was called on: the loss."""
        owner = next(cls for cls in Tensor.__mro__ if "backward" in vars(cls))
        before = vars(owner)["backward"]

        def backward(loss: Any, *args: Any, **kwargs: Any) -> Any:
            self._loss = weakref.ref(loss)
            return before(loss, *args, **kwargs)

        return [(owner, "backward", backward)]

    # ---- notes

    def _note(self, now: float, seconds: float | None) -> None:
        """The record of a step, with what a look has found."""
        began = clock()
        captured, profiled = self._capture, self._profile
        phases: dict[str, float] | None = None
        if profiled is not None:
            profiled.stop()
            self._profile = None
            phases = quietly(lambda: phase_seconds(profiled))
        record = {
            "step": self.n_steps,
            "epoch": self.epoch,
            "time": now - self._began,
            "seconds": seconds,
            "loss": self._loss_value(),
            "lr": [float(number(group["lr"])) for group in self.optimizer.param_groups if "lr" in group],
            "metrics": self._metrics(captured is not None or profiled is not None),
            "phases": phases,
            **self._costly_figures(captured is not None or profiled is not None),
            "captured": None,
        }
        if captured is not None:
            self._capture = None
            captured.stop()
            self.samples = captured.samples or self.samples
            record["captured"] = self._session.keep_capture(captured, self.n_steps, self._captured_seconds)
        self._session.note_step(record)
        took = clock() - began
        if captured is not None:
            self.pacing.looked("capture", seconds or self._captured_seconds, took)
        elif profiled is not None:
            self.pacing.looked("profile", seconds or 0.0, took)
        else:
            self.pacing.beside(took)

    def _loss_value(self) -> float | None:
        loss = self._loss() if self._loss is not None else None
        self._loss = None
        if loss is None or loss.numel() != 1:
            return None
        self.last_loss = quietly(lambda: float(loss.item()))
        return self.last_loss

    def _metrics(self, is_looked_into: bool) -> dict[str, float] | None:
        found, self.figures = self.figures, {}
        if self.trainer is not None and is_looked_into:
            found = {**(quietly(self.trainer.figures_so_far) or {}), **found}
        return found or None

    def _costly_figures(self, is_looked_into: bool) -> dict[str, Any]:
        """Memory and gradients: with every look, and beside if they take next to nothing."""
        model = self.model
        is_cheap = 0 < self._figure_seconds < CHEAP * self.pacing.ordinary
        if model is None or not (is_looked_into or is_cheap):
            return {"memory": None, "gradients": None}
        began = clock()
        memory = quietly(lambda: memory_parts(model, self.optimizer))
        gradients = quietly(lambda: dict(list(gradient_norms(model).items())[:MOST_LAYERS]))
        forget_peak()
        self._figure_seconds = clock() - began
        return {"memory": memory, "gradients": gradients}
