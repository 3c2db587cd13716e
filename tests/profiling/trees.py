"""Records by hand, for tests of what is made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from extempo.profiling import recording, sites
from extempo.profiling.recording import Recording
from extempo.profiling.sites import Site

MODULE, OP, KERNEL, BACKWARD, NODE = 0, 1, 2, 3, 4
SITES = [
    Site("module", sites.MODULE),
    Site("add", sites.OP),
    Site("add", sites.KERNEL),
    Site("backward", sites.BACKWARD),
    Site("add", sites.NODE),
]


def here() -> None:
    pass


def made(calls: list[tuple[int, int, int]], end: int = 100, threads: Any = 0, n_lost: int = 0) -> Recording:
    """`calls`: (begin, end, site), in nanoseconds."""
    records = np.zeros(len(calls), recording.RECORD)
    for record, (begin, last, site) in zip(records, calls, strict=True):
        record["begin"], record["end"], record["site"] = begin, last, site
        record["code"] = id(here.__code__) if site in (MODULE, OP, BACKWARD) else 0
    records["thread"] = threads
    return Recording(records, n_lost, SITES, {id(here.__code__): here.__code__}, 0, 0, end)
