"""Sizes, structure, layers, flags and modes that change from call to call."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.core.context import CONTEXT
from extempo.core.op import REGISTRY
from extempo.core.trace_tree import TraceNode
from extempo.nn import functional as F
from extempo.tracing.trace import Trace

from .agreement import CALLS, agree, agree_on_calls, draw, error_of, grads, needs_native_code, whole
from .by_hand import names, new_executor, tracing


def test_sizes_that_change():
    ex.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 2))

    def f(x):
        loss = net(x).softmax(1).square().sum()
        loss.backward()
        return loss

    def scenario(wrap):
        run = wrap(f)
        net.zero_grad()
        for i in range(16):
            yield run(draw(i, 1 + i * 5 % 4, 3)), grads(*net.parameters())

    agree(scenario)


def test_lengths_of_a_python_loop_that_change():
    def scenario(wrap):
        ex.manual_seed(0)
        cell = nn.GRUCell(3, 4)

        def f(xs):
            h = ex.zeros(2, 4)
            for x in xs.unbind(0):
                h = cell(x, h)
            loss = h.square().sum()
            loss.backward()
            return loss

        run = wrap(f)
        for i in range(16):
            yield run(draw(i, 1 + i * 3 % 5, 2, 3)), grads(*cell.parameters())
            cell.zero_grad()

    agree(scenario)


def test_numbers_of_dimensions_that_change():
    def f(x):
        return (x * 2).sum(-1), x.mean(), x.reshape(-1)[0] + 1

    shapes = [(3,), (2, 3), (2, 1, 3), (3,), (2, 3), (1,), (2, 1, 3), (2, 3)]
    agree_on_calls(f, lambda i: (draw(i, *shapes[i % 8]),), calls=16)


def test_broadcasts_that_change():
    def f(x, y):
        z = (x * y + x).tanh()
        z.sum().backward()
        return z

    pairs = [((3, 4), (4,)), ((3, 4), (3, 1)), ((1, 4), (3, 1)), ((4,), (3, 4)), ((3, 4), (1, 1)), ((3, 4), ())]
    agree_on_calls(
        f, lambda i: (draw(i, *pairs[i % 6][0], grad=True), draw(i + 9, *pairs[i % 6][1], grad=True)), calls=18
    )


def test_layers_added_removed_and_swapped():
    def scenario(wrap):
        ex.manual_seed(0)
        layers = nn.ModuleList([nn.Linear(4, 4), nn.Tanh()])

        def f(x):
            for layer in layers:
                x = layer(x)
            loss = x.square().mean()
            loss.backward()
            return loss

        run = wrap(f)
        for i in range(20):
            if i % 4 == 1:
                layers.append(nn.Linear(4, 4))
            if i % 4 == 2:
                layers[0], layers[1] = layers[1], layers[0]
            if i % 7 == 6:
                layers.pop(len(layers) - 1)
            yield run(draw(i, 3, 4)), grads(*layers.parameters())
            layers.zero_grad()

    agree(scenario)


def test_a_compiled_module_whose_layers_change():
    def scenario(wrap):
        ex.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
        run = wrap(net)
        for i in range(12):
            if i == 3:
                net[1] = nn.Tanh()
            if i == 6:
                net[0] = nn.Linear(4, 4)
            if i == 9:
                nn.utils.widen(net[0], 6, into=[net[2]])
            y = run(draw(i, 3, 4))
            y.sum().backward()
            yield y, grads(*net.parameters())
            net.zero_grad()

    agree(scenario)


def test_requires_grad_is_toggled():
    def scenario(wrap):
        w, v = draw(0, 4, 5, grad=True), draw(1, 5, 2, grad=True)

        def f(x):
            return ((x @ w).tanh() @ v).sum()

        run = wrap(f)
        for i in range(16):
            w.requires_grad_(i // 2 % 2 == 0)
            v.requires_grad_(i // 4 % 2 == 0)
            loss = run(draw(i, 3, 4))
            yield loss, error_of(loss.backward), grads(w, v)

    agree(scenario)


def test_frozen_layers():
    def scenario(wrap):
        ex.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))

        def f(x):
            loss = net(x).sum()
            loss.backward()
            return loss

        run = wrap(f)
        for i in range(12):
            net[0].requires_grad_(i % 3 != 2)
            yield run(draw(i, 3, 4)), grads(*net.parameters())

    agree(scenario)


MODES = {
    "no_grad": ex.no_grad,
    "inference_mode": ex.inference_mode,
    "set_grad_enabled": lambda: ex.set_grad_enabled(False),
    "enable_grad": ex.enable_grad,
    "eager": ex.eager,
}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())
def test_modes_around_and_inside(mode):
    def scenario(wrap):
        w = draw(0, 4, grad=True)

        def around(x):
            return (x * w).tanh() * 2

        def inside(x):
            a = x * w
            with mode():
                b = (a * w).sin()
                c = b + w
            d = a + b + c
            return a, b, c, d

        first, second = wrap(around), wrap(inside)
        for i in range(8):
            with mode():
                y = first(draw(i, 4))
            yield y, y.is_inference(), y.requires_grad
            z = first(draw(i, 4))
            parts = second(draw(i, 4))
            yield parts, [p.is_inference() for p in parts]
            (z.sum() + parts[3].sum()).backward()
            yield w.grad

    agree(scenario)


def test_modes_inside_modes():
    def scenario(wrap):
        w = draw(0, 4, grad=True)

        def f(x):
            with ex.inference_mode():
                a = x * w
                with ex.enable_grad():
                    b = (x * w).sin()
                    with ex.no_grad():
                        c = b * 2
                d = b + c
            return a, b, c, d, b * w

        run = wrap(f)
        for i in range(CALLS):
            parts = run(draw(i, 4))
            yield parts, [p.is_inference() for p in parts]

    agree(scenario)


def test_modes_as_decorators_and_for_the_rest_of_a_function():
    def scenario(wrap):
        w = draw(0, 4, grad=True)

        @ex.no_grad()
        def evaluate(x):
            return x * w

        def f(x):
            y = x * w
            previous = ex.is_grad_enabled()
            ex.set_grad_enabled(False)
            z = y * w
            ex.set_grad_enabled(previous)
            return y, z, y + z

        run, plain = wrap(f), wrap(evaluate)
        for i in range(CALLS):
            yield run(draw(i, 4)), plain(draw(i, 4))

    agree(scenario)


def test_autocast_and_default_dtypes():
    def scenario(wrap):
        w = draw(0, 4, 4, grad=True)
        run = wrap(lambda x: (x @ w).tanh().sum() + ex.ones(2).sum())
        for i in range(9):
            with ex.autocast("cpu", dtype=ex.bfloat16, enabled=i % 3 == 1):
                loss = run(draw(i, 3, 4))
            loss.backward()
            yield loss, w.grad
            if i % 3 == 2:
                ex.set_default_dtype(ex.float64)
                yield run(draw(i, 3, 4))
                ex.set_default_dtype(ex.float32)

    agree(scenario)


def test_python_state_that_steers_the_function():
    def scenario(wrap):
        settings = {"act": ex.tanh, "scale": 1.0, "skip": False}

        def f(x):
            y = settings["act"](x * settings["scale"])
            return y if settings["skip"] else y + x

        run = wrap(f)
        for i in range(12):
            settings.update(act=[ex.tanh, ex.exp, ex.relu][i % 3], scale=float(i), skip=i % 4 == 0)
            yield run(draw(i, 3))

    agree(scenario)


def test_attributes_of_ops_that_change():
    def f(x, dim, keep):
        y = x * 2
        return y.sum(dim, keepdim=keep), y.softmax(dim), y.transpose(0, dim), ex.cat([y, x], dim), y.max(dim)

    agree_on_calls(f, lambda i: (draw(i, 3, 4), i % 2, i // 2 % 2 == 0), calls=12)


def test_numeric_attributes_that_change():
    def f(x, k):
        return (
            F.softplus(x * 1, beta=1.0 + k),
            F.leaky_relu(x * 2, 0.1 * k),
            F.elu(x + 0, alpha=k + 1),
            x.clamp(-0.1 * k, 0.2 * k),
            x.abs() ** (k / 2),
            F.layer_norm(x * 1, (4,), eps=1e-5 * (k + 1)),
            ex.lerp(x * 1, x * 2, 0.1 * k),
            ex.addcmul(x, x, x, value=k),
            x.var(1, correction=k % 2),
            F.smooth_l1_loss(x * 1, x * 0, beta=0.5 + k),
            x.nan_to_num(nan=k),
            x.cumsum(0).roll(k, 1),
        )

    agree_on_calls(f, lambda i: (draw(i, 3, 4), float(i % 5)) if i % 2 else (draw(i, 3, 4), i % 5), calls=4)


def test_trees_of_changing_shape():
    def scenario(wrap):
        ex.manual_seed(0)
        embed, compose = nn.Embedding(9, 4), nn.Linear(8, 4)
        trees = [1, (1, 2), ((1, 2), 3), (1, (2, 3)), ((4, 5), (6, (7, 8)))]

        def state(tree):
            if isinstance(tree, int):
                return embed.weight[tree]
            return compose(ex.cat([state(child) for child in tree])).tanh()

        def f(tree):
            loss = state(tree).square().sum()
            loss.backward()
            return loss

        run = wrap(f)
        for i in range(15):
            yield run(trees[i * 2 % 5]), embed.weight.grad, compose.weight.grad

    agree(scenario)


def test_labels_and_weights_that_change():
    def scenario(wrap):
        w = draw(0, 4, 3, grad=True)

        def f(x, labels, weight, smooth):
            scores = x @ w
            loss = F.cross_entropy(scores, labels, label_smoothing=smooth) * weight
            loss = loss + F.nll_loss(scores.log_softmax(1), labels, reduction="sum")
            loss.backward()
            return loss

        run = wrap(f)
        for i in range(8):
            yield run(draw(i, 5, 4), whole(i, 5, high=3), 1.0 / (i + 1), 0.1 * (i % 2)), w.grad

    agree(scenario)


# ---- one op after another


def traced(root, fn, **limits):
    with tracing(new_executor(root, **limits)) as executor:
        fn()
    return executor


@needs_native_code
def test_the_same_ops_go_along_known_edges_and_others_add_some():
    x, root = draw(0, 3), TraceNode()
    first = traced(root, lambda: x.exp().neg())
    again = traced(root, lambda: x.exp().neg())
    assert (first.counters.new_steps, again.counters.new_steps) == (2, 0)
    assert again.trace.cursor is first.trace.cursor
    other = traced(root, lambda: x.exp().tanh())
    assert other.counters.new_steps == 1
    assert [step.op.name for step in root.edges()[0].following.edges()] == ["tanh", "neg"]


@needs_native_code
def test_numbers_are_no_guards_but_starts_of_slices_are_until_they_change():
    x, root = draw(0, 5, grad=True), TraceNode()
    counts = [traced(root, lambda n=number: x.exp() * n).counters.new_steps for number in (2.0, 3.0, 4.0)]
    assert counts == [2, 0, 0]
    parts = [traced(root, lambda n=start: x.exp()[n : n + 2]) for start in (0, 1, 2)]
    assert [part.counters.new_steps for part in parts] == [1, 1, 0]
    assert [part.trace.makers[1].baked is None for part in parts] == [False, True, True]


@needs_native_code
def test_an_op_without_tensors_and_a_view_of_what_is_there_are_left_to_the_executor():
    x = draw(0, 3, 3)
    executor = new_executor()
    mode = CONTEXT.get()
    assert executor.tracer.append(executor, REGISTRY["mul"], (2.0, 3.0), {}, mode) is None
    assert executor.tracer.append(executor, REGISTRY["reshape"], (x,), {"shape": (9,)}, mode) is None
    assert executor.trace.makers == []


@needs_native_code
def test_so_many_ops_may_be_new_and_known_ones_do_not_count():
    x, root = draw(0, 3), TraceNode()
    traced(root, lambda: x.exp().neg())
    executor = new_executor(root, most_new_ops=lambda: 1)
    with tracing(executor):
        y = x.exp().neg()
        assert executor.tracer.allows_new_ops()
        z = y.tanh()
        assert not executor.tracer.allows_new_ops()
        assert names(executor) == ["exp", "neg", "tanh"]
        more = z.abs()
    assert executor.counters.given_up == 1
    assert more.tolist() == x.exp().neg().tanh().abs().tolist()


@needs_native_code
def test_an_op_is_all_on_the_trace_or_not_at_all_when_a_finalizer_gets_in_between(monkeypatch):
    x, root = draw(0, 3), TraceNode()
    executor = new_executor(root)
    new_result, times = Trace.new_result, []

    def meanwhile(self, *args):
        if not times:
            times.append(1)
            executor.end_trace(TraceNode())  # as if someone had closed it
        return new_result(self, *args)

    monkeypatch.setattr(Trace, "new_result", meanwhile)
    before = executor.trace
    with tracing(executor):
        y = x.exp()
    assert (before.makers, before.leaves, before.results) == ([], [], [])
    assert names(executor) == ["exp"]
    assert executor.trace.results == [y]
