"""What a row is: a model for one sample, how samples are drawn, and how a skilled PyTorch user would batch it by hand.

A module of this package has one model, `model(lib)`, an `nn.Module` whose `forward` takes one sample and returns its
loss; Extempo and PyTorch run the same text. A *style* is another way to write the same function of the same weights.
What the hand-batched form needs (padded, packed or flattened samples) is made before the steps, outside what is timed:
kind to PyTorch, whose users leave it to the processes of a data loader.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import dynet_peer
import numpy as np
from workload import (
    LEARNING_RATE,
    Each,
    Library,
    Step,
    Workload,
    Wrap,
    as_it_is,
    batch_peers,
    mirrored,
    one_by_one,
    torch,
    trainer,
)

N_WORDS, N_CLASSES = 1000, 5
BLOCK, N_STEPS = 2, 56  # warm-up and 20 rounds
MODULE = "module"  # the style that a row has in any case
BY_HAND = "torch hand-batched"
AUTOBATCH = "dynet+autobatch"

Sample = tuple[Any, ...]  # arrays, numbers, and lists and tuples of them
Model = Callable[..., Any]  # the loss of one sample; an nn.Module
Loss = Callable[..., Any]


@dataclass(frozen=True)
class Row:
    """`collate` makes of the samples of a step what `by_hand(lib, model)` takes: arrays, which become tensors."""

    name: str
    about: str
    model: Callable[[Any], Model]
    draw: Callable[[Any, int], Sample]  # of the random numbers and the size
    sizes: tuple[int, int]  # the least and the most
    by_hand: Callable[[Any, Any], Loss] | None = None
    collate: Callable[[list[Sample]], Sample] | None = None
    no_hand: str = ""  # why nobody would batch it by hand
    styles: Mapping[str, Callable[[Any, Any], Loss]] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # of the parameters, for DyNet, tables first
    dynet: Callable[[Any, Any], Loss] | None = None  # of the library and the parameters, by name

    def steps(self, n_samples: int) -> list[list[Sample]]:
        """The samples of each step, no two steps alike; all have the same sum of sizes."""
        rng = np.random.RandomState(zlib.crc32(self.name.encode()))
        return [[self.draw(rng, size) for size in mirrored(rng, *self.sizes, n_samples)] for _ in range(N_STEPS)]

    def workload(self, n_samples: int, style: str = MODULE) -> Workload:
        peers = {
            **batch_peers(partial(per_sample, self, n_samples, style)),
            "torch": partial(per_sample, self, n_samples, style, torch),
        }
        if self.by_hand:
            peers[BY_HAND] = partial(hand_batched, self, n_samples)
        if self.dynet and style == MODULE:
            peers[AUTOBATCH] = partial(with_dynet, self, n_samples)
        return Workload(f"{self.name} {style} {n_samples}", self.about, BLOCK, peers)


@dataclass
class Training:
    """A step with an optimizer, and beside it the gradients of its loss alone."""

    train: Step
    backward: Callable[..., Any]  # leaves gradients behind, and nothing else
    parameters: list[Any]
    batches: Sequence[tuple[Any, ...]]

    def __call__(self, i: int) -> float:
        return self.train(i)

    def forward_and_backward(self, i: int) -> None:
        self.backward(*self.batches[i])

    def gradients(self, i: int) -> list[list[float]]:
        """Of each parameter the norm of its gradient, and the gradient along some direction."""
        self.forward_and_backward(i)
        rng = np.random.RandomState(0)
        found = []
        for parameter in self.parameters:
            gradient = np.zeros(tuple(parameter.shape)) if parameter.grad is None else parameter.grad.numpy()
            found.append(norms(rng, gradient))
            parameter.grad = None
        return found


def norms(rng: Any, gradient: Any) -> list[float]:
    """Its norm, and the gradient along some direction."""
    direction = rng.randn(*gradient.shape) / max(1, gradient.size) ** 0.5
    return [float(np.linalg.norm(gradient)), float((gradient * direction).sum())]


def filled(lib: Any, model: Any) -> list[Any]:
    """The model's parameters, with values that depend on their names and shapes only."""
    parameters = dict(model.named_parameters())
    tables = {id(module.weight) for module in model.modules() if isinstance(module, lib.nn.Embedding)}
    with lib.no_grad():
        for name, parameter in parameters.items():
            drawn = drawn_weight(name, tuple(parameter.shape), id(parameter) in tables)
            parameter.copy_(lib.from_numpy(drawn))
    return list(parameters.values())


def drawn_weight(name: str, shape: tuple[int, ...], is_table: bool) -> Any:
    """The values of a parameter; a table is one of words."""
    drawn = np.random.RandomState(zlib.crc32(name.encode())).randn(*shape)
    if len(shape) > 1:
        drawn /= 1 if is_table else shape[-1] ** 0.5
    else:
        drawn = 0.1 * drawn + ("norm" in name and name.endswith("weight"))
    return drawn.astype("f4")


def tensors(lib: Any, value: Any) -> Any:
    """The same with a tensor for each array."""
    if isinstance(value, np.ndarray | np.generic):
        return lib.from_numpy(np.asarray(value))
    return type(value)(tensors(lib, one) for one in value) if isinstance(value, list | tuple) else value


