"""`torch.torch_version`: a version that is a string, and compares by its numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["TorchVersion"]


def _numbers(version: Any) -> tuple[int, ...]:
    """The numbers of "2.13.0+cpu", (2, 13) or any version that prints itself."""
    if isinstance(version, Iterable) and not isinstance(version, str):
        version = ".".join(map(str, version))
    release = re.split(r"[^0-9.]", str(version), maxsplit=1)[0]
    numbers = [int(number) for number in release.split(".") if number]
    while numbers and numbers[-1] == 0:
        numbers.pop()  # 2.13 and 2.13.0 are one version
    return tuple(numbers)


class TorchVersion(str):
    """A string such as "2.13.0" that compares with strings, tuples and versions by numbers, so that 2.9 < 2.13."""

    __slots__ = ()

    def __lt__(self, other: Any) -> bool:
        return _numbers(self) < _numbers(other)

    def __le__(self, other: Any) -> bool:
        return _numbers(self) <= _numbers(other)

    def __gt__(self, other: Any) -> bool:
        return _numbers(self) > _numbers(other)

    def __ge__(self, other: Any) -> bool:
        return _numbers(self) >= _numbers(other)

    def __eq__(self, other: object) -> bool:
        return _numbers(self) == _numbers(other)

    __hash__ = str.__hash__
