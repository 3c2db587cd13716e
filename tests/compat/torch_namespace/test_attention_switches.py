"""Which kernels of attention may be used: kept, of no effect."""

from __future__ import annotations

from extempo.compat.torch_namespace import attention_switches as switches


def test_what_is_set_is_kept_for_each_kernel():
    assert switches.flash_sdp_enabled()
    switches.enable_flash_sdp(False)
    try:
        assert not switches.flash_sdp_enabled()
        assert switches.math_sdp_enabled()
    finally:
        switches.enable_flash_sdp(True)


def test_no_kernel_of_a_gpu_is_there():
    with switches.sdp_kernel(enable_flash=False):
        assert not switches.is_flash_attention_available()
        assert not switches.can_use_flash_attention(None)
