"""Cache: a dict with a limit, for what is worked out once and asked for often (signatures, kernels, plans).

Every cache of Extempo is one of these: bounded, named, and listed by `extempo info --all`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(dict[K, V], Generic[K, V]):
    """A dict with a limit: the oldest quarter goes when it is full. Reading stays as fast as a dict's."""

    def __init__(self, name: str, limit: int) -> None:
        super().__init__()
        self.name = name
        self.limit = limit
        self.evicted = 0
        CACHES[name] = self

    def put(self, key: K, value: V) -> V:
        """Remember the value, making room first."""
        if len(self) >= self.limit:
            for old in list(self)[: max(1, self.limit // 4)]:
                self.pop(old, None)  # another thread may have been faster
                self.evicted += 1
        self[key] = value
        return value


CACHES: dict[str, Cache[Any, Any]] = {}
