"""nn.utils.rnn: padding and packing, there and back."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, ShapeError
from extempo.nn.utils import rnn


def sequences(*lengths: int, width: int = 2) -> list[ex.Tensor]:
    rng = np.random.default_rng(len(lengths))
    return [ex.tensor(rng.normal(size=(n, width)), requires_grad=True) for n in lengths]


@pytest.mark.parametrize("lengths", [(3, 2, 2), (1, 4, 2), (5,)])
@pytest.mark.parametrize("batch_first", [False, True])
def test_padding_and_unpadding_give_the_sequences_back(lengths, batch_first):
    given = sequences(*lengths)
    padded = rnn.pad_sequence(given, batch_first, padding_value=-1.0)
    longest = max(lengths)
    assert padded.shape == ((len(lengths), longest, 2) if batch_first else (longest, len(lengths), 2))
    back = rnn.unpad_sequence(padded, ex.tensor(lengths), batch_first)
    for a, b in zip(given, back, strict=True):
        assert ex.equal(a, b)
    assert (padded == -1.0).sum().item() == 2 * sum(longest - n for n in lengths)


def test_padding_on_the_left():
    padded = rnn.pad_sequence([ex.tensor([1, 2, 3]), ex.tensor([4])], True, 9, "left")
    assert padded.tolist() == [[1, 2, 3], [9, 9, 4]]
    with pytest.raises(ShapeError, match="padding_side"):
        rnn.pad_sequence([ex.tensor([1])], padding_side="middle")


@pytest.mark.parametrize("lengths", [(4, 2, 2, 1), (1, 4, 2), (3,)])
def test_packing_and_unpacking_give_the_sequences_and_their_gradients_back(lengths):
    given = sequences(*lengths)
    packed = rnn.pack_sequence(given, enforce_sorted=False)
    assert packed.data.shape == (sum(lengths), 2)
    assert packed.batch_sizes.tolist() == [sum(n > t for n in lengths) for t in range(max(lengths))]
    back = rnn.unpack_sequence(packed)
    for a, b in zip(given, back, strict=True):
        assert ex.equal(a, b)
    ex.stack([(i + 1) * b.sum() for i, b in enumerate(back)]).sum().backward()
    for i, a in enumerate(given):
        assert a.grad.tolist() == [[i + 1.0] * 2] * lengths[i]


def test_a_packed_sequence_pickles_converts_and_inverts_its_order():
    packed = rnn.pack_sequence(sequences(1, 3), enforce_sorted=False)
    assert packed.sorted_indices.tolist() == [1, 0]
    assert packed.unsorted_indices.tolist() == [1, 0]
    assert packed.float().data.dtype is ex.float32
    assert packed.double() is packed.cpu() is packed.pin_memory() is packed
    assert packed.to(ex.float16).half().data.dtype is ex.float16
    assert packed.long().data.dtype is ex.int64
    assert not packed.is_cuda
    plain = packed.to(ex.float32)
    plain = type(plain)(plain.data.detach(), *plain[1:])
    restored = pickle.loads(pickle.dumps(plain))
    assert type(restored) is rnn.PackedSequence
    assert ex.equal(restored.data, plain.data)
    assert rnn.invert_permutation(None) is None


def test_total_length_pads_further():
    packed = rnn.pack_sequence([ex.tensor([1.0, 2.0]), ex.tensor([3.0])])
    padded, lengths = rnn.pad_packed_sequence(packed, True, 7.0, total_length=3)
    assert padded.tolist() == [[1.0, 2.0, 7.0], [3.0, 7.0, 7.0]]
    assert lengths.tolist() == [2, 1]
    with pytest.raises(ShapeError, match="total_length"):
        rnn.pad_packed_sequence(packed, total_length=1)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (lambda x: rnn.pack_padded_sequence(x, [1, 2, 3]), "3 lengths"),
        (lambda x: rnn.pack_padded_sequence(x, [1, 3]), "enforce_sorted"),
        (lambda x: rnn.pack_padded_sequence(x, [4, 1]), "3 steps"),
        (lambda x: rnn.pack_padded_sequence(x, [2, 0]), "between 1"),
        (lambda x: rnn.pack_padded_sequence(x, [1.5, 1]), "integers"),
        (lambda x: rnn.pack_padded_sequence(x[:, 0, 0], [1]), "batch dimension"),
        (lambda x: rnn.pad_sequence([]), "at least one"),
        (lambda x: rnn.pad_sequence([ex.ones(2, 1), ex.ones(2, 2)]), "sequence 1"),
        (lambda x: rnn.pad_sequence([ex.tensor(1.0)]), "sequence 0"),
        (lambda x: rnn.unpad_sequence(x, [1]), "1 length$"),
    ],
)
def test_what_does_not_fit_is_named(wrong, match):
    with pytest.raises(ShapeError, match=match):
        wrong(ex.zeros(3, 2, 4))


def test_what_is_no_tensor_is_named():
    with pytest.raises(DtypeError, match="sequence 1"):
        rnn.pad_sequence([ex.ones(1), 3])
    with pytest.raises(DtypeError, match="list of tensors"):
        rnn.pack_sequence(3)
    with pytest.raises(DtypeError, match="pack_sequence"):
        rnn.PackedSequence(ex.ones(1))


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("lengths", [(5, 3, 3, 1), (3, 1, 5, 3)])
def test_everything_equals_pytorch(lengths, batch_first):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    theirs_rnn = torch.nn.utils.rnn
    ours = sequences(*lengths)
    theirs = [torch.tensor(s.tolist(), dtype=torch.float64, requires_grad=True) for s in ours]
    in_order = sorted(lengths, reverse=True) == list(lengths)
    p, q = rnn.pack_sequence(ours, in_order), theirs_rnn.pack_sequence(theirs, in_order)
    np.testing.assert_array_equal(p.data.detach().numpy(), q.data.detach().numpy())
    assert p.batch_sizes.tolist() == q.batch_sizes.tolist()
    assert (p.sorted_indices is None) == (q.sorted_indices is None)
    (x, n), (y, m) = (
        f(s, batch_first, -1.0, 7) for f, s in ((rnn.pad_packed_sequence, p), (theirs_rnn.pad_packed_sequence, q))
    )
    np.testing.assert_array_equal(x.detach().numpy(), y.detach().numpy())
    assert n.tolist() == m.tolist()
    x.cumsum(0).square().sum().backward()
    y.cumsum(0).square().sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy())
    for side in ("left", "right"):
        a = rnn.pad_sequence(ours, batch_first, 3.0, side)
        b = theirs_rnn.pad_sequence(theirs, batch_first, 3.0, side)
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
