"""ProbsOrLogits: distributions given either by probabilities or by their logits."""

from __future__ import annotations

from typing import Any, ClassVar

from ..core.tensor import Tensor
from ..core.types import Size
from ..errors import DtypeError
from . import constraints
from .distribution import Distribution
from .utils import Value, broadcast_all, lazy_property, logits_to_probs, probs_to_logits


class ProbsOrLogits(Distribution):
    """One of `probs` and `logits` is given and kept; the other is computed when it is asked for."""

    arg_constraints: ClassVar[constraints.Table] = {"probs": constraints.unit_interval, "logits": constraints.real}
    _is_binary: ClassVar[bool] = True

    def __init__(
        self, probs: Value | None = None, logits: Value | None = None, validate_args: bool | None = None
    ) -> None:
        self._keep(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def _take(self, probs: Any, logits: Any) -> str:
        """The name of the one that is given."""
        if (probs is None) == (logits is None):
            what = "neither" if probs is None else "both"
            raise DtypeError(f"{type(self).__name__}: expected either probs or logits, got {what}")
        return "logits" if probs is None else "probs"

    def _keep(self, probs: Value | None, logits: Value | None, *companions: Value) -> tuple[Tensor, ...]:
        """Keep the one that is given, broadcast together with other parameters, which are returned."""
        name = self._take(probs, logits)
        given, *others = broadcast_all(logits if probs is None else probs, *companions)  # type: ignore[arg-type] # not None
        setattr(self, name, given)
        return tuple(others)

    @lazy_property
    def logits(self) -> Tensor:
        """Log-odds, or log-probabilities of categories."""
        return probs_to_logits(self.probs, self._is_binary)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities."""
        return logits_to_probs(self.logits, self._is_binary)

    @property
    def _param(self) -> Tensor:
        given: Tensor = self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]
        return given

    @property
    def param_shape(self) -> Size:
        """The shape of probs or logits."""
        return self._param.shape
