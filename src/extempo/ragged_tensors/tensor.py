"""RaggedTensor: rows of different length as one tensor, `values` and `offsets`, with no padding.

Shape (B, ..., *, ...): dimension 0 counts the rows, one other dimension is ragged, all others are regular. The values
of all rows lie in one ordinary tensor, `flat`, of the shape without dimension 0, whose ragged dimension is the sum of
the lengths. Everything is done by ordinary ops on it (`rules`), so gradients, traces and batches need to know
nothing of ragged tensors.

A function that has no rule fails: a ragged tensor has none of the private parts that ops of tensors read, and the size
of its ragged dimension is no number. So code that was written for tensors gives the right answer or none.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from .. import ops
from ..core.device import jagged, layout
from ..core.op import Op
from ..core.storage import Array
from ..core.tensor import Tensor, TensorLike
from ..core.types import Size, TensorType, dtype, normalize_dim
from ..dispatch.inplace import write
from ..errors import AutogradError, DtypeError, ShapeError, UnsupportedError
from .rows import RaggedSize, Rows

__all__ = ["RaggedTensor"]

_FILLS = ("zero_", "fill_", "normal_", "uniform_", "exponential_", "random_", "cauchy_", "geometric_", "log_normal_")
_WRAPPERS = ("renamed", "taught", "fn", "fn_", "reflected", "augmented", "forward", "apply", "lifted")
_PACKAGE = str(Path(__file__).parents[1])
NEAREST = "loop over its rows (`for row in x`), pad them (x.to_padded_tensor(0.0)), or use x.values() and x.offsets()"

TWO_LEVELS = (
    "a ragged tensor has one ragged dimension; keep the inner rows in one ragged tensor and their counts beside it "
    "(sentences = ex.ragged(all_sentences), documents = ex.ragged_from_values(vectors_of_sentences, counts)), or write "
    "the model for one document and use ex.batch"
)


class RaggedUnsupported(UnsupportedError, AttributeError):
    """Something that ragged tensors cannot do; the message names what comes nearest."""


def refuse(what: str, advice: str = NEAREST) -> NoReturn:
    """Raise for an op that ragged tensors do not have."""
    raise RaggedUnsupported(f"{what}: not for ragged tensors; {advice}")


def asked_function() -> str:
    """The name of the function of Extempo that the user's code called, or of its own where nothing else is known."""
    names, frame = ["this op"], sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        names.append(frame.f_code.co_name)
        frame = frame.f_back  # type: ignore[assignment]
    # Wrappers, and what calls a module, are no names that a user knows.
    known = [name for name in names if not name.startswith(("_", "<")) and name not in _WRAPPERS]
    return known[-1]


