"""Reductions of tensors that are large only because they were expanded: the same bits, and no copy."""

import pytest

pytest.importorskip("llvmlite")

import extempo as ex
from extempo.backends.selection import native

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

from .test_memory import linux, with_little_memory

SHAPES = {  # of a tensor, and what it is expanded to
    "one element": ((1,), ((1 << 20) + 12345,)),
    "rows of one": ((3, 1), (3, 1 << 19)),
    "equal rows": ((1, 300), (4000, 300)),
    "equal planes": ((1, 7, 100), (1600, 7, 100)),
    "few columns": ((1, 3), (400_000, 3)),
    "the middle": ((2, 1, 3), (2, 200_000, 3)),
    "both ends": ((1, 3, 1), (200, 3, 2000)),
    "size one": ((1, 1, 1), (1, 1 << 20, 1)),
}
REDUCTIONS = {
    "sum": lambda x, **d: x.sum(**d),
    "mean": lambda x, **d: x.mean(**d),
    "sum of integers": lambda x, **d: x.long().sum(**d),
    "norm": lambda x, **d: ex.linalg.vector_norm(x, **d),
    "norm 1": lambda x, **d: ex.linalg.vector_norm(x, 1, **d),
    "norm inf": lambda x, **d: ex.linalg.vector_norm(x, float("inf"), **d),
    "amax": lambda x, **d: x.amax(**d),
    "argmin": lambda x, **d: x.argmin(**d),
    "max": lambda x, **d: x.max(**d),
    "any": lambda x, **d: x.gt(0).any(**d),
}


def bits(results):
    """Shapes, dtypes and bytes of a result or several."""
    return [(r.shape, r.dtype, r.numpy().tobytes()) for r in (results if isinstance(results, tuple) else (results,))]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_the_bits_are_those_of_a_copy(name, shape):
    own, expanded = SHAPES[shape]
    x = ex.randn(own).expand(expanded)
    y, fn = x.contiguous(), REDUCTIONS[name]
    assert bits(fn(x)) == bits(fn(y))
    for dim in range(x.ndim):
        for keepdim in (False, True):
            assert bits(fn(x, dim=dim, keepdim=keepdim)) == bits(fn(y, dim=dim, keepdim=keepdim))


@pytest.mark.parametrize("name", ["sum", "mean", "norm", "amax"])
def test_several_dimensions(name):
    fn = REDUCTIONS[name]
    for dim in ((0, 2), (0, 1), (1, 2)):
        x = ex.randn(1, 40, 1).expand(50, 40, 700)
        assert bits(fn(x, dim=dim)) == bits(fn(x.contiguous(), dim=dim))


def test_a_compiled_sum_of_what_was_expanded():
    fn = ex.compile(lambda x: (x * 2).expand(1 << 20).sum() + 1)
    x = ex.randn(1)
    for _ in range(5):
        assert bits(fn(x)) == bits((x * 2).expand(1 << 20).sum() + 1)


def test_what_was_expanded_is_sorted_already():
    x = ex.randn(3, 1).expand(3, 5)
    values, indices = x.sort(1, descending=True)
    assert bits(values) == bits(x.contiguous())
    assert indices.tolist() == [list(range(5))] * 3
    assert bits(x.sort(0)) == bits(x.contiguous().sort(0))


@linux
def test_what_was_expanded_is_not_copied():
    printed = with_little_memory("""
x = ex.full((1,), 0.5).expand(1 << 28)
print(x.sum().item() / x.numel(), x.mean().item(), x.amax().item(), x.argmax().item(), x.max(0).indices.item())
print(x.view(1 << 14, 1 << 14).sum(0).amin().item(), x.view(1 << 14, 1 << 14).mean(1).amax().item())
x = x[: 1 << 25]
print(x.cumsum(0)[1 << 20].item())
print(x[: 1 << 24].argsort()[-1].item())
""")
    assert printed == ["0.5 0.5 0.5 0 0", "8192.0 0.5", "524288.5", f"{(1 << 24) - 1}", ""]
