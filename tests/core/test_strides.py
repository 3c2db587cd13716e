"""Results lie in memory like their inputs: the rule, what eager mode makes of it, and PyTorch."""

import itertools

import numpy as np
import pytest

import extempo as ex
import extempo.nn.functional as F
from extempo.backends.selection import native
from extempo.core.strides import kept_order, laid_out, order_of_array, ordered_strides, row_major_strides
from extempo.errors import ShapeError

SIZES = (2, 3, 4)


def looks(rng, shape):
    """How to come to a tensor of that shape from a new one: (shape of the new one, views to take of it)."""
    kind = rng.choice(["as it is", "permuted", "sliced", "expanded", "permuted and sliced", "permuted and expanded"])
    base, views, n = list(shape), [], len(shape)
    if "expanded" in kind:
        base[rng.integers(n)] = 1
        views.append(("expand", shape))
    if "sliced" in kind:
        d = int(rng.integers(n))
        base[d] *= 2
        views.append(("slice", tuple(slice(None, None, 2 if i == d else 1) for i in range(n))))
    if "permuted" in kind:
        dims = rng.permutation(n).tolist()
        views.append(("permute", dims))
        base = [base[dims.index(d)] for d in range(n)]
    return base, views[::-1]


def seen(library, array, views):
    """The tensor of `library` on a copy of the array that these views give."""
    x = library.from_numpy(array.copy())
    for name, how in views:
        x = x[how] if name == "slice" else getattr(x, name)(*how)
    return x


def drawn(rng, shape):
    base, views = looks(rng, shape)
    return rng.normal(size=base).astype(np.float32), views


def partner(rng, shape):
    """A shape that broadcasts with another one."""
    case = rng.integers(3)
    if case == 0:
        return shape[int(rng.integers(len(shape))) :]
    return tuple(1 if case == 1 and rng.integers(3) == 0 else size for size in shape)


def moving(x):
    """The strides that say where elements lie."""
    return [stride for size, stride in zip(x.shape, x.stride(), strict=True) if size > 1]


# ---- the rule

RULES = [  # the shape of the result, (shape, strides) of the operands, the order in which it lies
    ((3, 4), [((3, 4), (4, 1))], None),
    ((4, 3), [((4, 3), (1, 4))], (1, 0)),
    ((4, 3), [((4, 3), (1, 8))], (1, 0)),  # with gaps
    ((2, 3), [((2, 3), (1, 0))], None),  # expanded: nobody knows
    ((2, 3, 4), [((2, 3, 4), (0, 1, 3))], (0, 2, 1)),
    ((4, 3), [((4, 3), (1, 4)), ((4, 3), (3, 1))], (1, 0)),  # the first decides
    ((4, 3), [((4, 3), (3, 1)), ((4, 3), (1, 4))], None),
    ((4, 3), [((3,), (1,)), ((4, 3), (1, 4))], (1, 0)),  # where the first says nothing, the second does
    ((4, 3), [((), ()), ((4, 3), (1, 4))], (1, 0)),
    ((4, 3), [((4, 1), (1, 1)), ((1, 3), (3, 1))], None),
    ((2, 5, 6, 3), [((2, 5, 6, 3), (90, 1, 15, 5))], (0, 2, 3, 1)),
    ((1, 4), [((1, 4), (1, 1))], None),  # single elements lie in any order
    ((4, 0), [((4, 0), (1, 4))], None),
    ((4, 3), [((4, 3), (-3, 1))], None),
    ((), [((), ())], None),
]


@pytest.mark.parametrize(("shape", "operands", "order"), RULES)
def test_the_order_in_which_a_result_lies(shape, operands, order):
    assert kept_order(shape, operands) == order


@pytest.mark.parametrize("shape", [(), (3,), (2, 1, 3), (4, 3, 2), (0,), (0, 3), (3, 0, 2), (4, 3, 0), (1, 0, 1)])
def test_row_major_strides_count_an_empty_dimension_as_one(shape):
    as_if = np.empty([max(size, 1) for size in shape], np.float32)
    assert row_major_strides(shape, 4) == as_if.strides
    assert row_major_strides(shape) == ex.empty(shape).stride()
    if native() is not None:
        assert row_major_strides(shape, 4) == ex.empty(shape)._data.strides


