"""What distributions share: broadcasting of parameters, probabilities and logits, properties computed once."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import ops
from ..core.context import enable_grad
from ..core.tensor import Tensor
from ..core.types import Number, dtype, finfo, get_default_dtype, int64
from ..errors import DtypeError, ShapeError
from ..ops.activation import logsigmoid
from ..ops.gamma_gradient import standard_gamma

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "euler_constant",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

Value = Tensor | Number

euler_constant = 0.57721566490153286060
LOG_TWO_PI = math.log(2 * math.pi)


def broadcast_all(*values: Value) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape; numbers take the dtype of the first tensor.

    >>> [x.tolist() for x in ex.distributions.utils.broadcast_all(0.0, ex.tensor([1.0, 2.0]))]
    [[0.0, 0.0], [1.0, 2.0]]
    """
    wanted: dtype | None = None
    for value in values:
        if isinstance(value, Tensor):
            wanted = wanted or value.dtype
        elif not isinstance(value, int | float):
            raise DtypeError(
                f"broadcast_all: expected tensors or numbers, got {type(value).__name__}; use ex.tensor(...)"
            )
    d = wanted or get_default_dtype()
    tensors = [x if isinstance(x, Tensor) else ops.tensor(x, dtype=d) for x in values]
    return tuple(ops.broadcast_tensors(*tensors))


def sum_rightmost(value: Tensor, n_dims: int) -> Tensor:
    """The sum over the last `n_dims` dimensions."""
    return value.flatten(value.ndim - n_dims).sum(-1) if n_dims else value


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), exact for every x (`nn.functional.softplus` returns x itself from 20 on)."""
    return -logsigmoid(-x)


def log_beta(a: Tensor, b: Tensor) -> Tensor:
    """The logarithm of the beta function."""
    return a.lgamma() + b.lgamma() - (a + b).lgamma()


def open_uniform(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Uniform draws from (0, 1), whose logarithm is finite."""
    return ops.rand(shape, dtype=like.dtype).clamp(min=finfo(like.dtype).tiny)


def exponential(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Exponential draws of rate 1."""
    return ops.empty(shape, dtype=like.dtype).exponential_()


def gamma_draws(shape: tuple[int, ...], concentration: Tensor, rate: Tensor) -> Tensor:
    """Gamma draws with a gradient to both parameters, kept from 0, which may have an infinite density."""
    drawn = standard_gamma(concentration.expand(shape)) / rate
    return drawn.clamp(min=finfo(drawn.dtype).tiny)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept from 0 and 1 by the eps of their dtype.

    >>> float(ex.distributions.utils.clamp_probs(ex.tensor(1.0))) < 1
    True
    """
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Sigmoid of each logit, or softmax of the last dimension.

    >>> ex.distributions.utils.logits_to_probs(ex.zeros(2))
    tensor([0.5000, 0.5000])
    """
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log-odds of each probability, or logarithms for those of a last dimension; finite also at 0 and 1.

    >>> ex.distributions.utils.probs_to_logits(ex.tensor(0.5), is_binary=True)
    tensor(0.)
    """
    inside = clamp_probs(probs)
    return inside.log() - ops.log1p(-inside) if is_binary else inside.log()


class lazy_property:
    """A method as a property that is computed at its first use and then kept, with its gradient.

    >>> class Circle:
    ...     @ex.distributions.utils.lazy_property
    ...     def area(self):
    ...         return 3
    >>> Circle().area
    3
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():  # what a no_grad block happens to ask for first is used outside of it too
            value = self.wrapped(instance)
        instance.__dict__[self.wrapped.__name__] = value  # found before this descriptor from now on
        return value


class same_as(property):
    """A property that is another attribute: `mean = same_as("loc")`, or `loc = same_as("base_dist.loc", "The ...")`.

    Without a docstring of its own it has that of the property which it overrides.
    """

    def __init__(self, path: str, doc: str | None = None) -> None:
        super().__init__(operator.attrgetter(path))
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        if self.__doc__ is None:
            self.__doc__ = getattr(super(owner, owner), name).__doc__

    if TYPE_CHECKING:  # which take what a property object returns for Any

        def __get__(self, instance: Any, owner: type | None = None, /) -> Tensor:  # type: ignore[override] # narrower
            ...


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The matrix whose lower triangle, from the `diag`-th diagonal down, holds the vector row by row.

    >>> ex.distributions.utils.vec_to_tril_matrix(ex.tensor([1, 2, 3]))
    tensor([[1, 0],
            [2, 3]])
    """
    n_entries = vec.shape[-1]
    size = next(n for n in itertools.count(max(1, 1 - diag)) if _n_tril(n, diag) >= n_entries)
    if _n_tril(size, diag) != n_entries:
        raise ShapeError(f"vec_to_tril_matrix: {n_entries} numbers do not fill the triangle of a square matrix")
    flat = ops.zeros((*vec.shape[:-1], size * size), dtype=vec.dtype)
    positions = ops.tensor(_tril_positions(size, diag), dtype=int64)
    return flat.index_copy(-1, positions, vec).unflatten(-1, (size, size))


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangle of a square matrix, from the `diag`-th diagonal down, row by row.

    >>> ex.distributions.utils.tril_matrix_to_vec(ex.tensor([[1, 9], [2, 3]]))
    tensor([1, 2, 3])
    """
    size = mat.shape[-1]
    if not -size <= diag < size:
        raise ShapeError(f"tril_matrix_to_vec: a matrix of size {size} has no diagonal {diag}")
    positions = ops.tensor(_tril_positions(size, diag), dtype=int64)
    return mat.flatten(-2).index_select(-1, positions)


def _tril_positions(size: int, diag: int) -> list[int]:
    return [row * size + column for row in range(size) for column in range(size) if column <= row + diag]


def _n_tril(size: int, diag: int) -> int:
    n_rows = max(size - abs(diag + (diag > 0)), 0)  # of the triangle that is there, or of the one that is missing
    triangle = n_rows * (n_rows + 1) // 2
    return size * size - triangle if diag > 0 else triangle
