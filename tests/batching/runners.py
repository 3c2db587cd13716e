"""Kinds of calls from one sample, and a comparison of the two runners on them."""

from __future__ import annotations

from typing import Any

import numpy as np

import extempo as ex
from extempo import nn
from extempo.batching.kinds import CallKind, Input
from extempo.batching.native_runner import NativeRunner
from extempo.batching.vmap_runner import VmapRunner

SIZES = (1, 2, 3, 15, 16, 17, 100, 1000)


F = nn.functional


def kind_of(fn: Any, samples: list[Any], captured: tuple[Any, ...] = (), grad: bool = True) -> CallKind:
    """A kind, from one sample."""

    def flat(*inputs: Any) -> tuple[Any, ...]:
        out = fn(*inputs)
        return tuple(out) if isinstance(out, tuple | list) else (out,)

    inputs = []
    for x in samples:
        if isinstance(x, ex.Tensor):
            inputs.append(Input(x._type, grad and x.dtype.is_floating_point))
        else:
            inputs.append(Input(type(x), False))
    given = [
        x.detach().requires_grad_(i.tracked) if isinstance(x, ex.Tensor) else x
        for x, i in zip(samples, inputs, strict=True)
    ]
    if not grad:
        with ex.no_grad():
            results = flat(*given)
    else:
        results = flat(*given)
    tracked = tuple(grad and y.requires_grad for y in results)
    return CallKind("test", flat, tuple(inputs), tuple(y._type for y in results), tracked, captured)


def rows_for(x: Any, n: int, rng: np.random.Generator) -> Any:
    """Rows like a sample: floats near it, integers among its own."""
    if not isinstance(x, ex.Tensor):
        if isinstance(x, float):
            return rng.standard_normal(n).astype(np.float32)
        return rng.integers(0, x + 1, n)
    a = x.detach().numpy()
    if a.dtype.kind == "f":
        return (np.broadcast_to(a, (n, *a.shape)) + 0.3 * rng.standard_normal((n, *a.shape))).astype(a.dtype)
    if a.dtype.kind == "b":
        return rng.integers(0, 2, (n, *a.shape)).astype(bool)
    return rng.integers(0, a.max() + 1, (n, *a.shape)).astype(a.dtype)


def close(a: Any, b: Any, what: str, scale: float = 1.0) -> None:
    if a is None or b is None:
        # No gradient and one of zeros are the same.
        assert a is None or not a.any(), what
        assert b is None or not b.any(), what
        return
    assert a.dtype == b.dtype, what
    assert a.shape == b.shape, what
    tolerance = (1e-9 if a.dtype == np.float64 else 2e-4) * scale
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=what)


def add_to(totals: dict[int, list[Any]], i: int, side: int, g: Any) -> None:
    sums = totals.setdefault(i, [None, None])
    if g is not None:
        sums[side] = g.copy() if sums[side] is None else sums[side] + g


def check(
    fn: Any,
    samples: list[Any],
    captured: tuple[Any, ...] = (),
    shared: tuple[int, ...] = (),
    sizes: tuple[int, ...] = SIZES,
    grad: bool = True,
    masks: tuple[tuple[bool, ...], ...] = (),
    planned: bool = True,
) -> NativeRunner:
    """Compare with VmapRunner at several numbers of calls: forward, backward, and what is left over all of them."""
    kind = kind_of(fn, samples, captured, grad)
    which = tuple(i in shared for i in range(len(samples)))
    fast, slow = NativeRunner.make(kind, which), VmapRunner(kind, which)
    if fast is not None and planned:
        fast._vmap = None  # so that nobody falls back to it
    assert (fast is not None) == planned
    if fast is None:
        return None
    rng = np.random.default_rng(0)
    rests: list[tuple[Any, Any]] = []
    of_shared: dict[int, list[Any]] = {}  # the sums of what both made at once
    for n in sizes:
        inputs = [x if s else rows_for(x, n, rng) for x, s in zip(samples, which, strict=True)]
        (got, saved), (expected, kept) = fast.forward(inputs, n), slow.forward(inputs, n)
        assert len(got) == len(expected)
        for i, (a, b) in enumerate(zip(got, expected, strict=True)):
            close(a, b, f"result {i} of {n}")
            assert a.flags.c_contiguous
        if not any(kind.tracked):
            assert saved is None
            continue
        for mask in masks or (kind.tracked,):
            gradients = [
                rng.standard_normal(y.shape).astype(y.dtype) if t else None for y, t in zip(expected, mask, strict=True)
            ]
            (of_inputs, rest), (like, left) = fast.backward(saved, gradients), slow.backward(kept, gradients)
            for i, (a, b) in enumerate(zip(of_inputs, like, strict=True)):
                if not which[i]:
                    close(a, b, f"gradient {i} of {n}")
                else:
                    add_to(of_shared, i, 0, a)
                    add_to(of_shared, i, 1, b)
            rests.append((rest, left))
    if rests:
        got = {id(t): g for t, g in fast.finish([a for a, _ in rests])}
        expected = {id(t): g for t, g in slow.finish([b for _, b in rests])}
        for i, (a, b) in of_shared.items():
            rest = got.get(id(samples[i]))
            total = rest if a is None else a if rest is None else a + rest
            close(total, b, f"gradient of shared input {i}", float(sum(sizes)) ** 0.5)
        for t in captured:
            close(got.get(id(t)), expected.get(id(t)), f"gradient of {tuple(t.shape)}", float(sum(sizes)) ** 0.5)
    return fast


def x(*shape: int, dtype: Any = ex.float32) -> Any:
    return ex.randn(shape, dtype=dtype)


def parameters(module: Any) -> tuple[Any, ...]:
    return tuple(module.parameters())
