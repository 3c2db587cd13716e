"""`out=`: whose memory it may be, and of which dtype. Keywords by NumPy's names."""

from __future__ import annotations

import inspect

import pytest

import extempo as ex
from extempo.errors import AutogradError, DtypeError, ShapeError


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, out: ex.exp(x, out=out),
        lambda x, out: ex.add(x, x, out=out),
        lambda x, out: ex.clamp(x, 0, 1, out=out),
        lambda x, out: ex.where(x > 0, x, 0.0, out=out),
        lambda x, out: ex.addcmul(out, x, x, out=out),
        lambda x, out: ex.special.i1(x, out=out),
        lambda x, out: ex.cumsum(x, 0, out=out),
    ],
)
@pytest.mark.parametrize("way", [lambda fn: fn, ex.compile])
def test_out_may_be_an_input_but_not_lie_across_one(fn, way):
    run = way(fn)
    memory = ex.linspace(0.1, 0.9, 9)
    expected = fn(memory.clone(), memory.clone())
    with pytest.raises(ShapeError, match="lies across an input"):
        run(memory[:8], memory[1:])
    assert ex.equal(run(memory, memory), expected)


def test_out_may_lie_beside_and_between_the_elements_of_an_input():
    memory = ex.zeros(10)
    ex.exp(memory[:5], out=memory[5:])
    assert memory.tolist() == [0.0] * 5 + [1.0] * 5
    memory = ex.zeros(10)
    ex.exp(memory[::2], out=memory[1::2])
    assert memory.tolist() == [0.0, 1.0] * 5


@pytest.mark.parametrize("out", [ex.zeros(1).expand(3), ex.zeros(1).as_strided((3,), (0,))])
def test_out_has_memory_for_every_element(out):
    for fn in (lambda: ex.exp(ex.ones(3), out=out), lambda: ex.cat([ex.ones(1), ex.ones(2)], out=out)):
        with pytest.raises(ShapeError, match=r"share memory \(expand\)"):
            fn()


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: ex.gather(x, 0, ex.tensor([2, 1, 0]), out=x),
        lambda x: ex.index_select(x, 0, ex.tensor([2, 1, 0]), out=x),
        lambda x: ex.take(x, ex.tensor([2, 1, 0]), out=x),
        lambda x: ex.masked_select(x, ex.tensor([True, True, True]), out=x),
        lambda x: ex.cat([x[:1], x[1:]], out=x),
        lambda x: ex.stack([x[:1], x[1:2]], out=x[:2].reshape(2, 1)),
        lambda x: ex.kthvalue(x, 1, keepdim=True, out=(x[:1], ex.zeros(1, dtype=ex.int64))),
    ],
)
def test_out_of_functions_that_pick_elements_is_no_input(fn):
    with pytest.raises(ShapeError, match="out shares memory with an input"):
        fn(ex.tensor([1.0, 2.0, 3.0]))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, out: ex.abs(x, out=out),
        lambda x, out: ex.matmul(x, x, out=out),
        lambda x, out: ex.amax(x, 0, out=out),
        lambda x, out: ex.linalg.inv(x, out=out),
        lambda x, out: ex.gather(x, 0, ex.zeros(2, 2, dtype=ex.int64), out=out),
        lambda x, out: ex.max(x, 0, out=(out, ex.zeros(2, dtype=ex.int64))),
        lambda x, out: ex.zeros(2, 2, dtype=ex.float32, out=out),
    ],
)
def test_out_of_another_dtype_is_refused(fn):
    with pytest.raises(
        DtypeError, match=r"expected a tensor of the result's dtype, extempo.float32, got extempo.float64"
    ):
        fn(ex.eye(2), ex.zeros(2, 2, dtype=ex.float64))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, out: ex.exp(x, out=out),
        lambda x, out: ex.mul(x, x, out=out),
        lambda x, out: ex.mean(x, 0, out=out),
        lambda x, out: ex.logical_not(x, out=out),
        lambda x, out: ex.cat([x, x], out=out),
    ],
)
def test_arithmetic_converts_to_the_dtype_of_out(fn):
    out = ex.empty(0, dtype=ex.float64)
    assert fn(ex.eye(2), out) is out
    assert out.dtype is ex.float64


def test_floating_results_do_not_fit_into_integers():
    with pytest.raises(DtypeError, match=r"cannot be put into a extempo\.int64 tensor"):
        ex.exp(ex.ones(2), out=ex.zeros(2, dtype=ex.int64))


def test_several_results_need_as_many_tensors():
    for out, came in ((ex.zeros(3), "Tensor"), ((ex.zeros(3),), "1 of them")):
        with pytest.raises(DtypeError, match=f"expected a tuple of 2 tensors, one for each result, got {came}"):
            ex.sort(ex.ones(3), out=out)