def training(lib: Any, loss_of: Loss, parameters: list[Any], batches: Any, wrap: Wrap, **options: Any) -> Training:
    def backward(*batch: Any) -> None:
        loss_of(*batch).backward()

    optimizer = lib.optim.Adam(parameters, lr=LEARNING_RATE, **options)
    train = trainer(lib, loss_of, optimizer, batches, wrap)
    return Training(train, wrap(lib, backward), parameters, batches)


def per_sample(
    row: Row, n_samples: int, style: str, library: Library, each: Each = one_by_one, wrap: Wrap = as_it_is
) -> Training:
    """The code of one sample, run for every sample."""
    lib = library()
    model = row.model(lib)
    parameters = filled(lib, model)
    losses_of = each(lib, model if style == MODULE else row.styles[style](lib, model))

    def loss_of(*columns: list[Any]) -> Any:
        return lib.stack(losses_of(*columns)).mean()

    batches = [tuple(map(list, zip(*tensors(lib, samples), strict=True))) for samples in row.steps(n_samples)]
    return training(lib, loss_of, parameters, batches, wrap)


def hand_batched(row: Row, n_samples: int) -> Training:
    """All samples of a step at once, in PyTorch."""
    assert row.by_hand is not None
    assert row.collate is not None
    lib = torch()
    model = row.model(lib)
    parameters = filled(lib, model)
    batches = [tensors(lib, row.collate(samples)) for samples in row.steps(n_samples)]
    return training(lib, row.by_hand(lib, model), parameters, batches, as_it_is, fused=True)


class DynetTraining:
    """The same as `Training` by DyNet, which batches by itself what one graph of all samples has in common."""

    def __init__(self, dy: Any, loss_of: Callable[[int], Any], weights: Any, parameters: Mapping[str, Any]) -> None:
        self._dy, self._loss_of, self._parameters = dy, loss_of, parameters
        self._train = dynet_peer.trainer(loss_of, dy.AdamTrainer(weights, LEARNING_RATE), weights)

    def __call__(self, i: int) -> float:
        return self._train(i)

    def forward_and_backward(self, i: int) -> None:
        self._dy.renew_cg()
        loss = self._loss_of(i)
        loss.value()
        loss.backward()

    def gradients(self, i: int) -> list[list[float]]:
        for parameter in self._parameters.values():
            parameter.scale_gradient(0.0)
        self.forward_and_backward(i)
        rng = np.random.RandomState(0)
        found = [norms(rng, parameter.grad_as_array()) for parameter in self._parameters.values()]
        for parameter in self._parameters.values():
            parameter.scale_gradient(0.0)
        return found


def with_dynet(row: Row, n_samples: int) -> DynetTraining:
    """The code of one sample, run for every sample, in DyNet's words."""
    assert row.dynet is not None
    dy = dynet_peer.dynet(1024, autobatch=True)
    weights = dy.ParameterCollection()
    parameters = {}
    for name, shape in row.shapes.items():
        is_table = name.endswith("embedding.weight")
        array = drawn_weight(name, shape, is_table)
        make = weights.lookup_parameters_from_numpy if is_table else weights.parameters_from_numpy
        parameters[name] = make(array)
    loss_of = row.dynet(dy, parameters)
    steps = row.steps(n_samples)

    def loss_of_step(i: int) -> Any:
        return dy.average([loss_of(*sample) for sample in steps[i % len(steps)]])

    return DynetTraining(dy, loss_of_step, weights, parameters)


def draw_words(rng: Any, n: int) -> Any:
    return rng.randint(0, N_WORDS, n)


def draw_label(rng: Any) -> Any:
    return np.int64(rng.randint(N_CLASSES))


def sentence(rng: Any, n: int) -> Sample:
    """n words, and the class of the sentence."""
    return draw_words(rng, n), draw_label(rng)


def padded(arrays: Sequence[Any], width: int | None = None) -> tuple[Any, Any]:
    """Arrays of different length as (array, place, ...), zeros after the end of each, and the lengths."""
    lengths = np.array([len(array) for array in arrays])
    found = np.zeros((len(arrays), width or max(1, lengths.max()), *arrays[0].shape[1:]), arrays[0].dtype)
    for line, array in zip(found, arrays, strict=True):
        line[: len(array)] = array
    return found, lengths


def padded_sentences(samples: list[Sample]) -> Sample:
    """Words as (sentence, place), lengths, and labels."""
    sentences, labels = zip(*samples, strict=True)
    return (*padded(sentences), np.array(labels))


def owners(arrays: Sequence[Any]) -> Any:
    """Of each row of all arrays, end to end, which array it is of."""
    return np.repeat(np.arange(len(arrays)), [len(array) for array in arrays])


def last_states(lib: Any, lstm: Any, inputs: Any, lengths: Any) -> Any:
    """What nn.LSTM has after the end of each padded sequence (sequence, place, ...).

    It is two to three times as fast as on packed ones, on a CPU.
    """
    outputs, _ = lstm(inputs.transpose(0, 1))
    return outputs[lengths - 1, lib.arange(len(lengths))]
