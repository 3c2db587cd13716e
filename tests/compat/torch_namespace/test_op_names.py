"""Inner names of PyTorch's ops."""

from __future__ import annotations

import pytest

from extempo.compat.torch_namespace import op_names
from extempo.core.absent_names import RefusedName
from extempo.errors import UnsupportedError


def test_an_op_can_be_named_and_refuses_to_be_called():
    assert {op_names.aten.add.Tensor: 1}[op_names.aten.add.Tensor] == 1
    with pytest.raises(RefusedName, match=r"torch\.ops\.aten\.add\.Tensor: .*call the public function"):
        op_names.aten.add.Tensor(1, 2)
    with pytest.raises(UnsupportedError, match="machinery"):
        op_names.load_library("_C.so")
    with pytest.raises(OSError, match="machinery"):  # which libraries catch
        op_names.load_library("_C.so")
    assert not hasattr(op_names.aten, "__wrapped__")


def test_ops_that_others_would_have_registered_are_not_there():
    assert not hasattr(op_names.torchvision, "nms")
    assert not hasattr(op_names, "__path__")
