"""A program as a module that trains: its weights are parameters and buffers under the names that they had.

It runs by the program's own runner, with gradients recorded. States that the model changed are buffers, which calls
update, as the model's own did.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from ..core.context import no_grad
from ..core.graph import Graph
from ..core.tensor import Tensor
from ..nn.module import Module
from ..nn.parameter import Parameter
from .program import Program


class ProgramModule(Module):
    """The module of a program: call it as the program; `parameters()` and `state_dict()` have the model's names."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self._program = program
        for name, tensor in program.weights.items():
            owner, last = self._owner(name.split("."))
            values = tensor.detach().clone()
            if name in program.trainable:
                owner.register_parameter(last, Parameter(values))
            else:
                owner.register_buffer(last, values, persistent=not name.startswith("constant_"))

    def _owner(self, path: Sequence[str]) -> tuple[Module, str]:
        """The submodule that holds a weight, made where it is missing."""
        owner: Module = self
        for part in path[:-1]:
            if part not in owner._modules:
                owner.add_module(part, Module())
            owner = owner._modules[part]
        return owner, path[-1]

    def _weights(self) -> dict[str, Tensor]:
        return {**dict(self.named_parameters()), **dict(self.named_buffers())}

    def program(self) -> Program:
        """The program with the weights as they are now."""
        weights = self._weights()
        made = copy.copy(self._program)
        made.weights = {name: weights[name].detach().clone() for name in made.weights}
        made.storage, made.report = {}, None  # trained weights are not rounded unless somebody asks again
        return made

    @property
    def graph(self) -> Graph:
        """The program's graph."""
        return self._program.graph

    @property
    def code(self) -> str:
        """The program's text."""
        return str(self._program)

    def save(self, f: Any) -> None:
        """Write the program with the weights as they are now, as `program.save` does."""
        self.program().save(f)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        program, weights = self._program, self._weights()
        tensors = program._tensors(args, kwargs)
        result = program._run(tensors, weights)
        if not program.state:
            return result
        result, states = result
        with no_grad():
            for name, value in states.items():
                weights[name].copy_(value)
        return result

    def extra_repr(self) -> str:
        return repr(self._program)
