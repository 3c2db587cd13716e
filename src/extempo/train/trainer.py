"""Trainer: the training loop that everybody writes, with checks, reports and checkpoints.

    trainer = Trainer(model, F.cross_entropy, optim.Adam(model.parameters()), metrics=[Accuracy()])
    history = trainer.fit(train_loader, valid_loader, epochs=10)

A batch is (inputs..., target), or a dict with the entry "target". `model(*inputs)` gives the output, `loss(output,
target)` the loss. With `batch=True` model and loss are written for one sample and run by `ex.batch`. What one step does
is in `stepping`, what a batch is in `batches`, what is kept for going on in `checkpoints`.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from inspect import isfunction
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from ..core.files import Claim, write_text
from ..core.tensor import Tensor, from_array
from ..errors import ShapeError
from ..inspect.guarding import guard as guarded
from ..inspect.memory import peak_bytes, reset_peak
from ..metrics import Metric
from ..nn import Module
from ..optim.lr_scheduler import ReduceLROnPlateau
from ..ragged_tensors.tensor import RaggedTensor
from . import trials
from .batches import Feed, Inputs, PutBack, inputs_of, joined, n_batches, n_samples, require_batches, split
from .callbacks import Callback, TensorBoard, listed
from .checkpoints import read_checkpoint, restore, state_of, write_checkpoint
from .checks import KeptGraphs, check
from .history import History, epoch_line
from .interrupts import REASONS, Interrupts
from .measuring import Feeding, figures, fresh, named, tables
from .modes import Modes, evaluating
from .positions import Position, random_state, restore_random_state
from .progress import Bar
from .ranks import NO_BATCH, Ranks
from .stepping import NonFiniteLossError, Stepper


class Trainer:
    """Trains a model, follows its figures, and can go on after an interruption as if there had been none.

    Args:
        model: a module; with `batch=True` one that is written for one sample.
        loss: `loss(output, target)` gives a number.
        optimizer: of the model's parameters.
        metrics: from `ex.metrics`, a list or a dict by name; computed for training and validation.
        scheduler: of the learning rate, stepped after each epoch (`scheduler_every="step"`: after each step);
            ReduceLROnPlateau gets the validation loss, the training loss if there is no validation.
        compile: run steps by `ex.compile`.
        batch: run model and loss for each sample of a batch by `ex.batch`.
        callbacks: called as training goes on.
        log_dir: writes history.json, history.csv, TensorBoard's events and checkpoint.ext there.
        clip_grad_norm: gradients are scaled down to this norm.
        accumulate: this many batches make one step of the optimizer, with the mean of their gradients.
        checkpoint: where to write checkpoints, log_dir/checkpoint.ext if that is given; after each epoch, and after
            each `checkpoint_every` steps.
        predictions: from a model's output to what metrics get, where the loss does not tell.
        progress: show a bar on a terminal for epochs over two seconds; and one line for each epoch.
        guard: run steps within `ex.inspect.guard`: a gradient or weight that is not finite also stops training, before
            the optimizer has seen the gradient, and the op that made it so is named.
        studio: run fit within `ex.studio`: its address is printed, and a browser shows training and can change it.

    >>> x = ex.linspace(-1, 1, 8).reshape(8, 1)
    >>> model = nn.Linear(1, 1)
    >>> sgd = ex.optim.SGD(model.parameters(), lr=0.5)
    >>> trainer = ex.train.Trainer(model, F.mse_loss, sgd, progress=False)
    >>> history = trainer.fit([(x, 3 * x + 1)], epochs=50)
    >>> history["train_loss"][-1] < 1e-4, f"{model(ex.tensor([2.0])).item():.1f}"
    (True, '7.0')
    """

    def __init__(
        self,
        model: Module,
        loss: Callable[..., Tensor],
        optimizer: Any,
        metrics: Sequence[Metric] | Mapping[str, Metric] | None = None,
        *,
        scheduler: Any = None,
        scheduler_every: str = "epoch",
        compile: bool = True,
        batch: bool = False,
        callbacks: Sequence[Callback] = (),
        log_dir: str | Path | None = None,
        clip_grad_norm: float | None = None,
        accumulate: int = 1,
        checkpoint: str | Path | None = None,
        checkpoint_every: int | None = None,
        predictions: Callable[[Any], Any] | None = None,
        progress: bool = True,
        guard: bool = False,
        studio: bool = False,
    ) -> None:
        _check_options(
            {
                "model": model,
                "loss": loss,
                "optimizer": optimizer,
                "scheduler": scheduler,
                "predictions": predictions,
                "batch": batch,
                "compile": compile,
                "progress": progress,
                "guard": guard,
                "studio": studio,
            },
            {"accumulate": accumulate, "checkpoint_every": checkpoint_every},
            clip_grad_norm,
            scheduler_every,
        )
        self.model = model
        self.loss = loss
        self.optimizer = optimizer
        self.metrics = named(metrics)
        self.scheduler = scheduler
        self.scheduler_every = scheduler_every
        self.accumulate = accumulate
        self.log_dir = Path(log_dir) if log_dir is not None else None
        self.checkpoint = Path(checkpoint) if checkpoint is not None else None
        if self.checkpoint is None and self.log_dir is not None:
            self.checkpoint = self.log_dir / "checkpoint.ext"
        if checkpoint_every is not None and self.checkpoint is None:
            raise ValueError("Trainer: checkpoint_every needs checkpoint= or log_dir=, to say where")
        self.checkpoint_every = checkpoint_every
        self.progress = progress
        self.guard = guard
        self.studio = studio
        self.on_validated: Callable[[Any, Any], None] | None = None  # told target and output of batches of validation
        self.callbacks = listed(callbacks)
        if self.log_dir is not None:
            self.callbacks.append(TensorBoard(self.log_dir))
        self.batch = batch
        self.stepper = Stepper(model, loss, optimizer, compile, batch, clip_grad_norm)
        self.feeding = Feeding(self.metrics, loss, batch, predictions)
        self.history = History()
        self.n_steps = 0  # of the optimizer
        self.epoch = 0  # whole ones
        self.so_far = Position()  # in the epoch that runs
        self.stop: str | None = None  # why training shall end; set by callbacks, or from another thread
        self.resumed = False  # whether this fit goes on from a checkpoint
        self._graphs = KeptGraphs()
        self._loaders: tuple[Any, ...] = ()  # what fit was given
        self._ranks = Ranks()  # the processes that fit trains with
        self._prints = progress

    @property
    def loaders(self) -> tuple[Any, ...]:
        """What fit was given: the data for training and for validation, or None for that."""
        return self._loaders

    def figures_so_far(self) -> dict[str, float]:
        """The metrics of training in the epoch that runs."""
        return _numbers("train", figures(self.metrics))

    @property
    def validates(self) -> bool:
        """Whether fit was given data for validation."""
        return len(self._loaders) > 1 and self._loaders[1] is not None

    def split(self, batch: Any) -> tuple[Inputs, Any]:
        """Inputs and target of a batch; override it for batches of another form."""
        return split(batch)

    # ---- training

    def fit(
        self, train: Iterable[Any], valid: Iterable[Any] | None = None, epochs: int = 1, *, resume: bool = False
    ) -> History:
        """Train until `epochs` epochs are done; Ctrl-C or SIGTERM end it cleanly, with a checkpoint if it has a place.

        Until it ends no other fit, of this process or another one, may write to the same log_dir or checkpoint.

        resume: go on from the checkpoint, if there is one, with the same batches and draws as if it had never stopped.
        """
        if not isinstance(epochs, int | float) or epochs != int(epochs) or epochs < 0:
            raise ValueError(f"fit: epochs must be a whole number of epochs, got {epochs!r}")
        require_batches("fit", "train", train)
        if valid is not None:
            require_batches("fit", "valid", valid)
        self._ranks = Ranks()
        self.progress = self._prints and self._ranks.is_first
        with ExitStack() as claims:
            for claim in self._claims():
                claims.enter_context(claim)
            self._loaders = (train, valid)
            self.so_far = Position()
            self.stop = None
            self._graphs = KeptGraphs()
            self.resumed = resume and self._resume()
            if not self.resumed:
                self._warn_of_old_and_done(epochs)
            train, valid = self._readable(train, valid, epochs)
            self.optimizer.zero_grad()
            if not self.n_steps and self.epoch < epochs:
                with Interrupts(self):
                    self._check_first(train)
            if self.studio:
                from ..studio_server.api import trainer_studio

                claims.enter_context(trainer_studio(self))
            self.stepper.before_forward = self._ranks.begin(self.model)
            self._epochs(self._ranks.share(train), self._ranks.share(valid), epochs)
            if self.stop is not None and self._ranks.is_first and (self.progress or self.stop in REASONS.values()):
                print(self._why_stopped(), flush=True)
            if self.progress and self.history.tables:
                print(self.history.tables_text(), flush=True)
            return self.history

    def _readable(self, train: Any, valid: Any, epochs: int) -> tuple[Any, Any]:
        """The data in a form that can be read as often as needed, as far as that is possible."""
        several = epochs - self.epoch > 1
        if isinstance(train, Iterator):
            train = PutBack(train)
            if several:
                warnings.warn("fit: train is an iterator, which can be read for one epoch only", stacklevel=3)
        if isinstance(valid, Iterator) and several:
            warnings.warn("fit: valid is an iterator; its batches are kept in memory for later epochs", stacklevel=3)
            valid = list(valid)
        return train, valid

    def _epochs(self, train: Iterable[Any], valid: Iterable[Any] | None, epochs: int) -> None:
        """All epochs that are left; at the end callbacks hear of it, and modes are what they were."""
        modes, was_training = Modes(self.model), self.model.training
        try:
            with Interrupts(self), guarded(self.model) if self.guard else nullcontext():
                self._tell("on_start")
                while self.epoch < epochs and self.stop is None:
                    self._epoch(train, valid)
                    self.stop = self._ranks.agreed(self.stop)
        finally:
            self._tell("on_end")
            if not was_training:
                modes.put_back()
            self._write_history()

    def _epoch(self, train: Iterable[Any], valid: Iterable[Any] | None) -> None:
        reset_peak()
        began = time.perf_counter() - self.so_far.seconds
        if not self.model.training:
            self.model.train()
        if not self.so_far.n_batches:
            for metric in self.metrics.values():
                metric.reset()
        self._ranks.begin_epoch(self.epoch, self._loaders)
        self.stepper.begin()
        if not self._train(train, began):
            return
        trained = time.perf_counter() - began
        so_far, metrics = self._ranks.merged(self.so_far, self.metrics)
        record: dict[str, Any] = {"epoch": self.epoch + 1, "train_loss": so_far.total / max(so_far.n_seen, 1)}
        record |= _numbers("train", figures(metrics))
        if valid is not None:
            before = random_state(*self._loaders)
            measuring = fresh(self.metrics)
            seen = self._look_over(valid, "validating", measuring, stoppable=self._ranks.group is None)
            if seen is None:
                restore_random_state(before, *self._loaders)
                so_far.seconds = trained
                self._save()
                return
            record |= _numbers("valid", seen)
        record |= {
            "seconds": time.perf_counter() - began,
            "samples_per_second": so_far.n_seen / max(trained, 1e-9),
            "peak_bytes": peak_bytes(),
            "lr": float(self.optimizer.param_groups[0]["lr"]),
        }
        self.epoch += 1
        self.so_far = Position()
        self.history.append(record)
        self.history.tables = tables("train", metrics) if valid is None else tables("valid", measuring)
        if self.scheduler_every == "epoch":
            self._schedule(record.get("valid_loss", record["train_loss"]))
        if self.progress:
            print(epoch_line(record), flush=True)
        self._tell("on_epoch", record)
        self._save()
        self._write_history()

    def _train(self, train: Iterable[Any], began: float) -> bool:
        """The steps of an epoch, or those that are left; False if training shall stop in the middle."""
        so_far = self.so_far
        feed = Feed(train, so_far, self._loaders)
        group: list[float] = []  # the losses of batches that the optimizer has not seen yet
        with Bar(f"epoch {self.epoch + 1}", feed.n_left, self.progress) as bar:
            for batch in feed:
                if batch is NO_BATCH:
                    so_far.n_batches += 1
                    if self._step_without_batch(group) and self._pause():
                        return False
                    continue
                inputs, target = self.split(batch)
                n = n_samples(target)
                if not n:
                    raise ShapeError(f"fit: step {self.n_steps + 1}, epoch {self.epoch + 1}: a batch without samples")
                update = len(group) + 1 == self.accumulate
                try:
                    output, loss = self.stepper.run(inputs, target, 1 / self.accumulate, update)
                except NonFiniteLossError as error:
                    place = f"step {self.n_steps + 1}, epoch {self.epoch + 1}"
                    raise NonFiniteLossError(f"fit: {place}: {error}") from None
                so_far.add(loss, n)
                self.feeding.update(self.metrics, target, output)
                bar.advance(n)
                group.append(loss)
                if update:
                    self._stepped(group)
                    so_far.seconds = time.perf_counter() - began
                    if self._pause():
                        return False
            if group:
                self._ranks.exchange(1)
                self.stepper.finish(self.accumulate / len(group))
                self._stepped(group)
        if not so_far.n_batches:
            if not isinstance(train, Iterator) or not self.epoch:
                raise ValueError("fit: there are no batches in train")
            self.stop = "train is an iterator and has no more batches; a list or a DataLoader can be read again"
            return False
        return True

    def _step_without_batch(self, group: list[float]) -> bool:
        """The last batch of an epoch for a rank that they do not reach: whether it learnt what the others do."""
        if len(group) + 1 < self.accumulate:
            group.append(self.so_far.total / max(self.so_far.n_seen, 1))
            return False
        self._ranks.exchange(0)
        self.stepper.update()
        group.append(self.so_far.total / max(self.so_far.n_seen, 1))
        self._stepped(group)
        return True

    def _stepped(self, group: list[float]) -> None:
        """The optimizer has learnt from a group of batches."""
        loss = sum(group) / len(group)
        group.clear()
        self.n_steps += 1
        kept = self._graphs.after_step()
        if kept:
            warnings.warn(f"fit: {kept}", stacklevel=5)
        if self.scheduler_every == "step":
            self._schedule(loss)
        self._tell("on_step", loss)

    def _pause(self) -> bool:
        """Between two steps: save if that is due; whether to stop."""
        self.stop = self._ranks.agreed(self.stop)
        stopping = self.stop is not None
        if stopping or (self.checkpoint_every and self.n_steps % self.checkpoint_every == 0):
            self._save()
        return stopping

    def _schedule(self, loss: float) -> None:
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(loss)
        elif self.scheduler is not None:
            self.scheduler.step()

    # ---- without training

    def evaluate(self, data: Iterable[Any], *, metrics: dict[str, Metric] | None = None) -> dict[str, Any]:
        """Loss and metrics on other data, in eval mode; modes and metrics of training stay as they are.

        metrics: others than the trainer's, by name.
        """
        require_batches("evaluate", "data", data)
        return self._look_over(data, "evaluating", fresh(self.metrics) if metrics is None else metrics) or {}

    def _look_over(
        self, data: Iterable[Any], title: str, metrics: dict[str, Metric], stoppable: bool = False
    ) -> dict[str, Any] | None:
        """Loss and metrics; None if it was stopped."""
        total, n_seen = 0.0, 0
        with evaluating(self.model), Bar(title, n_batches(data), self.progress) as bar:
            for batch in data:
                if stoppable and self.stop is not None:
                    return None
                if batch is NO_BATCH:
                    continue
                inputs, target = self.split(batch)
                n = n_samples(target)
                if not n:
                    continue
                output, loss = self.stepper.look(inputs, target)
                value = float(loss.item())
                if stoppable and math.isnan(value):
                    raise NonFiniteLossError(
                        f"fit: validation, epoch {self.epoch + 1}: {self.stepper.why_nan(inputs, target)}"
                    )
                self.feeding.update(metrics, target, output)
                if stoppable and self.on_validated is not None:
                    self.on_validated(target, output)
                total, n_seen = total + value * n, n_seen + n
                bar.advance(n)
        position = Position()
        position.total, position.n_seen = total, n_seen
        if title == "validating":
            position, merged = self._ranks.merged(position, metrics)
            total, n_seen = position.total, position.n_seen
            metrics.update(merged)
        if not n_seen:
            warnings.warn(f"{title}: there were no batches", stacklevel=3)
        return {"loss": total / n_seen if n_seen else math.nan, **figures(metrics)}

    def predict(self, data: Any, *, has_target: bool = True) -> Any:
        """The outputs for all batches, joined; a tensor or an array is one batch.

        Batches are inputs alone, or (inputs..., target), whose target is not used; `has_target=False` says that all of
        a tuple are inputs. With `batch=True` the outputs are a list, one for each sample.
        """
        if isinstance(data, np.ndarray):
            data = from_array(data)
        batches = [data] if isinstance(data, Tensor | RaggedTensor) else data
        outputs: list[Any] = []
        with evaluating(self.model), Bar("predicting", n_batches(batches), self.progress) as bar:
            for batch in batches:
                outputs.append(self.stepper.output(inputs_of(batch, has_target)))
                bar.advance(len(outputs[-1]) if isinstance(outputs[-1], list) else n_samples(outputs[-1]))
        return [output for batch in outputs for output in batch] if self.batch else joined(outputs)

    # ---- looking before leaping

    def _check_first(self, train: Iterable[Any]) -> None:
        """Try one batch and warn; weights, draws and batch statistics are as if it had not been."""
        with trials.Restoring(self, self._loaders):
            batch = train.peek() if isinstance(train, PutBack) else next(iter(train), None)
            for finding in () if batch is None else check(self, batch):
                warnings.warn(f"fit: {finding}", stacklevel=3)

    def overfit(self, batch: Any, steps: int = 200, below: float = 0.05) -> bool:
        """Whether the model can memorise one batch: bring its loss below this share of the first.

        If it cannot, it cannot learn the data either. Weights, optimizer and random streams are restored.
        """
        return trials.overfit(self, batch, steps, below)

    def find_lr(self, data: Iterable[Any], low: float = 1e-6, high: float = 1.0, steps: int = 100) -> trials.LRCurve:
        """Raise the learning rate step by step and see where the loss falls fastest; everything is restored.

        Several parameter groups keep their proportions; the rate is that of the first.
        """
        return trials.find_lr(self, data, low, high, steps)

    # ---- checkpoints

    def state_dict(self) -> dict[str, Any]:
        """Everything that going on needs."""
        return state_of(self, self._loaders)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        restore(self, state, self._loaders)

    def save(self) -> None:
        """Write a checkpoint."""
        if self.checkpoint is None:
            raise ValueError("Trainer.save: give checkpoint= or log_dir= to say where")
        own = self.so_far, self.metrics
        self.so_far, self.metrics = self._ranks.merged(*own)
        if hasattr(self.optimizer, "consolidate_state_dict"):
            self.optimizer.consolidate_state_dict(0)
        try:
            if self._ranks.is_first:
                write_checkpoint(self.checkpoint, self.state_dict())
        finally:
            self.so_far, self.metrics = own
        self._ranks.tell(None)  # nobody goes on before it is written

    def _save(self) -> None:
        if self.checkpoint is not None:
            self.save()

    def _resume(self) -> bool:
        """Go back to where the checkpoint is, if there is one."""
        if self.checkpoint is None:
            raise ValueError("fit: resume=True needs checkpoint= or log_dir=, where the checkpoint is")
        if not self._ranks.tell(self.checkpoint.exists()):
            return False
        restore(
            self, self._ranks.tell(read_checkpoint(self.checkpoint) if self._ranks.is_first else None), self._loaders
        )
        if not self._ranks.is_first:  # the checkpoint has the figures of all ranks, and the first one goes on from them
            self.so_far.total, self.so_far.n_seen = 0.0, 0
            for metric in self.metrics.values():
                metric.reset()
        return True

    def _claims(self) -> Iterator[Claim]:
        """On the places that fit writes to."""
        if not self._ranks.is_first:
            return
        if self.log_dir is not None:
            yield Claim(self.log_dir / ".lock", f"fit: log_dir={str(self.log_dir)!r}")
        if self.checkpoint is not None:
            place = self.checkpoint.with_name(f".{self.checkpoint.name}.lock")
            yield Claim(place, f"fit: checkpoint={str(self.checkpoint)!r}")

    def _warn_of_old_and_done(self, epochs: int) -> None:
        """A fit that makes no epoch, or writes over what another run has left, is seldom meant."""
        if self.epoch >= epochs > 0:
            done = "1 epoch is" if self.epoch == 1 else f"{self.epoch} epochs are"
            told = f"fit: {done} done, so there is nothing to train; fit(..., epochs={self.epoch + epochs})"
            warnings.warn(f"{told} goes on", stacklevel=3)
        elif not self.n_steps and self._ranks.is_first and self.checkpoint is not None and self.checkpoint.exists():
            told = f"fit: writes over the checkpoint of another run, {self.checkpoint}; fit(..., resume=True)"
            warnings.warn(f"{told} would go on from it", stacklevel=3)

    # ---- small things

    def _tell(self, event: str, *args: Any) -> None:
        for callback in self.callbacks:
            if self._ranks.is_first or not isinstance(callback, TensorBoard):
                getattr(callback, event)(self, *args)

    def _why_stopped(self) -> str:
        if self.stop not in REASONS.values():
            return f"stopped: {self.stop}"
        further = (
            "; fit(..., resume=True) goes on from the checkpoint"
            if self.checkpoint is not None and self.checkpoint.exists()
            else ""
        )
        return f"stopped in epoch {self.epoch + 1}: {self.stop}{further}"

    def _write_history(self) -> None:
        if self.log_dir is not None and self._ranks.is_first:
            self.log_dir.mkdir(parents=True, exist_ok=True)
            write_text(self.log_dir / "history.json", self.history.to_json() + "\n")
            write_text(self.log_dir / "history.csv", self.history.to_csv())


def _check_options(
    objects: dict[str, Any], counts: dict[str, int | None], clip_grad_norm: float | None, scheduler_every: str
) -> None:
    for name, made in objects.items():
        if isinstance(made, type):
            raise TypeError(f"Trainer: {name} is the class {made.__name__}; make one first, {made.__name__}(...)")
        fits, wanted = _ROLES[name]
        if not fits(made):
            raise TypeError(f"Trainer: {name} must be {wanted}, got {_described(made)}{_order(objects)}")
    for name, number in counts.items():
        if number is not None and (not isinstance(number, int) or number < 1):
            raise ValueError(f"Trainer: {name} must be a whole number of at least 1, got {number!r}")
    if clip_grad_norm is not None and not clip_grad_norm > 0:
        raise ValueError(f"Trainer: clip_grad_norm must be above 0, got {clip_grad_norm}; None leaves gradients alone")
    if scheduler_every not in ("epoch", "step"):
        raise ValueError(f"Trainer: scheduler_every must be 'epoch' or 'step', got {scheduler_every!r}")
    scheduler = objects["scheduler"]
    if isinstance(scheduler, ReduceLROnPlateau) and scheduler.mode != "min":
        raise ValueError("Trainer: ReduceLROnPlateau gets a loss, so its mode must be 'min'")


def _is_optimizer(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("param_groups", "step", "zero_grad"))


# For each argument that is an object: what makes it fit, and what it must be, in words.
_ROLES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "model": (lambda value: isinstance(value, Module), "an nn.Module"),
    "loss": (
        lambda value: callable(value) and not _is_optimizer(value),
        "a function loss(output, target), such as F.cross_entropy",
    ),
    "optimizer": (_is_optimizer, "an optimizer of the model's parameters, such as optim.Adam(model.parameters())"),
    "scheduler": (
        lambda value: value is None or (hasattr(value, "step") and not _is_optimizer(value)),
        "a scheduler of optim.lr_scheduler, or None",
    ),
    "predictions": (lambda value: value is None or callable(value), "a function of the model's output, or None"),
    "batch": (
        lambda value: isinstance(value, bool),
        "True (model and loss are written for one sample) or False; the size of batches is DataLoader's batch_size",
    ),
    "compile": (lambda value: isinstance(value, bool), "True or False"),
    "progress": (lambda value: isinstance(value, bool), "True or False"),
    "guard": (lambda value: isinstance(value, bool), "True or False"),
    "studio": (lambda value: isinstance(value, bool), "True or False"),
}


def _described(value: Any) -> str:
    """A value in an error: its class, itself where it is small."""
    small = value is None or isinstance(value, bool | int | float | str)
    return repr(value) if small else f"the function {value.__name__}" if isfunction(value) else type(value).__name__


def _order(objects: dict[str, Any]) -> str:
    """A reminder of the order, where the three arguments that everybody gives are right but for it."""
    given = [objects[name] for name in ("model", "loss", "optimizer")]
    for arranged in permutations(given):
        if all(_ROLES[name][0](value) for name, value in zip(("model", "loss", "optimizer"), arranged, strict=True)):
            return "; the order is Trainer(model, loss, optimizer, metrics)"
    return ""


def _numbers(of: str, found: dict[str, Any]) -> dict[str, float]:
    return {f"{of}_{name}": value for name, value in found.items() if isinstance(value, float)}
