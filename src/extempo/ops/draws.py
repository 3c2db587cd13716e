"""The ops that draw random numbers: pure functions of a seed, a draw number and the parameters of a distribution.

Seed and draw number are number inputs, so a trace replays with new ones. Element i of a draw depends on nothing but
(seed, draw, i); the numbers themselves come from `backends.numpy.philox`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..backends.numpy import philox
from ..core.op import Op, Refuse, Rng, Routine, Sample
from ..core.storage import Array
from ..core.types import InputType, TensorType, broadcast_shapes, dtype, float64, int64
from ..errors import DtypeError, NumericalError
from .arithmetic import zero

Shape = tuple[int, ...]


RANDOM = Refuse("its numbers are those of Extempo's generator, which ONNX does not have")


class Draw(Op, abstract=True):
    """A tensor of random numbers from (seed, draw, parameters); attributes `shape` and `dtype`."""

    family = "random"
    quiet = True
    vjp = Refuse("a draw depends on no tensor")
    saves = ()
    batch = Refuse("a draw has no tensor inputs that could be batched")
    ragged = Refuse("a draw has no tensor inputs")
    infer = staticmethod(lambda seed, draw, *parameters, shape, dtype: TensorType(shape, dtype))
    onnx = RANDOM


class RandomUniform(Draw):
    """Uniform numbers with low <= number < high."""

    lower = Routine("random_uniform")

    @staticmethod
    def numpy(seed: int, draw: int, low: float, high: float, *, shape: Shape, dtype: dtype) -> Array:
        drawn = philox.uniform(seed, draw, shape, dtype.numpy)
        if (low, high) == (0, 1):
            return drawn
        drawn = np.asarray(drawn * dtype.numpy.type(high - low) + dtype.numpy.type(low))
        # Rounding may reach the end that is not included.
        drawn[drawn >= high] = _last_below(high, low, dtype)
        return drawn

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(1, 2, 0, 1, shape=(3, 4), dtype=float64)
        yield Sample(1, 2, -3.0, 2.5, shape=(), dtype=float64)
        yield Sample(1, 2, 0, 1, shape=(0,), dtype=float64)


def _last_below(high: float, low: float, d: dtype) -> Any:
    """The largest number of the dtype below `high`, or `low` where the interval is empty."""
    return max(np.nextafter(d.numpy.type(high), d.numpy.type(-math.inf)), d.numpy.type(low))


class RandomNormal(Draw):
    """Standard normal numbers."""

    lower = Routine("random_normal")
    numpy = staticmethod(lambda seed, draw, *, shape, dtype: philox.normal(seed, draw, shape, dtype.numpy))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(1, 2, shape=(3, 4), dtype=float64)
        yield Sample(1, 2, shape=(), dtype=float64)
        yield Sample(1, 2, shape=(0, 2), dtype=float64)


class RandomExponential(Draw):
    """Exponential numbers of rate 1."""

    @staticmethod
    def numpy(seed: int, draw: int, *, shape: Shape, dtype: dtype) -> Array:
        return philox.exponential(seed, draw, shape, dtype.numpy)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(1, 2, shape=(3, 4), dtype=float64)


class RandomCauchy(Draw):
    """Standard Cauchy numbers."""

    numpy = staticmethod(lambda seed, draw, *, shape, dtype: philox.cauchy(seed, draw, shape, dtype.numpy))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(1, 2, shape=(3, 4), dtype=float64)


class RandomGeometric(Draw):
    """How many trials of probability p up to the first success, from 1."""

    @staticmethod
    def numpy(seed: int, draw: int, p: float, *, shape: Shape, dtype: dtype) -> Array:
        return philox.geometric(seed, draw, p, shape, dtype.numpy)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(1, 2, 0.3, shape=(3, 4), dtype=int64)


class RandomInteger(Draw):
    """Whole numbers with low <= number < high; both ends are counted modulo 2**64."""

    lower = Routine("random_integer")

    @staticmethod
    def numpy(seed: int, draw: int, low: int, high: int, *, shape: Shape, dtype: dtype) -> Array:
        n_values = (high - low) % 2**64 or 2**64
        return philox.randint(seed, draw, low, low + n_values, shape, dtype.numpy)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(1, 2, -3, 4, shape=(3, 4), dtype=int64)
        yield Sample(1, 2, 0, 2**62, shape=(), dtype=int64)


class RandomPermutation(Draw):
    """0 .. n - 1 in random order."""

    numpy = staticmethod(lambda seed, draw, *, shape, dtype: philox.permutation(seed, draw, shape[0]))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(1, 2, shape=(5,), dtype=int64)
        yield Sample(1, 2, shape=(0,), dtype=int64)


class DrawOf(Op, abstract=True):
    """Random numbers whose distribution depends on a tensor, element by element. Their gradient is 0, as in PyTorch."""

    family = "random"
    quiet = True
    saves = ("",)
    batch = Refuse("looped over samples: in a batch, elements would be counted through all of them")
    ragged = "elementwise"
    infer = staticmethod(lambda x, seed, draw: x)
    vjp = staticmethod(lambda g, y, x, seed, draw: (zero(g), None, None))
    onnx = RANDOM


class Bernoulli(DrawOf):
    """1 with the probability that the tensor holds, else 0."""

    lower = Routine("bernoulli")

    @staticmethod
    def numpy(x: Array, seed: int, draw: int) -> Array:
        if not ((x >= 0) & (x <= 1)).all():
            raise NumericalError("bernoulli: probabilities must lie between 0 and 1; clamp them, or use sigmoid")
        return philox.bernoulli(seed, draw, x, x.shape).astype(x.dtype)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.uniform(size=(3, 4)), 1, 2)
        yield Sample(rng.uniform(size=()), 1, 2)
        yield Sample(np.empty((0, 3)), 1, 2)


class NormalOf(Op):
    """Normal numbers with the means and standard deviations that tensors hold. Their gradient is 0, as in PyTorch."""

    name = "normal"
    family = "random"
    quiet = True
    saves = ("", "")
    batch = DrawOf.batch
    ragged = "elementwise"
    vjp = staticmethod(lambda g, y, mean, std, seed, draw: (zero(g), zero(g), None, None))

    @staticmethod
    def infer(mean: InputType, std: InputType, seed: InputType, draw: InputType) -> TensorType:
        tensors = [x for x in (mean, std) if isinstance(x, TensorType)]
        require_floating(tensors[0].dtype, "normal")  # mean decides, where it is a tensor
        return TensorType(broadcast_shapes(*(x.shape for x in tensors)), tensors[0].dtype)

    @staticmethod
    def numpy(mean: Any, std: Any, seed: int, draw: int) -> Array:
        if not np.all(np.asarray(std) >= 0):
            raise NumericalError("normal: std must not be negative; take its absolute value, or exp of its logarithm")
        d = mean.dtype if isinstance(mean, np.ndarray) else std.dtype
        drawn = philox.normal(seed, draw, np.broadcast_shapes(np.shape(mean), np.shape(std)), d)
        return drawn * np.asarray(std, d) + np.asarray(mean, d)

    samples = Refuse("its gradient is 0 by PyTorch's definition, where finite differences are not")
    onnx = RANDOM


class Poisson(DrawOf):
    """Poisson counts of the rates that the tensor holds."""

    @staticmethod
    def numpy(x: Array, seed: int, draw: int) -> Array:
        if not (x >= 0).all():
            raise NumericalError("poisson: rates must not be negative")
        return philox.poisson(seed, draw, x)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.uniform(0.2, 4, size=(3, 4)), 1, 2)
        yield Sample(rng.uniform(20, 30, size=(3,)), 1, 2)


class Multinomial(Op):
    """Indices drawn in proportion to the weights of each row."""

    family = "random"
    quiet = True
    vjp = Refuse("indices have no gradient")
    saves = ()
    batch = Refuse("looped over samples: in a batch, elements would be counted through all of them")
    ragged = Refuse("it draws from weights of equally many classes")

    @staticmethod
    def infer(x: TensorType, seed: InputType, draw: InputType, *, n_samples: int, replacement: bool) -> TensorType:
        return TensorType((*x.shape[:-1], n_samples), int64)

    @staticmethod
    def numpy(x: Array, seed: int, draw: int, *, n_samples: int, replacement: bool) -> Array:
        rows = np.asarray(x, np.float64).reshape(-1, x.shape[-1])
        if not ((rows >= 0) & np.isfinite(rows)).all():
            raise NumericalError("multinomial: weights must be finite and not negative; use softmax on scores")
        if not rows.sum(axis=1).all():
            raise NumericalError("multinomial: the weights of a row are all 0; at least one must be positive")
        return philox.multinomial(seed, draw, rows, n_samples, replacement=replacement).reshape(
            *x.shape[:-1], n_samples
        )

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.uniform(size=(2, 5)), 1, 2, n_samples=3, replacement=False)
        yield Sample(rng.uniform(size=(5,)), 1, 2, n_samples=7, replacement=True)

    onnx = RANDOM


def require_floating(d: dtype, name: str) -> None:
    if not d.is_floating_point:
        raise DtypeError(f"{name}: this distribution is continuous and {d} is not; use a floating dtype")


class RandomCoin(Draw):
    """1 with probability p, else 0."""

    lower = Routine("random_coin")

    @staticmethod
    def numpy(seed: int, draw: int, p: float, *, shape: Shape, dtype: dtype) -> Array:
        return philox.bernoulli(seed, draw, p, shape).astype(dtype.numpy)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(1, 2, 0.3, shape=(3, 4), dtype=float64)


class RandomKeep(Draw):
    """Noise for dropout: `scale` with probability 1 - p, else 0. Drawn in float32, where p keeps 24 bits."""

    public_name = "dropout"
    lower = Routine("random_keep")

    @staticmethod
    def numpy(seed: int, draw: int, p: float, scale: float, *, shape: Shape, dtype: dtype) -> Array:
        kept = philox.uniform(seed, draw, shape) >= np.float32(p)
        return kept * np.asarray(scale, dtype.numpy)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(1, 2, 0.3, 1.5, shape=(3, 4), dtype=float64)
