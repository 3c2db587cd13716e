"""Schedules that go up and down: warm restarts, cycles, one cycle. Formulas of PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..errors import ArgumentError, UnsupportedError
from .lr_base import LRScheduler, Rate, check_optimizer, for_each_group, function_state, set_rate
from .optimizer import Optimizer

__all__ = ["CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine down to `eta_min`, again and again: in `T_0` epochs, then `T_mult` times as many, and so on.

    `step(epoch)` also takes fractions of epochs.

    >>> optimizer = ex.optim.SGD([ex.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = ex.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     optimizer.step()
    ...     schedule.step()
    ...     rates.append(round(schedule.get_last_lr()[0], 4))
    >>> rates
    [0.5, 1.0, 0.5, 1.0]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        for name, value in (("T_0", T_0), ("T_mult", T_mult)):
            if not isinstance(value, int) or value < 1:
                raise ArgumentError(f"CosineAnnealingWarmRestarts: {name} must be an int of at least 1, got {value!r}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """The rates at `T_cur` epochs after the last restart."""
        self._warn_outside_step()
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go on by one epoch, or to an epoch, which may be fractional."""
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = epoch or 0
            self._jump(epoch)
        self.last_epoch = math.floor(epoch)
        with self._asking():
            self._set(self.get_lr())

    def _jump(self, epoch: float) -> None:
        if epoch < 0:
            raise ArgumentError(f"CosineAnnealingWarmRestarts.step: the epoch must not be negative, got {epoch}")
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            n_restarts = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**n_restarts - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**n_restarts


class _Cycled(LRScheduler):
    """A schedule that moves the momentum (or the first beta) against the rate."""

    cycle_momentum: bool
    use_beta1: bool

    def _start_momentum(self, optimizer: Optimizer, base: Any, largest: Any, last_epoch: int) -> tuple[list[Any], ...]:
        """The momentum of each group at both ends of a cycle; groups start at the larger one."""
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise UnsupportedError(
                f"{type(self).__name__}: {type(optimizer).__name__} has no momentum to cycle; pass cycle_momentum=False"
            )
        self.use_beta1 = "betas" in optimizer.defaults
        lows = for_each_group("base_momentum", optimizer, base)
        highs = for_each_group("max_momentum", optimizer, largest)
        if last_epoch == -1:
            for group, low, high in zip(optimizer.param_groups, lows, highs, strict=True):
                self._set_momentum(group, high)
                group["max_momentum"], group["base_momentum"] = high, low
        return lows, highs

    def _set_momentum(self, group: dict[str, Any], momentum: float) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


class CyclicLR(_Cycled):
    """The rate goes from `base_lr` to `max_lr` and back (Smith, 2017), the momentum the other way.

    >>> optimizer = ex.optim.SGD([ex.ones(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> schedule = ex.optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.0, max_lr=1.0, step_size_up=2)
    >>> optimizer.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ArgumentError(
                f"CyclicLR: mode must be 'triangular', 'triangular2' or 'exp_range', or scale_fn given; got {mode!r}"
            )
        base_lrs = for_each_group("base_lr", optimizer, base_lr)
        self.max_lrs = for_each_group("max_lr", optimizer, max_lr)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            ends = self._start_momentum(optimizer, base_momentum, max_momentum, last_epoch)
            self.base_momentums, self.max_momentums = ends
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, base_lrs, strict=True):
                set_rate(group, lr)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """How high the cycle (or iteration) number x rises, as a factor."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 0.5 ** (x - 1) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[Rate]:
        """The rates of this iteration; sets the momentum as well."""
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            ends = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in ends:
                self._set_momentum(group, high - (high - low) * height * scale)
        return [low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and a plain scale function, which is code."""
        custom = self._scale_fn_custom
        return super().state_dict() | {"_scale_fn_custom": None if custom is None else function_state(custom)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where the schedule that gave this state was; a scale function must be given anew."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        attributes = state_dict["_scale_fn_custom"]
        if attributes is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(attributes)


class OneCycleLR(_Cycled):
    """One cycle over the whole training (Smith and Topin, 2018): up to `max_lr`, then far down.

    >>> optimizer = ex.optim.SGD([ex.ones(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> schedule = ex.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=11, pct_start=0.5)
    >>> for _ in range(10):
    ...     optimizer.step()
    ...     schedule.step()
    >>> schedule.get_last_lr()[0] < 1e-5
    True
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.total_steps = self._n_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0.0 <= pct_start <= 1.0:
            raise ArgumentError(f"OneCycleLR: pct_start must be a float between 0 and 1, got {pct_start!r}")
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(f"OneCycleLR: anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}")
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = self._phases(pct_start, three_phase)
        max_lrs = for_each_group("max_lr", optimizer, max_lr)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        if last_epoch == -1:
            for group, largest in zip(optimizer.param_groups, max_lrs, strict=True):
                group["initial_lr"] = largest / div_factor
                group["max_lr"] = largest
                group["min_lr"] = group["initial_lr"] / final_div_factor
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _n_steps(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
        given = [total_steps] if total_steps is not None else [epochs, steps_per_epoch]
        if None in given:
            raise ArgumentError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
        for value in given:
            if not isinstance(value, int) or value <= 0:
                raise ArgumentError(f"OneCycleLR: numbers of steps and epochs must be positive ints, got {value!r}")
        return math.prod(value for value in given if value is not None)

    def _phases(self, pct_start: float, three_phase: bool) -> list[dict[str, Any]]:
        """Where each phase ends, and between which of the group's values it goes."""
        top = pct_start * self.total_steps - 1.0
        ends = [(top, "initial_lr", "max_lr", "max_momentum", "base_momentum")]
        if three_phase:
            back = 2.0 * pct_start * self.total_steps - 2.0
            ends.append((back, "max_lr", "initial_lr", "base_momentum", "max_momentum"))
            ends.append((self.total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"))
        else:
            ends.append((self.total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"))
        names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
        return [dict(zip(names, end, strict=True)) for end in ends]

    def _anneal(self, start: Any, end: Any, passed: float) -> Any:
        if self._anneal_func_type == "linear":
            return (end - start) * passed + start
        return end + (start - end) / 2.0 * (1.0 + math.cos(math.pi * passed))

    def get_lr(self) -> list[Rate]:
        """The rates of this step; sets the momentum as well."""
        self._warn_outside_step()
        if self.last_epoch > self.total_steps:
            raise ArgumentError(
                f"OneCycleLR: step {self.last_epoch} of a cycle of {self.total_steps}; give a larger total_steps"
            )
        start = 0.0
        for phase in self._schedule_phases:
            if self.last_epoch <= phase["end_step"]:
                break
            start = phase["end_step"] if phase is not self._schedule_phases[-1] else start
        passed = (self.last_epoch - start) / (phase["end_step"] - start)
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            for group in groups:
                momentum = self._anneal(group[phase["start_momentum"]], group[phase["end_momentum"]], passed)
                self._set_momentum(group, momentum)
        return [self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], passed) for group in groups]
