"""Flat memory: the same numbers as one parameter at a time, and nobody outside notices that memory was moved."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import extempo as ex
from extempo import optim
from extempo.errors import OverwrittenError, ShapeError
from extempo.optim import flat_buffers

SHAPES = [(5, 3), (7,), (2, 3, 4), (), (1, 130)]
CONFIGURATIONS = [
    (optim.SGD, {"lr": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    (optim.Adam, {"lr": 0.1, "weight_decay": 0.1}),
    (optim.Adam, {"lr": 0.1, "amsgrad": True, "maximize": True}),
    (optim.AdamW, {"lr": 0.1}),
    (optim.Adamax, {"lr": 0.1}),
    (optim.NAdam, {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    (optim.RAdam, {"lr": 0.1, "betas": (0.8, 0.9)}),
    (optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.2}),
    (optim.Adadelta, {"lr": 0.5}),
    (optim.RMSprop, {"lr": 0.1, "momentum": 0.5, "centered": True}),
    (optim.Rprop, {"lr": 0.1}),
    (optim.ASGD, {"lr": 0.1, "t0": 2}),
]
IDS = [f"{cls.__name__}-{i}" for i, (cls, _) in enumerate(CONFIGURATIONS)]


def parameters(dtype=ex.float32, shapes=SHAPES):
    rng = np.random.default_rng(0)
    return [ex.tensor(rng.normal(size=shape), dtype=dtype).requires_grad_() for shape in shapes]


def give_gradients(params, step, holes=False):
    rng = np.random.default_rng(1000 + step)
    for i, p in enumerate(params):
        g = ex.tensor(rng.normal(size=tuple(p.shape)), dtype=p.dtype)
        p.grad = None if holes and (i + step) % 3 == 0 else g


def train(optimizer, params, n_steps=8, holes=False):
    for step in range(n_steps):
        give_gradients(params, step, holes)
        optimizer.step()


def blocks(optimizer):
    return [block for layout in optimizer._layouts for block in layout.blocks]


def state_bytes(optimizer, params):
    return [{k: v.numpy().tobytes() for k, v in optimizer.state[p].items()} for p in params]


@pytest.mark.parametrize("holes", [False, True], ids=["all", "some without gradient"])
@pytest.mark.parametrize("dtype", [ex.float32, ex.bfloat16], ids=str)
@pytest.mark.parametrize(("cls", "options"), CONFIGURATIONS, ids=IDS)
def test_one_flat_pass_gives_the_bits_of_one_parameter_at_a_time(cls, options, dtype, holes, monkeypatch):
    together, apart, pieces = parameters(dtype), parameters(dtype), parameters(dtype)
    seen = [p.detach() for p in apart]  # an alias of each: none may be moved
    runs = [(cls(together, **options), together), (cls(apart, **options), apart), (cls(pieces, **options), pieces)]
    train(*runs[0], holes=holes)
    train(*runs[1], holes=holes)
    monkeypatch.setattr(flat_buffers, "STRETCH", 16)  # every parameter in many pieces
    train(*runs[2], holes=holes)
    assert any(block.moved for block in blocks(runs[0][0]))
    assert not any(block.moved for block in blocks(runs[1][0]))
    for optimizer, params in runs[1:]:
        for p, q in zip(together, params, strict=True):
            assert p.detach().numpy().tobytes() == q.detach().numpy().tobytes()
        assert state_bytes(runs[0][0], together) == state_bytes(optimizer, params)
    for p, alias in zip(apart, seen, strict=True):
        assert np.shares_memory(alias.numpy(), p.detach().numpy())


def test_all_parameters_of_a_group_are_one_block_after_the_first_step():
    params = parameters()
    optimizer = optim.Adam(params)
    train(optimizer, params, 1)
    assert [len(block.members) for block in blocks(optimizer)] == [len(SHAPES)]
    for p in params:
        assert p.detach().numpy().ctypes.data % 64 == 0


def test_each_dtype_has_a_block_of_its_own():
    params = parameters() + parameters(ex.float64)
    optimizer = optim.SGD(params, momentum=0.9)
    train(optimizer, params)
    assert sorted(len(block.members) for block in blocks(optimizer)) == [len(SHAPES)] * 2


def test_backward_notices_that_a_step_overwrote_what_it_needs():
    params = parameters()
    optimizer = optim.SGD(params, lr=0.1)
    train(optimizer, params, 2)
    loss = sum((p * p).sum() for p in params)
    give_gradients(params, 0)
    optimizer.step()
    with pytest.raises(OverwrittenError, match="test_flat"):
        loss.backward()


def test_a_step_counts_as_one_write_for_those_with_a_gradient_only():
    params = parameters()
    optimizer = optim.Adam(params)
    train(optimizer, params, 1)
    versions = [p._version for p in params]
    give_gradients(params, 1)
    params[1].grad = None
    optimizer.step()
    assert [p._version - v for p, v in zip(params, versions, strict=True)] == [1, 0, 1, 1, 1]


def test_a_graph_recorded_before_the_move_can_still_be_differentiated_where_nothing_was_written():
    used, other, third = parameters(shapes=[(3,)] * 3)
    y = (used * used).sum()
    for p in (other, third):
        p.grad = ex.ones(3)
    optimizer = optim.SGD([used, other, third], lr=0.1)
    optimizer.step()
    y.backward()
    assert ex.equal(used.grad, 2 * used.detach())


def outside_views():
    return {
        "numpy": lambda p: p.detach().numpy(),
        "part of numpy": lambda p: p.detach().numpy()[1:],
        "detach": lambda p: p.detach(),
        "data": lambda p: p.data,
        "view": lambda p: p.detach().view(-1)[2:],
        "dlpack": lambda p: np.from_dlpack(p.detach()),
        "memoryview": lambda p: memoryview(p.detach().numpy()),
    }


@pytest.mark.parametrize("name", list(outside_views()))
@pytest.mark.parametrize("when", ["before the first step", "after it", "before the state is loaded"])
def test_memory_seen_from_outside_follows_the_parameter(name, when):
    params = parameters(shapes=[(4,), (4,), (4,)])
    optimizer = optim.Adam(params, lr=0.1)
    if when != "before the first step":
        train(optimizer, params, 2)
    view = outside_views()[name](params[1])
    if when == "before the state is loaded":
        optimizer.load_state_dict(optimizer.state_dict())
    train(optimizer, params, 5)
    seen = np.asarray(view).reshape(-1)
    assert seen.tolist() == params[1].tolist()[-len(seen) :]
    with ex.no_grad():
        params[1].fill_(7.0)
    assert set(np.asarray(view).reshape(-1).tolist()) == {7.0}


def test_parameters_that_share_memory_keep_sharing_it():
    memory = np.ones(6, np.float32)
    a = ex.from_numpy(memory[:4]).requires_grad_()
    b = ex.from_numpy(memory[2:]).requires_grad_()
    c = a.detach().requires_grad_()
    del memory
    optimizer = optim.SGD([a, b, c], lr=1.0)
    for p in (a, b, c):
        p.grad = ex.ones(4)
    optimizer.step()
    assert a.tolist() == [-1.0, -1.0, -2.0, -2.0]
    assert b.tolist() == [-2.0, -2.0, 0.0, 0.0]
    assert c.tolist() == a.tolist()


def test_a_parameter_that_is_not_contiguous_is_updated_where_it_lies():
    base = ex.arange(6.0).reshape(2, 3)
    p = base.t().detach().requires_grad_()
    q = ex.ones(2, requires_grad=True)
    optimizer = optim.Adam([p, q], lr=1.0)
    p.grad, q.grad = ex.ones(3, 2), ex.ones(2)
    optimizer.step()
    assert ex.allclose(base, ex.arange(6.0).reshape(2, 3) - 1.0, atol=1e-6)
    assert p.stride() == (1, 3)


def test_a_new_array_behind_a_parameter_is_noticed():
    params = parameters(shapes=[(3,)] * 3)
    optimizer = optim.Adam(params, lr=0.1)
    train(optimizer, params, 2)
    params[0].data = ex.zeros(3)
    before = [p.detach().clone() for p in params]
    train(optimizer, params, 1)
    for p, old in zip(params, before, strict=True):
        assert not ex.equal(p.detach(), old)


def test_a_parameter_that_changes_its_dtype_gets_a_block_that_fits():
    params = parameters(shapes=[(3,)] * 3)
    optimizer = optim.SGD(params, lr=0.5, momentum=0.9)
    train(optimizer, params, 2)
    for p in params:
        p.grad = None
        p.data = p.data.double()
    train(optimizer, params, 6)
    assert all(p.dtype is ex.float64 for p in params)
    assert all(optimizer.state[p]["momentum_buffer"].dtype is ex.float64 for p in params)


def test_state_written_from_outside_is_used_by_the_next_step():
    a, b = parameters(shapes=[(2,), (2,)])
    optimizer = optim.SGD([a, b], lr=1.0, momentum=0.5)
    with ex.no_grad():
        a.zero_()
    give_gradients([a, b], 0)
    optimizer.step()
    optimizer.state[a]["momentum_buffer"].fill_(4.0)
    old = a.detach().clone()
    a.grad = ex.zeros(2)
    optimizer.step()
    assert ex.equal(old - a.detach(), ex.tensor([2.0, 2.0]))
    optimizer.state[a]["momentum_buffer"] = ex.tensor([8.0, 8.0])
    old = a.detach().clone()
    optimizer.step()
    assert ex.allclose(old - a.detach(), ex.tensor([4.0, 4.0]))
    optimizer.state.clear()
    a.grad = ex.ones(2)
    optimizer.step()
    assert ex.equal(optimizer.state[a]["momentum_buffer"], ex.ones(2))


def test_state_tensors_keep_their_identity():
    params = parameters()
    optimizer = optim.Adam(params)
    train(optimizer, params, 1)
    held = [optimizer.state[p]["exp_avg"] for p in params]
    train(optimizer, params, 3)
    assert all(optimizer.state[p]["exp_avg"] is tensor for p, tensor in zip(params, held, strict=True))


def test_parameters_that_get_gradients_later_join_the_block():
    params = parameters()
    optimizer = optim.Adam(params)
    give_gradients(params[:2], 0)
    optimizer.step()
    assert set(optimizer.state) == set(params[:2])
    train(optimizer, params, 20)
    assert [len(block.members) for block in blocks(optimizer)] == [len(params)]
    assert optimizer.state[params[0]]["step"].item() == 21.0
    assert optimizer.state[params[4]]["step"].item() == 20.0


def test_memory_that_is_seen_for_a_while_is_moved_once_it_is_not():
    params = parameters()
    optimizer = optim.SGD(params, lr=0.1)
    aliases = [p.detach() for p in params]
    train(optimizer, params, 2)
    assert not any(block.moved for block in blocks(optimizer))
    del aliases
    gc.collect()
    train(optimizer, params, 10)
    assert all(block.moved for block in blocks(optimizer))


def test_parameters_that_never_get_a_gradient_cost_no_memory():
    used, frozen = ex.ones(2, requires_grad=True), ex.ones(1000, requires_grad=True)
    optimizer = optim.Adam([used, frozen])
    used.grad = ex.ones(2)
    optimizer.step()
    assert sum(block.values.size for block in blocks(optimizer)) == 2
    assert frozen not in optimizer.state


@pytest.mark.filterwarnings("ignore:add_param_group")
def test_a_parameter_given_twice_is_updated_twice():
    p, q = ex.ones(2, requires_grad=True), ex.ones(2, requires_grad=True)
    optimizer = optim.SGD([p, q, p], lr=0.5)
    p.grad, q.grad = ex.ones(2), ex.ones(2)
    optimizer.step()
    assert p.tolist() == [0.0, 0.0]
    assert q.tolist() == [0.5, 0.5]


def test_empty_parameters_are_fine():
    p, q = ex.ones(0, 3, requires_grad=True), ex.ones(2, requires_grad=True)
    optimizer = optim.Adam([p, q], lr=0.1)
    p.grad, q.grad = ex.ones(0, 3), ex.ones(2)
    optimizer.step()
    assert ex.allclose(q, ex.full((2,), 0.9))


def test_a_gradient_of_another_shape_is_refused_before_anything_is_written():
    a, b = ex.ones(2, requires_grad=True), ex.ones(3, requires_grad=True)
    optimizer = optim.SGD([a, b], lr=0.1)
    a.grad, b.grad = ex.ones(2), ex.ones(3)
    b.data = ex.ones(4)
    with pytest.raises(ShapeError, match="zero_grad"):
        optimizer.step()
    assert a.tolist() == [1.0, 1.0]


def test_large_parameters_are_updated_in_pieces_that_fit_the_cache():
    n = 3 * flat_buffers.STRETCH + 5
    big, small = ex.zeros(n, requires_grad=True), ex.zeros(3, requires_grad=True)
    g = ex.arange(float(n))
    optimizer = optim.SGD([small, big], lr=1.0)
    small.grad, big.grad = ex.ones(3), g.clone()
    optimizer.step()
    assert ex.equal(big.detach(), -g)
    # A gradient whose memory is in another order.
    wide = ex.zeros(200, 300, requires_grad=True)
    wide.grad = ex.arange(60000.0).reshape(300, 200).t()
    optim.SGD([wide], lr=1.0).step()
    assert ex.equal(wide.detach(), -ex.arange(60000.0).reshape(300, 200).t())