def test_an_array_without_gaps_in_some_order_has_that_order():
    for order in itertools.permutations(range(3)):
        x = np.zeros([SIZES[d] for d in order]).transpose(np.argsort(order))
        assert x.shape == SIZES
        assert ordered_strides(SIZES, 8, order) == x.strides
        assert order_of_array(x) == (None if order == (0, 1, 2) else order)
    assert row_major_strides(SIZES, 8) == np.zeros(SIZES).strides
    assert order_of_array(np.zeros((4, 6)).T[:, ::2]) is None


def test_a_result_that_numpy_lays_out_otherwise_is_copied_and_others_are_not():
    expanded = np.broadcast_to(np.ones((2, 1)), (2, 3))
    assert laid_out(np.array(expanded, order="F"), [expanded]).strides == (24, 8)
    kept = np.ones((3, 2)).T
    assert laid_out(kept, [np.ones((3, 2)).T, 2.0]) is kept


@pytest.mark.parametrize("seed", range(40))
def test_what_runs_ops_follows_the_rule(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.choice([1, 2, 3, 4], size=rng.integers(1, 5)).tolist())
    x, y = (seen(ex, *drawn(rng, s)) for s in (shape, partner(rng, shape)))
    z = seen(ex, *drawn(rng, shape)).double()
    calls = [
        (ex.exp, x), (ex.mul, x, 2.0), (ex.add, y, x), (ex.maximum, x, y), (ex.where, x > 0, y, z), (ex.lerp, x, y, x),
        (ex.erfinv, y), (ex.clone, y), (ex.gt, y, x), (ex.add, x.half(), y.half()), (F.softplus, x),
    ]  # fmt: skip
    for fn, *inputs in calls:
        tensors = [t.detach().numpy() for t in inputs if isinstance(t, ex.Tensor)]
        out = fn(*inputs)
        order = kept_order(out.shape, [(t.shape, t.strides) for t in tensors])
        found = out.numpy().strides
        expected = ordered_strides(out.shape, out.itemsize, order or tuple(range(out.ndim)))
        assert [s for s, n in zip(found, out.shape, strict=True) if n > 1] == [
            s for s, n in zip(expected, out.shape, strict=True) if n > 1
        ], fn.__name__


# ---- PyTorch

ONE = {
    "exp": lambda m, x: x.exp(),
    "number": lambda m, x: 1 - x * 2,
    "relu": lambda m, x: m.relu(x),
    "gelu": lambda m, x: m.nn.functional.gelu(x),
    "leaky_relu": lambda m, x: m.nn.functional.leaky_relu(x, 0.1),
    "softplus": lambda m, x: m.nn.functional.softplus(x),
    "dropout": lambda m, x: m.nn.functional.dropout(x, 0.5, True),
    "clamp": lambda m, x: x.clamp(0, 1),
    "pow": lambda m, x: x**2.5,
    "gt": lambda m, x: x > 0,
    "isnan": lambda m, x: m.isnan(x),
    "double": lambda m, x: x.double(),
    "long": lambda m, x: x.long(),
    "half": lambda m, x: x.half() + 1,
    "bfloat16": lambda m, x: x.bfloat16().neg(),
    "clone": lambda m, x: x.clone(),
    "copy": lambda m, x: x.to(m.float32, copy=True),
    "in place": lambda m, x: x.clone().add_(1),
    "contiguous": lambda m, x: x.contiguous(),
    "zeros_like": lambda m, x: m.zeros_like(x),
    "empty_like": lambda m, x: m.empty_like(x),
    "full_like": lambda m, x: m.full_like(x, 2.0),
    "rand_like": lambda m, x: m.rand_like(x),
    "where": lambda m, x: m.where(x > 0, x, 0.0),
    "nan_to_num": lambda m, x: m.nan_to_num(x),
    "softmax": lambda m, x: x.softmax(-1),
    "cumsum": lambda m, x: x.cumsum(0),
    "sum": lambda m, x: x.sum(0),
    "then": lambda m, x: (x.exp() * x).sigmoid().transpose(0, -1) + 1,
}

