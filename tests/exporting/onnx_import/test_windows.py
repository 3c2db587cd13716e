"""Windows of convolutions and pools."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.errors import ArgumentError, ShapeError
from extempo.exporting.onnx_import.windows import spatial, taps, windows_of


def test_padding_is_resolved_to_numbers():
    assert windows_of([5], [2], "SAME_UPPER", None, [2], None)[3:] == ([0], [1])
    assert windows_of([5], [2], "SAME_LOWER", None, [2], None)[3:] == ([1], [0])
    assert windows_of([5], [3], "SAME_UPPER", None, None, [2])[3:] == ([2], [2])
    assert windows_of([5], [3], "VALID", [1, 1], None, None)[3:] == ([0], [0])
    assert windows_of([5, 5], [3, 3], "NOTSET", [1, 2, 3, 4], None, None)[3:] == ([1, 2], [3, 4])
    assert windows_of([5], [3], "NOTSET", None, None, [2]).extent == [5]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([5], [2, 2], "NOTSET", None, None, None), ShapeError, "kernel_shape must have 1 entries, got 2"),
        (([5], [2], "NOTSET", [1], None, None), ShapeError, "pads must have 2 entries"),
        (([5], [2], "NOTSET", [-1, 0], None, None), ArgumentError, "pads must not be negative"),
        (([5], [2], "NOTSET", None, [0], None), ArgumentError, "strides must be positive"),
        (([5], [2], "SAME", None, None, None), ArgumentError, "auto_pad must be NOTSET"),
    ],
)
def test_lists_that_do_not_fit_are_errors(arguments, error, message):
    with pytest.raises(error, match=message):
        windows_of(*arguments)


def test_taps_are_what_windows_read():
    x = ex.arange(6.0).reshape(1, 1, 6)
    at = windows_of([6], [2], "VALID", None, [2], [3])
    assert [t.reshape(-1).tolist() for t in taps(x, at, [2])] == [[0.0, 2.0], [3.0, 5.0]]
    with pytest.raises(ShapeError, match=r"expected \(batch, channels"):
        spatial(ex.ones(2, 3))
