"""cond, while_loop, scan and map mean the plain Python, with gradients, compiled, batched and under vmap."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.errors import DtypeError, ShapeError


def double_until(x, bound):
    return ex.while_loop(lambda x, n: x.sum() < bound, lambda x, n: (x * 2, n + 1), (x, ex.tensor(0)))


def running(x, h):
    return ex.scan(lambda h, x: (ex.tanh(h + x), h * x), h, x)


def running_by_hand(x, h):
    ys = []
    for row in x:
        ys.append(h * row)
        h = ex.tanh(h + row)
    return h, ex.stack(ys)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_cond_runs_one_branch_and_its_gradient(sign):
    x = ex.tensor([sign, sign * 2], requires_grad=True)
    y = ex.cond(x.sum() > 0, lambda x: x * 3, lambda x: x * x, (x,))
    y.sum().backward()
    assert y.tolist() == ([3.0, 6.0] if sign > 0 else [1.0, 4.0])
    assert x.grad.tolist() == ([3.0, 3.0] if sign > 0 else [-2.0, -4.0])


def test_cond_takes_python_bools_and_no_operands():
    assert ex.cond(True, lambda: ex.tensor(1), lambda: ex.tensor(2)).item() == 1


def test_while_loop_steps_until_its_condition_fails_and_has_gradients():
    x = ex.ones(2, requires_grad=True)
    y, n = double_until(x, 100)
    y.sum().backward()
    assert n.item() == 6
    assert x.grad.tolist() == [64.0, 64.0]


def test_while_loop_that_takes_no_step_gives_what_it_was_given():
    x = ex.ones(2)
    y, n = double_until(x, 0)
    assert y is x
    assert n.item() == 0


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_is_the_loop_over_rows(reverse):
    x, h = ex.randn(5, 3, requires_grad=True), ex.randn(3, requires_grad=True)
    last, ys = ex.scan(lambda h, x: (ex.tanh(h + x), h * x), h, x, reverse=reverse)
    expected_last, expected = running_by_hand(x.flip(0) if reverse else x, h)
    expected = expected.flip(0) if reverse else expected
    assert ex.equal(last, expected_last)
    assert ex.equal(ys, expected)
    ours = ex.autograd.grad((last.sum() + ys.sum()), (x, h))
    theirs = ex.autograd.grad((expected_last.sum() + expected.sum()), (x, h))
    assert all(map(ex.allclose, ours, theirs))


def test_scan_goes_along_another_dimension_of_nested_values():
    x = {"a": ex.randn(2, 4), "b": ex.randn(2, 4)}
    carry, ys = ex.scan(lambda c, x: ((c[0] + x["a"],), [x["a"] * x["b"]]), (ex.zeros(2),), x, dim=1)
    assert ex.allclose(carry[0], x["a"].sum(1))
    assert ex.equal(ys[0], (x["a"] * x["b"]).T)


def test_a_loop_over_nothing_gives_results_of_length_0():
    carry, ys = running(ex.zeros(0, 3), ex.ones(3))
    assert carry.tolist() == [1.0, 1.0, 1.0]
    assert tuple(ys.shape) == (0, 3)
    assert tuple(ex.map(lambda x: x.sum().long(), ex.zeros(0, 3)).shape) == (0,)
    assert ex.map(lambda x: x.sum().long(), ex.zeros(0, 3)).dtype is ex.int64


def test_map_stacks_what_it_makes_of_rows():
    x = ex.randn(4, 3, requires_grad=True)
    total, rows = ex.map(lambda x, k: (x.sum(), x * k), x, 2.0)
    assert ex.allclose(total, x.sum(1))
    assert ex.equal(rows, x * 2)
    (g,) = ex.autograd.grad(total.sum() + rows.sum(), x)
    assert g.tolist() == [[3.0] * 3] * 4


def test_compiled_functions_have_branches_and_loops():
    def fn(x):
        y, n = double_until(x, 50)
        y = ex.cond(n > 3, lambda y: y + 1, lambda y: y - 1, (y,))
        return ex.map(lambda row: row.exp(), running(y / 100, ex.zeros(()))[1])

    compiled = ex.compile(fn)
    for x in (ex.ones(3), ex.ones(3) * 20, ex.ones(3), ex.ones(3) * 20):
        assert ex.equal(compiled(x), fn(x))


def test_samples_of_a_batch_each_go_their_own_way():
    def fn(x):
        y, n = double_until(x, 50)
        return ex.cond(n > 3, lambda: y + 1, lambda: y - 1)

    xs = [ex.ones(3) * k for k in (1.0, 9.0, 20.0)]
    for ours, theirs in zip(ex.batch(fn)(xs), [fn(x) for x in xs], strict=True):
        assert ex.allclose(ours, theirs)


def test_samples_of_vmap_each_go_their_own_way():
    def fn(x):
        y, n = double_until(x, 50)
        return ex.cond(n > 3, lambda y: y + 1, lambda y: y - 1, (y,)), n

    x = ex.tensor([[1.0, 1.0], [9.0, 9.0], [20.0, 30.0]], requires_grad=True)
    ys, ns = ex.vmap(fn)(x)
    expected = [fn(row) for row in x]
    assert ex.equal(ys, ex.stack([y for y, _ in expected]))
    assert ns.tolist() == [n.item() for _, n in expected]
    ours = ex.autograd.grad(ys.sum(), x)
    theirs = ex.autograd.grad(sum(y.sum() for y, _ in expected), x)
    assert ex.equal(*ours, *theirs)


def test_scan_and_map_run_under_vmap():
    x, h = ex.randn(4, 5, 3), ex.randn(4, 3)
    last, ys = ex.vmap(running)(x, h)
    for i in range(4):
        expected = running(x[i], h[i])
        assert ex.allclose(last[i], expected[0])
        assert ex.allclose(ys[i], expected[1])
    assert ex.allclose(ex.vmap(lambda x: ex.map(ex.sum, x))(x), x.sum(2))


def test_what_cannot_be_a_decision_is_refused_in_words():
    x = ex.ones(2)
    with pytest.raises(DtypeError, match=r"pred must be a bool or a bool tensor with one element, got bool\[2\]"):
        ex.cond(x > 0, lambda: x, lambda: x)
    with pytest.raises(DtypeError, match="write x != 0"):
        ex.cond(1, lambda: x, lambda: x)
    with pytest.raises(DtypeError, match=r"write \(x,\) for a single one"):
        ex.cond(True, lambda x: x, lambda x: x, x)
    with pytest.raises(DtypeError, match="false_fn must be a function"):
        ex.cond(True, lambda x: x, x)
    with pytest.raises(DtypeError, match="the result of cond_fn must be a bool"):
        ex.while_loop(lambda x: x.sum(), lambda x: x, (x,))


def test_what_a_loop_carries_keeps_its_type():
    with pytest.raises(ShapeError, match=r"while_loop: body_fn changed carried value 0 from f32\[2\] to f32\[4\]"):
        ex.while_loop(lambda x: x.sum() < 3, lambda x: (ex.cat([x, x]),), (ex.ones(2),))
    with pytest.raises(ShapeError, match=r"scan: combine_fn changed carried value 0 from i64\[\] to f32\[\]"):
        ex.scan(lambda c, x: (c + x, x), ex.tensor(0), ex.ones(3))
    with pytest.raises(DtypeError, match="in the same structure"):
        ex.while_loop(lambda x, y: True, lambda x, y: x, (ex.ones(2), ex.ones(2)))


def test_scans_of_unequal_length_and_results_that_are_no_tensors_are_refused():
    with pytest.raises(ShapeError, match=r"differ in the number of slices: \[2, 3\]"):
        ex.map(lambda x: x[0], (ex.ones(2), ex.ones(3)))
    with pytest.raises(DtypeError, match="must return two things"):
        ex.scan(lambda c, x: c + x, ex.tensor(0.0), ex.ones(3))
    with pytest.raises(DtypeError, match="every result of a step must be a tensor, got float"):
        ex.map(lambda x: 1.0, ex.ones(3))
    with pytest.raises(ShapeError, match="there is no dimension 1"):
        ex.scan(lambda c, x: (c, x), ex.tensor(0.0), ex.ones(3), dim=1)
    with pytest.raises(DtypeError, match="inside vmap samples differ in a result that is no tensor, 1 and 2"):
        ex.vmap(lambda x: ex.cond(x > 0, lambda: 1, lambda: 2))(ex.ones(2))
