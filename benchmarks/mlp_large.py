"""MLP 784-1024-1024-10 on batches of 256, otherwise as mlp_small: large matrix products."""

from __future__ import annotations

from mlp_small import workload
from workload import run_this

WORKLOADS = [workload("mlp_large", __doc__, (784, 1024, 1024, 10), batch=256, block=2, floor=0.90, compiled_floor=0.85)]

if __name__ == "__main__":
    run_this(__file__)
