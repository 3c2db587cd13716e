"""Limits of a server, and the durations and sizes that people write for them: 2ms, 1.5s, 16MB."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import ArgumentError

_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
_BYTES = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


@dataclass(frozen=True)
class Limits:
    """What a server takes before it says no."""

    max_batch: int = 64  # samples of one model that run together; 1: one after the other
    max_wait: float = 0.002  # seconds that the first of a batch waits for others
    max_queue: int = 1024  # samples of one model that wait; more are answered 429
    max_body: int = 16 * 2**20  # bytes; more are answered 413
    max_requests: int = 512  # that are worked on at a time; more are answered 503
    timeout: float = 30.0  # seconds from a request's arrival to its answer, else 504
    body_timeout: float = 10.0  # seconds in which headers, and then the body, must have come, else 408

    def __post_init__(self) -> None:
        for name in ("max_batch", "max_queue", "max_body", "max_requests"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"serve: {name} must be at least 1, got {getattr(self, name)}")
        for name in ("timeout", "body_timeout"):
            if getattr(self, name) <= 0:
                raise ArgumentError(f"serve: {name} must be more than 0 seconds, got {getattr(self, name)}")
        if self.max_wait < 0:
            raise ArgumentError(f"serve: max_wait must not be negative, got {self.max_wait}")


def seconds(text: str) -> float:
    """`2ms` -> 0.002; a number without a unit is in seconds."""
    return _number(text, _SECONDS, "s", "a duration such as 2ms, 0.5s or 1min")


def n_bytes(text: str) -> int:
    """`16MiB` -> 16777216; a number without a unit is in bytes."""
    return int(_number(text, _BYTES, "B", "a size such as 512kB, 16MiB or 1GB"))


def _number(text: str, units: dict[str, float] | dict[str, int], default: str, what: str) -> float:
    match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]*)\s*", text)
    if match is None or (match[2] or default) not in units:
        raise ArgumentError(f"serve: expected {what}, got {text!r}")
    return float(match[1]) * units[match[2] or default]
