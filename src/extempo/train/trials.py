"""Trying something with a model and putting everything back: weights, optimizer, random streams."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..core.interrupts import guarded
from ..core.tensor import Tensor
from ..core.wording import counted
from ..data import DataLoader
from ..inspect.curves import sparkline, tick_labels
from ..inspect.svg import COLOURS, FAINT, GRID, Picture, ticks
from ..inspect.tables import Printable
from ..nn import Module
from ..optim.lr_base import set_rate
from .modes import Modes
from .positions import random_state, restore_random_state

if TYPE_CHECKING:
    from .trainer import Trainer


class Restoring:
    """What happens to a trainer's model inside is undone at the end."""

    def __init__(self, trainer: Trainer, loaders: tuple[Any, ...] = ()) -> None:
        self._trainer = trainer
        self._loaders = loaders

    def __enter__(self) -> None:
        trainer = self._trainer
        self._states = [
            (module, {name: copied(value) for name, value in module.state_dict().items()})
            for module in (trainer.model, trainer.loss)
            if isinstance(module, Module)
        ]
        self._optimizer = copy.deepcopy(trainer.optimizer.state_dict())
        self._modes = Modes(trainer.model)
        self._training = trainer.model.training
        self._random = random_state(*self._loaders)
        try:
            if not self._training:
                trainer.model.train()
        except BaseException:  # the block is never entered, and so never left
            self._put_back()
            raise

    @guarded
    def __exit__(self, *raised: Any) -> None:
        try:
            self._put_back()
        except BaseException:  # an interrupt, perhaps, before all was as it had been
            self._put_back()
            raise

    def _put_back(self) -> None:
        trainer = self._trainer
        trainer.model.zero_grad()
        trainer.optimizer.zero_grad()
        for module, state in self._states:
            module.load_state_dict(state)
        trainer.optimizer.load_state_dict(self._optimizer)
        if not self._training:
            self._modes.put_back()
        restore_random_state(self._random, *self._loaders)


def copied(value: Any) -> Any:
    """An entry of a state that stays as it is when the module goes on."""
    return value.detach().clone() if isinstance(value, Tensor) else copy.deepcopy(value)


def endless(data: Iterable[Any]) -> Iterator[Any]:
    """The batches again and again; those of an iterator once."""
    found = False
    while True:
        more = False
        for batch in data:
            found = more = True
            yield batch
        if not found:
            raise ValueError("find_lr: there are no batches")
        if not more:
            return


def overfit(trainer: Trainer, batch: Any, steps: int, below: float) -> bool:
    if isinstance(batch, DataLoader):
        raise TypeError("overfit: expected one batch, got a DataLoader; next(iter(loader)) is one")
    inputs, target = trainer.split(batch)
    losses: list[float] = []
    with Restoring(trainer):
        while len(losses) < max(steps, 1) and not _learnt(losses, below):
            losses.append(trainer.stepper.learn(inputs, target, 1.0, True)[1])
            if not math.isfinite(losses[-1]):
                break
    print(f"overfit: loss {losses[0]:.4g} -> {losses[-1]:.4g} after {counted(len(losses), 'step')} on one batch")
    return _learnt(losses, below)


def _learnt(losses: list[float], below: float) -> bool:
    return bool(losses) and (losses[-1] < below * abs(losses[0]) or abs(losses[-1]) < 1e-6)


def find_lr(trainer: Trainer, data: Iterable[Any], low: float, high: float, steps: int) -> LRCurve:
    if not 0 < low < high:
        raise ValueError(f"find_lr: expected 0 < low < high, got {low} and {high}")
    rates: list[float] = []
    losses: list[float] = []
    with Restoring(trainer, (data,)):
        groups = trainer.optimizer.param_groups
        first = float(groups[0]["lr"])
        shares = [float(group["lr"]) / first if first else 1.0 for group in groups]
        batches = endless(data)
        for k in range(steps):
            batch = next(batches, None)
            if batch is None:
                break
            rate = low * (high / low) ** (k / max(steps - 1, 1))
            for group, share in zip(groups, shares, strict=True):
                set_rate(group, rate * share)
            inputs, target = trainer.split(batch)
            _, loss = trainer.stepper.learn(inputs, target, 1.0, True)
            if not math.isfinite(loss) or (losses and loss > 4 * max(min(losses), 1e-12)):
                break
            rates.append(rate)
            losses.append(loss)
    return LRCurve(rates, losses)


