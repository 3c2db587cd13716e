"""What a Trainer calls as it goes: stopping early, keeping the best model, and whatever a user adds."""

from __future__ import annotations

import math
import re
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.wording import counted, did_you_mean
from ..errors import ExtempoError
from ..metrics import Metric
from ..serialization import load, save
from .measuring import is_table
from .tensorboard import EventWriter
from .trials import copied

if TYPE_CHECKING:
    from .trainer import Trainer

_FLUSH_EVERY = 5.0  # seconds after which TensorBoard can see what was written


class Callback:
    """Override what you need. `trainer.stop = "why"` ends training after the current step.

    The order is on_start, then for each epoch on_step after each step and on_epoch at its end, then on_end. Several
    callbacks are called in the order of the list.

    >>> class Counting(ex.train.Callback):
    ...     n_steps = 0
    ...
    ...     def on_step(self, trainer, loss):
    ...         self.n_steps += 1
    ...         if self.n_steps == 3:
    ...             trainer.stop = "three steps are enough"
    >>> model, counting = nn.Linear(2, 1), Counting()
    >>> sgd = ex.optim.SGD(model.parameters(), lr=0.1)
    >>> trainer = ex.train.Trainer(model, F.mse_loss, sgd, callbacks=[counting], progress=False)
    >>> history = trainer.fit([(ex.ones(4, 2), ex.ones(4, 1))], epochs=10)
    >>> counting.n_steps, trainer.stop
    (3, 'three steps are enough')
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
    """Follows one figure. `mode`: whether its least ("min") or greatest ("max") is best; None: as its metric says."""

    def __init__(self, figure: str = "valid_loss", mode: str | None = None) -> None:
        if mode not in ("min", "max", None):
            raise ValueError(f"{type(self).__name__}: mode must be 'min' or 'max', got {mode!r}")
        self.figure = figure
        self.mode = mode
        self.best = -math.inf if mode == "max" else math.inf

    def on_start(self, trainer: Trainer) -> None:
        self._require_figure(trainer)
        if self.mode is None:
            self.mode = self._mode_of(trainer.metrics.get(self.figure.removeprefix("train_").removeprefix("valid_")))
            self.best = -self.best if self.mode == "max" and self.best == math.inf else self.best

    def _mode_of(self, metric: Metric | None) -> str:
        if metric is None:
            return "min"
        if metric.higher_is_better is None:
            raise ValueError(
                f"{type(self).__name__}: say which {self.figure} is better, mode='min' or mode='max'; "
                f"{type(metric).__name__}.higher_is_better does not"
            )
        return "max" if metric.higher_is_better else "min"

    def _require_figure(self, trainer: Trainer) -> None:
        """Before anything is trained: the figure is one of those that records will have."""
        if any(_may_add_figures(callback) for callback in trainer.callbacks):
            return
        if self.figure.startswith("valid_") and not trainer.validates:
            raise ValueError(
                f"{type(self).__name__}: follows {self.figure!r}, and fit has no data for validation: "
                "fit(train, valid, ...), or figure='train_loss'"
            )
        metrics = [name for name, metric in trainer.metrics.items() if not is_table(metric)]
        names = [f"{of}_{name}" for of in ("train", "valid")[: 1 + trainer.validates] for name in ("loss", *metrics)]
        names += ["lr", "seconds", "samples_per_second", "peak_bytes"]
        of_a_class = re.fullmatch(r"(.+)_\d+", self.figure)  # of a metric that tells one number for each class
        if self.figure not in names and (of_a_class is None or of_a_class[1] not in names):
            raise ValueError(self._unknown(names))

    def improved(self, record: dict[str, Any], by: float = 0.0) -> bool:
        """Whether the figure of an epoch is the best so far, which is then remembered."""
        if self.figure not in record:
            raise ValueError(self._unknown(name for name in record if isinstance(record[name], float)))
        value = record[self.figure]
        better: bool = value < self.best - by if self.mode == "min" else value > self.best + by
        if better:
            self.best = value
        return better

    def _unknown(self, names: Iterable[str]) -> str:
        known = list(names)
        hint = did_you_mean(self.figure, known)
        return f"{type(self).__name__}: there is no figure {self.figure!r}, there are {', '.join(known)}{hint}"

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best = state["best"]


def _may_add_figures(callback: Callback) -> bool:
    """Whether a callback is one of a user's that sees records, and so may put figures of its own into them."""
    return not isinstance(callback, _Following | TensorBoard) and type(callback).on_epoch is not Callback.on_epoch


