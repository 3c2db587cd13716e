"""Tree cells: the published equations, any number of children, gradients, and a recursive model that learns."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ArgumentError, DtypeError, ShapeError

HIDDEN = 3


def sigma(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def array(x: ex.Tensor) -> np.ndarray:
    return x.detach().numpy()


def draw(*shape: int, seed: int = 0) -> ex.Tensor:
    return ex.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


def children(n: int, *lead: int) -> list[nn.TreeState]:
    return [nn.TreeState(draw(*lead, HIDDEN, seed=k), draw(*lead, HIDDEN, seed=10 + k)) for k in range(n)]


def by_the_book(cell, states, x, gate_of_children):
    """The equations of the paper, gate by gate; `gate_of_children(gate, k)` is what the h of all children add."""

    def gate(number, k=None):
        rows = slice(number * HIDDEN, (number + 1) * HIDDEN)
        total = np.zeros(HIDDEN) if cell.bias is None else array(cell.bias)[rows]
        if x is not None:
            total = total + array(cell.weight_ih)[rows] @ array(x)
        return total + gate_of_children(number, k) if states else total

    c = sigma(gate(1)) * np.tanh(gate(0))
    c = c + sum(sigma(gate(3, k)) * array(state.c) for k, state in enumerate(states))
    return sigma(gate(2)) * np.tanh(c), c


def assert_state(state, h, c):
    assert isinstance(state, nn.TreeState)
    np.testing.assert_allclose(array(state.h), h, rtol=1e-12)
    np.testing.assert_allclose(array(state.c), c, rtol=1e-12)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("with_x", [True, False])
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_child_sum_computes_the_published_equations(n, with_x, bias):
    cell = nn.ChildSumTreeLSTMCell(4, HIDDEN, bias=bias, dtype=ex.float64)
    states = children(n)
    x = draw(4, seed=99) if with_x else None

    def of_children(gate, k):
        if gate == 3:
            return array(cell.weight_fh) @ array(states[k].h)
        return array(cell.weight_hh)[gate * HIDDEN : (gate + 1) * HIDDEN] @ sum(array(s.h) for s in states)

    assert_state(cell(*states, x=x), *by_the_book(cell, states, x, of_children))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("with_x", [True, False])
@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_nary_computes_the_published_equations_with_a_forget_gate_per_child(n, with_x, bias):
    cell = nn.NaryTreeLSTMCell(4, HIDDEN, arity=3, bias=bias, dtype=ex.float64)
    states = children(n)
    x = draw(4, seed=99) if with_x else None

    def of_children(gate, k):
        first = (gate if k is None else 3 + k) * HIDDEN
        rows = array(cell.weight_hh)[first : first + HIDDEN]
        return sum(rows[:, at * HIDDEN : (at + 1) * HIDDEN] @ array(s.h) for at, s in enumerate(states))

    assert_state(cell(*states, x=x), *by_the_book(cell, states, x, of_children))


CELLS = [
    pytest.param(lambda **options: nn.NaryTreeLSTMCell(4, HIDDEN, 2, **options), id="nary"),
    pytest.param(lambda **options: nn.ChildSumTreeLSTMCell(4, HIDDEN, **options), id="child-sum"),
]


@pytest.mark.parametrize("make", CELLS)
def test_rows_of_a_batch_are_trees_of_their_own(make):
    cell = make(dtype=ex.float64)
    states, x = children(2, 5), draw(5, 4)
    for given in (None, x):
        together = cell(*states, x=given)
        for row in range(5):
            alone = cell(*[nn.TreeState(s.h[row], s.c[row]) for s in states], x=None if given is None else x[row])
            assert_state(alone, array(together.h)[row], array(together.c)[row])
    leaves = cell.leaf(x)
    assert_state(cell.leaf(x[3]), array(leaves.h)[3], array(leaves.c)[3])


@pytest.mark.parametrize("make", CELLS)
@pytest.mark.parametrize("n", [0, 1, 2])
def test_gradients_agree_with_differences(make, n):
    cell = make(dtype=ex.float64)
    states, x = children(n, 2), draw(2, 4)
    inputs = [part for state in states for part in state] + [x, *cell.parameters()]

    def run(*_: ex.Tensor) -> tuple[ex.Tensor, ...]:
        return tuple(cell(*states, x=x))

    assert ex.autograd.gradcheck(run, tuple(inputs))


@pytest.mark.parametrize("make", CELLS)
def test_a_leaf_is_a_node_with_an_input_and_no_children(make):
    cell = make(dtype=ex.float64)
    x = draw(4)
    assert_state(cell.leaf(x), *map(array, cell(x=x)))
    h, c = cell.leaf(x)
    assert h.shape == c.shape == (HIDDEN,)


@pytest.mark.parametrize("make", CELLS)
def test_a_plain_pair_is_a_state(make):
    cell = make(dtype=ex.float64)
    (state,) = children(1)
    assert_state(cell((state.h, state.c)), *map(array, cell(state)))


@pytest.mark.parametrize("make", CELLS)
def test_parameters_start_within_the_usual_bound(make):
    for parameter in make().parameters():
        assert parameter.dtype is ex.float32
        assert 0.1 < parameter.abs().max().item() <= HIDDEN**-0.5


@pytest.mark.parametrize("make", CELLS)
def test_a_cell_copies_and_loads_its_state(make):
    first = make()
    second = copy.deepcopy(first)
    second.reset_parameters()
    assert not ex.equal(first.weight_ih, second.weight_ih)
    second.load_state_dict(first.state_dict())
    x = ex.ones(4)
    assert ex.equal(first.leaf(x).h, second.leaf(x).h)
    assert "bias" not in make(bias=False).state_dict()


def test_the_order_of_children_matters_only_in_the_nary_cell():
    first, second = children(2)
    for make, same in ((CELLS[0].values[0], False), (CELLS[1].values[0], True)):
        cell = make(dtype=ex.float64)
        assert ex.allclose(cell(first, second).h, cell(second, first).h) is same


def test_errors_name_the_sizes_and_the_way_out():
    nary, child_sum = nn.NaryTreeLSTMCell(4, HIDDEN, 2), nn.ChildSumTreeLSTMCell(4, HIDDEN)
    leaf = nary.leaf(ex.zeros(4))
    with pytest.raises(ArgumentError, match=r"at most arity=2 children, got 3; .*ChildSumTreeLSTMCell"):
        nary(leaf, leaf, leaf)
    with pytest.raises(DtypeError, match=r"child 1 must be a state \(h, c\), got Tensor; an input is given as x="):
        child_sum(leaf, ex.zeros(4))
    with pytest.raises(DtypeError, match=r"got list; write cell\(\*children\)"):
        child_sum([leaf, leaf])
    with pytest.raises(ShapeError, match=r"x must be \(4,\) beside these children, got \(5,\)"):
        child_sum(leaf, x=ex.zeros(5))
    with pytest.raises(ShapeError, match=r"x must be \(\.\.\., 4\), got \(2, 2, 4\)"):
        child_sum.leaf(ex.zeros(2, 2, 4))
    with pytest.raises(ShapeError, match=r"child 0: h and c must be \(3,\) or \(batch, 3\), got \(2,\) and \(2,\)"):
        nary((ex.zeros(2), ex.zeros(2)))
    with pytest.raises(ShapeError, match=r"one shape, got \[\(3,\), \(2, 3\)\]"):
        nary(leaf, nary.leaf(ex.zeros(2, 4)))
    with pytest.raises(ArgumentError, match="arity must be at least 1, got 0"):
        nn.NaryTreeLSTMCell(4, HIDDEN, 0)
    with pytest.raises(ShapeError, match="sizes must be at least 1, got 4 inputs and hidden_size=0"):
        nn.ChildSumTreeLSTMCell(4, 0)


class Formula(nn.Module):
    """The value of a formula of ands and ors, read by plain recursion over nested tuples."""

    def __init__(self, make) -> None:
        super().__init__()
        self.words = nn.Parameter(ex.randn(4, 8))  # False, True, and, or
        self.cell = make(8, 16)
        self.out = nn.Parameter(ex.randn(16) * 0.1)

    def state(self, tree):
        if isinstance(tree, bool):
            return self.cell.leaf(self.words[int(tree)])
        operator, *parts = tree
        return self.cell(*[self.state(part) for part in parts], x=self.words[2 + (operator == "or")])

    def forward(self, tree):
        return (self.state(tree).h * self.out).sum()


@pytest.mark.parametrize("make", [lambda i, h: nn.NaryTreeLSTMCell(i, h, 2), nn.ChildSumTreeLSTMCell])
def test_a_recursive_model_learns_formulas(make):
    ex.manual_seed(3)
    model = Formula(make)
    formulas = [
        (("and", True, False), 0.0),
        (("or", True, False), 1.0),
        (("and", True, ("or", False, True)), 1.0),
        (("or", ("and", True, False), False), 0.0),
        (False, 0.0),
    ]
    losses = []
    for _ in range(40):
        loss = sum((model(tree) - value) ** 2 for tree, value in formulas)
        losses.append(loss.item())
        model.zero_grad()
        loss.backward()
        with ex.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
    assert losses[-1] < 0.25 * losses[0]
    assert losses[-1] < 0.3