class LRCurve(Printable):
    """Loss over learning rate, as `Trainer.find_lr` measures it. `suggestion` is where the loss falls fastest.

    >>> print(ex.train.LRCurve([1e-5, 1e-4, 1e-3, 1e-2, 1e-1], [2.0, 2.0, 1.0, 0.2, 0.2]))
    loss over learning rates 1.0e-05 .. 1.0e-01
    ██▄▁▁
    suggested learning rate: 1.0e-03
    """

    def __init__(self, rates: list[float], losses: list[float]) -> None:
        self.rates = rates
        self.losses = losses

    @property
    def suggestion(self) -> float:
        """A learning rate to begin with: where the loss, smoothed over about a tenth of the curve, falls fastest.

        nan of fewer than three steps.
        """
        if len(self.losses) < 3:
            return math.nan
        smooth = _smoothed(self.losses)
        apart = _reach(self.losses)
        falls = [smooth[min(i + apart, len(smooth) - 1)] - smooth[max(i - apart, 0)] for i in range(len(smooth))]
        return self.rates[falls.index(min(falls))]

    def __str__(self) -> str:
        if not self.rates:
            return "the loss was not finite at the lowest learning rate already"
        few = math.isnan(self.suggestion)
        return (
            f"loss over learning rates {self.rates[0]:.1e} .. {self.rates[-1]:.1e}\n{sparkline(self.losses, 60)}\n"
            + ("too few steps to suggest one" if few else f"suggested learning rate: {self.suggestion:.1e}")
        )

    def as_dict(self) -> dict[str, Any]:
        return {"rates": self.rates, "losses": self.losses, "suggestion": self.suggestion}

    def plot(self) -> Picture:
        """The smoothed loss over the logarithm of the learning rate, the suggestion marked."""
        picture = Picture(480, 260, "Loss over learning rate")
        picture.text(58, 20, "Loss over learning rate", size=14, font_weight=600)
        if len(self.rates) < 2:
            return picture
        xs, ys = [math.log10(r) for r in self.rates], _smoothed(self.losses)
        low, high = min(ys), max(ys)
        span = (high - low) or 1.0

        def at(x: float, y: float) -> tuple[float, float]:
            return 58 + (x - xs[0]) / (xs[-1] - xs[0]) * 400, 218 - (y - low) / span * 170

        heights = ticks(low, high, 4)
        for y, label in zip(heights, tick_labels(heights), strict=True):
            picture.line(58, at(xs[0], y)[1], 458, at(xs[0], y)[1], stroke=GRID)
            picture.text(50, at(xs[0], y)[1] + 4, label, anchor="end", size=11, fill=FAINT)
        for x in range(math.ceil(xs[0]), math.floor(xs[-1]) + 1):
            picture.text(at(x, low)[0], 236, f"1e{x}", anchor="middle", size=11, fill=FAINT)
        picture.path([at(x, y) for x, y in zip(xs, ys, strict=True)], stroke=COLOURS[0], stroke_width=2)
        if math.isnan(self.suggestion):
            return picture
        there = at(math.log10(self.suggestion), low)[0]
        picture.line(there, 40, there, 222, stroke=COLOURS[1], stroke_dasharray="4 3")
        picture.text(there + 5, 50, f"{self.suggestion:.1e}", size=11, fill=COLOURS[1])
        return picture

    def _repr_html_(self) -> str:
        return self.plot().svg()


def _reach(values: list[float]) -> int:
    """How many neighbours on each side a smoothed value is the mean of."""
    return max(len(values) // 20, 1)


def _smoothed(values: list[float]) -> list[float]:
    """Means over neighbours on both sides, so that nothing is moved along the curve."""
    reach = _reach(values)
    around = [values[max(i - reach, 0) : i + reach + 1] for i in range(len(values))]
    return [sum(near) / len(near) for near in around]
