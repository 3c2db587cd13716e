"""Sums of products over named dimensions: einsum, tensordot, chains of matrices, Kronecker and cross products.

Everything here ends in `matmul` (or in `mul`, where nothing is summed). einsum contracts two operands at a time, each
time the pair whose result is smallest, so a chain never builds the full outer product.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any, NamedTuple

from .. import ops
from ..core.tensor import Tensor, TensorLike
from ..core.tensor_methods import method
from ..core.types import broadcast_shapes, count, dtype, int64, normalize_dim
from ..core.wording import counted
from ..errors import DtypeError, IndexRangeError, ShapeError
from .define import deliver, deliver_converted, numpy_names, teaching
from .products import matmul

__all__ = ["chain_matmul", "cross", "einsum", "kron", "tensordot"]

Labels = tuple[str, ...]
_LETTERS = string.ascii_uppercase + string.ascii_lowercase


class Term(NamedTuple):
    """An operand with a label for each of its dimensions."""

    tensor: Tensor
    labels: Labels


# ---- einsum


@teaching
def einsum(*args: Any) -> Tensor:
    """Sums of products by Einstein's notation: `einsum("bij,bjk->bik", a, b)`.

    A label that occurs twice in one operand takes its diagonal, `...` stands for broadcast dimensions, and without `->`
    the result has the labels that occur once, in alphabetical order. Operands may also alternate with lists of ints:
    `einsum(a, [0, 1], b, [1, 2], [0, 2])`.

    >>> ex.einsum("ij,j->i", ex.tensor([[1.0, 2.0], [3.0, 4.0]]), ex.tensor([10.0, 1.0]))
    tensor([12., 34.])
    """
    equation, operands = _normal_form(args)
    sources, result = _parse(equation, operands)
    if any(x.is_nested for x in operands):
        from ..ragged_tensors import products

        return products.einsum(equation, sources, result, operands)
    terms = [_diagonals(Term(x, labels)) for x, labels in zip(operands, sources, strict=True)]
    terms = _drop_broadcast_ones(terms)
    while len(terms) > 1:
        first, second = _cheapest_pair(terms, result)
        rest = [t for i, t in enumerate(terms) if i not in (first, second)]
        kept = set(result).union(*(t.labels for t in rest))
        terms = [*rest, _contract(terms[first], terms[second], kept)]
    last = _sum_all_but(terms[0], set(result))
    return last.tensor.permute([last.labels.index(label) for label in result])


def _normal_form(args: tuple[Any, ...]) -> tuple[str, list[Tensor]]:
    """The equation as text and the operands, from either of the two ways to call einsum."""
    if not args:
        raise ShapeError("einsum: expected an equation and at least one tensor")
    if isinstance(args[0], str):
        operands = args[1:]
        if len(operands) == 1 and isinstance(operands[0], list | tuple):
            operands = tuple(operands[0])
        equation = args[0]
    else:
        operands = args[: len(args) // 2 * 2 : 2]
        sublists = [_sublist_text(s) for s in args[1 : len(operands) * 2 : 2]]
        equation = ",".join(sublists)
        if len(args) % 2:
            equation += "->" + _sublist_text(args[-1])
    for x in operands:
        if not isinstance(x, Tensor) and not isinstance(x, TensorLike):
            raise DtypeError(f"einsum: operands must be tensors, got {type(x).__name__}")
    if not operands:
        raise ShapeError(f"einsum: no operands for {equation!r}; pass one tensor for each term")
    return equation, list(operands)


def _sublist_text(sublist: Any) -> str:
    text = ""
    for label in sublist:
        if label is Ellipsis:
            text += "..."
        elif isinstance(label, int) and 0 <= label < len(_LETTERS):
            text += _LETTERS[label]
        else:
            raise IndexRangeError(f"einsum: sublists hold ints from 0 to {len(_LETTERS) - 1} and ..., got {label!r}")
    return text


def _parse(equation: str, operands: list[Tensor]) -> tuple[list[Labels], Labels]:
    """Labels of the operands' dimensions and of the result's; those of `...` are "0", "1" and so on from the right."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    texts = left.split(",")
    if len(texts) != len(operands):
        raise ShapeError(
            f"einsum: {equation!r} has {len(texts)} terms, but {counted(len(operands), 'tensor')} were given"
        )
    sources = [_labels(text, x.ndim, equation) for text, x in zip(texts, operands, strict=True)]
    n_dots = max(
        (x.ndim - len(text.replace("...", "")) for text, x in zip(texts, operands, strict=True) if "..." in text),
        default=0,
    )
    dots = tuple(str(i) for i in reversed(range(n_dots)))
    if arrow:
        named = right.replace("...", "")
        _check_letters(named, equation)
        before, _, after = right.partition("...")
        result: Labels = (*before, *dots, *after) if "..." in right else tuple(right)
    else:
        letters = [letter for text in texts for letter in text.replace("...", "")]
        result = (*dots, *sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    known = {label for labels in sources for label in labels}
    for label in result:
        if result.count(label) > 1 or (label not in known and label.isalpha()):
            problem = "occurs twice in the result" if label in known else "occurs in no operand"
            raise ShapeError(f"einsum: label {label!r} of {equation!r} {problem}")
    return sources, result


def _labels(text: str, ndim: int, equation: str) -> Labels:
    named = text.replace("...", "", 1)
    _check_letters(named, equation)
    n_dots = ndim - len(named)
    if n_dots < 0 or (n_dots and "..." not in text):
        raise ShapeError(
            f"einsum: {text!r} in {equation!r} names {counted(len(named), 'dimension')}, its tensor has {ndim}"
        )
    before, _, after = text.partition("...")
    return (*before, *(str(i) for i in reversed(range(n_dots))), *after)


def _check_letters(text: str, equation: str) -> None:
    for letter in text:
        if letter not in _LETTERS:
            raise ShapeError(f"einsum: {letter!r} in {equation!r} is not a label; labels are letters")


def _diagonals(term: Term) -> Term:
    """The term with every label once, in the place of its last occurrence."""
    tensor, labels = term
    for label in sorted(set(labels)):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if tensor.shape[first] != tensor.shape[second]:
                raise ShapeError(
                    f"einsum: label {label!r} is repeated on sizes {tensor.shape[first]} and {tensor.shape[second]}; "
                    "a diagonal needs equal sizes"
                )
            tensor = tensor.diagonal(0, first, second)
            labels = (*(x for i, x in enumerate(labels) if i not in (first, second)), label)
    return Term(tensor, labels)


def _drop_broadcast_ones(terms: list[Term]) -> list[Term]:
    """Sizes of 1 removed where another operand has a larger size: multiplying broadcasts over it anyway."""
    sizes: dict[str, int] = {}
    for tensor, labels in terms:
        for label, size in zip(labels, tensor.shape, strict=True):
            known = sizes.setdefault(label, size)
            if known != size and 1 not in (known, size):
                what = f"label {label!r}" if label.isalpha() else "a dimension of ..."
                raise ShapeError(f"einsum: {what} has size {known} in one operand and {size} in another")
            if known == 1:
                sizes[label] = size
    found = []
    for tensor, labels in terms:
        drop = [i for i, label in enumerate(labels) if tensor.shape[i] == 1 and sizes[label] != 1]
        kept = tuple(label for i, label in enumerate(labels) if i not in drop)
        found.append(Term(tensor.squeeze(drop) if drop else tensor, kept))
    return found


def _cheapest_pair(terms: list[Term], result: Labels) -> tuple[int, int]:
    """The two terms whose contraction leaves the fewest elements more than it takes."""
    if len(terms) == 2:
        return 0, 1

    def growth(pair: tuple[int, int]) -> int:
        rest = set(result).union(*(t.labels for i, t in enumerate(terms) if i not in pair))
        both = [terms[i] for i in pair]
        sizes = {label: size for t in both for label, size in zip(t.labels, t.tensor.shape, strict=True)}
        return count(size for label, size in sizes.items() if label in rest) - sum(t.tensor.numel() for t in both)

    return min(combinations(range(len(terms)), 2), key=growth)


def _sum_all_but(term: Term, kept: set[str], dtype: dtype | None = None) -> Term:
    dims = [i for i, label in enumerate(term.labels) if label not in kept]
    if not dims:
        return term
    return Term(term.tensor.sum(dims, dtype=dtype), tuple(label for label in term.labels if label in kept))


def _contract(left: Term, right: Term, kept: set[str]) -> Term:
    """The product of two terms, summed over the labels that nobody needs any more."""
    left = _sum_all_but(left, kept.union(right.labels))
    right = _sum_all_but(right, kept.union(left.labels))
    shared = [label for label in left.labels if label in right.labels]
    batch = [label for label in shared if label in kept]
    summed = [label for label in shared if label not in kept]
    rows = [label for label in left.labels if label not in shared]
    columns = [label for label in right.labels if label not in shared]
    if not summed:
        labels = (*batch, *rows, *columns)
        return Term(_spread_over(left, labels) * _spread_over(right, labels), labels)
    a, b = _grouped(left, batch, rows, summed), _grouped(right, batch, summed, columns)
    product = matmul(*_as_wide(a, b))
    sizes = _sizes(left) | _sizes(right)
    labels = (*batch, *rows, *columns)
    return Term(product.reshape([sizes[label] for label in labels]), labels)


def _as_wide(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both as int64 where one is and the other has narrower integers: sums of integers are int64."""
    if a.dtype is b.dtype or int64 not in (a.dtype, b.dtype) or a.is_floating_point() or b.is_floating_point():
        return a, b
    return a.long(), b.long()


def _sizes(term: Term) -> dict[str, int]:
    return dict(zip(term.labels, term.tensor.shape, strict=True))


def _spread_over(term: Term, labels: Labels) -> Tensor:
    """The term's dimensions in the order of `labels`, with size 1 for those that it lacks."""
    order = [term.labels.index(label) for label in labels if label in term.labels]
    sizes = _sizes(term)
    return term.tensor.permute(order).reshape([sizes.get(label, 1) for label in labels])


def _grouped(term: Term, *groups: list[str]) -> Tensor:
    """The dimensions of each group flattened into one; no batch and no rows or columns drop that dimension."""
    order = [term.labels.index(label) for group in groups for label in group]
    sizes = _sizes(term)
    shape = [count(sizes[label] for label in group) for group in groups if group]
    return _as_matrix(term.tensor.permute(order).reshape(shape), groups)


def _as_matrix(x: Tensor, groups: Sequence[list[str]]) -> Tensor:
    """With a batch, vectors need a dimension of size 1 to be told from matrices; without, matmul takes vectors."""
    batch, first, second = groups
    if not batch or (first and second):
        return x
    return x.unsqueeze(-1 if first else -2)


# ---- products


@teaching
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Sums over the last `dims` dimensions of a and the first of b, or over the pairs in `dims = (dims_a, dims_b)`.

    >>> ex.tensordot(ex.tensor([[1, 2], [3, 4]]), ex.tensor([10, 1]), dims=1)
    tensor([12, 34])
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise ShapeError(
                f"tensordot: dims={dims} needs as many dimensions, got {tuple(a.shape)} and {tuple(b.shape)}"
            )
        dims_a, dims_b = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        given_a, given_b = ([d] if isinstance(d, int) else list(d) for d in dims)
        dims_a = [normalize_dim(d, a.ndim, "tensordot") for d in given_a]
        dims_b = [normalize_dim(d, b.ndim, "tensordot") for d in given_b]
    if len(dims_a) != len(dims_b):
        raise ShapeError(
            f"tensordot: dims name {counted(len(dims_a), 'dimension')} of a and {len(dims_b)} of b; give pairs"
        )
    for i, j in zip(dims_a, dims_b, strict=True):
        if a.shape[i] != b.shape[j] and 1 not in (a.shape[i], b.shape[j]):
            raise ShapeError(f"tensordot: dimension {i} of {tuple(a.shape)} and {j} of {tuple(b.shape)} differ in size")
    labels_a = [f"a{d}" for d in range(a.ndim)]
    labels_b = [f"b{d}" for d in range(b.ndim)]
    for i, j in zip(dims_a, dims_b, strict=True):
        labels_b[j] = labels_a[i]
    result = tuple(label for label in (*labels_a, *labels_b) if (label in labels_a) != (label in labels_b))
    left, right = _drop_broadcast_ones([Term(a, tuple(labels_a)), Term(b, tuple(labels_b))])
    # What meets a size of 1 is summed in its own dtype, as PyTorch does here (and not in einsum).
    left = _sum_all_but(left, {*result, *right.labels}, a.dtype)
    right = _sum_all_but(right, {*result, *left.labels}, b.dtype)
    return deliver(_contract(left, right, set(result)).tensor, out)


@method
@teaching
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Kronecker product: `other`, scaled by each element of `input` in turn, laid out as blocks.

    >>> ex.kron(ex.tensor([1, 10]), ex.tensor([[1, 2]]))
    tensor([[ 1,  2, 10, 20]])
    """
    ndim = max(input.ndim, other.ndim)
    blocks = (1,) * (ndim - input.ndim) + tuple(input.shape)
    inside = (1,) * (ndim - other.ndim) + tuple(other.shape)
    left = input.reshape([size for block in blocks for size in (block, 1)])
    right = other.reshape([size for own in inside for size in (1, own)])
    return deliver_converted((left * right).reshape([m * n for m, n in zip(blocks, inside, strict=True)]), out)


@numpy_names
def linalg_cross(input: Tensor, other: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """The vectors at right angles to those of `input` and `other` along `dim`, which must have size 3.

    >>> ex.linalg.cross(ex.tensor([1.0, 0.0, 0.0]), ex.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    if input.ndim != other.ndim:
        raise ShapeError(
            f"linalg.cross: expected as many dimensions in both, got {tuple(input.shape)} and {tuple(other.shape)}"
        )
    d = normalize_dim(dim, input.ndim, "linalg.cross")
    if not input.ndim or input.shape[d] != 3 or other.shape[d] != 3:
        raise ShapeError(
            f"linalg.cross: dimension {dim} must have size 3, got shapes {tuple(input.shape)} and {tuple(other.shape)}"
        )
    shape = broadcast_shapes(input._type.shape, other._type.shape)
    a, b = input.expand(shape), other.expand(shape)
    return deliver(a.roll(-1, d) * b.roll(1, d) - a.roll(1, d) * b.roll(-1, d), out)


@method
@numpy_names
def cross(input: Tensor, other: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """The cross product along `dim`, by default along the first dimension of size 3.

    >>> ex.cross(ex.tensor([1.0, 0.0, 0.0]), ex.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    if dim is None:
        dim = next((d for d, size in enumerate(input.shape) if size == 3), None)
        if dim is None:
            raise ShapeError(f"cross: no dimension of {tuple(input.shape)} has size 3")
    return linalg_cross(input, other, dim=dim, out=out)


@teaching
def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The product of two or more matrices, in the order of multiplications that takes the fewest operations.

    The first may be a row vector and the last a column vector.

    >>> ex.linalg.multi_dot([ex.ones(2, 3), ex.ones(3, 4), ex.ones(4)])
    tensor([12., 12.])
    """
    chain = list(tensors)
    if len(chain) < 2:
        raise ShapeError(f"linalg.multi_dot: expected at least 2 tensors, got {len(chain)}")
    for i, x in enumerate(chain):
        if x.ndim != 2 and not (x.ndim == 1 and i in (0, len(chain) - 1)):
            raise ShapeError(
                f"linalg.multi_dot: tensor {i} must be a matrix (vectors only first or last), got {tuple(x.shape)}"
            )
    row, column = chain[0].ndim == 1, chain[-1].ndim == 1
    chain[0] = chain[0].unsqueeze(0) if row else chain[0]
    chain[-1] = chain[-1].unsqueeze(1) if column else chain[-1]
    for i, (a, b) in enumerate(pairwise(chain)):
        if a.shape[1] != b.shape[0]:
            raise ShapeError(
                f"linalg.multi_dot: tensors {i} and {i + 1} do not fit, {tuple(a.shape)} @ {tuple(b.shape)}"
            )
    result = _chain(chain, _best_splits([chain[0].shape[0], *(x.shape[1] for x in chain)]), 0, len(chain) - 1)
    result = result.squeeze(-1) if column else result
    return deliver(result.squeeze(0) if row else result, out)


def _best_splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to split each run of matrices, by the textbook dynamic programme over multiplication counts."""
    n_matrices = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n_matrices)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, n_matrices):
        for i in range(n_matrices - length):
            j = i + length
            costs = {k: cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)}
            split[i, j] = min(costs, key=costs.__getitem__)
            cost[i, j] = costs[split[i, j]]
    return split


def _chain(chain: list[Tensor], split: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    if i == j:
        return chain[i]
    k = split[i, j]
    return matmul(_chain(chain, split, i, k), _chain(chain, split, k + 1, j))


@teaching
def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """The product of one or more matrices; `linalg.multi_dot` is its newer name.

    >>> ex.chain_matmul(ex.ones(2, 3), ex.ones(3, 4), ex.ones(4, 1))
    tensor([[12.],
            [12.]])
    """
    return ops.deliver(matrices[0].clone(), out) if len(matrices) == 1 else multi_dot(matrices, out=out)


@numpy_names
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """The dot products of the vectors along `dim`; the other dimensions broadcast.

    >>> ex.linalg.vecdot(ex.tensor([[1.0, 2.0], [3.0, 4.0]]), ex.tensor([10.0, 1.0]))
    tensor([12., 34.])
    """
    for t in (x, y):
        if not t.dtype.is_floating_point:
            raise DtypeError(f"linalg.vecdot: expected floating tensors, got {t.dtype}; use x.float()")
    return deliver((x * y).sum(dim), out)


@teaching
def linalg_vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Rows (1, x, x ** 2, ..., x ** (N - 1)) for every element of x; N defaults to the last size.

    >>> ex.linalg.vander(ex.tensor([2, 3]), N=3)
    tensor([[1, 2, 4],
            [1, 3, 9]])
    """
    x = x if x.ndim else x.reshape(1)
    n_powers = x.shape[-1] if N is None else N
    if n_powers <= 1:
        raise ShapeError(f"linalg.vander: N must be greater than 1, got {n_powers} for shape {tuple(x.shape)}; pass N")
    x = x if x.dtype.is_floating_point else x.long()
    return x.unsqueeze(-1) ** ops.arange(n_powers)
