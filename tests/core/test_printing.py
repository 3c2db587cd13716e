"""The text of tensors: fixed expectations, and PyTorch's own text where PyTorch is installed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from extempo.core.printing import format_tensor, get_printoptions, set_printoptions


@pytest.fixture(autouse=True)
def default_options() -> Iterator[None]:
    set_printoptions(profile="default")
    yield
    set_printoptions(profile="default")


def float32(values: Any) -> Any:
    return np.array(values, np.float32)


FIXED: list[tuple[Any, str]] = [
    (float32(1.5), "tensor(1.5000)"),
    (float32(3), "tensor(3.)"),
    (np.array(7), "tensor(7)"),
    (np.array(True), "tensor(True)"),
    (float32([1, 2, 3]), "tensor([1., 2., 3.])"),
    (float32([1, 2.5, -3]), "tensor([ 1.0000,  2.5000, -3.0000])"),
    (float32([0, 0]), "tensor([0., 0.])"),
    (float32([1e-5, 1]), "tensor([1.0000e-05, 1.0000e+00])"),
    (float32([1, 1001]), "tensor([1.0000e+00, 1.0010e+03])"),
    (float32([1, 1000]), "tensor([   1., 1000.])"),
    (float32([math.nan, math.inf, -math.inf, 1]), "tensor([nan, inf, -inf, 1.])"),
    (float32([math.nan, 0.5]), "tensor([   nan, 0.5000])"),
    (np.array([1, -20, 300]), "tensor([  1, -20, 300])"),
    (np.array([True, False]), "tensor([ True, False])"),
    (float32([]), "tensor([])"),
    (np.zeros((0, 3), np.float32), "tensor([], size=(0, 3))"),
    (float32([[1, 2], [3, 4]]), "tensor([[1., 2.],\n        [3., 4.]])"),
    (np.arange(8).reshape(2, 2, 2), "tensor([[[0, 1],\n         [2, 3]],\n\n        [[4, 5],\n         [6, 7]]])"),
    (np.array([0.1, 2], ml_dtypes.bfloat16), "tensor([0.1001, 2.0000])"),
    (np.array([0.1, 2], np.float16), "tensor([0.1000, 2.0000])"),
    (np.arange(1001), "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    (
        np.arange(25),
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
        "        18, 19, 20, 21, 22, 23, 24])",
    ),
]


@pytest.mark.parametrize(("array", "expected"), FIXED)
def test_arrays_have_their_text(array: Any, expected: str) -> None:
    assert format_tensor(array) == expected


def test_a_summarised_matrix_shows_its_corners() -> None:
    text = format_tensor(np.arange(10_000, dtype=np.float32).reshape(100, 100))
    assert text.splitlines()[:2] == [
        "tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 9.7000e+01, 9.8000e+01,",
        "         9.9000e+01],",
    ]
    assert "\n        ...,\n" in text


def test_suffixes_follow_on_the_line_while_they_fit() -> None:
    suffixes = ["dtype=extempo.float64", "requires_grad=True"]
    assert format_tensor(np.array([1.5]), suffixes=suffixes) == (
        "tensor([1.5000], dtype=extempo.float64, requires_grad=True)"
    )


def test_suffixes_that_do_not_fit_start_a_line_under_the_values() -> None:
    assert format_tensor(np.arange(18), suffixes=["grad_fn=<AddBackward>"]) == (
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17],\n"
        "       grad_fn=<AddBackward>)"
    )


def test_the_size_of_an_empty_tensor_stands_before_other_suffixes() -> None:
    assert format_tensor(np.zeros((2, 0)), suffixes=["dtype=extempo.float64"]) == (
        "tensor([], size=(2, 0), dtype=extempo.float64)"
    )


def test_the_prefix_sets_the_indent() -> None:
    assert format_tensor(float32([[1], [2]]), prefix="Weights(") == "Weights([[1.],\n         [2.]])"


def test_options_change_the_text_and_a_profile_brings_it_back() -> None:
    array = float32([1.23456, 2])
    set_printoptions(precision=2)
    assert format_tensor(array) == "tensor([1.23, 2.00])"
    set_printoptions(sci_mode=True)
    assert format_tensor(array) == "tensor([1.23e+00, 2.00e+00])"
    set_printoptions(profile="default")
    assert format_tensor(array) == "tensor([1.2346, 2.0000])"


def test_options_left_out_keep_their_values_but_sci_mode_is_chosen_again() -> None:
    set_printoptions(precision=3, linewidth=40, sci_mode=False)
    set_printoptions(edgeitems=1)
    assert get_printoptions() == {
        "precision": 3,
        "threshold": 1000,
        "edgeitems": 1,
        "linewidth": 40,
        "sci_mode": None,
    }


def test_an_unknown_profile_is_refused_by_name() -> None:
    with pytest.raises(RuntimeError, match="'default', 'short' or 'full', got 'long'"):
        set_printoptions(profile="long")


def many_arrays() -> Iterator[Any]:
    """Arrays of all dtypes, magnitudes and ranks, drawn with a fixed seed."""
    generator = np.random.default_rng(7)
    shapes = [
        (),
        (1,),
        (0,),
        (3, 0),
        (2, 0, 3),
        (5,),
        (23,),
        (1001,),
        (2, 3),
        (7, 9),
        (40, 40),
        (2, 3, 4),
        (12, 11, 10),
    ]
    shapes += [(3, 1, 2, 2), (1, 1, 1), (2000, 1), (1, 2000), (8, 2, 8, 8, 3)]
    for shape in shapes:
        for scale in (1.0, 1e-3, 1e-6, 100.0, 1e5, 1e9, 1e30):
            for dtype in (np.float32, np.float64):
                yield np.asarray(generator.standard_normal(shape) * scale).astype(dtype)
        for dtype in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16):
            yield np.asarray(generator.standard_normal(shape)).astype(dtype)
            yield np.asarray(generator.integers(-5, 6, shape)).astype(dtype)
            yield np.asarray(generator.integers(0, 100, shape) / 4).astype(dtype)
            yield np.zeros(shape, dtype)
            special = generator.choice([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -2.5, 1234.5], shape)
            yield np.asarray(special).astype(dtype)
            yield np.asarray(generator.choice([math.nan, math.inf, -math.inf, 0.0, -0.0], shape)).astype(dtype)
        for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8):
            low = 0 if dtype is np.uint8 else -100
            yield np.asarray(generator.integers(low, 100, shape)).astype(dtype)
        yield np.asarray(generator.integers(-(2**60), 2**60, shape))
        yield np.asarray(generator.integers(0, 2, shape)).astype(np.bool_)


OPTIONS: list[dict[str, Any]] = [
    {"profile": "default"},
    {"profile": "short"},
    {"profile": "full"},
    {"precision": 8},
    {"precision": 0},
    {"edgeitems": 1, "threshold": 4},
    {"edgeitems": 0, "threshold": 4},
    {"linewidth": 30},
    {"linewidth": 5},
    {"sci_mode": True},
    {"sci_mode": False},
]


@pytest.mark.conformance
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_texts_are_those_of_pytorch(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch: pip install -e '.[conformance]'")
    torch.set_printoptions(profile="default")
    torch.set_printoptions(**options)
    set_printoptions(**options)
    try:
        for array in many_arrays():
            if options.get("profile") == "full" and array.size > 1100:
                continue  # PyTorch takes seconds for these
            if array.dtype == ml_dtypes.bfloat16:
                tensor = torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
            else:
                tensor = torch.from_numpy(array.copy())
            assert_same_text(torch, array, tensor)
            if tensor.is_floating_point():
                assert_same_text(torch, array, tensor.requires_grad_())
    finally:
        torch.set_printoptions(profile="default")


def assert_same_text(torch: Any, array: Any, tensor: Any) -> None:
    usual = (torch.float32, torch.int64, torch.bool) if array.size else (torch.float32,)
    suffixes = [] if tensor.dtype in usual else [f"dtype={tensor.dtype}"]
    if tensor.requires_grad:
        suffixes.append("requires_grad=True")
    # The names of dtypes are of different length, so lines break elsewhere: PyTorch's name is used on both sides.
    assert format_tensor(array, suffixes=suffixes) == repr(tensor)
