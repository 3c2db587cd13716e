"""Engines: who carries arrays between processes. `Engine` is the protocol, `OneProcess` the engine of a process alone.

An engine works on contiguous NumPy arrays and knows nothing of tensors, groups by name or training; it has its own
collective algorithms, or those of the library that it stands on. A third one implements the methods of `Engine`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ..core.storage import Array
from ..errors import DistributedError

HEADER = 4  # int64 words that every rank shows the others on arriving at a collective


class LostPeer(Exception):
    """A process of the group is gone; nothing can be carried before `recover`."""


class PeersMissing(Exception):
    """Not everybody came in time. `absent`: the ranks that did not, as far as that is known."""

    def __init__(self, absent: list[int]) -> None:
        super().__init__(absent)
        self.absent = absent


class Request(Protocol):
    """A transfer that is under way."""

    def done(self) -> bool: ...

    def wait(self, seconds: float | None = None) -> int:
        """Until it is done; the rank that a message came from, -1 where there is none. Raises PeersMissing."""
        ...


class Engine(Protocol):
    """What a group of processes can do together. `wait=False` starts a transfer; the arrays must stay until it is done.

    `op` is a name: sum, product, min, max, band, bor, bxor. Shapes: of n ranks, `parts` has a leading n.
    """

    name: str
    rank: int
    size: int
    survives: bool  # whether a lost rank leaves the others able to go on, by `recover`

    def meet(self, header: Array, seconds: float) -> Array:
        """Wait for everybody; the headers of all, (size, HEADER). Raises PeersMissing, LostPeer."""
        ...

    def all_reduce(self, array: Array, op: str, wait: bool = True) -> Request: ...
    def reduce(self, array: Array, op: str, root: int, wait: bool = True) -> Request: ...
    def broadcast(self, array: Array, root: int, wait: bool = True) -> Request: ...
    def all_gather(self, array: Array, parts: Array, wait: bool = True) -> Request: ...
    def gather(self, array: Array, parts: Array | None, root: int, wait: bool = True) -> Request: ...
    def scatter(self, parts: Array | None, array: Array, root: int, wait: bool = True) -> Request: ...
    def reduce_scatter(self, parts: Array, array: Array, op: str, wait: bool = True) -> Request: ...
    def all_to_all(self, parts: Array, received: Array, wait: bool = True) -> Request: ...
    def send(self, array: Array, to: int, tag: int) -> Request: ...
    def receive(self, array: Array, source: int | None, tag: int) -> Request: ...

    def agree(self, succeeded: bool) -> bool:
        """Whether all that are left succeeded: the same answer everywhere, also if ranks are lost meanwhile."""
        ...

    def recover(self) -> list[int]:
        """Go on without the ranks that are lost; their old numbers. Those that are left are numbered anew."""
        ...

    def split(self, ranks: Sequence[int]) -> Engine | None:
        """An engine of some ranks; None for a process that is not among them. All ranks call it."""
        ...

    def close(self) -> None: ...


class Done:
    """A request that needs no time."""

    def __init__(self, source: int = -1) -> None:
        self.source = source

    def done(self) -> bool:
        return True

    def wait(self, seconds: float | None = None) -> int:
        return self.source


class OneProcess:
    """Rank 0 of 1: everything is already where it belongs."""

    name = "local"
    rank = 0
    size = 1
    survives = False

    def __init__(self) -> None:
        self._messages: dict[int, list[Array]] = {}

    def meet(self, header: Array, seconds: float) -> Array:
        return header.reshape(1, HEADER)

    def all_reduce(self, array: Array, op: str, wait: bool = True) -> Request:
        return Done()

    def reduce(self, array: Array, op: str, root: int, wait: bool = True) -> Request:
        return Done()

    def broadcast(self, array: Array, root: int, wait: bool = True) -> Request:
        return Done()

    def all_gather(self, array: Array, parts: Array, wait: bool = True) -> Request:
        parts[0] = array
        return Done()

    def gather(self, array: Array, parts: Array | None, root: int, wait: bool = True) -> Request:
        return Done() if parts is None else self.all_gather(array, parts)

    def scatter(self, parts: Array | None, array: Array, root: int, wait: bool = True) -> Request:
        if parts is not None:
            np.copyto(array, parts[0])
        return Done()

    def reduce_scatter(self, parts: Array, array: Array, op: str, wait: bool = True) -> Request:
        return self.scatter(parts, array, 0)

    def all_to_all(self, parts: Array, received: Array, wait: bool = True) -> Request:
        np.copyto(received, parts)
        return Done()

    def send(self, array: Array, to: int, tag: int) -> Request:
        self._messages.setdefault(tag, []).append(array.copy())
        return Done()

    def receive(self, array: Array, source: int | None, tag: int) -> Request:
        waiting = self._messages.get(tag)
        if not waiting:
            raise DistributedError(
                "recv: this process is the only one and has sent itself nothing, so it would wait for ever; send first"
            )
        np.copyto(array, waiting.pop(0).reshape(array.shape))
        return Done(0)

    def agree(self, succeeded: bool) -> bool:
        return succeeded

    def recover(self) -> list[int]:
        return []

    def split(self, ranks: Sequence[int]) -> Any:
        return OneProcess() if 0 in ranks else None

    def close(self) -> None:
        self._messages.clear()
