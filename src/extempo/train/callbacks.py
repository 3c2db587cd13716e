"""What a Trainer calls as it goes: stopping early, keeping the best model, and whatever a user adds."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..serialization import load, save
from .tensorboard import EventWriter

if TYPE_CHECKING:
    from .trainer import Trainer

_FLUSH_EVERY = 5.0  # seconds after which TensorBoard can see what was written


class Callback:
    """Override what you need. `trainer.stop = "why"` ends training after the current step.

    The order is on_start, then for each epoch on_step after each step and on_epoch at its end, then on_end. Several
    callbacks are called in the order of the list.
    """

    def on_start(self, trainer: Trainer) -> None:
        """Before the first epoch."""

    def on_step(self, trainer: Trainer, loss: float) -> None:
        """After each step of the optimizer, with the mean loss of its batches."""

    def on_epoch(self, trainer: Trainer, record: dict[str, Any]) -> None:
        """After each epoch, with its figures."""

    def on_end(self, trainer: Trainer) -> None:
        """When training is over, also after Ctrl-C and errors."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take it from a checkpoint."""


def listed(callbacks: Any) -> list[Callback]:
    """Callbacks as a list; one alone is a list of one."""
    given = [callbacks] if isinstance(callbacks, Callback) else list(callbacks)
    for callback in given:
        if not isinstance(callback, Callback):
            raise TypeError(f"Trainer: callbacks must be objects of Callback, got {callback!r}")
    return given


class _Following(Callback):
    """Follows one figure."""

    def __init__(self, figure: str = "valid_loss", mode: str = "min") -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"mode must be 'min' or 'max', got {mode!r}")
        self.figure = figure
        self.mode = mode
        self.best = math.inf if mode == "min" else -math.inf

    def on_start(self, trainer: Trainer) -> None:
        others = [c for c in trainer.callbacks if not isinstance(c, _Following | TensorBoard)]  # might add the figure
        if self.figure.startswith("valid_") and not trainer.validates and not others:
            raise ValueError(
                f"{type(self).__name__}: follows {self.figure!r}, and fit has no data for validation: "
                "fit(train, valid, ...), or figure='train_loss'"
            )

    def improved(self, record: dict[str, Any], by: float = 0.0) -> bool:
        if self.figure not in record:
            known = ", ".join(name for name in record if isinstance(record[name], float))
            raise ValueError(f"{type(self).__name__}: no figure {self.figure!r} in this epoch; there are {known}")
        value = record[self.figure]
        better: bool = value < self.best - by if self.mode == "min" else value > self.best + by
        if better:
            self.best = value
        return better

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best = state["best"]


class EarlyStopping(_Following):
    """Stop when a figure has not improved for `patience` epochs."""

    def __init__(
        self, patience: int = 3, figure: str = "valid_loss", mode: str = "min", min_delta: float = 0.0
    ) -> None:
        super().__init__(figure, mode)
        if patience < 1:
            raise ValueError(f"EarlyStopping: patience must be at least 1 epoch, got {patience}")
        self.patience = patience
        self.min_delta = min_delta
        self.waited = 0

    def on_start(self, trainer: Trainer) -> None:
        super().on_start(trainer)
        if not trainer.resumed:
            self.waited = 0
        self._judge(trainer)  # a run that was stopped and is resumed stays stopped

    def on_epoch(self, trainer: Trainer, record: dict[str, Any]) -> None:
        self.waited = 0 if self.improved(record, self.min_delta) else self.waited + 1
        self._judge(trainer)

    def _judge(self, trainer: Trainer) -> None:
        if self.waited >= self.patience:
            trainer.stop = f"{self.figure} has not improved for {self.waited} epochs (best {self.best:.4g})"

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.waited = state["waited"]


class KeepBest(_Following):
    """Write the model's weights whenever a figure is better than ever, and put them back at the end if asked to.

    path: log_dir/best.ext of the trainer unless given.
    """

    def __init__(
        self, path: str | Path | None = None, figure: str = "valid_loss", mode: str = "min", restore: bool = False
    ) -> None:
        super().__init__(figure, mode)
        self.path = Path(path) if path is not None else None
        self.restore = restore

    def on_start(self, trainer: Trainer) -> None:
        super().on_start(trainer)
        if self.path is None:
            if trainer.log_dir is None:
                raise ValueError("KeepBest: say where, KeepBest('best.ext'), or give the trainer a log_dir")
            self.path = trainer.log_dir / "best.ext"

    def on_epoch(self, trainer: Trainer, record: dict[str, Any]) -> None:
        if self.improved(record) and self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            save(trainer.model.state_dict(), self.path)

    def on_end(self, trainer: Trainer) -> None:
        if self.restore and self.path is not None and math.isfinite(self.best):
            trainer.model.load_state_dict(load(self.path))


class TensorBoard(Callback):
    """Write every figure for TensorBoard: losses of steps and all figures of epochs."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._writer: EventWriter | None = None
        self._flushed = time.monotonic()

    def on_start(self, trainer: Trainer) -> None:
        if trainer.resumed or not trainer.n_steps:  # what was written from here on is of a run that is no more
            self._open().restart(trainer.n_steps + 1)

    def state_dict(self) -> dict[str, Any]:
        """Nothing; but whoever goes on from a checkpoint finds all that was told until then in the file."""
        if self._writer is not None:
            self._writer.flush()
        return {}

    def _open(self) -> EventWriter:
        if self._writer is None:
            self._writer = EventWriter(self.folder)
        return self._writer

    def on_step(self, trainer: Trainer, loss: float) -> None:
        self._open().scalar("step/loss", loss, trainer.n_steps)
        if time.monotonic() - self._flushed > _FLUSH_EVERY:
            self._open().flush()
            self._flushed = time.monotonic()

    def on_epoch(self, trainer: Trainer, record: dict[str, Any]) -> None:
        for name, value in record.items():
            if isinstance(value, int | float) and name != "epoch":
                self._open().scalar(f"epoch/{name}", float(value), record["epoch"])
        self._open().flush()

    def on_end(self, trainer: Trainer) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
