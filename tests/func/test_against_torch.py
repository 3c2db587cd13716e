"""The same programs in PyTorch's torch.func and autograd.functional give the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import extempo as ex

torch = pytest.importorskip("torch", reason="compares with PyTorch; install the conformance extra")
pytestmark = [pytest.mark.conformance, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

XS = np.random.default_rng(0).normal(size=(3, 4))
W = np.random.default_rng(1).normal(size=(4, 4))


def f(lib: Any, x: Any, w: Any) -> Any:
    return ((x @ w).tanh() * x).sum() + lib.logsumexp(x, 0)


def g(lib: Any, x: Any, w: Any) -> Any:
    return lib.softmax(x @ w, 0) * x.exp()


PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "grad": lambda lib, xs, w: lib.func.grad(lambda x, w: f(lib, x, w), argnums=(0, 1))(xs[0], w),
    "grad of grad": lambda lib, xs, w: lib.func.grad(lambda x: lib.func.grad(lambda x: f(lib, x, w))(x).pow(2).sum())(
        xs[0]
    ),
    "jacrev": lambda lib, xs, w: lib.func.jacrev(lambda x, w: g(lib, x, w), argnums=(0, 1))(xs[0], w),
    "jacfwd": lambda lib, xs, w: lib.func.jacfwd(lambda x: g(lib, x, w))(xs[0]),
    "hessian": lambda lib, xs, w: lib.func.hessian(lambda x: f(lib, x, w))(xs[0]),
    "vjp": lambda lib, xs, w: lib.func.vjp(lambda x: g(lib, x, w), xs[0])[1](xs[1]),
    "jvp": lambda lib, xs, w: lib.func.jvp(lambda x: g(lib, x, w), (xs[0],), (xs[1],)),
    "vmap": lambda lib, xs, w: lib.func.vmap(lambda x: g(lib, x, w), out_dims=1)(xs),
    "vmap of grad": lambda lib, xs, w: lib.func.vmap(lib.func.grad(lambda w, x: f(lib, x, w)), in_dims=(None, 0))(
        w, xs
    ),
    "vmap of hessian": lambda lib, xs, w: lib.func.vmap(lib.func.hessian(lambda x: f(lib, x, w)))(xs),
    "functional jacobian": lambda lib, xs, w: lib.autograd.functional.jacobian(
        lambda x, w: (g(lib, x, w), f(lib, x, w)), (xs[0], w)
    ),
    "functional hvp": lambda lib, xs, w: lib.autograd.functional.hvp(lambda x: f(lib, x, w), xs[0], xs[1]),
    "functional hessian": lambda lib, xs, w: lib.autograd.functional.hessian(lambda x, w: f(lib, x, w), (xs[0], w)),
}


def flat(tree: Any) -> list[Any]:
    if isinstance(tree, tuple | list):
        return [leaf for child in tree for leaf in flat(child)]
    return [tree.detach().numpy()]


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_pytorch(name: str) -> None:
    program = PROGRAMS[name]
    ours = flat(program(ex, ex.tensor(XS), ex.tensor(W)))
    theirs = flat(program(torch, torch.tensor(XS), torch.tensor(W)))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
