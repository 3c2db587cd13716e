"""The table of operators: what a signature says."""

from __future__ import annotations

import pytest

from extempo.core.tensor import Tensor
from extempo.exporting.onnx_import import table
from extempo.exporting.onnx_import.table import Attribute, Fixed, Ints, Operator, operator


@pytest.fixture(autouse=True)
def empty(monkeypatch):
    monkeypatch.setattr(table, "OPERATORS", {})


def test_a_signature_is_the_description_of_an_operator():
    @operator("First", "Second")
    def function(
        x: Tensor, low: Fixed | None = None, *others: Tensor, axes_: Ints | None = None, mode: str, opset: int
    ) -> Tensor:
        return x

    attributes = {"axes": Attribute("axes_", "Ints", False), "mode": Attribute("mode", "str", True)}
    expected = Operator("First", function, ("Tensor", "Fixed"), 1, "Tensor", attributes, ("opset",))
    assert {"First": expected, "Second": expected._replace(name="Second")} == table.OPERATORS


def test_an_input_of_another_kind_is_a_mistake():
    with pytest.raises(AssertionError, match="Op: x is annotated as int"):

        @operator("Op")
        def function(x: int) -> Tensor: ...
