"""Samples of different sizes, and a check that ex.batch runs them as one, call after call, with what a loop gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import extempo as ex
from extempo.core.tensor import Tensor

from ..agreement import check

LENGTHS = [(3, 5, 2, 5, 7), (4, 1, 6, 3, 9), (2, 3, 5, 8, 1)]  # of the samples of each call


def drawn(rng: np.random.Generator, *shape: int) -> Tensor:
    return ex.tensor(rng.normal(size=shape), dtype=ex.float32)


def agrees(
    fn: Callable[..., Any],
    make: Callable[[np.random.Generator, int], Any],
    parameters: Iterable[Tensor] = (),
    lengths: Iterable[tuple[int, ...]] = LENGTHS,
) -> Any:
    """Several calls on samples that `make` makes for lengths, their inputs tracked; the batched function."""

    def of_values(*sample: Any) -> Any:  # a leaf that is tracked counts as a weight
        return fn(*[x * 1.0 if isinstance(x, Tensor) and x.requires_grad else x for x in sample])

    rng = np.random.default_rng(0)
    batched = None
    for of_call in lengths:
        samples = [make(rng, n) for n in of_call]
        columns = [list(column) for column in zip(*[s if isinstance(s, tuple) else (s,) for s in samples], strict=True)]
        leaves = [x for column in columns for x in column if isinstance(x, Tensor) and x.is_floating_point()]
        for x in leaves:
            x.requires_grad_()
        batched = check(of_values, *columns, parameters=[*parameters, *leaves])
    return batched


def forms(batched: Any) -> dict[str, list[str]]:
    """By op, the forms in which its batches ran; "" for those of one size."""
    found: dict[str, list[str]] = {}
    for calls, _, _ in batched._notes.batches:
        form = getattr(calls.kind, "form", None)
        found.setdefault(calls.kind.name, []).append(getattr(form, "__name__", ""))
    return found
