"""Random operators: shapes, types and moments; the library's seed decides."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import ShapeError


def test_normal_and_uniform_numbers(run_node):
    (y,) = run_node("RandomNormal", [], shape=[100, 100], mean=3.0, scale=2.0)
    assert y.mean() == pytest.approx(3.0, abs=0.1)
    assert y.std() == pytest.approx(2.0, abs=0.1)
    (y,) = run_node("RandomUniform", [], shape=[1000], low=2.0, high=3.0, dtype=11, types=[11])
    assert y.dtype == np.float64
    assert ((y >= 2.0) & (y <= 3.0)).all()


def test_numbers_like_those_of_a_tensor(run_node, normal):
    x = normal(3, 4)
    assert run_node("RandomNormalLike", [x])[0].shape == x.shape
    assert run_node("RandomUniformLike", [x], dtype=11, types=[11])[0].dtype == np.float64


def test_the_seed_of_the_library_decides(run_node):
    results = []
    for _ in range(2):
        ex.manual_seed(7)
        results.append(run_node("RandomNormal", [], shape=[5])[0])
    np.testing.assert_array_equal(*results)


def test_choices_follow_their_probabilities(run_node):
    p = np.full(10_000, 0.25, np.float32)
    assert run_node("Bernoulli", [p], dtype=7, types=[7])[0].mean() == pytest.approx(0.25, abs=0.03)
    logits = np.log(np.array([[0.7, 0.3]], np.float32))
    drawn = run_node("Multinomial", [logits], types=[6], sample_size=2000)[0]
    assert drawn.dtype == np.int32
    assert drawn.mean() == pytest.approx(0.3, abs=0.05)


def test_sizes_are_bounded(run_node):
    with pytest.raises(ShapeError, match="takes more than"):
        run_node("RandomNormal", [], shape=[2**40])