class RaggedTensor(TensorLike):
    """A batch of rows that differ in one size, without padding. `ex.ragged(rows)` makes one.

    >>> x = ex.ragged([ex.tensor([1.0, 2.0, 3.0]), ex.tensor([4.0])])
    >>> x.shape, x.sum(1), (2 * x)[0]
    (extempo.Size([2, *]), tensor([6., 4.]), tensor([2., 4., 6.]))
    """

    __slots__ = ("__dict__", "__weakref__", "_dim", "_flat", "_rows")

    _flat: Tensor  # all rows, one after the other along dimension _dim - 1
    _rows: Rows
    _dim: int  # the ragged dimension, of the shape with dimension 0

    def __init__(self, flat: Tensor, rows: Rows, dim: int = 1) -> None:
        if not 1 <= dim <= flat.ndim or flat.shape[dim - 1] != rows.total:
            raise ShapeError(
                f"ragged: values of shape {tuple(flat.shape)} do not hold rows of lengths {rows.lengths.tolist()} "
                f"(together {rows.total}) along dimension {dim - 1}"
            )
        self._flat = flat
        self._rows = rows
        self._dim = dim

    # ---- its parts

    def values(self) -> Tensor:
        """All rows in one tensor, one after the other; no copy."""
        return self._flat

    def offsets(self) -> Tensor:
        """Where each row begins in `values()`, and at the end where the last one ends."""
        return self._rows.offsets_tensor.clone()

    def lengths(self) -> Tensor:
        """The length of each row."""
        return self._rows.lengths_tensor.clone()

    # ---- what it is

    @property
    def shape(self) -> Size:
        sizes: list[Any] = [self._rows.n, *self._flat.shape]
        sizes[self._dim] = RaggedSize(self._rows)
        return Size(sizes)

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[normalize_dim(dim, self.ndim, "size")]

    @property
    def ndim(self) -> int:
        return self._flat.ndim + 1

    def dim(self) -> int:
        return self.ndim

    @property
    def dtype(self) -> dtype:
        return self._flat.dtype

    @property
    def _type(self) -> TensorType:
        return TensorType(tuple(self.shape), self._flat.dtype)

    @property
    def is_nested(self) -> bool:
        return True

    @property
    def layout(self) -> layout:
        return jagged

    def numel(self) -> int:
        """The number of elements of all rows together."""
        return self._flat.numel()

    nelement = numel

    @property
    def nbytes(self) -> int:
        return self._flat.nbytes

    def __len__(self) -> int:
        return self._rows.n

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.unbind())

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:  # type: ignore[override] # rows lie along one dimension: there is no axis to name
        """The rows, as views."""
        if normalize_dim(dim, self.ndim, "unbind") != 0:
            refuse("unbind along another dimension than 0")
        return self._flat.split_with_sizes(self._rows.lengths.tolist(), self._dim - 1)

    def row(self, i: int) -> Tensor:
        """One row, as a view."""
        return self._flat.narrow(self._dim - 1, int(self._rows.offsets[i]), int(self._rows.lengths[i]))

    def like(self, flat: Tensor) -> RaggedTensor:
        """Other values in the same rows."""
        return RaggedTensor(flat, self._rows, self._dim)

    def _maker(self) -> Callable[[Tensor], RaggedTensor]:
        rows, dim = self._rows, self._dim
        return lambda flat: RaggedTensor(flat, rows, dim)

    def _described(self) -> str:
        return f"a ragged tensor of shape {tuple(self.shape)} with lengths {self._rows.brief()}"

    def tolist(self) -> list[Any]:
        """One nested list for each row."""
        return [row.tolist() for row in self.detach().unbind()]

    def detach(self) -> RaggedTensor:
        """The same memory outside the graph."""
        return self.like(self._flat.detach())

    def contiguous(self, memory_format: Any = None) -> RaggedTensor:  # type: ignore[override] # tensors return tensors
        return self.like(self._flat.contiguous())

    def is_contiguous(self, memory_format: Any = None) -> bool:
        return self._flat.is_contiguous()

    @property
    def data(self) -> RaggedTensor:
        return self.like(self._flat.data)

    # ---- autograd: that of the values

    @property
    def requires_grad(self) -> bool:
        return self._flat.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._flat.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> RaggedTensor:
        """Record what is done to the values from now on."""
        self._flat.requires_grad_(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        return self._flat.is_leaf

    @property
    def grad_fn(self) -> Any:
        return self._flat.grad_fn

    def retain_grad(self) -> None:
        self._flat.retain_grad()

    def register_hook(self, hook: Callable[[RaggedTensor], Any]) -> Any:
        """Call `hook(grad)` whenever the gradient is known; a ragged tensor that it returns takes its place."""
        like = self._maker()

        def on_values(grad: Tensor) -> Tensor | None:
            changed = hook(like(grad))
            if changed is None:
                return None
            if not (isinstance(changed, RaggedTensor) and changed.values().shape == grad.shape):
                raise ShapeError(f"register_hook: a hook returns a gradient of the same rows, got {_named(changed)}")
            return changed.values()

        return self._flat.register_hook(on_values)

    def register_post_accumulate_grad_hook(self, hook: Callable[[RaggedTensor], Any]) -> Any:
        """Call `hook(tensor)` after a gradient was added to `.grad`."""
        like = self._maker()
        return self._flat.register_post_accumulate_grad_hook(lambda flat: hook(like(flat)))

    @property
    def grad(self) -> RaggedTensor | None:
        """The gradient of the values, in the same rows."""
        return None if self._flat.grad is None else self.like(self._flat.grad)

    @grad.setter
    def grad(self, value: RaggedTensor | None) -> None:
        if value is not None and not (isinstance(value, RaggedTensor) and value.shape == self.shape):
            raise ShapeError(f"grad: expected a ragged tensor of the same rows or None, got {_named(value)}")
        self._flat.grad = None if value is None else value._flat

    def backward(  # type: ignore[override] # the gradient is ragged, too
        self, gradient: RaggedTensor | None = None, **options: Any
    ) -> None:
        """As that of tensors; the gradient has the same rows."""
        if gradient is None:
            raise AutogradError(
                f"backward: a ragged tensor of shape {tuple(self.shape)} is no single number; call backward on a loss, "
                "such as x.sum(), or pass a gradient with the same rows"
            )
        if not (isinstance(gradient, RaggedTensor) and gradient.shape == self.shape):
            raise ShapeError(f"backward: the gradient must have the same rows, got {_named(gradient)}")
        self._flat.backward(gradient._flat, **options)

    # ---- ops

    def _apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        from .rules import lifted

        return lifted(op, inputs, attrs)

    def _write(self, value: Any, op_name: str) -> RaggedTensor:
        if not isinstance(value, RaggedTensor) or value.shape != self.shape:
            raise ShapeError(
                f"{op_name}: a ragged tensor keeps its rows when it is written to, the result has shape "
                f"{tuple(value.shape)}, the tensor {tuple(self.shape)}; assign the result instead"
            )
        write(self._flat, value._flat, op_name)
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        refuse(asked_function() if name.startswith("_") else name)

    def __getitem__(self, key: Any) -> Any:
        from .indexing import picked

        return picked(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        from .indexing import put

        put(self, key, value)

    # ---- where an ordinary tensor has one meaning, and a ragged one has none

    def item(self) -> Any:
        return self._flat.item()

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise ShapeError(
                f"bool: a ragged tensor of shape {tuple(self.shape)} has no single truth value; use .any(), .all() or "
                ".numel() > 0"
            )
        return bool(self._flat)

    def __contains__(self, element: Any) -> bool:
        return element in self._flat

    def __hash__(self) -> int:
        return id(self)

    def __reversed__(self) -> RaggedTensor:
        return self[::-1]

    def numpy(self, *, force: bool = False) -> NoReturn:
        refuse("numpy", "use [row.numpy() for row in x], x.values().numpy(), or x.to_padded_tensor(0.0).numpy()")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        self.numpy()

    # ---- text, copies

    def __repr__(self) -> str:
        from .text import ragged_text

        return ragged_text(self)

    def _repr_html_(self) -> str:
        from .text import ragged_html

        return ragged_html(self)

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __copy__(self) -> RaggedTensor:
        copied = self.like(self._flat)
        copied.__dict__.update(self.__dict__)
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> RaggedTensor:
        copied = memo[id(self)] = self.like(copy.deepcopy(self._flat, memo))
        copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return copied

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return RaggedTensor, (self._flat, self._rows, self._dim), self.__dict__ or None

    # ---- padding

    def to_padded_tensor(self, padding: float, output_size: Any = None) -> Tensor:
        """A regular tensor: shorter rows have `padding` after their end.

        >>> ex.ragged([ex.tensor([1, 2]), ex.tensor([3])]).to_padded_tensor(0)
        tensor([[1, 2],
                [3, 0]])
        """
        from .padding import padded

        return padded(self, padding, output_size)

    def mask(self) -> Tensor:
        """Which elements of the padded tensor are there: bools of shape (rows, longest).

        >>> ex.ragged([ex.tensor([1, 2]), ex.tensor([3])]).mask()
        tensor([[ True,  True],
                [ True, False]])
        """
        return ops.from_numpy(np.arange(self._rows.longest) < self._rows.lengths[:, None])

    # ---- other libraries

    def to_arrow(self) -> Any:
        """A pyarrow.LargeListArray on the same memory, with fixed-size lists for dimensions after the ragged one."""
        from .arrow import to_arrow

        return to_arrow(self)

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_array__(requested_schema)

    def to_awkward(self) -> Any:
        """An ak.Array on the same memory."""
        from .arrow import to_awkward

        return to_awkward(self)


def _on_values(name: str) -> Any:
    """A method that changes the values and needs no shape."""

    def fill(self: RaggedTensor, *args: Any, **options: Any) -> RaggedTensor:
        getattr(self._flat, name)(*args, **options)
        return self

    fill.__name__ = name
    fill.__doc__ = f"`{name}` of the values, all rows together."
    return fill


for _name in (*_FILLS, "detach_"):
    setattr(RaggedTensor, _name, _on_values(_name))


def _named(value: Any) -> str:
    if isinstance(value, RaggedTensor):
        return value._described()
    return f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__


def as_ragged(value: Any, name: str) -> RaggedTensor:
    """`value`, which must be a ragged tensor."""
    if not isinstance(value, RaggedTensor):
        raise DtypeError(f"{name}: expected a ragged tensor, got {type(value).__name__}; make one with ex.ragged(...)")
    return value
