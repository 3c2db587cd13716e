"""`summary`: the usual table of a model's layers."""

from __future__ import annotations

import textwrap
from html import escape
from typing import Any

from ..core.wording import counted
from ..nn import Module, ModuleDict, ModuleList
from .style import fragment, page
from .tables import WIDTH, Column, Printable, Table, bytes_text
from .tracing import Step, require_module, trace, types_text

_LISTS = (ModuleList, ModuleDict)  # which nobody calls


class Summary(Printable):
    """Layers, their output shapes and parameters, as `summary` returns them. Printed it is a table.

    >>> layers = ex.inspect.summary(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
    >>> layers.n_parameters, [layer["kind"] for layer in layers.layers]
    (9, ['Sequential', 'Linear', 'ReLU'])
    """

    def __init__(self, model: Module, steps: list[Step] | None) -> None:
        self.model = type(model).__name__
        self._with_shapes = steps is not None
        self.layers = _layers(model, steps)
        parameters = list(model.parameters())
        self.n_parameters = sum(p.numel() for p in parameters)
        self.n_trainable = _n_trainable(parameters)
        self.n_bytes = sum(p.numel() * p.element_size() for p in parameters)
        self.n_buffers = sum(b.numel() for b in model.buffers())

    @property
    def table(self) -> Table:
        """A row for each layer."""
        columns = [Column("layer", may_shrink=True)]
        if self._with_shapes:
            columns.append(Column("output", wraps=True))
        columns.append(Column("parameters", right=True))
        rows = []
        for layer in self.layers:
            name = f"{layer['name'].rsplit('.', 1)[-1]}: {layer['kind']}" if layer["name"] else layer["kind"]
            again = f" x{layer['calls']}" if layer["calls"] > 1 else ""
            n = f"{layer['parameters']:,}" if layer["parameters"] else ""
            n_frozen = layer["parameters"] - layer["trainable"]
            frozen = "" if not n_frozen else " frozen" if not layer["trainable"] else f", {n_frozen:,} frozen"
            row = ["  " * layer["depth"] + name + again]
            row += [types_text(layer["outputs"])] if self._with_shapes else []
            rows.append([*row, n + frozen + (" shared" if layer["shared"] else "")])
        return Table(columns, rows)

    def __str__(self) -> str:
        return f"{self.table.text()}\n{textwrap.fill(self._total(), WIDTH)}"

    def _total(self) -> str:
        total = (
            f"{counted(self.n_parameters, 'parameter')} ({bytes_text(self.n_bytes)}), {self.n_trainable:,} of "
            "them trainable"
        )
        return total + (f"; {self.n_buffers:,} numbers in buffers" if self.n_buffers else "")

    def as_dict(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "layers": self.layers,
            "parameters": self.n_parameters,
            "trainable": self.n_trainable,
            "bytes": self.n_bytes,
            "buffers": self.n_buffers,
        }

    def _repr_html_(self) -> str:
        return fragment(self._html())

    def _html(self) -> str:
        return f"{self.table.html()}<p>{self._total()}</p>"

    def html(self) -> str:
        """A page with the table and the totals."""
        return page(self.model, f"<h2>{escape(self.model)}</h2>{self._html()}")


def _layers(model: Module, steps: list[Step] | None) -> list[dict[str, Any]]:
    outputs = {step.name: step.outputs for step in steps or ()}
    calls: dict[str, int] = {}
    for step in steps or ():
        calls[step.name] = max(step.call, calls.get(step.name, 0))
    layers = []
    counted: set[int] = set()
    for name, module in model.named_modules():
        own = list(module.parameters(recurse=False))
        layers.append(
            {
                "name": name,
                "kind": type(module).__name__,
                "depth": name.count(".") + 1 if name else 0,
                "outputs": outputs.get(name, [] if steps is None or isinstance(module, _LISTS) else ["not called"]),
                "calls": calls.get(name, 0),
                "parameters": sum(p.numel() for p in own),
                "trainable": _n_trainable(own),
                "shared": any(id(p) in counted for p in own),
            }
        )
        counted |= {id(p) for p in own}
    return layers


def _n_trainable(parameters: list[Any]) -> int:
    return sum(p.numel() for p in parameters if p.requires_grad)


def summary(model: Module, *inputs: Any, **options: Any) -> Summary:
    """The layers of a model with their parameters; with inputs for forward also their output shapes.

    >>> print(ex.inspect.summary(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), ex.ones(4, 2)))
    layer        output  parameters
    Sequential   (4, 3)
      0: Linear  (4, 3)           9
      1: ReLU    (4, 3)
    9 parameters (36 B), 9 of them trainable
    """
    require_module("summary", model)
    steps = trace(model, *inputs, **options).steps if inputs or options else None
    return Summary(model, steps)
