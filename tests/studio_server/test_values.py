"""Sketches tell of a value in a few kilobytes, whatever its size."""

from __future__ import annotations

import numpy as np
import pytest

from extempo.studio_server.values import BINS, SIDE, ValueSketch


def test_a_small_value_is_told_whole():
    told = ValueSketch(np.array([[1.0, 2.0], [3.0, np.nan]]), "float64").as_json()
    assert told["heat"]["values"][0] == [1.0, 2.0]
    assert (told["low"], told["high"], told["n_nan"], told["n"], told["sampled"]) == (1.0, 3.0, 1, 4, False)
    assert sum(told["histogram"]["counts"]) == 3
    assert len(told["histogram"]["edges"]) == BINS + 1


def test_of_a_large_value_every_so_many_th_row_is_kept_and_the_figures_are_of_all():
    array = np.zeros((1000, 777), np.float32)
    array[501, 333] = 9.0
    sketch = ValueSketch(array, "float32")
    told = sketch.as_json()
    assert sketch.n_bytes <= SIDE * SIDE * 4
    assert told["sampled"]
    assert told["high"] == 9.0
    assert told["heat"]["rows"] <= SIDE
    assert told["heat"]["columns"] <= SIDE
    assert told["heat"]["row_step"] == 32


def test_a_sketch_does_not_change_with_the_tensor_that_it_is_of():
    array = np.ones(3)
    sketch = ValueSketch(array, "float64")
    array[:] = 7.0
    assert sketch.as_json()["high"] == 1.0


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (2, 3, 4), (5000,), (1, 5000), (5000, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
def test_every_shape_can_be_told(shape, dtype):
    told = ValueSketch(np.ones(shape, dtype), np.dtype(dtype).name).as_json()
    heat = told["heat"]
    assert len(heat["values"]) == heat["rows"] <= SIDE
    assert all(len(row) == heat["columns"] <= SIDE for row in heat["values"])