TWO = {
    "add": lambda m, x, y: x + y,
    "mul": lambda m, x, y: x * y,
    "maximum": lambda m, x, y: m.maximum(x, y),
    "lt": lambda m, x, y: x < y,
    "where": lambda m, x, y: m.where(x > 0, x, y),
    "lerp": lambda m, x, y: m.lerp(x, y, 0.3),
    "atan2": lambda m, x, y: m.atan2(x, y),
    "alpha": lambda m, x, y: m.add(x, y, alpha=2),
    "logical_and": lambda m, x, y: m.logical_and(x, y),
}


@pytest.mark.parametrize("seed", range(25))
def test_results_lie_as_they_do_in_pytorch(seed):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    rng = np.random.default_rng(seed)
    shape = tuple(rng.choice(SIZES, size=rng.integers(1, 5)).tolist())
    x, y = drawn(rng, shape), drawn(rng, partner(rng, shape))
    for name, fn in ONE.items():
        expected, found = (fn(m, seen(m, *x)) for m in (torch, ex))
        assert moving(found) == moving(expected), (name, x[1])
        assert found.is_contiguous() == expected.is_contiguous()
    for name, fn in TWO.items():
        for first, second in ((x, y), (y, x)):
            expected, found = (fn(m, seen(m, *first), seen(m, *second)) for m in (torch, ex))
            assert moving(found) == moving(expected), (name, first[1], second[1])


# ---- what follows from it


def test_a_clone_of_an_expanded_tensor_is_row_major():
    assert ex.ones(2, 1).expand(2, 3).clone().stride() == (3, 1)
    assert ex.zeros_like(ex.ones(2, 1).expand(2, 3)).stride() == (3, 1)


def test_a_result_that_lies_transposed_cannot_be_viewed_as_flat():
    y = ex.ones(3, 4).T.exp()
    with pytest.raises(ShapeError, match=r"strides \(1, 4\).*reshape"):
        y.view(-1)
    assert y.T.view(-1).shape == (12,)
    assert y.contiguous().stride() == (3, 1)


def test_a_result_that_is_given_keeps_its_own_strides():
    out = ex.empty(4, 3)
    ex.exp(ex.zeros(3, 4).T, out=out)
    assert out.stride() == (3, 1)
    assert out.tolist() == [[1.0] * 3] * 4
    target = ex.zeros(3, 4).T
    target += ex.arange(12.0).view(4, 3)
    assert target.stride() == (1, 4)
    assert target.tolist() == ex.arange(12.0).view(4, 3).tolist()


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_gradient_lies_like_its_parameter(create_graph):
    p = ex.arange(12.0).view(3, 4).T.clone().requires_grad_()
    for _ in range(2):
        (p.exp() * ex.ones(4, 3)).sum().backward(create_graph=create_graph)
        assert p.grad.stride() == (1, 4)
    q = ex.arange(12.0).view(3, 4).requires_grad_()
    (q.T.exp() * q.T).sum().backward(create_graph=create_graph)
    assert q.grad.stride() == (4, 1)
    gaps = ex.ones(8, 4)[::2].requires_grad_()
    gaps.exp().sum().backward(create_graph=create_graph)
    assert gaps.grad.stride() == (4, 1)


@pytest.mark.skipif(native() is None, reason="NumPy's sums go by memory")
@pytest.mark.parametrize("dims", [(1, 0, 2), (2, 1, 0), (0, 2, 1), (2, 0, 1)])
def test_reductions_add_up_in_one_order_however_their_input_lies(dims):
    x = ex.randn(17, 33, 9)
    y = x.permute(dims).contiguous().permute(tuple(np.argsort(dims).tolist())).neg()
    assert not y.is_contiguous()
    z = y.contiguous()
    for fn in (
        lambda t: t.sum(), lambda t: t.sum(1), lambda t: t.mean((0, 2)), lambda t: t.norm(), lambda t: t.var(-1),
        lambda t: t.softmax(1), lambda t: t.logsumexp(0), lambda t: F.layer_norm(t, (9,)), lambda t: t.cumsum(1),
    ):  # fmt: skip
        assert fn(y).numpy().tobytes() == fn(z).numpy().tobytes()
