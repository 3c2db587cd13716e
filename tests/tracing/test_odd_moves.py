"""Things that programs do to tensors besides computing: flags, gradients and data set by hand, files, long loops."""

from __future__ import annotations

import gc
import io

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.core.context import CONTEXT
from extempo.nn import functional as F
from extempo.tracing.policy import AlwaysPlan

from .agreement import CALLS, agree, agree_on_calls, draw, error_of, grads, needs_native_code, see


def both(step, n_calls=CALLS):
    """`step(w, x)` with w tracked; what it returns, w and its gradient are compared."""

    def scenario(wrap):
        w = draw(3, 4, grad=True)
        run = wrap(lambda x: step(w, x))
        for i in range(n_calls):
            error = result = None
            try:
                result = run(draw(i, 3, 4))
            except Exception as e:
                error = e.with_traceback(None)
            yield error, result, w, w.grad, w.requires_grad

    agree(scenario)


def requires_grad_on_recorded(w, x):
    y = (x * 2).requires_grad_()
    (y * w).sum().backward()
    return y, y.grad, y.is_leaf


def requires_grad_off_in_the_middle(w, x):
    a = (x * w).sum()
    w.requires_grad_(False)
    b = (x * w).sum()
    w.requires_grad_(True)
    (a + b).backward()
    return a, b


def detach_in_place(w, x):
    y = (x * w).sin()
    z = y * 2
    y.detach_()
    (z + y * w).sum().backward()
    return y, y.requires_grad


def gradient_set_by_hand(w, x):
    w.grad = (w * 2).detach()
    (x * w).sum().backward()
    return w.grad * 1


def gradient_scaled_in_place(w, x):
    (x * w).tanh().sum().backward()
    w.grad.mul_(0.5)
    w.grad += 1
    g = w.grad
    w.grad = None
    return g


def gradient_used_as_a_value(w, x):
    (x * w).sum().backward()
    direction = w.grad / w.grad.norm()
    loss = ((w + direction) * x).square().sum()
    w.grad = None
    loss.backward()
    return loss


def data_replaced(w, x):
    y = x * w
    w.data = (w * 0.5).detach()
    return y, x * w


def data_written(w, x):
    y = (x + w).sum()
    w.data.copy_((w * 0.9).detach())
    y.backward()
    return y


def parameter_made_inside(w, x):
    p = nn.Parameter((x * 2).detach())
    loss = (p * w).exp().sum()
    loss.backward()
    return p, p.grad, p.is_leaf


def tensor_made_of_recorded(w, x):
    y = x * 2
    return ex.tensor(y.tolist()), y.clone().detach(), ex.as_tensor(y), ex.asarray(y.numpy()), y.new_tensor([1.0])


def backward_with_inputs(w, x):
    x = x.requires_grad_()
    loss = (x * w).tanh().sum()
    loss.backward(inputs=[x])
    return x.grad


def no_gradient_wanted_for_some(w, x):
    y = (x * w).sum()
    other = w * 3
    return ex.autograd.grad(y, [w], retain_graph=True), ex.autograd.grad(other.sum(), [w])


def temporaries_only_on_the_stack(w, x):
    return [x * 2, (x * 3).sum().item(), (w * x).exp()][0:3:2], max((x * 5).sum(), (x * 6).sum())


def a_cycle_keeps_a_value(w, x):
    cycle = [x * 2]
    cycle.append(cycle)
    x.sum().item()
    return cycle[0] + 1


def collection_in_the_middle(w, x):
    y = (x * w).exp()
    gc.collect()
    z = y * 2
    gc.collect()
    return z


def chunks_of_which_one_is_used(w, x):
    a, b = (x * w).chunk(2, -1)
    indices = (x * w).max(-1).indices
    _, only = (x * w).min(-1)
    a.sum().backward()
    return b, indices, only


def without_bias(w, x):
    y = F.layer_norm(F.linear(x, ex.ones(5, 4) * w, None), (5,))
    y.square().sum().backward()
    return y


def numpy_memory_is_written(w, x):
    y = x * 2
    y.numpy()[0] = 5.0
    return y + 1, y * w


def sums_over_generators(w, x):
    loss = sum(t.square().sum() for t in (x, w, x * w))
    loss.backward()
    return loss


def swapped_names(w, x):
    a, b = x * 2, x * 3
    a, b = b, a
    del x
    return a - b


def many_small_writes(w, x):
    out = ex.zeros(12)
    for k in range(12):
        out[k] = (x.reshape(-1)[k] * w[k % 4]).sin()
    out.sum().backward()
    return out


def a_list_that_grows(w, x):
    states = [x[0]]
    for row in x:
        states.append((states[-1] * w + row).tanh())
    ex.stack(states).square().sum().backward()
    return states


MOVES = [
    requires_grad_on_recorded,
    requires_grad_off_in_the_middle,
    detach_in_place,
    gradient_set_by_hand,
    gradient_scaled_in_place,
    gradient_used_as_a_value,
    data_replaced,
    data_written,
    parameter_made_inside,
    tensor_made_of_recorded,
    backward_with_inputs,
    no_gradient_wanted_for_some,
    temporaries_only_on_the_stack,
    a_cycle_keeps_a_value,
    collection_in_the_middle,
    chunks_of_which_one_is_used,
    without_bias,
    numpy_memory_is_written,
    sums_over_generators,
    swapped_names,
    many_small_writes,
    a_list_that_grows,
]


@pytest.mark.parametrize("move", MOVES, ids=lambda f: f.__name__)
def test_an_odd_move(move):
    both(move)


