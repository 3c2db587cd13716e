"""Arithmetic on sizes beside tensors gives what the operators give."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.exporting.onnx_import.host import RULES, on_host, shape_of, sizes_array


def test_sizes_are_numbers_or_symbols():
    assert shape_of(ex.ones(2, 3, 4), 1).tolist() == [3, 4]
    assert shape_of(ex.ones(2, 3, 4), -3, -1).tolist() == [2, 3]
    assert sizes_array([1, "n"]).dtype == object


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "expected"),
    [
        ("Gather", [[5, 6, 7], -1], {}, 7),
        ("Concat", [[1], [2, 3]], {"axis": 0}, [1, 2, 3]),
        ("Slice", [[5, 6, 7], [1], [9223372036854775807], [0]], {}, [6, 7]),
        ("Slice", [[5, 6, 7], [-1], [-9], [0], [-1]], {}, [7, 6, 5]),
        ("Squeeze", [[5], [0]], {}, 5),
        ("Unsqueeze", [5, [0]], {}, [5]),
        ("Reshape", [5, [-1]], {}, [5]),
        ("Cast", [[5]], {"to": 7}, [5]),
        ("Add", [[5], 1], {}, [6]),
        ("Sub", [[5], 7], {}, [-2]),
        ("Mul", [[5], [2, 3]], {}, [10, 15]),
        ("Div", [[-7, 7], 2], {}, [-3, 3]),
        ("Mod", [[-7, 7], 4], {}, [1, 3]),
        ("ConstantOfShape", [[2]], {"value": np.array([4])}, [4, 4]),
        ("Equal", [[1, 2], [1, 3]], {}, [True, False]),
        ("Greater", [[1, 2], 1], {}, [False, True]),
        ("Less", [0, [1, -1]], {}, [True, False]),
    ],
)
def test_a_rule_gives_what_the_operator_gives(run_node, op, inputs, attributes, expected):
    arrays = [np.array(x) for x in inputs]
    found = on_host(RULES[op], arrays, attributes)
    assert found.tolist() == expected
    options = {k: v for k, v in attributes.items() if k != "value"}
    if op == "ConstantOfShape":
        numpy_helper = pytest.importorskip("onnx").numpy_helper
        options["value"] = numpy_helper.from_array(attributes["value"])
    (result,) = run_node(op, arrays, types=[9 if op in ("Equal", "Greater", "Less") else 7], **options)
    assert result.tolist() == expected


def test_symbols_are_chosen_by_conditions():
    found = on_host(RULES["Where"], [np.array([True, False]), np.array(["n", "m"], object), np.array([1, 2])], {})
    assert found.tolist() == ["n", 2]


def test_tensors_and_large_arrays_are_left_to_the_operators():
    assert on_host(RULES["Add"], [np.array(1), ex.tensor(1)], {}) is None
    assert on_host(RULES["Add"], [np.zeros(100, np.int64), np.array(1)], {}) is None
    assert on_host(RULES["Cast"], [np.array(1)], {"to": 1}) is None
    with pytest.raises(ZeroDivisionError):
        on_host(RULES["Div"], [np.array(1), np.array(0)], {})
