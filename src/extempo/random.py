"""Where random numbers come from: generators that hand out draw numbers.

A random op is a pure function of (seed, draw number) and its other inputs. A `Generator` is a seed and the number of
the next draw: every random call takes exactly one, whatever its size, so that eager, recorded, batched and recomputed
runs draw the same. `current_generator` is the one place that decides which generator a call without `generator=` uses.
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ._tensor import Tensor, from_array
from .errors import DtypeError
from .placement import CPU, device, require_cpu

_DEFAULT_SEED = 67280421310721  # PyTorch's, for what a new Generator answers to initial_seed()
_STATE = struct.Struct("<8sQQ")  # a mark, the seed, the number of the next draw
_MARK = b"philox10"


class Generator:
    """A stream of random draws. Threads may share one: each draw number is handed out once.

    >>> generator = ex.Generator().manual_seed(7)
    >>> x = ex.rand(2, generator=generator)
    >>> ex.equal(x, ex.rand(2, generator=generator.manual_seed(7)))
    True
    """

    def __init__(self, device: Any = "cpu") -> None:
        require_cpu(device, "Generator")
        self._lock = threading.Lock()
        self._seed = _DEFAULT_SEED
        self._next_draw = 0

    @property
    def device(self) -> device:
        """The CPU."""
        return CPU

    def take(self) -> tuple[int, int]:
        """The seed and the next draw number, which belong to the caller from now on."""
        with self._lock:
            draw = self._next_draw
            self._next_draw = draw + 1
            return self._seed, draw

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed`, from -2**63 to 2**64 - 1; negative ones count from 2**64 down."""
        try:
            number = seed.__index__()
        except AttributeError:
            raise DtypeError(f"manual_seed: expected an int, got {type(seed).__name__}") from None
        if not -(2**63) <= number < 2**64:
            raise DtypeError(f"manual_seed: the seed must fit into 64 bits, got {number}")
        with self._lock:
            self._seed, self._next_draw = number % 2**64, 0
        return self

    def seed(self) -> int:
        """Start a stream that nobody can foresee, and return its seed."""
        return self.manual_seed(int.from_bytes(os.urandom(8), "little")).initial_seed()

    def initial_seed(self) -> int:
        """The seed of the stream."""
        return self._seed

    def get_state(self) -> Tensor:
        """Where the stream is now, as a uint8 tensor."""
        with self._lock:
            return from_array(np.frombuffer(bytearray(_STATE.pack(_MARK, self._seed, self._next_draw)), np.uint8))

    def set_state(self, new_state: Tensor) -> None:
        """Continue from where `get_state` was called."""
        raw = new_state.numpy().tobytes() if isinstance(new_state, Tensor) else b""
        if len(raw) != _STATE.size or not raw.startswith(_MARK):
            raise DtypeError(
                "set_state: expected the uint8 tensor that get_state() returned; "
                "states of other libraries' generators mean nothing here, use manual_seed"
            )
        _, seed, draw = _STATE.unpack(raw)
        with self._lock:
            self._seed, self._next_draw = seed, draw

    def clone_state(self) -> Generator:
        """A new generator that continues from the same place."""
        other = Generator()
        other.set_state(self.get_state())
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.get_state(),)

    def __repr__(self) -> str:
        return f"<extempo.Generator seed={self._seed} next_draw={self._next_draw}>"


def _restored(state: Tensor) -> Generator:
    generator = Generator()
    generator.set_state(state)
    return generator


default_generator = Generator()


def _renew_lock() -> None:
    """A thread of the parent process may have held it; that thread does not exist here."""
    default_generator._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
default_generator.seed()


def current_generator() -> Generator:
    """The generator of calls that name none.

    >>> ex.random.current_generator() is ex.default_generator
    True
    """
    return default_generator


def take_draw(generator: Generator | None = None) -> tuple[int, int]:
    """(seed, draw number) for one random call.

    >>> generator = ex.Generator().manual_seed(7)
    >>> ex.random.take_draw(generator), ex.random.take_draw(generator)
    ((7, 0), (7, 1))
    """
    if generator is None:
        return current_generator().take()
    if not isinstance(generator, Generator):
        raise DtypeError(f"generator: expected an ex.Generator or None, got {type(generator).__name__}")
    return generator.take()


def manual_seed(seed: int) -> Generator:
    """Make all random calls from here on repeatable. Returns the generator.

    >>> generator = ex.manual_seed(5)
    >>> x = ex.rand(2)
    >>> generator = ex.manual_seed(5)
    >>> ex.equal(x, ex.rand(2))
    True
    """
    return current_generator().manual_seed(seed)


def seed() -> int:
    """Make all random calls from here on unforeseeable, and return the seed that was taken.

    >>> ex.seed() == ex.initial_seed()
    True
    """
    return current_generator().seed()


def initial_seed() -> int:
    """The seed of the current stream.

    >>> generator = ex.manual_seed(5)
    >>> ex.initial_seed()
    5
    """
    return current_generator().initial_seed()


def get_rng_state() -> Tensor:
    """Where the current stream is, as a uint8 tensor for `set_rng_state`.

    >>> state = ex.get_rng_state()
    >>> x = ex.rand(2)
    >>> ex.set_rng_state(state)
    >>> ex.equal(x, ex.rand(2))
    True
    """
    return current_generator().get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Continue the current stream from where `get_rng_state` was called.

    >>> state = ex.get_rng_state()
    >>> x = ex.rand(2)
    >>> ex.set_rng_state(state)
    >>> ex.equal(x, ex.rand(2))
    True
    """
    current_generator().set_state(new_state)


@contextlib.contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None, enabled: bool = True, device_type: str | None = None
) -> Iterator[None]:
    """Draws inside the block leave the stream outside as it was. There are no devices whose streams could be kept.

    >>> state = ex.get_rng_state()
    >>> with ex.random.fork_rng():
    ...     x = ex.rand(2)
    >>> ex.equal(ex.get_rng_state(), state)
    True
    """
    for named in devices or ():
        require_cpu(named, "fork_rng")
    if not enabled:
        yield
        return
    generator = current_generator()
    state = generator.get_state()
    try:
        yield
    finally:
        generator.set_state(state)
