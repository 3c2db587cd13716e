"""How a ragged tensor prints."""

from __future__ import annotations

import extempo as ex


def test_rows_are_shown_with_their_lengths():
    x = ex.ragged([[1.0, 2.0, 3.0], [4.5], []])
    expected = """
ragged([
  [1., 2., 3.],  # 3
  [4.5000],      # 1
  [],            # 0
], shape=(3, *))
"""
    assert repr(x) == expected.strip()
    assert f"{x}" == repr(x)


def test_rows_of_several_dimensions():
    x = ex.ragged([ex.zeros(2, 2), ex.zeros(0, 2)], dtype=ex.float64)
    expected = """
ragged([
  [[0., 0.],
   [0., 0.]],  # 2
  [],  # 0
], shape=(2, *, 2), dtype=extempo.float64)
"""
    assert repr(x) == expected.strip()


def test_many_rows_are_left_out_in_the_middle():
    x = ex.ragged([[i] * (i % 3) for i in range(1000)])
    lines = repr(x).splitlines()
    assert lines[4] == "  ..."
    assert len(lines) == 9
    assert "[999" not in lines[-2]  # 999 % 3 == 0
    assert lines[-3].strip() == "[998, 998],  # 2"


def test_long_rows_are_left_out_in_the_middle_too():
    text = repr(ex.ragged([ex.arange(5000), ex.arange(2)]))
    assert "..., 4997, 4998, 4999],  # 5000" in text
    assert len(text) < 300


def test_what_else_there_is_to_know():
    x = ex.ragged([[1.0], [2.0]], requires_grad=True)
    assert repr(x).endswith("shape=(2, *), requires_grad=True)")
    assert repr(2 * x).endswith("shape=(2, *), grad_fn=<MulBackward>)")
    assert repr(ex.ragged([])) == "ragged([], shape=(0, *))"
    assert repr(ex.ragged([[True]], dtype=ex.bool)).endswith("shape=(1, *))")


def test_the_shape_prints_a_star_and_is_no_number():
    x = ex.ragged([ex.ones(2, 4), ex.ones(1, 4)])
    assert repr(x.shape) == "extempo.Size([2, *, 4])"
    assert x.shape == ex.zeros_like(x).shape
    assert x.shape != ex.ragged([ex.ones(1, 4), ex.ones(2, 4)]).shape
