"""Tensors that share memory are stored once and share it again; what they do not share stays out of the file."""

from __future__ import annotations

import io
import json
import struct

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import OverwrittenError
from extempo.serialization import load, save


def saved(obj) -> bytes:
    file = io.BytesIO()
    save(obj, file)
    return file.getvalue()


def there_and_back(obj):
    return load(io.BytesIO(saved(obj)))


def stored_names(obj) -> set[str]:
    data = saved(obj)
    (length,) = struct.unpack("<Q", data[:8])
    return set(json.loads(data[8 : 8 + length])) - {"__metadata__"}


def test_one_tensor_at_two_places_comes_back_as_one():
    x = nn.Parameter(ex.randn(3))
    back = there_and_back({"a": x, "b": [x]})
    assert back["a"] is back["b"][0]
    assert stored_names({"a": x, "b": [x]}) == {"a"}


def test_tied_weights_of_a_state_dict_stay_tied():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(5, 4)
            self.out = nn.Linear(4, 5, bias=False)
            self.out.weight = self.embed.weight

    back = there_and_back(Tied().state_dict())
    back["embed.weight"].fill_(7.0)
    assert back["out.weight"].eq(7.0).all()


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x[1:4],
        lambda x: x[::2],
        lambda x: x.view(2, 3),
        lambda x: x.view(2, 3).t(),
        lambda x: x[3],
        lambda x: x.view(ex.int32),
        lambda x: x.view(ex.uint8)[1:5],
        lambda x: x[2:3].expand(4),
        lambda x: x.detach(),
        lambda x: x.data,
    ],
    ids=range(10),
)
@pytest.mark.parametrize("first", [0, 1])
def test_views_share_memory_after_loading_as_before(look, first):
    x = ex.arange(6, dtype=ex.float32)
    view = look(x)
    both = [x, view] if first == 0 else [view, x]
    assert len(stored_names(both)) == 1
    back = there_and_back(both)
    base, other = (back[0], back[1]) if first == 0 else (back[1], back[0])
    assert (other.shape, other.dtype, other.stride()) == (view.shape, view.dtype, view.stride())
    np.testing.assert_array_equal(other.numpy(), view.numpy())
    base.mul_(3.0).add_(1.0)
    x.mul_(3.0).add_(1.0)
    np.testing.assert_array_equal(other.numpy(), view.numpy())


def test_overlapping_views_without_their_base_share_what_they_span_and_nothing_else():
    secret = ex.full((4, 6), 123456.0)
    a, b = secret[:3, :2], secret[1:, 1:3]
    a.zero_()
    b.zero_()
    data = saved([a, b])
    assert struct.pack("<f", 123456.0) not in data
    left, right = load(io.BytesIO(data))
    left[1, 1] = 5.0
    assert right[0, 0].item() == 5.0
    assert left.shape == a.shape


def test_a_small_view_of_a_large_tensor_makes_a_small_file():
    large = ex.zeros(100_000)
    assert len(saved(large[10:20])) < 2_000
    assert len(saved([large[10:20], large[500:510]])) < 2_000
    assert len(saved(ex.zeros(1).expand(100_000))) < 2_000


def test_interleaved_parts_and_odd_strides_keep_their_values():
    x = ex.arange(12.0).view(3, 4)
    columns = [x[:, 1], x[:, 2]]
    for before, after in zip(columns, there_and_back(columns), strict=True):
        assert before.equal(after)
    array = np.arange(5.0, dtype=np.float32)
    backwards = ex.from_numpy(array[::-1])
    back = there_and_back([backwards, ex.from_numpy(array)])
    np.testing.assert_array_equal(back[0].numpy(), array[::-1])
    packed = np.zeros(4, np.dtype([("flag", "u1"), ("value", "<f4")]))
    packed["value"] = [1, 2, 3, 4]
    np.testing.assert_array_equal(there_and_back(ex.from_numpy(packed["value"])).numpy(), [1, 2, 3, 4])


def test_a_write_through_one_of_two_shared_tensors_is_noticed_by_backward():
    base = ex.arange(4.0)
    w, alias = there_and_back([base.requires_grad_(), base.detach()])
    y = (w * w).sum()
    alias.add_(1.0)
    with pytest.raises(OverwrittenError):
        y.backward()


def test_names_that_collide_get_numbers():
    obj = {"a": {"b": ex.ones(1)}, "a.b": ex.zeros(1), "__metadata__": ex.full((1,), 2.0)}
    assert stored_names(obj) == {"a.b", "a.b~2", "__metadata__tensor"}
    back = there_and_back(obj)
    assert [back["a"]["b"].item(), back["a.b"].item(), back["__metadata__"].item()] == [1.0, 0.0, 2.0]


def test_memory_order_of_a_lone_tensor_becomes_row_major_with_equal_values():
    x = ex.arange(6.0).view(2, 3).t()
    back = there_and_back(x)
    assert back.is_contiguous()
    assert back.equal(x)
