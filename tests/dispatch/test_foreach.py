"""Many tensors changed in place by one native call: the same bits as one op for each, and nothing lost on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import extempo as ex
from extempo import nn, optim
from extempo.backends.selection import native
from extempo.dispatch.foreach import clamp_all, scale_all
from extempo.nn import functional as F
from extempo.tracing.compiled_function import CompiledFunction

ODD = [-0.0, 0.0, 1e-40, -1e-40, 3.4e38, -3.4e38, float("inf"), -float("inf"), float("nan"), 0.1, -7.5]


def plain() -> list[Any]:
    return [ex.randn(64, 33), ex.tensor(ODD), ex.tensor(2.5), ex.zeros(0, 3), ex.randn(300_000)]


def mixed() -> list[Any]:
    return [ex.randn(3), ex.randn(3).to(ex.float64), ex.randn(5).to(ex.float16)]


def strided() -> list[Any]:
    return [ex.randn(4, 6).t(), ex.randn(8)[::2], ex.randn(3)]


def overlapping() -> list[Any]:
    x = ex.randn(200_000)
    return [x, x[:100_000], x]


def with_history() -> list[Any]:
    x = ex.randn(3, requires_grad=True)
    return [x * 2.0, ex.randn(3)]


KINDS = [plain, mixed, strided, overlapping, with_history, list]


@pytest.mark.parametrize("make", KINDS)
def test_scaling_all_is_scaling_each(make: Any) -> None:
    factor = ex.tensor(0.37)
    changed, expected = drawn(make), drawn(make)
    with ex.no_grad():
        scale_all(changed, factor)
        for x in expected:
            x.mul_(factor)
    same(changed, expected)


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("bound", [0.0, 0.5, float("inf")])
def test_clamping_all_is_clamping_each(make: Any, bound: float) -> None:
    changed, expected = drawn(make), drawn(make)
    with ex.no_grad():
        clamp_all(changed, -bound, bound)
        for x in expected:
            x.clamp_(-bound, bound)
    same(changed, expected)


def drawn(make: Any) -> list[Any]:
    ex.manual_seed(3)
    return list(make())


def same(changed: list[Any], expected: list[Any]) -> None:
    for a, b in zip(changed, expected, strict=True):
        found, wanted = (x.detach().numpy() for x in (a, b))
        assert found.dtype == wanted.dtype
        assert np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(wanted).tobytes()


def test_a_gradient_that_saved_the_old_values_notices() -> None:
    x, w = ex.randn(3), ex.randn(3, requires_grad=True)
    y = (w * x).sum()
    with ex.no_grad():
        scale_all([x], ex.tensor(2.0))
    with pytest.raises(ex.errors.OverwrittenError, match="test_foreach"):
        y.backward()


@pytest.mark.skipif(native() is None, reason="plans need native code")
@pytest.mark.parametrize("static", [False, True])
def test_a_step_that_clips_is_one_plan(static: bool, monkeypatch: pytest.MonkeyPatch, always_planned: None) -> None:
    monkeypatch.setattr(CompiledFunction, "_may_plan", lambda *_, **__: True)
    losses = {}
    for name in ("eager", "compiled"):
        ex.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
        optimizer = optim.Adam(model.parameters(), lr=0.1)

        def step(x: Any, y: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            total = nn.utils.clip_grad_norm_(model.parameters(), 0.1, error_if_nonfinite=True)
            nn.utils.clip_grad_value_(model.parameters(), 0.03)
            optimizer.step()
            return loss, total

        run = step if name == "eager" else ex.compile(step, static=static)
        x, y = ex.randn(20, 8), ex.randint(0, 3, (20,))
        losses[name] = [[t.item() for t in run(x, y)] for _ in range(12)]
    assert losses["compiled"] == losses["eager"]
    (stats,) = [f for f in ex.compile.stats()["functions"] if "clips_is_one_plan" in f["name"]]
    assert stats["plans"] == 1
    assert stats["runs"] >= (1 if static else 9)  # a static function may find out that op by op takes less
