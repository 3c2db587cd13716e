"""`torch.export`: PyTorch's names for `ex.program`, with its control flow and without its restrictions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

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


class ExportGraphSignature(NamedTuple):
    """The names of what an exported program takes, gives and holds."""

    user_inputs: list[str]
    user_outputs: list[str]
    parameters: list[str]
    buffers: list[str]
    buffers_to_mutate: list[str]


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

    @property
    def graph_module(self) -> Module:
        """A module that runs the program's graph."""
        return self.module()

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """The names of inputs, outputs and weights."""
        p = self.program
        trainable = [name for name in p.weights if name in p.trainable]
        others = [name for name in p.weights if name not in p.trainable]
        return ExportGraphSignature([spec.name for spec in p.inputs], list(p.outputs), trainable, others, list(p.state))

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """The weights that train."""
        return ((name, t) for name, t in self.program.weights.items() if name in self.program.trainable)

    def parameters(self) -> Iterator[Any]:
        """The weights that train, without their names."""
        return (t for _, t in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        """The other weights."""
        return ((name, t) for name, t in self.program.weights.items() if name not in self.program.trainable)

    def buffers(self) -> Iterator[Any]:
        """The other weights, without their names."""
        return (t for _, t in self.named_buffers())

    def run_decompositions(self, *args: Any, **kwargs: Any) -> ExportedProgram:
        """Itself: the ops of a program are Extempo's own."""
        return self

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


def unflatten(module: ExportedProgram, *args: Any) -> Module:
    """The module of a program: its weights have the model's names, in submodules."""
    return module.module()


def save(ep: ExportedProgram, f: Any, **options: Any) -> None:
    """Write it to a file, as `program.save` does."""
    ep.program.save(f)


def load(f: Any, **options: Any) -> ExportedProgram:
    """Read what `save` wrote."""
    from ...exporting.files import load_program

    return ExportedProgram(load_program(f))
