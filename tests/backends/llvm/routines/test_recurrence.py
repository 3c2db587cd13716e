"""Native recurrent layers over packed rows against the NumPy kernels, with guard zones around what is written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.routines import recurrence
from extempo.backends.llvm.routines.recurrence_code import NUMBERS
from extempo.core.op import REGISTRY

from ..guarded import bind, call

KINDS = ["lstm", "gru", "rnn"]


def sizes_of(lengths) -> np.ndarray:
    """How many sequences have each step."""
    return np.array([sum(n > t for n in lengths) for t in range(max(lengths, default=0))], np.int64)


def forward_call(rng, kind, lengths, hidden, dtype, backwards, n_features=None):
    """(routine, inputs, attributes) for sequences of these lengths, the longest first."""
    sizes, n_gates = sizes_of(lengths), {"lstm": 4, "gru": 3, "rnn": 1}[kind]

    def draw(*shape):
        return (rng.standard_normal(shape) / max(1, shape[-1]) ** 0.5).astype(dtype)

    states = [draw(len(lengths), hidden) for _ in range(2 if kind == "lstm" else 1)]
    bias = [draw(n_gates * hidden) if rng.random() < 0.7 else None] if kind == "gru" else []
    n_features = n_features or int(rng.integers(1, 20))
    x, input_weight, weight = (
        draw(sizes.sum(), n_features),
        draw(n_gates * hidden, n_features),
        draw(n_gates * hidden, hidden),
    )
    inputs = x, input_weight, draw(n_gates * hidden) if rng.random() < 0.7 else None, weight
    attrs = {"backwards": backwards, **({"relu": bool(rng.integers(2))} if kind == "rnn" else {})}
    return f"{kind}_sequence", (*inputs, *bias, *states, sizes), attrs


def gradient_call(rng, name, inputs, attrs, results):
    """The call of the gradient's routine after a forward one; some gradients are not there."""
    kind, (weight, sizes) = name.split("_")[0], (inputs[3], inputs[-1])
    n_given = 3 if kind == "lstm" else 2
    g = [rng.standard_normal(r.shape).astype(r.dtype) if rng.random() < 0.7 else None for r in results[:n_given]]
    read = {"lstm": (3, 5), "gru": (2, 3), "rnn": (0,)}[kind]
    attrs = attrs | {"n_sequences": len(results[1])}
    return name + "_gradient", (*g, weight, *(results[i] for i in read), sizes), attrs


def check(name, inputs, attrs):
    """The routine's results, which are those of the op's NumPy kernel in float64."""
    found = call(name, *inputs, **attrs)
    wide = [x.astype(np.float64) if x is not None and x.dtype.kind == "f" else x for x in inputs]
    dtype = next(x.dtype for x in inputs if x is not None)
    tolerance = 1000 * np.finfo(dtype).eps
    for got, want in zip(found, REGISTRY[name].numpy(*wide, **attrs), strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * np.abs(want).max(initial=1.0))
    return found


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.lists(st.integers(0, 6), min_size=1, max_size=20).filter(any),
    st.sampled_from([1, 3, 7, 8, 9, 16, 17, 33]),
    st.sampled_from([np.float32, np.float64]),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_layers_and_gradients_agree_with_numpy(kind, lengths, hidden, dtype, backwards, seed):
    rng = np.random.default_rng(seed)
    forward = forward_call(rng, kind, sorted(lengths, reverse=True), hidden, dtype, backwards)
    check(*gradient_call(rng, *forward, check(*forward)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backwards", [False, True])
def test_blocks_of_many_sequences_give_the_same_bits(kind, backwards, monkeypatch):
    """A weight that is too large to stay near is read for many sequences at once, a few of its columns at a time."""
    rng = np.random.default_rng(1)
    forward = forward_call(rng, kind, [9] * 30 + [5] * 20 + [2] * 11, 40, np.float32, backwards)
    few, n_blocks = call(forward[0], *forward[1], **forward[2]), bind(*forward).meta[NUMBERS.index("n_blocks")]
    gradient = gradient_call(rng, *forward, few)
    few_gradients = call(gradient[0], *gradient[1], **gradient[2])
    monkeypatch.setattr(recurrence, "NEAR_BYTES", 0)
    monkeypatch.setattr(recurrence, "GROUP_BYTES", 1)
    assert (n_blocks, bind(*forward).meta[NUMBERS.index("n_blocks")]) == (11, 2)
    many, many_gradients = (call(name, *inputs, **attrs) for name, inputs, attrs in (forward, gradient))
    for x, y in zip((*few, *few_gradients), (*many, *many_gradients), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_of_sequences_give_the_same_bits_in_any_order(kind, monkeypatch):
    rng = np.random.default_rng(2)
    forward = forward_call(rng, kind, [7] * 9 + [4] * 9 + [1] * 9, 20, np.float32, False)
    before = call(forward[0], *forward[1], **forward[2])
    gradient = gradient_call(rng, *forward, before)
    before += call(gradient[0], *gradient[1], **gradient[2])
    monkeypatch.setattr(recurrence, "CHUNK_PRODUCTS", 1)
    after = call(forward[0], *forward[1], **forward[2]) + call(gradient[0], *gradient[1], **gradient[2])
    for x, y in zip(before, after, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backwards", [False, True])
def test_steps_of_a_sequence_have_the_same_bits_in_any_company(kind, backwards):
    """With one feature: only how the product of inputs is rounded depends on how many rows there are."""
    rng = np.random.default_rng(3)
    lengths = [6, 6, 5, 5, 4, 3, 3, 2]
    name, (x, *shared, sizes), attrs = forward_call(rng, kind, lengths, 19, np.float32, backwards, n_features=1)
    n_states = 2 if kind == "lstm" else 1
    shared, states = shared[:-n_states], shared[-n_states:]
    together = call(name, x, *shared, *states, sizes, **attrs)
    starts = np.cumsum(sizes) - sizes
    for k, length in enumerate(lengths):
        rows = starts[:length] + k
        own = [state[k : k + 1] for state in states]
        alone = call(name, x[rows], *shared, *own, np.ones(length, np.int64), **attrs)
        np.testing.assert_array_equal(alone[0], together[0][rows])
        np.testing.assert_array_equal(alone[1][0], together[1][k])


@pytest.mark.parametrize("sizes", [[2, 3, 1], [4, 2], [3, -1, 4], [6], [3, 2]])
def test_sizes_that_make_no_packed_rows_are_declined(sizes):
    rng = np.random.default_rng(4)
    name, inputs, attrs = forward_call(rng, "lstm", [3, 2, 1], 4, np.float32, False)
    assert call(name, *inputs, **attrs) is not None
    assert call(name, *inputs[:-1], np.array(sizes), **attrs) is None


def test_half_precision_and_empty_batches_are_left_to_numpy():
    rng = np.random.default_rng(5)
    name, inputs, attrs = forward_call(rng, "gru", [2, 1], 4, np.float16, False)
    assert bind(name, inputs, attrs) is None
    name, inputs, attrs = forward_call(rng, "rnn", [0, 0], 4, np.float32, False)
    assert bind(name, inputs, attrs) is None
