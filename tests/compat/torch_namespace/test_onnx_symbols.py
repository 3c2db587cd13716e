"""Functions that would write ops in ONNX can be declared, and nobody calls them."""

from __future__ import annotations

from extempo.compat.torch_namespace import onnx_symbols


def test_a_symbolic_function_is_handed_back():
    assert onnx_symbols.parse_args("v", "f")(len) is len
    assert onnx_symbols.register_custom_op_symbolic("torchvision::nms", len, 11) is None


def test_no_export_is_on_its_way():
    assert onnx_symbols.is_in_onnx_export() is False
