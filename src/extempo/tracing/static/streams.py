"""Random draws of a static function: each call takes numbers of its own, in the order of the recorded one.

The generators of samples of `ex.batch` follow from the number of the batch, so every call makes them anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ...random import Generator, sample_generator
from .script import Action, ScriptCall
from .sym_numbers import follow

if TYPE_CHECKING:
    from .tracer import StaticTracer


class GeneratorSlot(NamedTuple):
    """A generator: always the same one, or what is in a slot."""

    generator: Generator
    slot: int | None

    def at(self, call: ScriptCall) -> Generator:
        return self.generator if self.slot is None else call.slots[self.slot]


class ReplayedDraw(Action):
    """A draw number of a generator."""

    def __init__(
        self, take: Callable[[Generator], tuple[int, int]], stream: GeneratorSlot, seed: int, draw: int
    ) -> None:
        self.take = take
        self.stream = stream
        self.seed = seed  # slots
        self.draw = draw

    def run(self, call: ScriptCall) -> None:
        seed, draw = self.take(self.stream.at(call))
        call.slots[self.seed], call.slots[self.draw] = signed(seed), draw


class CountBatch(Action):
    """The number of a call of `ex.batch`."""

    def __init__(self, count: Callable[[Generator], int], stream: GeneratorSlot, slot: int) -> None:
        self.count = count
        self.stream = stream
        self.slot = slot

    def run(self, call: ScriptCall) -> None:
        call.slots[self.slot] = self.count(self.stream.at(call))


class BeginStream(Action):
    """The generator of one sample of a batch, which every call makes anew."""

    def __init__(self, batch: CountBatch, sample: int, slot: int) -> None:
        self.batch = batch
        self.sample = sample
        self.slot = slot

    def run(self, call: ScriptCall) -> None:
        parent, number = self.batch.stream.at(call), call.slots[self.batch.slot]
        call.slots[self.slot] = sample_generator(parent, number, self.sample)


def signed(number: int) -> int:
    """A seed in the range of int64, in which native code takes whole numbers; it means the same modulo 2**64."""
    return number if number < 2**63 else number - 2**64


class GeneratorSlots:
    """The generators that a recorder meets."""

    def __init__(self, recorder: StaticTracer) -> None:
        self._recorder = recorder
        self._batches: dict[int, CountBatch] = {}  # by slot
        self._of_samples: dict[int, GeneratorSlot] = {}  # by id

    def _stream(self, generator: Generator) -> GeneratorSlot:
        return self._of_samples.get(id(generator)) or GeneratorSlot(generator, None)

    def begins_anew(self, generator: Generator) -> bool:
        """Whether a generator is that of a sample."""
        return id(generator) in self._of_samples

    def draw(self, take: Callable[[Generator], tuple[int, int]], generator: Generator) -> tuple[Any, Any]:
        """A draw number of a generator: another one at each call."""
        seed, draw = take(generator)
        action = ReplayedDraw(take, self._stream(generator), self._recorder.new_slot(), self._recorder.new_slot())
        self._recorder.log(action)
        return follow(signed(seed), action.seed, self, drawn=True), follow(draw, action.draw, self, drawn=True)

    def count_batch(self, count: Callable[[Generator], int], generator: Generator) -> Any:
        """The number of a call of `ex.batch`: another one at each call."""
        action = CountBatch(count, self._stream(generator), self._recorder.new_slot())
        self._batches[action.slot] = action
        self._recorder.log(action)
        return follow(count(generator), action.slot, self, drawn=True)

    def begin(self, generator: Generator, number: Any, sample: int) -> None:
        """The generator of a sample of the batch of that number, which was followed."""
        action = BeginStream(self._batches[number.slot], sample, self._recorder.new_slot())
        self._of_samples[id(generator)] = GeneratorSlot(generator, action.slot)
        self._recorder.log(action)

    def looked(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        raise self._recorder.refusal("a draw number is used by Python, so it would be the same at every call")

    computed = looked
