"""`torch.export`: PyTorch's names for `ex.program`, with its control flow and without its restrictions."""

from __future__ import annotations

import math
from typing import Any

from ...errors import ArgumentError
from ...nn.module import Module

__all__ = ["ExportedProgram", "dims", "export", "export_for_training", "load", "save"]


def __getattr__(name: str) -> Any:
    if name == "Dim":
        from ...exporting.calls import Dim

        return Dim
    raise AttributeError(f"module 'torch.export' has no attribute {name!r}", name=name)


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Any, ...]:
    """Several sizes at once, by name."""
    from ...exporting.calls import Dim

    return tuple(Dim(name, min=min, max=max) for name in names)


class ExportedProgram:
    """What `export` makes: `module()` runs it; `program` is Extempo's own."""

    def __init__(self, program: Any) -> None:
        self.program = program

    def module(self) -> Module:
        """A module that runs and trains."""
        made: Module = self.program.module()
        return made.eval()

    @property
    def graph(self) -> Any:
        """The program's graph."""
        return self.program.graph

    @property
    def state_dict(self) -> dict[str, Any]:
        """The weights by name."""
        return dict(self.program.weights)

    @property
    def range_constraints(self) -> dict[str, tuple[int, float]]:
        """The bounds of the sizes that stay open."""
        return {
            name: (dim.min, math.inf if dim.max == math.inf else dim.max) for name, dim in self.program.dims.items()
        }

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.program(*args, **kwargs)

    def __str__(self) -> str:
        return str(self.program)


def export(
    mod: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    **options: Any,
) -> ExportedProgram:
    """A program of a module, from the arguments of one call. Options of PyTorch's tracers have no effect."""
    from ...exporting.building import program
    from ...exporting.calls import bound_call

    if not isinstance(args, tuple):
        raise ArgumentError(f"torch.export.export: args must be a tuple, got {type(args).__name__}; write (x,)")
    training = isinstance(mod, Module) and mod.training
    call = bound_call(mod, args, kwargs or {})
    return ExportedProgram(program(mod, call, dynamic=dynamic_shapes, training=training))


export_for_training = draft_export = export


def default_decompositions() -> dict[Any, Any]:
    """A program has Extempo's own ops."""
    return {}


def save(ep: ExportedProgram, f: Any, **options: Any) -> None:
    """Write it to a file, as `program.save` does."""
    ep.program.save(f)


def load(f: Any, **options: Any) -> ExportedProgram:
    """Read what `save` wrote."""
    from ...exporting.files import load_program

    return ExportedProgram(load_program(f))
