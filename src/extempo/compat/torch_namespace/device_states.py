"""`torch.utils.checkpoint`: the random states of other devices, of which there are none, and parts of its engine."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ...core.tensor import Tensor
from ...errors import CheckpointError as CheckpointError

SAC_IGNORED_OPS: set[Any] = set()


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """(devices of the tensors among `args`, their random states)."""
    return [], []


def set_device_states(devices: list[int], states: list[Any], **kwargs: Any) -> None:
    """Put such states back."""


class DefaultDeviceType:
    """The device whose random states are kept."""

    @staticmethod
    def get_device_type() -> str:
        return "cpu"

    @staticmethod
    def set_device_type(device: str = "cpu") -> None:
        """There is one."""


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors without their history, which require grad if they did; all else as it is."""
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs)


def check_backward_validity(inputs: Any) -> None:
    """A checkpoint none of whose inputs requires grad is no mistake here: its weights get their gradients."""


def noop_context_fn() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Blocks for the run and for the recomputation that change nothing."""
    return nullcontext(), nullcontext()


class set_checkpoint_debug_enabled(nullcontext[None]):  # PyTorch's name
    """A block with a default for `debug=`; say debug=True where it is wanted."""


class set_checkpoint_early_stop(nullcontext[None]):  # PyTorch's name
    """A block in which a recomputation may stop early: it does."""
