"""Random tensors: functions and in-place methods around the ops of `draws`.

Every call takes one draw number from a generator (see `extempo.random`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

import numpy as np

from ..core.op import Op
from ..core.tensor import Tensor, TensorLike
from ..core.tensor_methods import method
from ..core.types import as_kind, bool_, check_size, dtype, int64
from ..dispatch.dispatcher import apply
from ..dispatch.inplace import write
from ..errors import DtypeError, NumericalError, ShapeError
from ..random import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
    take_draw,
)
from .creation import Arrange, Copy, LikeOptions, NamedSize, Options, finish, order_like, read_options, sizes
from .define import deliver, deliver_converted, in_rows
from .draws import (
    Bernoulli,
    Multinomial,
    NormalOf,
    Poisson,
    RandomCauchy,
    RandomCoin,
    RandomExponential,
    RandomGeometric,
    RandomInteger,
    RandomKeep,
    RandomNormal,
    RandomPermutation,
    RandomUniform,
    Shape,
    require_floating,
)

__all__ = [
    "Generator",
    "bernoulli",
    "default_generator",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "multinomial",
    "normal",
    "poisson",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "seed",
    "set_rng_state",
]

# ---- new tensors


def _drawn(op: type[Op], generator: Generator | None, shape: Shape, d: dtype, *parameters: Any) -> Tensor:
    seed, draw = take_draw(generator)
    return apply(op, (_signed(seed), draw, *parameters), {"shape": shape, "dtype": d})


def _signed(number: int) -> int:
    """A number modulo 2**64 in the range of int64, in which native code takes whole numbers."""
    return number if -(2**63) <= number < 2**63 else number % 2**64 - 2**64


def rand(
    *shape: Any, generator: Generator | None = None, out: Tensor | None = None, **options: Unpack[NamedSize]
) -> Tensor:
    """Uniform random numbers from [0, 1).

    >>> x = ex.rand(2, 3)
    >>> x.shape, bool((x >= 0).all() and (x < 1).all())
    (extempo.Size([2, 3]), True)
    """
    wanted = sizes("rand", shape, options.pop("size", None))
    d = read_options("rand", options, None if out is None else out.dtype)
    require_floating(d, "rand")
    return finish(_drawn(RandomUniform, generator, wanted, d, 0, 1), options, out)


def randn(
    *shape: Any, generator: Generator | None = None, out: Tensor | None = None, **options: Unpack[NamedSize]
) -> Tensor:
    """Standard normal random numbers.

    >>> ex.randn(2, 3).shape
    extempo.Size([2, 3])
    """
    wanted = sizes("randn", shape, options.pop("size", None))
    d = read_options("randn", options, None if out is None else out.dtype)
    require_floating(d, "randn")
    return finish(_drawn(RandomNormal, generator, wanted, d), options, out)


def randint(
    *bounds_and_size: Any,
    generator: Generator | None = None,
    out: Tensor | None = None,
    low: int | None = None,
    high: int | None = None,
    size: Any = None,
    **options: Unpack[Options],
) -> Tensor:
    """Whole random numbers from [low, high): `randint(high, size)` or `randint(low, high, size)`.

    >>> x = ex.randint(1, 7, (100,))
    >>> x.min(), x.max()
    (tensor(1), tensor(6))
    """
    given = list(bounds_and_size)
    if size is None and given:
        size = given.pop()
    bounds = [b for b in (low, *given, high) if b is not None]
    if size is None or len(bounds) not in (1, 2):
        raise DtypeError("randint: expected randint(high, size) or randint(low, high, size)")
    d = read_options("randint", options, int64 if out is None else out.dtype)
    return finish(_integers("randint", bounds, sizes("randint", (size,), None), d, generator), options, out)


def _integers(op: str, bounds: list[Any], shape: Shape, d: dtype, generator: Generator | None) -> Tensor:
    low, high = (0, bounds[0]) if len(bounds) == 1 else bounds
    try:
        low, high = low.__index__(), high.__index__()
    except AttributeError:
        raise DtypeError(f"{op}: low and high must be ints, got {low!r} and {high!r}") from None
    if low >= high:
        raise NumericalError(
            f"{op}: there is no whole number from {low} up to below {high}; low must be less than high"
        )
    smallest, largest = _whole_range(d)
    if low < smallest or high - 1 > largest:
        raise DtypeError(f"{op}: {d} holds whole numbers from {smallest} to {largest}, not all of [{low}, {high})")
    return _drawn(RandomInteger, generator, shape, d, _signed(low), _signed(high))


_SIGNIFICAND_BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}


def _whole_range(d: dtype) -> tuple[int, int]:
    """The whole numbers that a dtype can hold without gaps."""
    if d is bool_:
        return 0, 1
    if d.is_floating_point:
        largest = 2 ** _SIGNIFICAND_BITS[d._name]
        return -largest, largest
    info = np.iinfo(d.numpy)
    return int(info.min), int(info.max)


def randperm(
    n: int, *, generator: Generator | None = None, out: Tensor | None = None, **options: Unpack[Options]
) -> Tensor:
    """0 .. n - 1 in random order.

    >>> ex.randperm(5).sort().values
    tensor([0, 1, 2, 3, 4])
    """
    shape = sizes("randperm", (n,), None)
    d = read_options("randperm", options, int64 if out is None else out.dtype)
    if shape[0] - 1 > _whole_range(d)[1]:
        raise DtypeError(f"randperm: {d} cannot hold all numbers up to {shape[0] - 1}; use ex.int64")
    return finish(_drawn(RandomPermutation, generator, shape, d), options, out)


def _like(op: str, input: Tensor, options: Any, draw: Callable[[dtype], Tensor]) -> Tensor:
    """What `draw` makes in the dtype asked for, in the memory order of `input`."""
    d = read_options(op, options, input._type.dtype)
    order = order_like(input, options.get("memory_format"), op)
    made = draw(d)
    return finish(made if order is None else apply(Arrange, (made,), {"order": order}), options)


def rand_like(input: Tensor, *, generator: Generator | None = None, **options: Unpack[LikeOptions]) -> Tensor:
    """Uniform random numbers from [0, 1) in the shape and dtype of `input`.

    >>> ex.rand_like(ex.zeros(2, 3)).shape
    extempo.Size([2, 3])
    """
    if input.is_nested:
        return in_rows(rand_like, input, generator=generator, **options)

    def draw(d: dtype) -> Tensor:
        require_floating(d, "rand_like")
        return _drawn(RandomUniform, generator, input._type.shape, d, 0, 1)

    return _like("rand_like", input, options, draw)


def randn_like(input: Tensor, *, generator: Generator | None = None, **options: Unpack[LikeOptions]) -> Tensor:
    """Standard normal random numbers in the shape and dtype of `input`.

    >>> ex.randn_like(ex.zeros(2, 3, dtype=ex.float64)).dtype
    extempo.float64
    """
    if input.is_nested:
        return in_rows(randn_like, input, generator=generator, **options)

    def draw(d: dtype) -> Tensor:
        require_floating(d, "randn_like")
        return _drawn(RandomNormal, generator, input._type.shape, d)

    return _like("randn_like", input, options, draw)


def randint_like(
    input: Tensor,
    *bounds: Any,
    low: int | None = None,
    high: int | None = None,
    generator: Generator | None = None,
    **options: Unpack[LikeOptions],
) -> Tensor:
    """Whole random numbers from [low, high) in the shape and dtype of `input`; low is 0 unless given.

    >>> ex.randint_like(ex.zeros(2, 3), 10).dtype
    extempo.float32
    """
    given = [b for b in (low, *bounds, high) if b is not None]
    if len(given) not in (1, 2):
        raise DtypeError("randint_like: expected randint_like(x, high) or randint_like(x, low, high)")
    if input.is_nested:
        return in_rows(randint_like, input, *given, generator=generator, **options)
    return _like(
        "randint_like", input, options, lambda d: _integers("randint_like", given, input._type.shape, d, generator)
    )


# ---- of a distribution that tensors describe


def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    **options: Unpack[Options],
) -> Tensor:
    """Normal random numbers: mean and std are tensors or numbers; with two numbers, `size` says how many.

    No gradient flows to mean and std; `mean + std * ex.randn_like(mean)` has one.

    >>> ex.normal(ex.tensor([0.0, 10.0, 20.0]), 1.0).shape, ex.normal(0.0, 1.0, size=(2, 3)).shape
    (extempo.Size([3]), extempo.Size([2, 3]))
    """
    if isinstance(mean, Tensor | TensorLike) or isinstance(std, Tensor | TensorLike):
        if size is not None or options:
            raise DtypeError("normal: shape and dtype follow from the tensors mean and std; leave size and options out")
        return deliver_converted(apply(NormalOf, (mean, std, *take_draw(generator))), out)
    if size is None:
        raise DtypeError("normal: expected a tensor as mean or std, or size=(...) with two numbers")
    _require_std(std, "normal")
    d = read_options("normal", options, None if out is None else out.dtype)
    require_floating(d, "normal")
    drawn = _drawn(RandomNormal, generator, sizes("normal", (size,), None), d)
    return finish(drawn * as_kind(float, std) + as_kind(float, mean), options, out)


@method
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor:
    """1 with the probabilities that `input` holds, else 0; with the number `p`, `input` gives shape and dtype only.

    >>> ex.bernoulli(ex.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    if p is not None:
        return deliver_converted(_coins("bernoulli", input, p, generator), out)
    if not input.is_floating_point():
        raise DtypeError(f"bernoulli: expected floating probabilities, got {input.dtype}; use x.float()")
    seed, draw = take_draw(generator)
    return deliver_converted(apply(Bernoulli, (input, _signed(seed), draw)), out)


def _coins(op: str, input: Tensor, p: Any, generator: Generator | None) -> Tensor:
    if not 0 <= p <= 1:
        raise NumericalError(f"{op}: the probability must lie between 0 and 1, got {p}")
    if input.is_nested:
        return in_rows(lambda values: _coins(op, values, p, generator), input)
    return _drawn(RandomCoin, generator, input._type.shape, input._type.dtype, as_kind(float, p))


def dropout_noise(shape: Shape, p: float, scale: float, d: dtype) -> Tensor:
    """`scale` with probability 1 - p, else 0."""
    return _drawn(RandomKeep, None, shape, d, as_kind(float, p), as_kind(float, scale))


@method
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """`num_samples` indices for each row of weights, drawn in proportion to the weights.

    >>> ex.multinomial(ex.tensor([0.0, 3.0, 0.0]), 4, replacement=True)
    tensor([1, 1, 1, 1])
    """
    if input.ndim not in (1, 2) or not input._type.shape[-1]:
        raise ShapeError(f"multinomial: expected weights of shape (n) or (rows, n), n > 0, got {tuple(input.shape)}")
    if not input.is_floating_point():
        raise DtypeError(f"multinomial: expected floating weights, got {input.dtype}; use x.float()")
    if num_samples < 1:
        raise ShapeError(f"multinomial: expected at least one sample, got num_samples={num_samples}")
    if not replacement and num_samples > input._type.shape[-1]:
        raise ShapeError(
            f"multinomial: {num_samples} samples without replacement from {input._type.shape[-1]} categories; "
            "pass replacement=True"
        )
    check_size("multinomial", (*input._type.shape[:-1], num_samples), 8)
    attrs = {"n_samples": int(num_samples), "replacement": bool(replacement)}
    return deliver(apply(Multinomial, (input, *take_draw(generator)), attrs), out)


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Poisson counts of the rates that `input` holds.

    >>> ex.poisson(ex.tensor([0.0, 0.0])), ex.poisson(ex.full((1000,), 4.0)).mean().round()
    (tensor([0., 0.]), tensor(4.))
    """
    require_floating(input._type.dtype, "poisson")
    return apply(Poisson, (input, *take_draw(generator)))


# ---- in place


def _overwrite(x: Tensor, drawn: Tensor, op: str) -> Tensor:
    """Write a draw into a tensor. A tracked one stays tracked, with gradient 0, as in PyTorch."""
    return write(x, apply(Copy, (x, drawn)) if x.requires_grad else drawn, op)


def _fill(x: Tensor, op: type[Op], name: str, generator: Generator | None, *parameters: Any) -> Tensor:
    require_floating(x._type.dtype, name)
    return _drawn(op, generator, x._type.shape, x._type.dtype, *parameters)


@method
def uniform_(
    self: Tensor, from_: float = 0, to: float = 1, *, generator: Generator | None = None, **named: Any
) -> Tensor:
    """Fill with uniform random numbers from [from, to)."""
    low = named.pop("from", from_)  # a word that Python keeps for itself
    if named:
        raise DtypeError(f"uniform_: unknown arguments {', '.join(sorted(named))}")
    if not low <= to:
        raise NumericalError(f"uniform_: expected from <= to, got from={low} and to={to}")
    return _overwrite(self, _fill(self, RandomUniform, "uniform_", generator, low, to), "uniform_")


@method
def normal_(self: Tensor, mean: float = 0, std: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fill with normal random numbers."""
    _require_std(std, "normal_")
    return _overwrite(self, _fill(self, RandomNormal, "normal_", generator) * std + mean, "normal_")


def _require_std(std: float, op: str) -> None:
    if not std >= 0:
        raise NumericalError(f"{op}: std must not be negative, got {std}")


@method
def log_normal_(self: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None) -> Tensor:
    """Fill with exp(z), z normal with this mean and std."""
    if not std > 0:
        raise NumericalError(f"log_normal_: std must be positive, got {std}")
    return _overwrite(self, (_fill(self, RandomNormal, "log_normal_", generator) * std + mean).exp(), "log_normal_")


@method
def exponential_(self: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fill with exponential random numbers of rate `lambd`."""
    if not lambd > 0:
        raise NumericalError(f"exponential_: the rate must be positive, got lambd={lambd}")
    return _overwrite(self, _fill(self, RandomExponential, "exponential_", generator) / lambd, "exponential_")


@method
def cauchy_(self: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fill with Cauchy random numbers."""
    if not sigma > 0:
        raise NumericalError(f"cauchy_: sigma must be positive, got {sigma}")
    return _overwrite(self, _fill(self, RandomCauchy, "cauchy_", generator) * sigma + median, "cauchy_")


@method
def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with how many trials of probability `p` it takes up to the first success."""
    if not 0 < p < 1:
        raise NumericalError(f"geometric_: the probability must lie between 0 and 1, got {p}")
    drawn = _drawn(RandomGeometric, generator, self._type.shape, self._type.dtype, p)
    return _overwrite(self, drawn, "geometric_")


@method
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with 1 with probability `p` (a number, or a tensor that broadcasts to this one), else 0."""
    if not isinstance(p, Tensor):
        return _overwrite(self, _coins("bernoulli_", self, p, generator), "bernoulli_")
    require_floating(p._type.dtype, "bernoulli_")
    drawn = apply(Bernoulli, (p.detach().expand(self.shape), *take_draw(generator)))
    return _overwrite(self, drawn.to(self._type.dtype), "bernoulli_")


@method
def random_(
    self: Tensor, from_: int | None = None, to: int | None = None, *, generator: Generator | None = None, **named: Any
) -> Tensor:
    """Fill with whole random numbers from [from, to), from [0, to), or from all that the dtype holds from 0 up."""
    low = named.pop("from", from_)
    if named:
        raise DtypeError(f"random_: unknown arguments {', '.join(sorted(named))}")
    if to is None:
        low, to = 0, _whole_range(self._type.dtype)[1] + 1 if low is None else low
    drawn = _integers("random_", [low or 0, to], self._type.shape, self._type.dtype, generator)
    return _overwrite(self, drawn, "random_")
