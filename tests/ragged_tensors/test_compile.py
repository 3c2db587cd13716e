"""Ragged tensors in compiled functions: the bits of eager mode, and static functions that are fixed to their rows."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.backends.selection import native
from extempo.errors import DtypeError, ShapeError
from extempo.nn import functional as F

pytestmark = pytest.mark.usefixtures("always_planned")


SOME = [(2, 0, 3), (1, 4), (2, 0, 3), (5,), (0, 0), (2, 0, 3)]


def made(lengths, seed=0, requires_grad=False):
    generator = ex.random.Generator().manual_seed(seed)
    rows = [ex.randn(n, 4, generator=generator) for n in lengths]
    return ex.ragged(rows, requires_grad=requires_grad)


def bits(x):
    return x.values().numpy().tobytes() if isinstance(x, ex.RaggedTensor) else x.detach().numpy().tobytes()


weight = ex.randn(4, 4, requires_grad=True)


def scores(x):
    return (F.linear(x, weight).tanh() * x[:, ::2].sum(1).unsqueeze(1)).softmax(1)


@pytest.mark.parametrize("n_times", [1, 4])
def test_a_compiled_function_gives_the_bits_of_eager_mode_at_all_lengths(n_times):
    compiled = ex.compile(scores)
    for i, lengths in enumerate([lengths for lengths in SOME for _ in range(n_times)]):
        with ex.no_grad():
            ours, theirs = compiled(made(lengths, i)), scores(made(lengths, i))
        assert ours.shape == theirs.shape
        assert bits(ours) == bits(theirs)


def test_training_steps_have_the_bits_of_eager_mode():
    def step(x):
        loss = (scores(x) * x).sum(1).pow(2).sum()
        loss.backward()
        g, weight.grad = weight.grad, None
        return g

    compiled = ex.compile(step)
    for i, lengths in enumerate(SOME * 4):
        assert bits(compiled(made(lengths, i))) == bits(step(made(lengths, i)))


@pytest.mark.skipif(native() is None, reason="without native code compiled functions run eagerly")
def test_a_structure_that_is_met_again_runs_as_a_plan():
    def ragged_again(x):
        return (x * 2 + 1).relu().sum(1)

    compiled = ex.compile(ragged_again)
    for i in range(5):
        assert bits(compiled(made((2, 3), i))) == bits(ragged_again(made((2, 3), i)))
    (stats,) = [s for s in ex.compile.stats()["functions"] if s["name"].endswith("ragged_again")]
    assert stats["plans"] == 1
    assert stats["runs"] >= 3


def test_ragged_tensors_from_outside_and_made_inside():
    table = made((1, 2))

    def fn(scale, rows):
        inside = ex.ragged([row * scale for row in rows])
        return inside.values().sum() * table

    compiled = ex.compile(fn)
    rows = [ex.randn(2), ex.randn(3)]
    for scale in (2.0, 3.0, 4.0):
        assert bits(compiled(scale, rows)) == bits(fn(scale, rows))


def test_a_result_that_leaves_unread_can_be_differentiated_outside():
    compiled = ex.compile(scores)
    for i in range(4):
        found = []
        for fn in (scores, compiled):
            x = made((2, 3), i, requires_grad=True)
            (fn(x) * x).sum().backward()
            found.append((bits(x.grad), bits(weight.grad)))
            weight.grad = None
        assert found[0] == found[1]


# ---- static


def test_a_static_function_repeats_itself_with_other_values_in_the_same_rows():
    with ex.no_grad():
        static = ex.compile(scores, static=True)
        for i in range(4):
            assert bits(static(made((2, 0, 3), i))) == bits(scores(made((2, 0, 3), i)))


def test_a_static_training_step():
    def step(x):
        loss = (scores(x) * x).sum(1).pow(2).sum()
        loss.backward()
        out = weight.grad * 1.0
        weight.grad = None
        return loss, out

    static = ex.compile(step, static=True)
    for i in range(4):
        ours, theirs = static(made((2, 3), i)), step(made((2, 3), i))
        assert bits(ours[1]) == bits(theirs[1])
        assert bits(ours[0]) == bits(theirs[0])


@pytest.mark.skipif(native() is None, reason="without native code compiled functions run eagerly")
def test_a_static_function_refuses_other_rows():
    static = ex.compile(lambda x: x * 2, static=True)
    static(made((2, 3)))
    with pytest.raises(ShapeError, match=r"with lengths \[3, 2\], when the function was recorded .* \[2, 3\]"):
        static(made((3, 2)))
    with pytest.raises(ShapeError, match=r"lengths \[2, 3, 0\]"):
        static(made((2, 3, 0)))
    with pytest.raises(DtypeError, match=r"is a tensor of .*when the function was recorded it was a ragged tensor"):
        static(ex.ones(5, 4))
    with pytest.raises(DtypeError, match="float64"):
        static(made((2, 3)).double())
    plain = ex.compile(lambda x: x * 2, static=True)
    plain(ex.ones(5, 4))
    with pytest.raises(DtypeError, match="is a ragged tensor"):
        plain(made((2, 3)))


def test_gradients_of_ragged_tensors_inside_a_static_function():
    def fn(x):
        y = x.detach().requires_grad_()
        (g,) = ex.autograd.grad((y * y * y).sum(), y)
        return g

    static = ex.compile(fn, static=True)
    for i in range(3):
        assert bits(static(made((2, 3), i))) == bits(fn(made((2, 3), i)))
