"""Calls from before alpha, beta and value were keywords mean what they mean in PyTorch, and are warned about."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import extempo as ex

OLD_AND_NEW = [
    ("x.add_(2, y)", "x.add_(y, alpha=2)"),
    ("x.add(2, y)", "x.add(y, alpha=2)"),
    ("lib.add(x, -0.5, y)", "x - 0.5 * y"),
    ("lib.add(x, -0.5, y, out=y)", "lib.add(x, y, alpha=-0.5, out=y)"),
    ("lib.add(2, 3, y)", "2 + 3 * y"),
    ("x.add_(lib.tensor(2.0), y)", "x + 2 * y"),
    ("x.sub_(2, y)", "x.sub_(y, alpha=2)"),
    ("lib.sub(x, 2, y)", "x - 2 * y"),
    ("x.addcmul_(2, y, x)", "x + 2 * y * x"),
    ("lib.addcmul(x, 2, y, x)", "x + 2 * y * x"),
    ("x.addcdiv_(-0.1, y, x)", "x - 0.1 * y / x"),
    ("lib.addcdiv(x, -0.1, y, x)", "x - 0.1 * y / x"),
    ("x.addmm_(2, 3, y, y)", "2 * x + 3 * (y @ y)"),
    ("x.addmm_(2, y, y)", "2 * x + y @ y"),
    ("x.addmm(2, 3, x, y)", "2 * x + 3 * (x @ y)"),
    ("lib.addmm(2, x, 3, x, y)", "2 * x + 3 * (x @ y)"),
    ("lib.addmm(2, x, x, y)", "2 * x + x @ y"),
    ("v.addmv_(2, 3, x, y[0])", "2 * v + 3 * (x @ y[0])"),
    ("lib.addmv(2, v, x, v)", "2 * v + x @ v"),
    ("x.addr_(2, 3, v, v)", "2 * x + 3 * lib.outer(v, v)"),
    ("lib.addr(2, x, 3, v, v)", "2 * x + 3 * lib.outer(v, v)"),
    ("b.baddbmm_(2, 3, b + 1, b - 1)", "2 * b + 3 * ((b + 1) @ (b - 1))"),
    ("lib.baddbmm(2, b, b, b)", "2 * b + b @ b"),
    ("x.addbmm_(2, 3, b, b)", "2 * x + 3 * (b @ b).sum(0)"),
    ("lib.addbmm(2, x, 3, b, b)", "2 * x + 3 * (b @ b).sum(0)"),
]


def result_of(call: str, lib: Any) -> Any:
    numbers = {
        "x": [[1.0, 2.0], [3.0, 4.0]],
        "y": [[0.5, -1.0], [2.0, 3.0]],
        "v": [1.0, 2.0],
        "b": [[[1.0, 2.0], [3.0, 4.0]], [[0.0, 1.0], [1.0, -1.0]]],
    }
    return eval(call, {"lib": lib} | {name: lib.tensor(values) for name, values in numbers.items()}).numpy()


@pytest.mark.parametrize(("old", "new"), OLD_AND_NEW)
def test_an_old_form_computes_what_the_new_one_does(old: str, new: str) -> None:
    with pytest.warns(UserWarning, match="this order of arguments is deprecated; write "):
        found = result_of(old, ex)
    np.testing.assert_allclose(found, result_of(new, ex), rtol=1e-6)


@pytest.mark.filterwarnings("ignore:This overload of")
@pytest.mark.filterwarnings("ignore:.*this order of arguments is deprecated")
@pytest.mark.parametrize("old", [old for old, _ in OLD_AND_NEW])
def test_pytorch_takes_the_same_old_forms(old: str) -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch; install the conformance extra")
    np.testing.assert_allclose(result_of(old, ex), result_of(old, torch), rtol=1e-6)


def test_the_warning_stands_at_the_line_of_the_call_and_says_what_to_write() -> None:
    one = ex.ones(1, 1)
    with pytest.warns(UserWarning, match=r"addcmul: .* write addcmul\(\.\.\., value=2\.0\)") as noted:
        ex.ones(1, 1).addcmul_(np.float32(2), one, one)
    with pytest.warns(UserWarning, match=r"addmm: .* write addmm\(\.\.\., beta=2, alpha=1\)") as noted_too:
        ex.addmm(2, one, one, one)
    assert [noted[0].filename, noted_too[0].filename] == [__file__] * 2


def test_gradients_go_through_an_old_form() -> None:
    x = ex.tensor([1.0, 2.0], requires_grad=True)
    with pytest.warns(UserWarning, match="deprecated"):
        ex.zeros(2).add_(3, x).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("lib.add(x, y, 2)", r"add: .* alpha is a keyword, add\(\.\.\., alpha=2\)"),
        ("x.sub_(2, y, y)", "sub: expected 3 positional arguments or fewer, got 4; alpha is a keyword"),
        ("x.addcmul_(y, y, 2)", r"addcmul\(\.\.\., value=2\)"),
        ("x.addmm_(x, y, 2)", "addmm: expected 3 tensors by position"),
        ("lib.addmm(1, x, 2, x, 3, y)", "beta and alpha are keywords"),
    ],
)
def test_other_surplus_arguments_are_refused_with_the_keyword(call: str, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        result_of(call, ex)
