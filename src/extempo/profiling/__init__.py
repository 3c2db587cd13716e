"""Profiles: where the time of a program goes. `ex.profile` is the way in; here are the names that go with it.

While a profile runs, probes stand before all native functions and around few of Python (`hooks`), and write records
(`recording`): natively into a ring, or in Python where NumPy's kernels run. Records become a tree of calls
(`call_tree`), the tree becomes shares of the time, each with a line, module, op, kernel and phase (`shares`), and these
are added up (`report`), drawn (`flame`) or written as a trace (`chrome`). Where nobody profiles, nothing of this is
there.
"""

from __future__ import annotations

from ..core.absent_names import explain_absent
from ..core.public_names import publish
from .api import record_function, tensorboard_trace_handler
from .report import Row
from .steps import schedule

__all__ = ["Row", "record_function", "schedule", "tensorboard_trace_handler"]

publish(__name__, __all__, globals())

explain_absent(__name__)
