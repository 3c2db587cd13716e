"""The switches of `torch.backends` that scripts set: kept as they are set, of no effect without those libraries.

`ex.backends.cudnn.benchmark = True` and the like may stay in a script. Asking whether a library is there says no.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from ..core.interrupts import block, certainly


def _put_back(settings: dict[str, Any], before: dict[str, Any]) -> None:
    settings.clear()
    settings.update(before)


class Switches(ModuleType):
    """A library that is not used, and its settings; a module, so that `import extempo.backends.cudnn` works."""

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(f"extempo.backends.{name}", f"The settings of {name}, which Extempo does not use.")
        self.__dict__.update(settings)
        sys.modules[self.__name__] = self

    def is_available(self) -> bool:
        """False: Extempo does not use this library."""
        return False

    def is_built(self) -> bool:
        """False: Extempo does not use this library."""
        return False

    def version(self) -> int | None:
        """None: Extempo does not use this library."""
        return None

    # Both say to type checkers that any setting may be there.

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"this switch of extempo.backends was never set: {name!r}")

    @block
    def flags(self, **settings: Any) -> Iterator[None]:
        """Settings that hold inside the block."""
        before = dict(self.__dict__)
        try:
            self.__dict__.update(settings)
            yield
        finally:
            certainly(_put_back, self.__dict__, before)


cudnn = Switches(
    "cudnn",
    enabled=True,
    benchmark=False,
    benchmark_limit=10,
    deterministic=False,
    allow_tf32=True,
    fp32_precision="none",
)
cuda = Switches(
    "cuda",
    matmul=Switches(
        "cuda.matmul",
        allow_tf32=False,
        allow_fp16_reduced_precision_reduction=True,
        allow_bf16_reduced_precision_reduction=True,
        fp32_precision="none",
    ),
)
mps = Switches("mps")
mkl = Switches("mkl")
mkldnn = Switches("mkldnn", enabled=True, deterministic=False, allow_tf32=True, fp32_precision="none")
openmp = Switches("openmp")
