"""The choice among implementations of attention changes nothing."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import DtypeError
from extempo.nn.attention import SDPBackend, sdpa_kernel


@pytest.mark.parametrize("chosen", [SDPBackend.MATH, [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]])
def test_every_choice_gives_the_same_result(chosen):
    q = ex.rand(2, 3, 4)
    expected = nn.functional.scaled_dot_product_attention(q, q, q)
    with sdpa_kernel(chosen):
        assert ex.equal(nn.functional.scaled_dot_product_attention(q, q, q), expected)


def test_what_is_no_implementation_is_refused():
    with pytest.raises(DtypeError, match="SDPBackend"), sdpa_kernel("math"):
        pass


@pytest.mark.conformance
def test_the_names_are_pytorchs():
    torch = pytest.importorskip("torch", reason="compares with PyTorch: pip install -e '.[conformance]'")
    for backend in SDPBackend:
        assert int(getattr(torch.nn.attention.SDPBackend, backend.name)) == backend
