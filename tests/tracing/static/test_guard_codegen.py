"""Arguments found out fast, or looked at one by one where they are unusual."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import GraphError

from ..agreement import draw, needs_native_code
from .static_agreement import CALLS, agree, static

pytestmark = needs_native_code


def test_arguments_that_shared_memory_and_do_not_any_more():
    run = static(lambda x, y: x + y)
    a = ex.ones(4)
    run(a, a[:])
    b = ex.ones(4)
    assert run(b, b[:]).tolist() == [2] * 4
    with pytest.raises(GraphError, match="share memory"):
        run(b, ex.ones(4))


def test_arguments_of_every_kind():
    class Kept:
        pass

    kept = Kept()

    def scenario(wrap):
        def f(x, pair, named, *, scale, n, flag, name, kept, again):
            return {"a": x * scale + pair[0], "b": [named["y"] * n, again, (flag, name)], "c": pair[1]}

        run = wrap(f)
        for i in range(CALLS):
            x = draw(i, 3)
            pair, named = (draw(i + 1, 3), None), {"y": draw(i + 2, 3), "z": "text"}
            yield run(x, pair, named, scale=0.5 + i, n=3 + i, flag=True, name="a", kept=kept, again=x)

    agree(scenario)


@pytest.mark.parametrize("make", [lambda: nn.Parameter(ex.ones(3)), lambda: ex.ones(3, requires_grad=True)])
def test_a_parameter_may_be_an_argument(make):
    run = static(lambda x: (x * 2).sum())
    for _ in range(4):
        x = make()
        run(x).backward()
        assert x.grad.tolist() == [2] * 3
