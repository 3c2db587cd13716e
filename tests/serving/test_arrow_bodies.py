"""Arrow streams: a row is a sample, of its own length."""

from __future__ import annotations

import numpy as np
import pytest

from extempo.serving.arrow_bodies import read_arrow, write_arrow
from extempo.serving.refusals import BadRequest

pa = pytest.importorskip("pyarrow")


def stream(table, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def read(columns, most=100, **options):
    return read_arrow(stream(pa.table(columns), **options), most)


def test_rows_are_samples_of_their_own_length():
    rows = read({"tokens": [[1, 2, 3], [4]], "scale": [1.5, 2.5]})
    assert [row["tokens"].tolist() for row in rows] == [[1, 2, 3], [4]]
    assert [float(row["scale"]) for row in rows] == [1.5, 2.5]
    assert rows[0]["scale"].shape == ()


@pytest.mark.parametrize("kind", [pa.list_(pa.list_(pa.float32())), pa.list_(pa.list_(pa.float32(), 2))])
def test_lists_of_lists_are_arrays_of_two_dimensions(kind):
    rows = read({"x": pa.array([[[1, 2], [3, 4], [5, 6]], [[7, 8]]], kind)})
    assert [row["x"].tolist() for row in rows] == [[[1, 2], [3, 4], [5, 6]], [[7, 8]]]
    assert rows[0]["x"].dtype == np.float32


def test_a_bad_row_harms_no_other():
    good, ragged, null, text = read({"x": pa.array([[[1], [2]], [[1, 2], [3]], [[None]], [[4]]])})[:4]
    assert good["x"].tolist() == [[1], [2]]
    assert isinstance(ragged, BadRequest)
    assert isinstance(null, BadRequest)
    assert text["x"].tolist() == [[4]]


def test_compressed_streams_and_dictionaries_are_refused():
    values = {"x": [[1.0] * 1000]}
    for compression in ("lz4", "zstd"):
        with pytest.raises(BadRequest, match="neither compressed"):
            read(values, compression=compression)
    with pytest.raises(BadRequest, match="neither compressed"):
        read({"x": pa.array(["a", "b"]).dictionary_encode()})


def test_results_are_columns_and_errors_one_more():
    made = write_arrow(
        [
            {"y": np.ones((2, 3), np.float32), "n": np.array(3)},
            BadRequest(422, "no such index"),
            {"y": np.ones((1, 3), np.float32), "n": np.array(4)},
        ]
    )
    rows = pa.ipc.open_stream(made).read_all().to_pylist()
    assert rows[0] == {"y": [[1, 1, 1], [1, 1, 1]], "n": 3, "error": None}
    assert rows[1] == {"y": None, "n": None, "error": "no such index"}
    assert rows[2]["y"] == [[1, 1, 1]]
    assert pa.ipc.open_stream(write_arrow([BadRequest(422, "no")])).read_all().to_pylist() == [{"error": "no"}]


def test_too_many_rows_and_none_are_refused():
    for n in (0, 5):
        with pytest.raises(BadRequest, match="1 to 4 rows"):
            read({"x": pa.array([1.0] * n)}, most=4)


def test_mutated_streams_are_read_or_refused():
    rng = np.random.default_rng(0)
    body = stream(pa.table({"x": [[1.0, 2.0], [3.0]], "n": [1, 2]}))
    statuses = set()
    for _ in range(500):
        bad = bytearray(body)
        for place in rng.integers(0, len(bad), 3):
            bad[place] = rng.integers(256)
        try:
            read_arrow(bytes(bad[: rng.integers(1, len(bad) + 1)]), 100)
        except BadRequest as refused:
            statuses.add(refused.status)
    assert statuses <= {400, 422}
