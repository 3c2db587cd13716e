"""Compares a function that runs in lockstep with the plain loop: results, and gradients of weights and of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import extempo as ex
from extempo.core.tensor import Tensor

from ..agreement import close, draw, gradients_of

LENGTHS = (4, 1, 3, 7, 3)


def ragged(*shape: int, lengths: Sequence[int] = LENGTHS) -> list[Tensor]:
    """Samples with so many rows of this shape."""
    return [draw(100 + i, n, *shape) for i, n in enumerate(lengths)]


def alike(n: int, *shape: int) -> list[Tensor]:
    return [draw(i, *shape) for i in range(n)]


def weight(*shape: int, seed: int = 5) -> Tensor:
    return draw(seed, *shape).requires_grad_()


def n_in_lockstep(batched: Any) -> int:
    """How many samples of the last call ran so."""
    return sum(n for _, n in batched._notes.programs)


def check(fn: Any, *columns: Sequence[Any], parameters: Any = (), ran: int | bool = True, **kwargs: Any) -> Any:
    """Call both ways and compare; `ran`: how many samples shall run in lockstep, all (True) or none (False)."""
    parameters = list(parameters)
    expected = [fn(*sample, **kwargs) for sample in zip(*columns, strict=True)]
    expected_gradients = gradients_of(expected, parameters, columns)
    batched = ex.batch(fn)
    got = batched(*columns, **kwargs)
    wanted = ran if type(ran) is int else len(expected) * ran
    assert n_in_lockstep(batched) == wanted, batched.explain()
    assert_same(got, expected, "result")
    for i, (a, b) in enumerate(zip(gradients_of(got, parameters, columns), expected_gradients, strict=True)):
        assert (a is None) == (b is None), f"gradient {i} is {a}, not {b}"
        if a is not None:
            close(a, b, f"gradient {i}")
    return batched


def assert_same(got: Any, expected: Any, what: str) -> None:
    assert type(got) is type(expected), what
    if isinstance(expected, Tensor):
        assert got.requires_grad == expected.requires_grad, what
        close(got.detach().numpy(), expected.detach().numpy(), what)
    elif isinstance(expected, dict):
        assert list(got) == list(expected), what
        for key in expected:
            assert_same(got[key], expected[key], f"{what}[{key!r}]")
    elif isinstance(expected, list | tuple):
        assert len(got) == len(expected), what
        for i, (a, b) in enumerate(zip(got, expected, strict=True)):
            assert_same(a, b, f"{what}[{i}]")
    else:
        assert got == expected, what
