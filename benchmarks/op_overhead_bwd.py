"""op_overhead with its backward pass: 200 tiny ops recorded, differentiated and thrown away."""

from __future__ import annotations

from op_overhead import BLOCK, peers
from workload import Workload, run_this

WORKLOADS = [Workload("op_overhead_bwd", __doc__, BLOCK, peers(backward=True), floor=0.30, compiled_floor=0.20)]

if __name__ == "__main__":
    run_this(__file__)
