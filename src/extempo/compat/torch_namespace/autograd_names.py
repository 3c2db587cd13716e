"""`torch.autograd`: what programs ask of PyTorch's engine, and switches for streams of other devices."""

from __future__ import annotations

from .overrides import has_torch_function as has_torch_function
from .profiler import kineto_available as kineto_available


def is_multithreading_enabled() -> bool:
    """A backward runs in the thread that asks for it."""
    return False


def is_view_replay_enabled() -> bool:
    return False


def set_override_stale_capture_stream(enabled: bool) -> None:
    """There are no streams."""


set_warn_on_accumulate_grad_stream_mismatch = set_override_stale_capture_stream
