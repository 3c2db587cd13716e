"""`torch.cuda.nvtx`: names for stretches of code, which NVIDIA's tools would show. Nobody looks, and the code runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def range_push(msg: str) -> int:
    """A stretch begins; 0, as around it there is none."""
    return 0


def range_pop() -> int:
    """It ends."""
    return 0


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A stretch as a block, or as a decorator."""
    yield


def range_start(msg: str) -> int:
    return 0


def range_end(range_id: int) -> None:
    pass


def mark(msg: str) -> None:
    """A moment."""