class EarlyStopping(_Following):
    """Stop when a figure has not improved for `patience` epochs.

    Args:
        patience: training ends after so many epochs in a row without a new best.
        figure: a column of the history: `train_` or `valid_`, and "loss" or the name of a metric.
        mode: whether "min" or "max" is better; by default what the metric says ("max" for accuracy, "min" for a loss).
        min_delta: what is better by less than this does not count.

    >>> model, data = nn.Linear(2, 1), [(ex.ones(4, 2), ex.ones(4, 1))]
    >>> still = ex.optim.SGD(model.parameters(), lr=0.0)
    >>> stopping = ex.train.EarlyStopping(patience=2, figure="train_loss")
    >>> trainer = ex.train.Trainer(model, F.mse_loss, still, callbacks=[stopping], progress=False)
    >>> len(trainer.fit(data, epochs=100))
    3
    """

    def __init__(
        self, patience: int = 3, figure: str = "valid_loss", mode: str | None = None, min_delta: float = 0.0
    ) -> None:
        if isinstance(patience, str):
            raise TypeError(
                f"EarlyStopping: patience must be a number of epochs, got {patience!r}; the figure comes second: "
                f"EarlyStopping(3, {patience!r})"
            )
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
            waited = counted(self.waited, "epoch")
            trainer.stop = f"{self.figure} has not improved for {waited} (best {self.best:.4g})"

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.waited = state["waited"]


class KeepBest(_Following):
    """Keep the model's weights of the epoch in which a figure was best, and put them back when training ends.

    Args:
        path: the file that the best weights are written to, log_dir/best.ext if the trainer has a log_dir; without
            either they are kept in memory.
        figure: a column of the history: `train_` or `valid_`, and "loss" or the name of a metric.
        mode: whether "min" or "max" is better; by default what the metric says ("max" for accuracy, "min" for a loss).
        restore: whether the model has its best weights when `fit` ends (and a line says so), or its last ones.

    >>> model, data = nn.Linear(2, 1), [(ex.ones(4, 2), ex.ones(4, 1))]
    >>> too_fast = ex.optim.SGD(model.parameters(), lr=2.0)
    >>> best = ex.train.KeepBest(figure="train_loss")
    >>> trainer = ex.train.Trainer(model, F.mse_loss, too_fast, callbacks=[best], progress=False)
    >>> history = trainer.fit(data, epochs=5)
    >>> best.best_epoch, best.best == min(history["train_loss"])
    (1, True)
    """

    def __init__(
        self,
        path: str | Path | None = None,
        figure: str = "valid_loss",
        mode: str | None = None,
        restore: bool = True,
    ) -> None:
        if isinstance(path, str) and re.fullmatch(r"(train|valid|val)_\w+", path):
            raise ValueError(f"KeepBest: path={path!r} looks like a figure: KeepBest(figure={path!r})")
        super().__init__(figure, mode)
        self.path = Path(path) if path is not None else None
        self.restore = restore
        self.best_epoch = 0  # none yet
        self._weights: dict[str, Any] | None = None  # of the best epoch, where there is no file

    def on_start(self, trainer: Trainer) -> None:
        super().on_start(trainer)
        if self.path is None and trainer.log_dir is not None:
            self.path = trainer.log_dir / "best.ext"

    def on_epoch(self, trainer: Trainer, record: dict[str, Any]) -> None:
        if not self.improved(record):
            return
        self.best_epoch = record["epoch"]
        weights = trainer.model.state_dict()
        if self.path is None:
            self._weights = {name: copied(value) for name, value in weights.items()}
        else:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            save(weights, self.path)

    def on_end(self, trainer: Trainer) -> None:
        if not self.restore or self.best_epoch in (0, trainer.epoch):
            return
        told = f"epoch {self.best_epoch}, {self.figure} {self.best:.4g}"
        try:
            trainer.model.load_state_dict(load(self.path) if self._weights is None else self._weights)
        except ExtempoError as error:  # its layers were changed since: it keeps what it has
            warnings.warn(f"KeepBest: the weights of {told} do not fit the model any more: {error}", stacklevel=2)
            return
        if trainer.progress:
            print(f"the model has its best weights again, those of {told} (restore=False keeps the last)", flush=True)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "best_epoch": self.best_epoch, "weights": self._weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.best_epoch, self._weights = state["best_epoch"], state["weights"]


class TensorBoard(Callback):
    """Write every figure for TensorBoard: losses of steps and all figures of epochs.

    >>> import os, tempfile
    >>> model, data = nn.Linear(2, 1), [(ex.ones(4, 2), ex.ones(4, 1))]
    >>> sgd = ex.optim.SGD(model.parameters(), lr=0.1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     board = ex.train.TensorBoard(folder)
    ...     trainer = ex.train.Trainer(model, F.mse_loss, sgd, callbacks=[board], progress=False)
    ...     history = trainer.fit(data)
    ...     [name.startswith("events.out.tfevents") for name in os.listdir(folder)]
    [True]
    """

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
