"""`ex.range`, whose end is included."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.errors import ShapeError


def test_a_range_includes_its_end_and_warns():
    with pytest.warns(UserWarning, match=r"use ex\.arange") as caught:
        x = ex.range(1, 3)
    assert caught[0].filename == __file__
    assert x.tolist() == [1.0, 2.0, 3.0]
    assert x.dtype is ex.float32


@pytest.mark.conformance
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("bounds", [(1, 4), (1, 4, 2), (4, 1, -1), (0.5, 3), (1, 1), (0, 1, 0.25)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", None])
def test_ranges_are_pytorchs(bounds, dtype):
    torch = pytest.importorskip("torch", reason="compares ranges with PyTorch: pip install -e '.[conformance]'")
    if dtype == "int64" and bounds[-1] == 0.25:  # PyTorch divides by 0
        with pytest.raises(ShapeError, match=r"the step 0\.25 is 0 in extempo\.int64"):
            ex.range(*bounds, dtype=ex.int64)
        return
    expected = torch.range(*bounds, dtype=dtype and getattr(torch, dtype))
    found = ex.range(*bounds, dtype=dtype and getattr(ex, dtype))
    assert found.tolist() == expected.tolist()
    assert str(found.dtype)[8:] == str(expected.dtype)[6:]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("bounds", "says"), [((1, 4, -1), "sign of step"), ((1, 4, 0), "the step 0 is 0"), ((0, ex.inf), "finite")]
)
def test_ranges_without_an_end_are_refused(bounds, says):
    with pytest.raises(ShapeError, match=says):
        ex.range(*bounds)
