"""`torch.quasirandom`: Sobol points. SciPy has the direction numbers, and is asked for them when it is there."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...core.tensor import Tensor
from ...core.types import dtype, get_default_dtype
from ...errors import ArgumentError, UnsupportedError
from ...random import default_generator


class SobolEngine:
    """Points that fill a cube evenly, by SciPy; scrambled ones are other ones than PyTorch's."""

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ArgumentError(f"SobolEngine: dimension must be from 1 to {self.MAXDIM}, got {dimension}")
        try:
            from scipy.stats import qmc  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except ImportError as error:
            raise UnsupportedError("SobolEngine: the direction numbers come from SciPy; pip install scipy") from error
        if scramble and seed is None:
            seed = int(ops.randint(1 << 62, (), generator=default_generator))
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self._points: Any = qmc.Sobol(dimension, scramble=scramble, bits=self.MAXBIT, rng=seed)

    @property
    def num_generated(self) -> int:
        """How many points were drawn or passed over."""
        return int(self._points.num_generated)

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: dtype | None = None) -> Tensor:
        """The next n points, (n, dimension)."""
        import warnings

        with warnings.catch_warnings():  # that n is no power of 2
            warnings.simplefilter("ignore")
            drawn = self._points.random(n)
        points = ops.tensor(drawn, dtype=dtype or get_default_dtype())
        return points if out is None else out.resize_(points.shape).copy_(points)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: dtype | None = None) -> Tensor:
        """The next 2 ** m points."""
        n = 1 << m
        total = self.num_generated + n
        if total & (total - 1):
            raise ArgumentError(
                f"SobolEngine.draw_base2: {self.num_generated} points were drawn already, and with {n} more their "
                f"number is no power of 2; use draw({n})"
            )
        return self.draw(n, out, dtype)

    def reset(self) -> SobolEngine:
        """Begin again with the first point."""
        self._points.reset()
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Pass over n points."""
        self._points.fast_forward(n)
        return self

    def __repr__(self) -> str:
        scrambled = ", scramble=True" if self.scramble else ""
        return f"SobolEngine(dimension={self.dimension}{scrambled})"
