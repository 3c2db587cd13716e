"""LRScheduler: what learning-rate schedules share.

A schedule is asked once per `step()` for the rate of each group and writes it there. The values follow from the ones in
the groups, so that schedules can be chained; `step(epoch)` jumps, by a closed form where there is one.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..core.interrupts import block
from ..core.tensor import Tensor
from ..errors import DtypeError, ShapeError
from .optimizer import Optimizer, number

__all__ = ["LRScheduler"]

Rate = float | Tensor
Group = dict[str, Any]


def copied(value: Any) -> Any:
    """A rate that later writes to a tensor rate do not change."""
    return value.clone() if isinstance(value, Tensor) else value


def rates(optimizer: Optimizer, key: str = "lr") -> list[Any]:
    """The value of an option in every group."""
    return [copied(group[key]) for group in optimizer.param_groups]


def set_rate(group: Group, value: Rate) -> None:
    """Give a group a learning rate; a tensor rate stays the same tensor."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(number(value))
    else:
        group["lr"] = value


def for_each_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value per group from a list of them or from one for all."""
    n_groups = len(optimizer.param_groups)
    values = list(value) if isinstance(value, list | tuple) else [value] * n_groups
    if len(values) != n_groups:
        raise ShapeError(
            f"{name}: {len(values)} values for {n_groups} parameter groups; give one for each, or a number"
        )
    return [copied(v) for v in values]


def check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise DtypeError(f"scheduler: expected an optimizer of ex.optim, got {type(optimizer).__name__}")


def function_state(fn: Any) -> Any:
    """What a checkpoint keeps of a function: an object's attributes; nothing of a plain function, which is code."""
    return None if isinstance(fn, types.FunctionType) else fn.__dict__.copy()


class LRScheduler:
    """The base of schedules; subclass it and define `get_lr`, the rate of each group at `self.last_epoch`.

    >>> class Halving(ex.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [base * 0.5**self.last_epoch for base in self.base_lrs]
    >>> optimizer = ex.optim.SGD([ex.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = Halving(optimizer)
    >>> optimizer.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    optimizer: Optimizer
    base_lrs: list[Rate]
    last_epoch: int
    _last_lr: list[Rate]
    _step_count: int
    _get_lr_called_within_step = False
    _is_initial = False
    _get_closed_form_lr: Callable[[], list[Rate]] | None = None

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"{type(self).__name__}: last_epoch={last_epoch} continues a schedule, but param_groups[{i}] lacks "
                    "'initial_lr'; load the optimizer's state_dict first, or leave last_epoch out"
                )
        self.base_lrs = rates(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer.

        >>> optimizer = ex.optim.SGD([ex.ones(1, requires_grad=True)], lr=1.0)
        >>> ex.optim.lr_scheduler.StepLR(optimizer, 3).state_dict()["last_epoch"]
        0
        """
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where the schedule that gave this state was; load the optimizer's state as well."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Rate]:
        """The rates that the last step set, one for each group."""
        return self._last_lr

    def get_lr(self) -> list[Rate]:
        """The rate of each group at `last_epoch`; called by `step`."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr()")

    def step(self, epoch: int | None = None) -> None:
        """Go on by one and set the rates. Call it after `optimizer.step()`."""
        if self._step_count == 1 and not self.optimizer._opt_called:
            warnings.warn(
                "lr_scheduler.step() was called before optimizer.step(): the first rate of the schedule is never used; "
                "call optimizer.step() first",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is not None:
            warn_epoch()
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        with self._asking():
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                values = self.get_lr() if self._get_closed_form_lr is None else self._get_closed_form_lr()
        self._set(values)

    def _set(self, values: Sequence[Rate]) -> None:
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            set_rate(group, value)
        self._last_lr = rates(self.optimizer)

    @block
    def _asking(self) -> Iterator[None]:
        try:
            self._get_lr_called_within_step = True
            yield
        finally:
            self._get_lr_called_within_step = False

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "get_lr() is for step() to call and may go on from the last rate; read get_last_lr() instead",
                UserWarning,
                stacklevel=3,
            )

    def _current(self, factor: float | None = None) -> list[Rate]:
        """The rates that the groups have now, times a factor if there is one."""
        now = rates(self.optimizer)
        return now if factor is None else [rate * factor for rate in now]


def warn_epoch() -> None:
    warnings.warn(
        "scheduler.step(epoch) is kept for older scripts; step() without an epoch goes on by one",
        UserWarning,
        stacklevel=3,
    )
