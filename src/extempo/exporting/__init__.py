"""Programs: the forward of a model as a frozen Graph, with its control flow, that runs and is saved without its class.

    control_flow   ex.cond, ex.while_loop, ex.scan, ex.map: Python's branches and loops as functions of functions
    building       ex.program: examples (`calls`), weights (`model_state`), `tracer`, then `checking`
    source         Python's own branches and loops, rewritten from the source of functions; they call `source_control`,
                   which has branches (`traced_branches`), loops (`traced_loops`, `loop_items`) and `builtin_calls`
    program        what comes out; it runs by `runner`, over nodes of `ops.control_flow` too; changed by `editing`
    stretches      what plans can run of it, at new sizes by `size_families`; where that is all, one `planned_call`
    planned_loops  loops whose bodies are plans
    sized_runs     graphs in which values decide sizes, piece by piece
    ragged_rows    ragged tensors as arguments and results
    folding        nodes that follow from weights alone, computed once
    sizes          symbolic sizes: polynomials, and guards for what code decided by them
    files          program.save and ex.load_program, by `text`; weights may be in fewer bytes (`storage`)
    quantizing     program.quantize: rounded weights, and a report of what that changes
    onnx_import    ex.from_onnx: an ONNX file as a module that runs and trains

Each is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .calls import Dim
    from .editing import GraphEditor
    from .program import Program
    from .quantizing import QuantizationReport

__all__ = ["Dim", "GraphEditor", "Program", "QuantizationReport"]

_HOMES = {"Dim": "calls", "GraphEditor": "editing", "Program": "program", "QuantizationReport": "quantizing"}

if not TYPE_CHECKING:  # a type checker would take every name for one that exists

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
