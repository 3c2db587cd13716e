"""A function of ragged tensors against the loop over rows that it stands for: values, lengths and gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

import extempo as ex
from extempo.ragged_tensors.rows import Rows
from extempo.ragged_tensors.tensor import RaggedTensor

LENGTHS = st.lists(st.integers(0, 6), max_size=5)
FEW = settings(max_examples=15, deadline=None)


def leaf(*shape: int, seed: int = 0, dtype: Any = ex.float64) -> ex.Tensor:
    return ex.from_numpy(np.random.RandomState(seed).normal(size=shape)).to(dtype).requires_grad_()


def ragged_leaf(lengths: Sequence[int], *shape: int, dim: int = 1, seed: int = 1, dtype: Any = ex.float64) -> Any:
    """Rows of normal numbers of a shape in which dimension dim - 1 is left out."""
    sizes = list(shape)
    sizes.insert(dim - 1, sum(lengths))
    return RaggedTensor(leaf(*sizes, seed=seed, dtype=dtype), Rows.of_lengths(lengths), dim)


def ragged_ints(lengths: Sequence[int], n: int, *shape: int, seed: int = 2) -> Any:
    """Rows of numbers below n."""
    numbers = np.random.RandomState(seed).randint(0, n, (sum(lengths), *shape))
    return RaggedTensor(ex.from_numpy(numbers), Rows.of_lengths(lengths), 1)


def made(*lengths: int, seed: int = 0, requires_grad: bool = False) -> Any:
    """Rows of normal numbers, three for each element."""
    generator = ex.random.Generator().manual_seed(seed)
    return ex.ragged([ex.randn(n, 3, generator=generator) for n in lengths], requires_grad=requires_grad)


def row(x: Any, i: int) -> Any:
    return x[i] if isinstance(x, RaggedTensor) else x


def check_rows(
    fn: Callable[..., Any], *inputs: Any, of_row: Callable[..., Any] | None = None, rtol: float = 1e-9
) -> Any:
    """fn(*inputs) is fn of each row of the ragged inputs and of all others as they are; so are its gradients.

    of_row: another function for a row, where regular inputs have a part for each: it gets the row's number first.
    """
    result = fn(*inputs)
    n = next(len(x) for x in inputs if isinstance(x, RaggedTensor))
    rows = []
    for i in range(n):
        parts = [row(x, i) for x in inputs]
        rows.append(fn(*parts) if of_row is None else of_row(i, *parts))
    if not n:
        assert len(result) == 0
        return result
    if isinstance(result, RaggedTensor):
        assert result.lengths().tolist() == [r.shape[result._dim - 1] for r in rows]
        found, expected = result.values(), ex.cat(rows, result._dim - 1)
    else:
        found, expected = result, ex.stack(rows)
    same(found, expected, inputs, rtol)
    return result


def same(found: ex.Tensor, expected: ex.Tensor, inputs: Sequence[Any], rtol: float = 1e-9) -> None:
    """Equal values, and equal gradients with respect to those inputs that require them."""
    assert found.shape == expected.shape
    assert found.dtype is expected.dtype
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=rtol, atol=rtol)
    leaves = [x.values() if isinstance(x, RaggedTensor) else x for x in inputs]
    leaves = [x for x in leaves if isinstance(x, ex.Tensor) and x.requires_grad]
    if found.numel():
        assert found.requires_grad == expected.requires_grad
    gradients = [_gradients(y, leaves) for y in (found, expected)]
    for x, ours, theirs in zip(leaves, *gradients, strict=True):
        for g in (ours, theirs):
            assert g is None or g.shape == x.shape
        ours, theirs = (ex.zeros_like(x) if g is None else g for g in (ours, theirs))
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=rtol, atol=10 * rtol)


def _gradients(y: ex.Tensor, leaves: list[ex.Tensor]) -> Sequence[ex.Tensor | None]:
    if not y.requires_grad or not leaves:
        return [None] * len(leaves)
    weights = ex.cos(ex.arange(y.numel(), dtype=y.dtype)).reshape(y.shape)
    return ex.autograd.grad((y * weights).sum(), leaves, retain_graph=True, allow_unused=True)
