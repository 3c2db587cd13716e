"""`torch._C._functorch`: whether a tensor is one of PyTorch's wrappers inside of vmap or grad; none is here."""

from __future__ import annotations

from typing import Any


def is_batchedtensor(tensor: Any) -> bool:
    return False


is_functorch_wrapped_tensor = is_gradtrackingtensor = is_legacy_batchedtensor = is_batchedtensor
