"""Values that traced branches and loops set and carry: which can be, and how tensors from outside are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.graph import describe_where
from ..core.source_location import user_line
from ..core.tensor import Tensor
from ..errors import ExportError
from ..symbolic.sym_int import SymInt
from .tracer import OutsideWrite, ProgramTracer, as_tensor

Values = tuple[Any, ...]


class Unset:
    """The value of a variable that is not set, or only on one of the ways that a call may take; its use is an error."""

    def __init__(self, why: str = "") -> None:
        self._why = why

    def _refuse(self, *args: Any) -> Any:
        raise ExportError(self._why or f"{describe_where(user_line())}: a variable is used before it is set")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse()


for _operator in ("add", "sub", "mul", "truediv", "matmul", "pow", "floordiv", "mod", "and", "or", "xor"):
    setattr(Unset, f"__{_operator}__", Unset._refuse)
    setattr(Unset, f"__r{_operator}__", Unset._refuse)
for _operator in ("neg", "lt", "le", "gt", "ge", "bool", "call", "getitem", "iter", "len", "index", "float", "int"):
    setattr(Unset, f"__{_operator}__", Unset._refuse)

UNSET = Unset()


def with_writes(run: Callable[[list[Tensor]], Any]) -> Any:
    """`run` with the tensors from outside that it turns out to write into."""
    bases: list[Tensor] = []
    while True:
        try:
            return run(bases)
        except OutsideWrite as error:
            if any(error.base is base for base in bases):
                raise
            bases.append(error.base)


def assign_all(tracer: ProgramTracer, bases: list[Tensor], made: Values) -> None:
    """Write what a branch or loop gave back into the tensors from outside that it writes into."""
    for base, value in zip(bases, made[len(made) - len(bases) :], strict=True):
        tracer.assign(base, value)


def is_value(x: Any) -> bool:
    return isinstance(x, Tensor | SymInt | bool | int | float)


def equal(x: Any, y: Any) -> bool:
    return type(x) is type(y) and type(x) in (bool, int, float, str, type(None)) and bool(x == y)


def number(x: Any, dtype: Any) -> Tensor:
    made = as_tensor(x)
    return made if isinstance(x, Tensor) or dtype is None or made.dtype is dtype else made.to(dtype)


def shown(x: Any) -> str:
    return str(x._type) if isinstance(x, Tensor) else repr(x)
