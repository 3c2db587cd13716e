"""Calls that no form fits run one after the other, in one batch."""

from __future__ import annotations

import extempo as ex

from .sizes import agrees, drawn, forms


def rows(rng, n):
    return drawn(rng, n, 3)


def test_what_has_no_form_runs_call_by_call_and_explain_says_so():
    batched = agrees(lambda x: ex.linalg.inv(x @ x.T + 9.0 * ex.eye(len(x))), rows)
    assert forms(batched)["inverse"] == ["EachForm"]
    (line,) = [line for line in batched.explain().lines if line.name == "inverse"]
    assert "no way to run as one" in line.why
    assert "ragged" in line.advice
    assert line.batches == line.calls


def test_weights_get_their_gradients():
    weight = ex.ones(2, 1, 3, requires_grad=True)

    def fn(x):
        return ex.nn.functional.bilinear(x.T[:1] * 1.0, x.T[:1, :1], weight.expand(2, len(x), 3)[:, :, :1]).sum(0)

    agrees(fn, rows, [weight], [(3, 5, 2, 4), (6, 2, 3, 9)])


def test_calls_of_different_dtypes_stay_apart():
    samples = [ex.ones(2), ex.ones(3, dtype=ex.float64), ex.ones(4), ex.ones(5, dtype=ex.float64)]
    for _ in range(2):
        made = ex.batch(lambda x: ex.linalg.inv(x[:, None] * ex.eye(len(x), dtype=x.dtype)) * 2)(samples)
        assert [y.dtype for y in made] == [x.dtype for x in samples]
