"""Where random numbers come from: generators that hand out draw numbers.

A random op is a pure function of (seed, draw number) and its other inputs. A `Generator` is a seed and the number of
the next draw: every random call takes exactly one, whatever its size, so that eager, recorded, batched and recomputed
runs draw the same. `current_generator` is the one place that decides which generator a call without `generator=` uses:
it belongs to the context (thread, greenlet, task), since every sample of `ex.batch` has a generator of its own.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np

from .core import locks
from .core.absent_names import explain_absent
from .core.device import CPU, device, require_cpu
from .core.interrupts import Scope, block, certainly
from .core.tensor import Tensor, from_array
from .errors import DtypeError

_DEFAULT_SEED = 67280421310721  # PyTorch's, for what a new Generator answers to initial_seed()
_STATE = struct.Struct("<8sQQQ")  # a mark, the seed, the number of the next draw, the number of the next ex.batch call
_SIZE_WITHOUT_CALLS = 24  # of states that were written before there was ex.batch
_MARK = b"philox10"

# Of all generators, each of which has it for some instructions. A child that is forked meanwhile has a seed and numbers
# that are of before or after, and together are a place in a stream like any other.
_taking = locks.renewed()


class Generator:
    """A stream of random draws. Threads may share one: each draw number is handed out once.

    >>> generator = ex.Generator().manual_seed(7)
    >>> x = ex.rand(2, generator=generator)
    >>> ex.equal(x, ex.rand(2, generator=generator.manual_seed(7)))
    True
    """

    def __init__(self, device: Any = "cpu") -> None:
        require_cpu(device, "Generator")
        self._seed = _DEFAULT_SEED
        self._next_draw = 0
        self._next_batch = 0

    @property
    def device(self) -> device:
        """The CPU."""
        return CPU

    def take(self) -> tuple[int, int]:
        """The seed and the next draw number, which belong to the caller from now on."""
        with _taking:
            draw = self._next_draw
            self._next_draw = draw + 1
            return self._seed, draw

    def next_batch(self) -> int:
        """How many calls of `ex.batch` there were since the seed was set; this number belongs to the caller."""
        with _taking:
            call = self._next_batch
            self._next_batch = call + 1
            return call

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed`, from -2**63 to 2**64 - 1; negative ones count from 2**64 down."""
        try:
            number = seed.__index__()
        except AttributeError:
            raise DtypeError(f"manual_seed: expected an int, got {type(seed).__name__}") from None
        if not -(2**63) <= number < 2**64:
            raise DtypeError(f"manual_seed: the seed must fit into 64 bits, got {number}")
        with _taking:
            self._seed, self._next_draw, self._next_batch = number % 2**64, 0, 0
        return self

    def seed(self) -> int:
        """Start a stream that nobody can foresee, and return its seed."""
        return self.manual_seed(int.from_bytes(os.urandom(8), "little")).initial_seed()

    def initial_seed(self) -> int:
        """The seed of the stream."""
        return self._seed

    def get_state(self) -> Tensor:
        """Where the stream is now, as a uint8 tensor."""
        with _taking:
            state = _STATE.pack(_MARK, self._seed, self._next_draw, self._next_batch)
        return from_array(np.frombuffer(bytearray(state), np.uint8))

    def set_state(self, new_state: Tensor) -> None:
        """Continue from where `get_state` was called."""
        raw = new_state.numpy().tobytes() if isinstance(new_state, Tensor) else b""
        if len(raw) not in (_SIZE_WITHOUT_CALLS, _STATE.size) or not raw.startswith(_MARK):
            raise DtypeError(
                "set_state: expected the uint8 tensor that get_state() returned; "
                "states of other libraries' generators mean nothing here, use manual_seed"
            )
        _, seed, draw, call = _STATE.unpack(raw.ljust(_STATE.size, b"\0"))
        with _taking:
            self._seed, self._next_draw, self._next_batch = seed, draw, call

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


default_generator.seed()
_current: ContextVar[Generator] = ContextVar("extempo_generator", default=default_generator)


def current_generator() -> Generator:
    """The generator of calls that name none.

    >>> ex.random.current_generator() is ex.default_generator
    True
    """
    return _current.get()


class use_generator(Scope[Generator]):
    """Random calls inside that name no generator use this one, in this context alone.

    >>> generator = ex.Generator().manual_seed(7)
    >>> with ex.random.use_generator(generator):
    ...     x = ex.rand(2)
    >>> ex.equal(x, ex.rand(2, generator=generator.manual_seed(7)))
    True
    """

    _variable = _current

    def __init__(self, generator: Generator) -> None:
        self._generator = generator

    def __enter__(self) -> Generator:
        super().__enter__()
        return self._generator

    def _inner(self, before: Generator) -> Generator:
        return self._generator


def _set_current(generator: Generator) -> None:
    """Random calls that name no generator use this one from now on, in this context alone."""
    _current.set(generator)


def sample_generator(parent: Generator, call: int, sample: int) -> Generator:
    """The generator of one sample of one `ex.batch` call, which `parent.next_batch()` has numbered.

    Its seed follows from the parent's, the call and the sample alone, so that draws depend neither on what other
    samples do nor on the order in which they run.

    >>> parent = ex.Generator().manual_seed(7)
    >>> x, y = (ex.rand(2, generator=ex.random.sample_generator(parent, 0, i)) for i in (0, 1))
    >>> ex.equal(x, y), ex.equal(x, ex.rand(2, generator=ex.random.sample_generator(parent, 0, 0)))
    (False, True)
    """
    return _SampleGenerator(parent._seed, call, sample)


class _SampleGenerator(Generator):
    """Its seed is worked out when it is asked for, which most samples never do."""

    def __init__(self, seed: int, call: int, sample: int) -> None:
        self._origin = (seed, call, sample)
        self._next_draw = 0
        self._next_batch = 0

    @locks.cached_property
    def _seed(self) -> int:  # it can be set: a cached property gives way
        seed, call, sample = self._origin
        return _mixed(_mixed(_mixed(seed) ^ call) + _GOLDEN * (sample + 1))


_GOLDEN = 0x9E3779B97F4A7C15
_LOW_64 = 2**64 - 1


def _mixed(x: int) -> int:
    """splitmix64 (Steele et al., 2014): other numbers give others, and neighbours become as good as independent."""
    x = (x + _GOLDEN) & _LOW_64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _LOW_64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _LOW_64
    return x ^ (x >> 31)


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


@block
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
        certainly(generator.set_state, state)


explain_absent(__name__)
