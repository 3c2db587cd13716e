"""Schedules made of schedules (one after another, all at once), and the one that watches a metric."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, SupportsFloat

from ..errors import ArgumentError, DtypeError
from .lr_base import LRScheduler, check_optimizer, for_each_group, rates, set_rate, warn_epoch
from .optimizer import Optimizer

__all__ = ["ChainedScheduler", "ReduceLROnPlateau", "SequentialLR"]


class _Combined(LRScheduler):
    """A schedule that runs others of the same optimizer."""

    _schedulers: Sequence[LRScheduler]

    def _check(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler]) -> None:
        name = type(self).__name__
        for i, schedule in enumerate(schedulers):
            if not hasattr(schedule, "optimizer"):
                raise DtypeError(f"{name}: schedulers[{i}] is a {type(schedule).__name__}, not a scheduler")
            if isinstance(schedule, ReduceLROnPlateau):
                raise ArgumentError(f"{name}: schedulers[{i}] is a ReduceLROnPlateau, whose step needs a metric")
            if schedule.optimizer is not optimizer:
                raise ArgumentError(f"{name}: schedulers[{i}] belongs to another optimizer; all must share one")

    def state_dict(self) -> dict[str, Any]:
        """The state of every schedule in it."""
        return super().state_dict() | {"_schedulers": [schedule.state_dict() for schedule in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where the schedule that gave this state was."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for schedule, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            schedule.load_state_dict(state)


class SequentialLR(_Combined):
    """Schedules one after another, changing at the milestones.

    >>> optimizer = ex.optim.SGD([ex.ones(1, requires_grad=True)], lr=1.0)
    >>> warm = ex.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> decay = ex.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
    >>> schedule = ex.optim.lr_scheduler.SequentialLR(optimizer, [warm, decay], milestones=[2])
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(round(schedule.get_last_lr()[0], 4))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.5, 0.5, 1.0, 0.9]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if len(milestones) != len(schedulers) - 1:
            raise ArgumentError(
                f"SequentialLR: {len(schedulers)} schedulers need one milestone less, got {len(milestones)}"
            )
        self._check(optimizer, schedulers)
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            set_rate(group, group["initial_lr"])
        # Each schedule took its first step when it was made; only the one that comes first may.
        self._undo(self)
        first = schedulers[bisect_right(milestones, 0)]
        called = optimizer._opt_called
        optimizer._opt_called = True  # this first step comes before any optimizer.step(), and rightly so
        try:
            first._initial_step()
        finally:
            optimizer._opt_called = called
        self._last_lr = first.get_last_lr()

    def _undo(self, schedule: LRScheduler) -> None:
        for inner in getattr(schedule, "_schedulers", ()):
            self._undo(inner)
        if not hasattr(schedule, "_schedulers"):
            schedule.last_epoch -= 1

    def step(self, epoch: int | None = None) -> None:
        """Go on by one with the schedule whose turn it is."""
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        schedule = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            schedule._update_lr(0)
        else:
            schedule.step()
        self._last_lr = schedule.get_last_lr()


class ChainedScheduler(_Combined):
    """Schedules that all act at every step.

    >>> optimizer = ex.optim.SGD([ex.ones(1, requires_grad=True)], lr=1.0)
    >>> half = ex.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> decay = ex.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> schedule = ex.optim.lr_scheduler.ChainedScheduler([half, decay])
    >>> optimizer.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.25]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if not schedulers:
            raise ArgumentError("ChainedScheduler: expected at least one scheduler, got none")
        optimizer = optimizer or schedulers[0].optimizer
        self._check(optimizer, schedulers)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = rates(optimizer)

    def step(self, epoch: int | None = None) -> None:
        """Step every schedule."""
        for schedule in self._schedulers:
            schedule.step()
        self._last_lr = rates(self.optimizer)


class ReduceLROnPlateau(LRScheduler):
    """The rate times `factor` when a metric has not improved for more than `patience` epochs.

    >>> optimizer = ex.optim.SGD([ex.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = ex.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    >>> for loss in [1.0, 1.0, 1.0]:
    ...     schedule.step(loss)
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        check_optimizer(optimizer)
        if factor >= 1.0:
            raise ArgumentError(f"ReduceLROnPlateau: factor must be below 1, got {factor}")
        for name, value, allowed in (
            ("mode", mode, ("min", "max")),
            ("threshold_mode", threshold_mode, ("rel", "abs")),
        ):
            if value not in allowed:
                raise ArgumentError(f"ReduceLROnPlateau: {name} must be one of {allowed}, got {value!r}")
        self.factor = factor
        self.optimizer = optimizer
        self.default_min_lr = None if isinstance(min_lr, list | tuple) else min_lr
        self.min_lrs = for_each_group("min_lr", optimizer, min_lr)
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = rates(optimizer)
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self._reset()

    def _reset(self) -> None:
        self.best: float = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: SupportsFloat, epoch: int | None = None) -> None:  # type: ignore[override] # as in PyTorch
        """Note the metric of this epoch, and lower the rates if it has not improved for too long."""
        current = float(metrics)
        if epoch is not None:
            warn_epoch()
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._lower()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = rates(self.optimizer)

    def _lower(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise ArgumentError(
                    f"ReduceLROnPlateau: the optimizer has {len(groups)} groups now, but min_lr was given for "
                    f"{len(self.min_lrs)}; set scheduler.min_lrs to a list with one value for each"
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                set_rate(group, new)

    @property
    def in_cooldown(self) -> bool:
        """Whether the last reduction is so recent that bad epochs are not counted."""
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        sign = -1.0 if self.mode == "min" else 1.0
        margin = self.threshold if self.threshold_mode == "abs" else None
        wanted = best + sign * margin if margin is not None else best * (1.0 + sign * self.threshold)
        return a < wanted if self.mode == "min" else a > wanted
