"""Versions, by the names of `torch.version`: there is no CUDA, ROCm or XPU."""

from __future__ import annotations

from ._version import __version__ as __version__

cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
debug = False
git_version: str | None = None
