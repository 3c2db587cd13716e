"""ex.nested: ragged tensors by PyTorch's names."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, ShapeError, UnsupportedError


def test_nested_tensor_is_a_leaf_and_as_nested_tensor_keeps_history():
    a = ex.ones(2, requires_grad=True)
    copied = ex.nested.nested_tensor([a, [3.0]], dtype=ex.float64, layout=ex.jagged, device="cpu", pin_memory=True)
    assert (copied.requires_grad, copied.is_leaf, copied.dtype) == (False, True, ex.float64)
    assert ex.nested_tensor([a], requires_grad=True).requires_grad
    ex.nested.as_nested_tensor([a, 2 * a]).values().sum().backward()
    assert a.grad.tolist() == [3, 3]
    assert ex.nested.as_nested_tensor(copied) is copied
    assert ex.nested.as_nested_tensor(copied, dtype=ex.float32).dtype is ex.float32
    assert ex.nested.as_nested_tensor(ex.ones(2, 3)).tolist() == [[1, 1, 1]] * 2
    row = ex.ones(2)
    assert ex.nested_tensor([row]).values().data_ptr() != row.data_ptr()


def test_nested_tensors_of_another_layout_or_device_are_refused():
    with pytest.raises(UnsupportedError, match=r"ex\.jagged"):
        ex.nested.nested_tensor([[1]], layout="coo")
    with pytest.raises(UnsupportedError, match="CPU"):
        ex.nested.nested_tensor([[1]], device="cuda")
    with pytest.raises(UnsupportedError, match=r"make a ragged one with ex\.ragged"):
        ex.zeros(2, layout=ex.jagged)


def test_jagged_values_with_holes_between_rows():
    values = ex.arange(10)
    made = ex.nested.nested_tensor_from_jagged(values, offsets=ex.tensor([0, 4, 8, 10]), lengths=ex.tensor([2, 0, 1]))
    assert made.tolist() == [[0, 1], [], [8]]
    assert ex.nested.nested_tensor_from_jagged(values, lengths=ex.tensor([4, 6])).lengths().tolist() == [4, 6]
    assert ex.nested.nested_tensor_from_jagged(ex.ones(2, 3), ex.tensor([0, 1, 3]), jagged_dim=2).shape[1] == 2
    with pytest.raises(ShapeError, match="row 1 of length 3 from 8 on"):
        ex.nested.nested_tensor_from_jagged(values, ex.tensor([0, 8]), ex.tensor([2, 3]))
    with pytest.raises(ShapeError, match="at least 1"):
        ex.nested.nested_tensor_from_jagged(values, ex.tensor([0, 10]), jagged_dim=0)
    with pytest.raises(ShapeError, match="one offset for each"):
        ex.nested.nested_tensor_from_jagged(values, ex.tensor([0, 10]), ex.tensor([2, 3, 4]))


def test_narrow_takes_a_part_of_each_row():
    x = ex.arange(24).view(3, 4, 2)
    made = ex.nested.narrow(x, 1, ex.tensor([0, 1, 3]), ex.tensor([4, 2, 0]), layout=ex.jagged)
    assert made.tolist() == [x[0].tolist(), x[1, 1:3].tolist(), []]
    assert ex.nested.narrow(x, 1, 1, 2).tolist() == x[:, 1:3].tolist()
    for start, length in (([0, 0, 2], [1, 1, 3]), ([0, -1, 0], [1, 1, 1]), ([4, 0, 0], [1, 0, 0])):
        with pytest.raises(ShapeError, match="not inside"):
            ex.nested.narrow(x, 1, ex.tensor(start), ex.tensor(length))
    with pytest.raises(UnsupportedError, match="dimension 1"):
        ex.nested.narrow(x, 2, 0, 1)


def test_masked_select_keeps_rows_apart():
    x = ex.arange(6).view(2, 3)
    assert ex.nested.masked_select(x, x % 2 == 0).tolist() == [[0, 2], [4]]
    assert ex.nested.masked_select(x, ex.tensor([True, False, False])).tolist() == [[0], [3]]
    with pytest.raises(DtypeError, match="bools"):
        ex.nested.masked_select(x, x)


@pytest.mark.conformance
def test_pytorchs_names_give_what_pytorchs_jagged_layout_gives():
    torch = pytest.importorskip("torch", reason="compares with PyTorch: pip install -e '.[conformance]'")
    rows = [np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32) for n in (2, 4, 1)]

    def both(make):
        ours = make(ex, ex.nested, ex.from_numpy)
        theirs = make(torch, torch.nested, torch.from_numpy)
        assert ours.is_nested
        assert theirs.is_nested
        assert [row.tolist() for row in ours.unbind()] == [row.tolist() for row in theirs.unbind()]
        assert ours.offsets().tolist()[:1] == [0]
        assert (ours.dim(), ours.size(0)) == (theirs.dim(), theirs.size(0))
        return ours, theirs

    def made(lib, nested, tensor):
        return nested.nested_tensor([tensor(row) for row in rows], layout=lib.jagged)

    ours, theirs = both(made)
    assert ours.to_padded_tensor(-1.0).tolist() == theirs.to_padded_tensor(-1.0).tolist()
    assert ours.values().tolist() == theirs.values().tolist()
    assert ours.numel() == theirs.numel()
    both(lambda lib, nested, tensor: nested.as_nested_tensor([tensor(row) for row in rows], layout=lib.jagged))
    both(lambda lib, nested, tensor: made(lib, nested, tensor) * 2 + 1)
    both(lambda lib, nested, tensor: made(lib, nested, tensor).relu())
    values, offsets, counts = np.arange(6.0), np.array([0, 2, 5]), np.array([1, 2])
    both(lambda lib, nested, tensor: nested.nested_tensor_from_jagged(tensor(values)[:5], tensor(offsets)))
    both(
        lambda lib, nested, tensor: nested.nested_tensor_from_jagged(
            tensor(values)[:5], tensor(offsets), tensor(counts)
        )
    )
    both(lambda lib, nested, tensor: nested.nested_tensor_from_jagged(tensor(values), lengths=tensor(np.array([2, 4]))))
    grid = np.arange(12.0).reshape(3, 4)
    start, length = np.array([0, 1, 2]), np.array([4, 2, 1])
    both(lambda lib, nested, tensor: nested.narrow(tensor(grid), 1, tensor(start), tensor(length), layout=lib.jagged))
    both(lambda lib, nested, tensor: nested.masked_select(tensor(grid), tensor(grid) > 4.0))
