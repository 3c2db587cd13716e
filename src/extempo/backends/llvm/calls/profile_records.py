"""The fields of a record of a profile, as native code (`probes`) and Python (`profiling.recording`) write them."""

from __future__ import annotations

import numpy as np

_FIELDS = {
    "begin": "<i8",  # of the clock
    "end": "<i8",
    "site": "<i4",  # what ran: a number of the profile's
    "instruction": "<i4",  # of the user's code object, in bytes; -1 where no line was looked for
    "code": "<i8",  # the address of that code object, 0 for none
    "object": "<i8",  # the address of what it was called with or on, 0 for none
    "thread": "<i8",
    "inner": "<i8",  # ticks within it in kernels that have no record of their own
    "index": "<i8",  # of an instruction of a plan
}
RECORD = np.dtype(list(_FIELDS.items()))


def offset(field: str) -> int:
    """Where a field is in a record, in bytes."""
    assert RECORD.fields is not None
    return RECORD.fields[field][1]
