"""Calls that no form fits run one after the other, in one batch."""

from __future__ import annotations

import extempo as ex

from .sizes import agrees, drawn, forms


def rows(rng, n):
    return drawn(rng, n, 3)


def test_what_has_no_form_runs_call_by_call_and_explain_says_so():
    batched = agrees(lambda x: (x * 2.0).flip(0), rows)
    assert forms(batched)["flip"] == ["EachForm"]
    (line,) = [line for line in batched.explain().lines if line.name == "flip"]
    assert "no way to run as one" in line.why
    assert "ragged" in line.advice
    assert line.batches == line.calls


def test_weights_get_their_gradients():
    weight = ex.ones(2, 3, 2, requires_grad=True)

    def fn(x):
        return ex.nn.functional.conv1d(x.T[None], weight).sum((0, 2))

    agrees(fn, rows, [weight], [(3, 5, 2, 4), (6, 2, 3, 9)])


def test_calls_of_different_dtypes_stay_apart():
    samples = [ex.ones(2), ex.ones(3, dtype=ex.float64), ex.ones(4), ex.ones(5, dtype=ex.float64)]
    for _ in range(2):
        made = ex.batch(lambda x: x.flip(0) * 2)(samples)
        assert [y.dtype for y in made] == [x.dtype for x in samples]
