"""Arrow and Parquet files: one block in memory at a time."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import extempo as ex
from extempo.data import ArrowDataset, BlockRandomSampler, DataLoader, ParquetDataset

pa = pytest.importorskip("pyarrow", reason="needs the arrow extra")
pq = pytest.importorskip("pyarrow.parquet", reason="needs the arrow extra")


def a_table():
    return pa.table(
        {
            "id": pa.array(range(6), pa.int32()),
            "weight": pa.array([0.5, 1.5, None, 3.5, 4.5, 5.5], pa.float32()),
            "flag": pa.array([True, False] * 3),
            "tokens": pa.array([[1, 2, 3], [], [4], [5, 6], [7], [8]], pa.list_(pa.uint16())),
            "box": pa.array([[i, i + 1.0] for i in range(6)], pa.list_(pa.float64(), 2)),
            "word": pa.array([*"abcde", None]),
            "kind": pa.array(list("xyxyxy")).dictionary_encode(),
            "point": pa.array([{"a": i, "b": str(i)} for i in range(6)]),
            "words": pa.array([["p"], ["q", "r"], [], ["s"], ["t"], ["u"]]),
        }
    )


def write(path, table, rows_per_block=4, **options):
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rows_per_block)
        return path
    new = pa.ipc.new_stream if path.suffix == ".arrows" else pa.ipc.new_file
    with new(path, table.schema, **options) as file:
        file.write_table(table, max_chunksize=rows_per_block)
    return path


KINDS = {"x.arrow": ArrowDataset, "x.arrows": ArrowDataset, "x.parquet": ParquetDataset}


@pytest.fixture(params=KINDS)
def data(request, tmp_path):
    return KINDS[request.param](write(tmp_path / request.param, a_table()))


def test_rows_have_tensors_for_numbers_and_objects_for_the_rest(data):
    assert len(data) == 6
    assert data.block_sizes == [4, 2]
    row = data[0]
    assert row["id"].dtype is ex.int32
    assert row["weight"].dtype is ex.float32
    assert row["tokens"].dtype is ex.int32
    assert {name: t.tolist() if isinstance(t, ex.Tensor) else t for name, t in row.items() if name != "point"} == {
        "id": 0,
        "weight": 0.5,
        "flag": True,
        "tokens": [1, 2, 3],
        "box": [0.0, 1.0],
        "word": "a",
        "kind": "x",
        "words": ["p"],
    }
    assert row["point"]["a"].item() == 0
    assert row["point"]["b"] == "0"


def test_missing_values_are_none_and_their_neighbours_are_not(data):
    assert data[2]["weight"] is None
    assert data[3]["weight"].item() == 3.5
    assert data[-1]["word"] is None


def test_rows_of_every_block_are_found_from_either_end(data):
    assert [row["id"].item() for row in data] == list(range(6))
    assert [data[i]["id"].item() for i in range(-6, 0)] == list(range(6))
    assert data[1]["tokens"].tolist() == []
    assert [t.tolist() for t in (data[4]["tokens"], data[5]["box"])] == [[7], [5.0, 6.0]]
    with pytest.raises(IndexError, match="6 samples"):
        data[6]


def test_tables_pickle_as_their_path(data):
    data[0]
    pickled = pickle.dumps(data)
    assert len(pickled) < 600
    assert pickle.loads(pickled)[5]["id"].item() == 5


@pytest.mark.parametrize("name", KINDS)
def test_only_the_chosen_columns_are_there(tmp_path, name):
    path = write(tmp_path / name, a_table())
    assert KINDS[name](path, columns=["word", "id"])[1].keys() == {"word", "id"}
    with pytest.raises(IndexError, match="no column 'nothing', only id"):
        KINDS[name](path, columns=["nothing"])


@pytest.mark.parametrize("name", KINDS)
def test_workers_read_tables(tmp_path, name):
    data = KINDS[name](write(tmp_path / name, a_table()), columns=["id", "tokens"])
    data[0]  # read before the fork too
    batches = list(DataLoader(data, batch_size=2, num_workers=2))
    assert [i for batch in batches for i in batch["id"].tolist()] == list(range(6))
    assert [t.tolist() for t in batches[0]["tokens"]] == [[1, 2, 3], []]


def test_a_block_sampler_reads_each_block_once(tmp_path, monkeypatch):
    data = ParquetDataset(write(tmp_path / "x.parquet", a_table(), rows_per_block=2), columns=["id"])
    file = data._file.get()
    read, reads = file.read, []
    monkeypatch.setattr(file, "read", lambda block: reads.append(block) or read(block))
    loader = DataLoader(data, batch_size=3, sampler=BlockRandomSampler(data.block_sizes))
    assert sorted(i for batch in loader for i in batch["id"].tolist()) == list(range(6))
    assert sorted(reads) == [0, 1, 2]


def test_compressed_arrow_and_fixed_shape_tensors_are_read(tmp_path):
    images = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    table = pa.table({"image": pa.FixedShapeTensorArray.from_numpy_ndarray(images)})
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    data = ArrowDataset(write(tmp_path / "x.arrow", table, 3, options=options))
    assert np.array_equal(data[3]["image"].numpy(), images[3])


def test_nested_fixed_size_lists_have_more_dimensions(tmp_path):
    kind = pa.list_(pa.list_(pa.int64(), 2), 2)
    table = pa.table({"m": pa.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], kind)})
    assert ArrowDataset(write(tmp_path / "x.arrow", table))[1]["m"].tolist() == [[5, 6], [7, 8]]


def test_broken_files_say_what_is_wrong(tmp_path):
    for cls in (ArrowDataset, ParquetDataset):
        (tmp_path / "text").write_text("hello, this is no table of any kind")
        with pytest.raises(ex.errors.ExtempoError, match=r"is not an? (Arrow|Parquet) file"):
            cls(tmp_path / "text")
        with pytest.raises(FileNotFoundError):
            cls(tmp_path / "none")


@pytest.mark.parametrize("name", ["x.arrow", "x.parquet"])
def test_a_large_table_is_read_in_flat_memory(tmp_path, growth, name):
    path, schema = tmp_path / name, pa.schema([("x", pa.list_(pa.float32(), 4096))])
    block = pa.record_batch([pa.array(np.zeros((256, 4096), np.float32).ravel()).cast(pa.float32())], ["x"])
    block = pa.record_batch([pa.FixedSizeListArray.from_arrays(block.column(0), 4096)], schema=schema)
    writer = pq.ParquetWriter(path, schema) if name == "x.parquet" else pa.ipc.new_file(path, schema)
    with writer as file:
        for _ in range(25):  # 100 MB, 4 MB each
            file.write_batch(block)
    assert growth(lambda: KINDS[name](path)) < 32
    data = KINDS[name](path)
    assert len(data) * 4096 * 4 == 100 << 20
    assert len(data.block_sizes) == 25
