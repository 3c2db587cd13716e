"""In-place writes and views inside compiled functions: what every tensor shows afterwards."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn

from .agreement import CALLS, agree, agree_on_calls, draw, grads, whole


def add_to_argument(x):
    x += 1
    return x * 2


def add_to_recorded(x):
    y = x * 2
    y += 1
    return y, y.sum()


def write_after_use(x):
    y = x * 2
    z = y.exp()
    y.zero_()
    return y, z, x


def write_before_use(x):
    y = x * 2
    y.mul_(x)
    return y.sin()


def write_into_view_of_recorded(x):
    y = x * 2
    y[1].add_(5.0)
    y[:, 0] = 7.0
    return y, y.sum(0)


def write_into_view_of_argument(x):
    x[0] *= 3
    x.T[1].neg_()
    return x + 0


def write_base_look_through_view(x):
    y = x + 1
    v = y[1:]
    w = v.T
    y.add_(10.0)
    return v, w, w * 2


def write_view_look_through_base(x):
    y = x + 1
    v = y.reshape(-1)[2:5]
    before = y * 1
    v.fill_(9.0)
    return y, before, v


def zero_and_copy(x):
    y = ex.empty_like(x)
    y.copy_(x)
    y.add_(x)
    z = x.clone().zero_()
    return y, z


def assign_by_index(x):
    y = x.clone()
    y[0, 1] = 3.0
    y[ex.tensor([0, 2])] = ex.tensor([1.0, 2.0, 3.0, 4.0])
    y[y > 2] = -1.0
    return y


def write_result_of_reduction(x):
    s = x.sum(0)
    s += x[0]
    s.clamp_(-1, 1)
    return s, x * s


def write_detached(x):
    y = x * 2
    d = y.detach()
    d.add_(1.0)
    return y, d


def write_expanded_source(x):
    row = x[0] + 0
    wide = row.expand(3, 4)
    row.mul_(2.0)
    return wide, wide + x


def swap_rows(x):
    x[0], x[1] = x[1].clone(), x[0].clone()
    return x


def running_mean(x):
    total = ex.zeros(4)
    for k, row in enumerate(x):
        total.mul_(k / (k + 1)).add_(row / (k + 1))
    return total


def fill_a_buffer_row_by_row(x):
    out = ex.zeros(3, 4)
    for k in range(3):
        out[k] = x[k].tanh() * k
    return out


def data_is_written(x):
    y = x * 2
    y.data.add_(1.0)
    return y


def write_twice_read_between(x):
    y = x + 1
    y.add_(1.0)
    a = y.sum().item()
    y.add_(a)
    return y, a


def a_list_of_views(x):
    parts = list((x * 2).unbind(0))
    parts[1].zero_()
    return parts, ex.stack(parts)


def out_argument(x):
    y = ex.empty(3, 4)
    ex.add(x, x, out=y)
    return y * 2


UNTRACKED = [
    add_to_argument,
    add_to_recorded,
    write_after_use,
    write_before_use,
    write_into_view_of_recorded,
    write_into_view_of_argument,
    write_base_look_through_view,
    write_view_look_through_base,
    zero_and_copy,
    assign_by_index,
    write_result_of_reduction,
    write_detached,
    write_expanded_source,
    swap_rows,
    running_mean,
    fill_a_buffer_row_by_row,
    data_is_written,
    write_twice_read_between,
    a_list_of_views,
    out_argument,
]


@pytest.mark.parametrize("fn", UNTRACKED, ids=lambda f: f.__name__)
def test_writes_without_gradients(fn):
    agree_on_calls(fn, lambda i: (draw(i, 3, 4),))


@pytest.mark.parametrize("fn", UNTRACKED, ids=lambda f: f.__name__)
def test_writes_with_gradients(fn):
    """The first argument is no leaf, so writes are allowed; some then fail in backward, in both ways alike."""

    def scenario(wrap):
        run = wrap(lambda x: fn(x))
        for i in range(CALLS):
            leaf = draw(i, 3, 4, grad=True)
            x = leaf * 1.5
            error = None
            try:
                result = run(x)
                yield result, x
                tensors = result if isinstance(result, tuple | list) else [result]
                tensors = [t for t in tensors if isinstance(t, ex.Tensor) and t.requires_grad]
                sum((t * t).sum() for t in tensors).backward()
            except Exception as e:
                error = e.with_traceback(None)
            yield error, leaf.grad

    agree(scenario)


@pytest.mark.parametrize("fn", UNTRACKED, ids=lambda f: f.__name__)
def test_writes_with_the_backward_inside(fn):
    def scenario(wrap):
        def step(leaf):
            x = leaf * 1.5
            result = fn(x)
            tensors = result if isinstance(result, tuple | list) else [result]
            tensors = [t for t in tensors if isinstance(t, ex.Tensor) and t.requires_grad]
            loss = sum((t * t).sum() for t in tensors)
            loss.backward()
            return loss, result

        run = wrap(step)
        for i in range(CALLS):
            leaf = draw(i, 3, 4, grad=True)
            try:
                yield run(leaf)
            except Exception as e:
                yield e.with_traceback(None)
            yield leaf.grad

    agree(scenario)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("inside", [True, False])
def test_batch_norm_moves_its_statistics(training, inside):
    def scenario(wrap):
        ex.manual_seed(1)
        net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)).train(training)

        def step(x):
            loss = net(x).square().mean()
            if inside:
                loss.backward()
            return loss

        run = wrap(step)
        for i in range(CALLS):
            loss = run(draw(i, 6, 3))
            if not inside:
                loss.backward()
            yield loss, dict(net.state_dict()), grads(*net.parameters())
            net.zero_grad()

    agree(scenario)


def test_batch_norm_changes_between_train_and_eval():
    def scenario(wrap):
        net = nn.Sequential(nn.BatchNorm2d(2), nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3))
        run = wrap(lambda x: net(x))
        for i in range(10):
            net.train(i % 3 != 0)
            yield run(draw(i, 2, 2, 5, 5)), dict(net.state_dict())

    agree(scenario)


def test_writes_by_indices_that_repeat():
    def f(x, index):
        y = ex.zeros(5)
        y.index_add_(0, index, x)
        z = ex.zeros(5).scatter_add_(0, index, x)
        z[index] += 1
        return y, z, y[index]

    agree_on_calls(f, lambda i: (draw(i, 7), whole(i, 7)))


def test_a_numpy_array_that_shares_memory_sees_writes():
    def scenario(wrap):
        def f(x, n):
            y = x + 1
            x.add_(n)
            return y, x * 2

        run = wrap(f)
        for i in range(CALLS):
            x = draw(i, 3)
            array = x.numpy()
            yield run(x, float(i)), array.copy()
            array[:] = i
            yield run(x, 1.0), array.copy()

    agree(scenario)
