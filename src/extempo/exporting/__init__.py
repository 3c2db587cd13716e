"""Programs: the forward of a model as a frozen Graph, with its control flow, that runs and is saved without its class.

    control_flow   ex.cond, ex.while_loop, ex.scan, ex.map: Python's branches and loops as functions of functions
    building       ex.program: examples (`calls`), weights (`model_state`), `tracer`, then `checking`
    source         Python's own branches and loops, rewritten from the source of functions (`source_control`)
    program        what comes out; it runs by `runner`, over nodes of `ops.control_flow` too
    sizes          symbolic sizes: polynomials, and guards for what code decided by them
    files          program.save and ex.load_program, by `text`

Each is loaded when it is first asked for.
"""

from __future__ import annotations

from .calls import Dim
from .program import Program

__all__ = ["Dim", "Program"]