def test_out_that_requires_grad_is_refused():
    with pytest.raises(AutogradError, match="not differentiable"):
        ex.exp(ex.ones(2), out=ex.zeros(2, requires_grad=True))


@pytest.mark.parametrize("fn", [ex.isposinf, ex.isneginf])
def test_integers_are_no_infinity_in_out_either(fn):
    out = ex.ones(2, dtype=ex.bool)
    assert fn(ex.tensor([1, 2]), out=out) is out
    assert out.tolist() == [False, False]


@pytest.mark.parametrize(
    ("fn", "named"),
    [
        (ex.sum, {"input": 1, "dim": 0, "keepdim": True}),
        (ex.diff, {"input": 1, "dim": 0}),
        (ex.gradient, {"input": 1, "dim": 0}),
        (ex.cross, {"input": 1, "other": 2, "dim": 1}),
        (ex.linalg.norm, {"input": 1, "dim": 0, "keepdim": True}),
        (ex.linalg.vector_norm, {"input": 1, "dim": 0, "keepdim": True}),
        (ex.linalg.matrix_norm, {"input": 1, "dim": (0, 1), "keepdim": True}),
        (ex.linalg.cholesky, {"input": 2}),
        (ex.linalg.vecdot, {"x": 1, "y": 2, "dim": 0}),
        (ex.trapezoid, {"y": 1, "x": 2, "dim": 0}),
        (ex.cumulative_trapezoid, {"y": 1, "dim": 0}),
        (ex.cosine_similarity, {"x1": 1, "x2": 2, "dim": 0}),
        (ex.nn.functional.pairwise_distance, {"x1": 1, "x2": 2, "keepdim": True}),
        (ex.special.chebyshev_polynomial_t, {"input": 1, "n": 2}),
    ],
)
def test_numpys_keywords_stand_for_pytorchs(fn, named):
    tensors = {1: ex.arange(9.0).reshape(3, 3), 2: ex.eye(3)}
    named = {key: value if key in ("dim", "keepdim") else tensors[value] for key, value in named.items()}
    first, *others = named
    by_position = fn(named[first], **{key: named[key] for key in others})
    numpys = {"dim": "axis", "keepdim": "keepdims", "other": "x2"}
    by_name = fn(**{numpys.get(key, key): value for key, value in named.items()})
    assert all(map(ex.equal, by_position, by_name))


def test_an_argument_by_two_of_its_names_is_refused():
    with pytest.raises(DtypeError, match="sum: an argument is given by two of its names, among axis, dim"):
        ex.ones(2, 2).sum(axis=0, dim=1)


def test_a_keyword_without_its_parameter_stays_unknown():
    with pytest.raises(TypeError, match="keepdims"):
        ex.diff(ex.ones(2), keepdims=True)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, **out: ex.nn.functional.linear(x, x, **out),
        lambda x, **out: ex.nn.functional.gelu(x, **out),
        lambda x, **out: ex.nn.functional.gelu(x, approximate="tanh", **out),
        lambda x, **out: ex.nn.functional.softplus(x, **out),
        lambda x, **out: ex.nn.functional.logsigmoid(x, **out),
        lambda x, **out: ex.nn.functional.softshrink(x, **out),
        lambda x, **out: ex.nn.functional.avg_pool2d(x.expand(1, 3, 3), 2, **out),
        lambda x, **out: ex.nn.functional.avg_pool3d(x.expand(1, 2, 3, 3), 2, **out),
        lambda x, **out: ex.slice_scatter(x, x[:1], end=1, **out),
        lambda x, **out: ex.conj_physical(x, **out),
        lambda x, **out: ex.isin(x, x[0], **out),
        lambda x, **out: ex.linalg.lstsq(x, x, **out),
        lambda x, **out: ex.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5, **out),
    ],
)
def test_out_takes_the_result_of_functions_of_every_kind(fn):
    x = ex.arange(9.0).reshape(3, 3).sin()
    expected = fn(x)
    several = isinstance(expected, tuple)
    results = expected if several else (expected,)
    outs = tuple(ex.empty(0, dtype=result.dtype) for result in results)
    found = fn(x, out=outs if several else outs[0])
    for out, written, result in zip(outs, found if several else (found,), results, strict=True):
        assert written is out
        assert out.equal(result)


def test_the_other_names_are_part_of_the_signature():
    shown = inspect.signature(ex.split)
    assert {"axis", "split_size"} <= shown.parameters.keys()
    assert "axis: 'int' = dim" in str(shown)
    assert "x" not in inspect.signature(ex.sum).parameters