def test_writes_into_results_after_the_call():
    def scenario(wrap):
        w = draw(0, 4, grad=True)
        run = wrap(lambda x: (x * 2, x.clone() * w, x[1:]))
        for i in range(CALLS):
            x = draw(i, 3, 4)
            y, z, part = run(x)
            y[0].zero_()
            part.add_(1.0)
            u = z * 3
            z.add_(y)
            yield y, z, part, x, u
            yield error_of((u + z).sum().backward), w.grad

    agree(scenario)


def test_saving_and_loading_inside():
    def scenario(wrap):
        ex.manual_seed(0)
        net = nn.Linear(4, 4)

        def f(x):
            y = net(x).tanh()
            file = io.BytesIO()
            ex.save({"net": net.state_dict(), "y": y.detach()}, file)
            file.seek(0)
            loaded = ex.load(file)
            net.load_state_dict({k: v * 0.5 for k, v in loaded["net"].items()})
            return loaded["y"], net(x)

        run = wrap(f)
        for i in range(CALLS):
            yield run(draw(i, 3, 4)), dict(net.state_dict())

    agree(scenario)


def test_layers_built_and_converted_inside():
    def scenario(wrap):
        def f(x):
            ex.manual_seed(4)
            net = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
            optimizer = optim.SGD(net.parameters(), lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                net(x).square().sum().backward()
                optimizer.step()
            wide = net.double()
            return wide(x.double()), list(net.parameters())

        run = wrap(f)
        for i in range(CALLS):
            yield run(draw(i, 3, 4))

    agree(scenario)


def test_scaled_losses_and_skipped_steps():
    def scenario(wrap):
        w = draw(0, 4, grad=True)
        optimizer = optim.SGD([w], lr=0.1)
        scaler = ex.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)

        def step(x):
            optimizer.zero_grad()
            loss = (x * w).square().sum()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_([w], 1.0)
            scaler.step(optimizer)
            scaler.update()
            return loss

        run = wrap(step)
        for i in range(9):
            x = draw(i, 3, 4)
            yield run(x * float("inf") if i % 4 == 3 else x), w, scaler.get_scale()

    agree(scenario)


def test_functional_calls():
    def scenario(wrap):
        ex.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
        run = wrap(lambda p, x: ex.func.functional_call(net, p, (x,)).sum())
        for i in range(CALLS):
            p = {k: (v.detach() * (i + 1)).requires_grad_() for k, v in net.named_parameters()}
            loss = run(p, draw(i, 3, 4))
            loss.backward()
            yield loss, grads(*p.values()), grads(*net.parameters())

    agree(scenario)


def test_one_method_of_a_module_compiled():
    class Net(nn.Module):
        def __init__(self, wrap):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.forward = wrap(self.forward)

        def forward(self, x):
            return self.linear(x).sin()

    def scenario(wrap):
        ex.manual_seed(0)
        net = Net(wrap)
        for i in range(CALLS):
            y = net(draw(i, 3, 4))
            y.sum().backward()
            yield y, grads(*net.parameters())

    agree(scenario)


@pytest.mark.parametrize("read", [True, False])
def test_thousands_of_ops_in_one_call(read):
    def scenario(wrap):
        w = draw(0, 4, grad=True)

        def f(x):
            for k in range(1500):
                x = x * w + 0.001 * k
                x = x.tanh()
                if read and k % 500 == 499:
                    x = x / x.norm().item()
            x.sum().backward()
            return x

        run = wrap(f)
        for i in range(3):
            yield run(draw(i, 4)), w.grad

    agree(scenario)


@needs_native_code
def test_a_call_that_has_too_few_plans_goes_on_eagerly(monkeypatch):
    monkeypatch.setattr(AlwaysPlan, "seconds_at_once", lambda self: 0.0)
    monkeypatch.setattr(AlwaysPlan, "new_steps_allowed", lambda self: 100)
    w, recordings = draw(1, 3, grad=True), []

    def fn(x):
        total = 0.0
        for _ in range(5):
            recordings.append(CONTEXT.get().recording)
            x = (x * w).tanh()
            total += x.sum().item()
        x.sum().backward()
        return x, total

    compiled = ex.compile(fn)
    for k in range(CALLS):
        x = draw(k, 3)
        recordings.clear()
        found, w.grad = [*compiled(x), w.grad], None
        assert recordings[0] is not None
        assert recordings.count(None) == 4 - min(k, 4)  # one turn more has its plan
        expected, w.grad = [*fn(x), w.grad], None
        assert see(found) == see(expected)
    assert "too little of one call had plans yet" in str(ex.compile.stats())


def test_a_call_that_is_given_up():
    """A generator that is closed half-way, an exception thrown into one."""

    def scenario(wrap):
        def produce(x):
            y = x * 2
            yield y
            yield y + 1

        run = wrap(lambda x: next(produce(x)) * 2)
        for i in range(CALLS):
            steps = produce(draw(i, 3))
            next(steps)
            steps.close()
            yield run(draw(i, 3)), error_of(next, steps)

    agree(scenario)


def test_ints_and_bools_stay_apart():
    agree_on_calls(
        lambda x, n: (x * n, x + n, ex.full((2,), n), x > n, x**n),
        lambda i: (ex.arange(1, 4) if i % 2 else draw(i, 3), [1, True, 1.0, 2, False, 0.0][i // 2 % 6]),
        calls=24,
    )


def test_detach_is_outside_the_graph_also_when_a_recording_gives_up():
    def body(x):
        y = x * 2
        y._source.tracer.n_allowed = 0
        return y.detach(), y

    w = draw(1, 3, grad=True)
    outside, inside = ex.compile(body)(w)
    assert not outside.requires_grad
    assert outside.data_ptr() == inside.data_ptr()
    inside.sum().backward()
    assert w.grad is not None
