"""Layers that look rows up in a table. Rows are named by a Python int, a list or a tensor of ints.

`sparse=True` is refused: gradients are dense.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..errors import IndexRangeError, ShapeError
from ..ops.lookup import refuse_sparse
from . import functional as F
from .layer_support import changed
from .module import Module
from .parameter import Parameter

__all__ = ["Embedding", "EmbeddingBag"]

Rows = Tensor | int | Sequence[Any]


class _Table(Module):
    """A table of vectors, drawn from the standard normal distribution; the row `padding_idx` is 0."""

    _shown: ClassVar[Mapping[str, Any]]

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        max_norm: float | None,
        norm_type: float,
        scale_grad_by_freq: bool,
        sparse: bool,
        weight: Tensor | None,
        freeze: bool,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        refuse_sparse(name, sparse)
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise IndexRangeError(f"{name}: padding_idx {padding_idx} is outside num_embeddings={num_embeddings} rows")
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        shape = (num_embeddings, embedding_dim)
        if weight is not None and tuple(weight.shape) != shape:
            sizes = f"num_embeddings={num_embeddings}, embedding_dim={embedding_dim}"
            raise ShapeError(f"{name}: _weight has shape {tuple(weight.shape)}, expected {shape} for {sizes}")
        table = ops.empty(shape, device=device, dtype=dtype) if weight is None else weight
        self.weight = Parameter(table, requires_grad=not freeze)
        if weight is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        with no_grad():
            self.weight.normal_()
            if self.padding_idx is not None:
                self.weight[self.padding_idx] = 0.0

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}{changed(self, self._shown)}"

    @classmethod
    def _around(cls, embeddings: Tensor, **options: Any) -> Self:
        made: Any = cls  # the subclasses take the table as `_weight`
        if embeddings.ndim != 2:
            shape = tuple(embeddings.shape)
            raise ShapeError(f"{cls.__name__}.from_pretrained: expected a table (rows, features), got shape {shape}")
        return made(*embeddings.shape, _weight=embeddings, **options)


class Embedding(_Table):
    """Rows of a table: an int, a list or a tensor of ints of any shape -> (*shape, embedding_dim).

    The row `padding_idx` starts at 0 and gets no gradient. `max_norm` scales down, in place and before each lookup, the
    rows that are longer than that.

    >>> table = nn.Embedding.from_pretrained(ex.tensor([[1.0, 2.0], [3.0, 4.0]]))
    >>> table([1, 0, 1])
    tensor([[3., 4.],
            [1., 2.],
            [3., 4.]])
    >>> table(0)
    tensor([1., 2.])
    """

    _is_cell = True
    _shown: ClassVar[Mapping[str, Any]] = {
        "padding_idx": None,
        "max_norm": None,
        "norm_type": 2.0,
        "scale_grad_by_freq": False,
        "sparse": False,
    }

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        limits = (max_norm, norm_type, scale_grad_by_freq, sparse)
        super().__init__(num_embeddings, embedding_dim, padding_idx, *limits, _weight, _freeze, device, dtype)

    def forward(self, input: Rows) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """An embedding on a table (rows, features) that exists; `freeze` keeps it from being trained."""
        return cls._around(
            embeddings,
            _freeze=freeze,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )


class EmbeddingBag(_Table):
    """The sum, mean or max of embeddings over bags of rows, of any length each: -> (bags, embedding_dim).

    Bags are the rows of a 2-dim input, or slices of a 1-dim one that begin at `offsets`. Rows equal to `padding_idx`
    are left out, an empty bag gives zeros.

    >>> bags = nn.EmbeddingBag.from_pretrained(ex.tensor([[1.0, 2.0], [3.0, 4.0]]), mode="sum")
    >>> bags([0, 1, 1], offsets=[0, 1])
    tensor([[1., 2.],
            [6., 8.]])
    """

    _shown: ClassVar[Mapping[str, Any]] = {
        "max_norm": None,
        "norm_type": 2.0,
        "scale_grad_by_freq": False,
        "mode": None,  # always said
        "padding_idx": None,
    }

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        limits = (max_norm, norm_type, scale_grad_by_freq, sparse)
        super().__init__(num_embeddings, embedding_dim, padding_idx, *limits, _weight, False, device, dtype)
        self.mode = mode
        self.include_last_offset = include_last_offset

    def forward(
        self, input: Rows, offsets: Tensor | Sequence[int] | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """Bags of a table (rows, features) that exists; `freeze` keeps it from being trained."""
        bags = cls._around(
            embeddings,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        bags.weight.requires_grad_(not freeze)
        return bags
