"""Ragged tensors in data sets and loaders."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.data import (
    ArrowDataset,
    BucketBatchSampler,
    DataLoader,
    Dataset,
    MaxTokensBatchSampler,
    TensorDataset,
    random_split,
)

LENGTHS = [3, 0, 2, 5, 1, 4]


class Sequences(Dataset):
    """Samples of different lengths with a label, as large as `width` says."""

    def __init__(self, width=None):
        self.width = width

    def __len__(self):
        return len(LENGTHS)

    def __getitem__(self, index):
        shape = (LENGTHS[index],) if self.width is None else (LENGTHS[index], self.width)
        return ex.full(shape, float(index)), index


def sample(index, width=None):
    return Sequences(width)[index][0].tolist()


def test_a_loader_makes_ragged_batches():
    for number, (x, label) in enumerate(DataLoader(Sequences(2), batch_size=3)):
        assert isinstance(x, ex.RaggedTensor)
        assert label.tolist() == [3 * number + i for i in range(3)]
        assert x.tolist() == [sample(i, 2) for i in label.tolist()]


@pytest.mark.parametrize("width", [None, 3000])
def test_worker_processes_send_them(width):
    """3000: memory that travels in a segment, and not inside of the pickle."""
    loader = DataLoader(Sequences(width), batch_size=3, num_workers=2, pin_memory=True, persistent_workers=True)
    for _ in range(2):
        batches = list(loader)
        assert [x.lengths().tolist() for x, _ in batches] == [LENGTHS[:3], LENGTHS[3:]]
        for x, label in batches:
            assert isinstance(x, ex.RaggedTensor)
            assert x.tolist() == [sample(i, width) for i in label.tolist()]
            x += 1  # memory of its own, that can be written to


def test_samples_that_happen_to_be_of_one_length_are_stacked_and_ragged_takes_both():
    loader = DataLoader([ex.ones(2), ex.ones(2), ex.ones(3), ex.ones(1)], batch_size=2)
    regular, ragged = loader
    assert isinstance(regular, ex.Tensor)
    assert isinstance(ragged, ex.RaggedTensor)
    assert [ex.ragged(batch).lengths().tolist() for batch in loader] == [[2, 2], [3, 1]]
    always = DataLoader([ex.ones(2), ex.ones(2)], batch_size=2, collate_fn=ex.ragged)
    assert isinstance(next(iter(always)), ex.RaggedTensor)


def test_samplers_by_length_make_batches_of_similar_rows():
    data = Sequences(2)
    for sampler in (BucketBatchSampler(LENGTHS, 2), MaxTokensBatchSampler(LENGTHS, 6, padded=False)):
        seen = []
        for x, label in DataLoader(data, batch_sampler=sampler):
            assert [row.tolist() for row in x] == [sample(i, 2) for i in label.tolist()]
            seen += label.tolist()
        assert sorted(seen) == list(range(len(LENGTHS)))


def test_a_ragged_tensor_is_a_data_set():
    x = ex.ragged([ex.full((n,), float(n)) for n in LENGTHS])
    loader = DataLoader(x, batch_size=4)
    assert [batch.lengths().tolist() for batch in loader] == [LENGTHS[:4], LENGTHS[4:]]


def test_tensor_data_sets_take_ragged_tensors():
    x = ex.ragged([ex.full((n,), float(n)) for n in LENGTHS])
    data = TensorDataset(x, ex.arange(6))
    assert data[3][0].tolist() == [5.0] * 5
    rows, labels = data[1:3]
    assert (rows.lengths().tolist(), labels.tolist()) == ([0, 2], [1, 2])
    for words, labels in DataLoader(data, batch_size=3, shuffle=True):
        assert ex.ragged(words).lengths().tolist() == [LENGTHS[i] for i in labels.tolist()]
    first, second = random_split(data, [2, 4])
    assert (len(first), len(second)) == (2, 4)
    with pytest.raises(ValueError, match="first sizes differ"):
        TensorDataset(x, ex.arange(5))


def test_list_columns_of_tables_give_ragged_batches(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="reads an Arrow file: pip install -e '.[test]'")
    import pyarrow.feather

    ids = [[1, 2], [3], [], [4, 5, 6]]
    table = pa.table({"ids": ids, "label": [0, 1, 0, 1]})
    pyarrow.feather.write_feather(table, str(tmp_path / "t.arrow"), compression="uncompressed")
    (batch,) = DataLoader(ArrowDataset(tmp_path / "t.arrow"), batch_size=4)
    assert isinstance(batch["ids"], ex.RaggedTensor)
    assert batch["ids"].tolist() == ids
    assert batch["label"].tolist() == [0, 1, 0, 1]
