"""Allocations that fail while native code runs, at any moment."""

import numpy as np
import pytest

import extempo as ex

testcapi = pytest.importorskip("_testcapi")

N_MOMENTS = 60  # more allocations than any of these calls makes


def draw(*shape, seed=0, grad=True):
    return ex.tensor(np.random.default_rng([seed, *shape]).normal(size=shape), dtype=ex.float32, requires_grad=grad)


def fails(moment, lasting, call, *args):
    """Call with no memory for the allocation of that number, or from it on: None where it says so."""
    testcapi.set_nomemory(moment, 0 if lasting else moment + 1)
    try:
        return call(*args)
    except MemoryError:
        return None
    finally:
        testcapi.remove_mem_hooks()
