"""GradScaler: a loss is scaled up so that small gradients survive float16, and gradients are scaled back.

The scale grows while gradients stay finite and shrinks when they do not; a step with infinite or NaN gradients is
skipped. The rules and their order are PyTorch's. The scale is a Python float, rounded to float32 as PyTorch's is.
"""

from __future__ import annotations

import enum
import math
import struct
import warnings
from collections.abc import Iterable
from typing import Any

from ..core.context import no_grad
from ..core.device import device as Device
from ..core.tensor import Tensor
from ..core.types import float16
from ..errors import ArgumentError, DtypeError, ExtempoError


class _Stage(enum.Enum):
    """How far an optimizer has come since the last `update`."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class _Progress:
    """One optimizer between two updates."""

    def __init__(self) -> None:
        self.stage = _Stage.READY
        self.found_inf: bool | None = None  # None until its gradients were looked at


def _as_float32(number: float) -> float:
    """The float32 nearest to a number, as a Python float; infinite where it is too large."""
    try:
        return struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)


class GradScaler:
    """Scales losses and gradients for training in float16; with `enabled=False` it passes everything through.

    As in PyTorch without CUDA, the default device "cuda" switches it off with a warning: its scale is then 1.0 and
    `step` just steps. `GradScaler("cpu")` scales.

    >>> weight = ex.ones(1, requires_grad=True)
    >>> optimizer = ex.optim.SGD([weight], lr=0.5)
    >>> scaler = ex.amp.GradScaler("cpu", init_scale=4.0)
    >>> scaler.scale(weight.sum()).backward()
    >>> weight.grad
    tensor([4.])
    >>> scaler.step(optimizer)
    >>> weight.detach(), scaler.get_scale()
    (tensor([0.5000]), 4.0)
    >>> scaler.update()
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = Device(device).type
        self._enabled = enabled
        if enabled and self._device != "cpu":
            warnings.warn(
                f"GradScaler: there is no device {self._device!r}; scaling is off. GradScaler('cpu') scales",
                stacklevel=2,
            )
            self._enabled = False
        if growth_factor <= 1.0 or backoff_factor >= 1.0:
            raise ArgumentError(
                "GradScaler: expected growth_factor above 1 and backoff_factor below 1, "
                f"got {growth_factor} and {backoff_factor}"
            )
        self._scale = _as_float32(init_scale)
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0
        self._progress: dict[int, _Progress] = {}  # by id of the optimizer

    # ---- a training step: scale, unscale_, step, update

    def scale(self, outputs: Any) -> Any:
        """A tensor times the scale, or an iterable of tensors each times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if not isinstance(outputs, Iterable):
            raise DtypeError(f"GradScaler.scale: expected a tensor or several, got {type(outputs).__name__}")
        scaled = map(self.scale, outputs)
        return type(outputs)(scaled) if isinstance(outputs, list | tuple) else scaled

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of the optimizer's parameters by the scale, in place, to clip or look at them.

        At most once for each optimizer between two updates, after all its gradients are there.
        """
        if not self._enabled:
            return
        progress = self._of(optimizer)
        if progress.stage is not _Stage.READY:
            what = "unscale_" if progress.stage is _Stage.UNSCALED else "step"
            raise ExtempoError(
                f"GradScaler.unscale_: {what} was called for this optimizer already; call update() first"
            )
        inverse = _as_float32(1.0 / self._scale)
        progress.found_inf = False
        with no_grad():
            for gradient in self._gradients(optimizer):
                progress.found_inf |= not bool(gradient.isfinite().all())
                gradient.mul_(inverse)
        progress.stage = _Stage.UNSCALED

    @staticmethod
    def _gradients(optimizer: Any) -> list[Tensor]:
        found = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if any(g.dtype is float16 for g in found):
            raise DtypeError(
                "GradScaler.unscale_: a gradient is float16, so the weights are: keep weights in float32 and convert "
                "inputs instead"
            )
        return found

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale unless done, then `optimizer.step(...)`, unless a gradient is infinite or NaN: then None."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise ExtempoError(
                "GradScaler.step: a closure would compute gradients that are not scaled; leave it out, or use "
                "enabled=False"
            )
        progress = self._of(optimizer)
        if progress.stage is _Stage.STEPPED:
            raise ExtempoError("GradScaler.step: step was called for this optimizer already; call update() first")
        if progress.stage is _Stage.READY:
            self.unscale_(optimizer)
        result = None if progress.found_inf else optimizer.step(*args, **kwargs)
        progress.stage = _Stage.STEPPED
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Set the scale for the next step: shrunk if a gradient was not finite, grown after enough that were."""
        if not self._enabled:
            return
        looked_at = [p.found_inf for p in self._progress.values() if p.found_inf is not None]
        if new_scale is not None:
            self._scale = _as_float32(float(new_scale))
        elif not looked_at:
            raise ExtempoError("GradScaler.update: no optimizer was stepped since the last update; call step() first")
        elif any(looked_at):
            self._scale = _as_float32(self._scale * self._backoff_factor)
            self._growth_tracker = 0
        else:
            self._count_success()
        self._progress.clear()

    def _count_success(self) -> None:
        self._growth_tracker += 1
        if self._growth_tracker < self._growth_interval:
            return
        grown = _as_float32(self._scale * self._growth_factor)
        if math.isfinite(grown):
            self._scale = grown
        self._growth_tracker = 0

    def _of(self, optimizer: Any) -> _Progress:
        return self._progress.setdefault(id(optimizer), _Progress())

    # ---- what it knows

    def is_enabled(self) -> bool:
        """Whether it scales."""
        return self._enabled

    def get_scale(self) -> float:
        """The current scale; 1.0 when it is off."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by after `growth_interval` good steps."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Change the growth factor."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by after a step with infinite or NaN gradients."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Change the backoff factor."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """How many good steps in a row make the scale grow."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Change the growth interval."""
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """Scale, factors, interval and the count of good steps; empty when it is off."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned, here or in PyTorch; nothing when it is off."""
        if not self._enabled:
            return
        if not state_dict:
            raise ExtempoError(
                "GradScaler.load_state_dict: the state is empty, so it was saved by a scaler that was off; leave it out"
            )
        missing = self.state_dict().keys() - state_dict.keys()
        if missing:
            raise ExtempoError(f"GradScaler.load_state_dict: the state lacks {', '.join(sorted(missing))}")
        self._scale = _as_float32(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]
