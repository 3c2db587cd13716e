"""Data sets: what they index, how they combine, what they refuse."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.data import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)


class Letters(IterableDataset):
    def __init__(self, text):
        self.text = text

    def __iter__(self):
        return iter(self.text)

    def __len__(self):
        return len(self.text)


class Batched(Dataset):
    """Counts how it is read."""

    def __init__(self):
        self.calls = []

    def __len__(self):
        return 10

    def __getitem__(self, index):
        self.calls.append(index)
        return index * 10

    def __getitems__(self, indices):
        self.calls.append(list(indices))
        return [index * 10 for index in indices]


def test_the_two_names_of_the_package_are_the_same_things():
    assert ex.utils.data.DataLoader is ex.data.DataLoader
    assert set(ex.utils.data.__all__) == set(ex.data.__all__)


def test_a_tensor_data_set_gives_rows_and_slices():
    data = TensorDataset(ex.arange(6).view(3, 2), ex.arange(3))
    assert len(data) == 3
    assert [part.tolist() for part in data[-1]] == [[4, 5], 2]
    assert [part.tolist() for part in data[1:]] == [[[2, 3], [4, 5]], [1, 2]]
    assert len(list(data)) == 3


@pytest.mark.parametrize("bad", [(ex.zeros(2), ex.zeros(3)), (ex.tensor(1.0),), ([1, 2],)])
def test_a_tensor_data_set_refuses_what_has_no_common_rows(bad):
    with pytest.raises((ex.errors.ShapeError, ex.errors.DtypeError), match="TensorDataset"):
        TensorDataset(*bad)


def test_concat_counts_across_its_parts_and_from_the_end():
    both = Subset("abc", [0, 1, 2]) + Subset("de", [0, 1])
    assert isinstance(both, ConcatDataset)
    assert [both[i] for i in range(-5, 5)] == list("abcde") * 2
    assert list(both) == list("abcde")
    with pytest.raises(IndexError, match="5 samples"):
        both[5]


def test_concat_skips_empty_parts():
    assert list(ConcatDataset(["", "a", "", "b"])) == ["a", "b"]


def test_concat_refuses_iterable_data_sets_and_nothing_at_all():
    with pytest.raises(TypeError, match="ChainDataset"):
        ConcatDataset([Letters("ab")])
    with pytest.raises(ValueError, match="at least one"):
        ConcatDataset([])


def test_chain_reads_one_after_another():
    chain = Letters("ab") + Letters("c")
    assert isinstance(chain, ChainDataset)
    assert list(chain) == ["a", "b", "c"]
    assert len(chain) == 3
    with pytest.raises(TypeError, match="expected IterableDatasets"):
        list(ChainDataset(["ab"]))


def test_stack_gives_tuples_by_position_and_dicts_by_name():
    assert StackDataset("ab", [1, 2])[1] == ("b", 2)
    assert StackDataset(x="ab", y=[1, 2])[0] == {"x": "a", "y": 1}
    with pytest.raises(ValueError, match="different lengths"):
        StackDataset("ab", [1])
    with pytest.raises(ValueError, match="either"):
        StackDataset("ab", y=[1, 2])


def test_whole_batches_are_read_at_once_through_stacks_and_subsets():
    inner = Batched()
    data = Subset(StackDataset(inner, range(10)), [9, 8, 7, 6])
    (batch,) = ex.data.DataLoader(data, batch_size=4)
    assert [part.tolist() for part in batch] == [[90, 80, 70, 60], [9, 8, 7, 6]]
    assert inner.calls == [[9, 8, 7, 6]]


def test_getitems_must_return_one_sample_for_each_index():
    class Short(Batched):
        def __getitems__(self, indices):
            return [1]

    with pytest.raises(ex.errors.ShapeError, match="2 indices gave 1 sample;"):
        list(ex.data.DataLoader(Short(), batch_size=2))


def test_a_random_split_is_a_partition_that_its_generator_decides():
    first = random_split(range(10), [7, 3], ex.Generator().manual_seed(1))
    again = random_split(range(10), [7, 3], ex.Generator().manual_seed(1))
    other = random_split(range(10), [7, 3], ex.Generator().manual_seed(2))
    assert [list(part) for part in first] == [list(part) for part in again]
    assert [list(part) for part in first] != [list(part) for part in other]
    assert sorted(x for part in first for x in part) == list(range(10))


@pytest.mark.parametrize(
    ("fractions", "total"), [([0.5, 0.5], 7), ([0.1, 0.2, 0.7], 11), ([1 / 3] * 3, 10), ([1.0], 4)]
)
def test_fractions_of_a_split_round_as_in_pytorch(fractions, total):
    torch_data = pytest.importorskip("torch.utils.data", reason="compares with PyTorch")
    ours = [len(part) for part in random_split(range(total), fractions)]
    assert ours == [len(part) for part in torch_data.random_split(range(total), fractions)]


def test_a_split_that_does_not_add_up_is_refused():
    with pytest.raises(ValueError, match="do not add up to the 10"):
        random_split(range(10), [5, 6])


def test_classes_without_their_method_say_so():
    with pytest.raises(NotImplementedError, match="without __getitem__"):
        Dataset()[0]
    with pytest.raises(NotImplementedError, match="without __iter__"):
        iter(IterableDataset())
