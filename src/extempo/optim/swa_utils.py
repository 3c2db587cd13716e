"""Averages of a model's weights over the course of training: stochastic weight averaging, moving averages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from .. import ops
from ..core.absent_names import explain_absent
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..errors import ArgumentError
from ..nn.module import Module
from .lr_base import LRScheduler, Rate, for_each_group
from .optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

# The average so far, the current value and how many were averaged -> the new average; or lists of them, in place.
AverageOne = Callable[[Tensor, Tensor, Any], Tensor]
AverageMany = Callable[[list[Tensor], list[Tensor], Any], None]


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ArgumentError(f"get_ema_avg_fn: decay must lie between 0 and 1, got {decay}")


def get_ema_avg_fn(decay: float = 0.999) -> AverageOne:
    """A function that moves an average towards the current value by `1 - decay`.

    >>> ex.optim.swa_utils.get_ema_avg_fn(0.5)(ex.tensor([0.0]), ex.tensor([2.0]), 1)
    tensor([1.])
    """
    _check_decay(decay)

    @no_grad()
    def update(average: Tensor, current: Tensor, n_averaged: Any) -> Tensor:
        return decay * average + (1 - decay) * current

    return update


def get_swa_avg_fn() -> AverageOne:
    """A function that gives every value the same weight.

    >>> ex.optim.swa_utils.get_swa_avg_fn()(ex.tensor([1.0]), ex.tensor([4.0]), 2)
    tensor([2.])
    """

    @no_grad()
    def update(average: Tensor, current: Tensor, n_averaged: Any) -> Tensor:
        return average + (current - average) / (n_averaged + 1)

    return update


def get_ema_multi_avg_fn(decay: float = 0.999) -> AverageMany:
    """As `get_ema_avg_fn`, for lists of tensors, in place.

    >>> averages = [ex.tensor([0.0])]
    >>> ex.optim.swa_utils.get_ema_multi_avg_fn(0.5)(averages, [ex.tensor([2.0])], 1)
    >>> averages
    [tensor([1.])]
    """
    return _for_many(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> AverageMany:
    """As `get_swa_avg_fn`, for lists of tensors, in place.

    >>> averages = [ex.tensor([1.0])]
    >>> ex.optim.swa_utils.get_swa_multi_avg_fn()(averages, [ex.tensor([4.0])], 2)
    >>> averages
    [tensor([2.])]
    """
    return _for_many(get_swa_avg_fn())


def _for_many(average_one: AverageOne) -> AverageMany:
    @no_grad()
    def update(averages: list[Tensor], current: list[Tensor], n_averaged: Any) -> None:
        for average, value in zip(averages, current, strict=True):
            average.copy_(average_one(average, value, n_averaged))

    return update


class AveragedModel(Module):
    """A copy of a model whose weights are an average of the model's; call `update_parameters` after each step.

    The average is of equal weights, or what `avg_fn` or `multi_avg_fn` make of it. Buffers are copied, or averaged too
    with `use_buffers=True`.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> averaged = ex.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 3.0):
    ...     with ex.no_grad():
    ...         _ = model.weight.fill_(value)
    ...     averaged.update_parameters(model)
    >>> averaged.module.weight.item()
    2.0
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: AverageOne | None = None,
        multi_avg_fn: AverageMany | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ArgumentError("AveragedModel: give avg_fn or multi_avg_fn, not both")
        self.module = deepcopy(model)
        self.register_buffer("n_averaged", ops.tensor(0, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the averaged model."""
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Take the model's current weights into the average."""
        averages, current = self._tensors(self.module), self._tensors(model)
        if int(self.n_averaged) == 0:
            for average, value in zip(averages, current, strict=True):
                average.copy_(value)
        else:
            average_many = self.multi_avg_fn or _for_many(self.avg_fn or get_swa_avg_fn())
            average_many(averages, current, self.n_averaged)
        if not self.use_buffers:
            for kept, buffer in zip(self.module.buffers(), model.buffers(), strict=True):
                kept.copy_(buffer)
        self.n_averaged += 1

    def _tensors(self, model: Module) -> list[Tensor]:
        found = chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters()
        return [x.detach() for x in found]


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Set the running statistics of the model's BatchNorm layers from one pass over the data.

    A batch is the model's input, or a list or tuple whose first element is.

    >>> model = nn.BatchNorm1d(1)
    >>> ex.optim.swa_utils.update_bn([ex.tensor([[1.0], [3.0]])], model)
    >>> model.running_mean
    tensor([2.])
    """
    layers = [m for m in model.modules() if hasattr(m, "reset_running_stats") and hasattr(m, "momentum")]
    if not layers:
        return
    momenta, was_training = [layer.momentum for layer in layers], model.training
    try:
        model.train()
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None  # a plain mean over all batches
        for batch in loader:
            x = batch[0] if isinstance(batch, list | tuple) else batch
            model(x if device is None else x.to(device))
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """Goes from the current rate to `swa_lr` in `anneal_epochs` epochs and stays there.

    >>> optimizer = ex.optim.SGD([ex.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = ex.optim.swa_utils.SWALR(optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> optimizer.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(f"SWALR: anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ArgumentError(f"SWALR: anneal_epochs must be an int of at least 0, got {anneal_epochs!r}")
        for group, rate in zip(optimizer.param_groups, for_each_group("swa_lr", optimizer, swa_lr), strict=True):
            group["swa_lr"] = rate
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _weight(self, step: int) -> float:
        """How much of `swa_lr` is in the rate after that many steps."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[Rate]:
        """The last rates, moved towards `swa_lr`."""
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        weight, before = self._weight(step), self._weight(step - 1)
        values = []
        for group in self.optimizer.param_groups:
            start = group["swa_lr"] if before == 1 else (group["lr"] - before * group["swa_lr"]) / (1 - before)
            values.append(group["swa_lr"] * weight + start * (1 - weight))
        return values


explain_absent(__name__)
