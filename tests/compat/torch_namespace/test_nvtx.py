"""torch.cuda.nvtx: code with named stretches runs as it is."""

from __future__ import annotations

from extempo.compat.torch_namespace import nvtx


def test_stretches_with_names_run_as_they_are():
    @nvtx.range("doubled")
    def doubled(x):
        nvtx.range_push("inner")
        nvtx.mark("here")
        assert nvtx.range_pop() == 0
        return 2 * x

    with nvtx.range("block {}", 1):
        assert doubled(3) == 6
    nvtx.range_end(nvtx.range_start("process"))
