"""ex.compile as a user meets it: ways to call it, modules, statistics, stepping aside."""

from __future__ import annotations

import copy
import gc
import inspect
import os
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

import extempo as ex
from extempo import nn, optim
from extempo.backends.selection import native
from extempo.nn import functional as F
from extempo.tracing.policy import CountingPolicy, choose


def in_a_process(code, environment):
    """What became of a program of its own, with these variables set."""
    env = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done


needs_native_code = pytest.mark.skipif(native() is None, reason="without native code compiled functions run eagerly")


def draw(seed, *shape):
    return ex.tensor(np.random.default_rng([seed, *shape]).normal(size=shape), dtype=ex.float32)


class Net(nn.Module):
    """At module level, so that it can be pickled."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 5)
        self.norm = nn.BatchNorm1d(5)
        self.second = nn.Linear(5, 2)
        self.calls = 0

    def forward(self, x, scale=1.0):
        self.calls += 1
        return self.second(self.norm(self.first(x)).relu()) * scale

    def helper(self):
        return self.second.weight.sum()


def test_ways_to_compile_a_function():
    @ex.compile
    def plain(x):
        """What it does."""
        return x * 2

    @ex.compile()
    def called(x):
        return x * 2

    @ex.compile(mode="max-autotune", fullgraph=True, dynamic=False, backend="inductor", options={"a": 1})
    def with_arguments(x):
        return x * 2

    direct = ex.compile(lambda x: x * 2)
    disabled = ex.compile(lambda x: x * 2, disable=True)
    for fn in (plain, called, with_arguments, direct, disabled):
        for _ in range(4):
            assert fn(ex.ones(2)).tolist() == [2, 2]
    assert plain.__name__ == "plain"
    assert plain.__doc__ == "What it does."
    assert inspect.signature(plain) == inspect.signature(lambda x: x)


def test_arguments_of_compile_itself():
    with pytest.raises(TypeError):
        ex.compile(3)
    with pytest.raises(TypeError):
        ex.compile(lambda x: x, no_such_argument=1)


def test_methods_and_callables():
    class Thing:
        def __init__(self, k):
            self.k = k

        @ex.compile
        def method(self, x):
            return x * self.k

        def __call__(self, x):
            return x + self.k

    first, second = Thing(2.0), Thing(3.0)
    bound = ex.compile(first.method)
    instance = ex.compile(first)
    for _ in range(4):
        assert first.method(ex.ones(1)).item() == 2
        assert second.method(ex.ones(1)).item() == 3
        assert bound(ex.ones(1)).item() == 2
        assert instance(ex.ones(1)).item() == 3
    assert ex.compile(ex.sin)(ex.zeros(1)).item() == 0


def test_a_compiled_module_is_a_module():
    net = Net()
    compiled = ex.compile(net)
    assert isinstance(compiled, Net)
    assert list(compiled.state_dict()) == list(net.state_dict())
    assert [n for n, _ in compiled.named_parameters()] == [n for n, _ in net.named_parameters()]
    assert all(a is b for a, b in zip(compiled.parameters(), net.parameters(), strict=True))
    assert [n for n, _ in compiled.named_modules()] == [n for n, _ in net.named_modules()]
    assert compiled.first is net.first
    assert compiled.helper().item() == net.helper().item()
    assert compiled.training
    compiled.eval()
    assert not net.training
    assert not net.norm.training
    net.train()
    assert compiled.training


def test_a_compiled_module_runs_like_the_module():
    ex.manual_seed(0)
    net = Net()
    twin = copy.deepcopy(net)
    compiled = ex.compile(net)
    for i in range(8):
        for m in (twin, compiled):
            m.train(i % 4 != 3)
        x = draw(i, 6, 4)
        a, b = twin(x), compiled(x, scale=1.0)
        assert a.tolist() == b.tolist()
        a.sum().backward()
        b.sum().backward()
        for p, q in zip(twin.parameters(), compiled.parameters(), strict=True):
            assert p.grad.tolist() == q.grad.tolist()
        for k, v in twin.state_dict().items():
            assert compiled.state_dict()[k].tolist() == v.tolist()
    assert compiled.calls == 8
    assert net.calls == 8


def test_attributes_of_a_compiled_module_are_the_modules_own():
    net = Net()
    compiled = ex.compile(net)
    compiled.extra = 3
    assert net.extra == 3
    net.first = nn.Linear(4, 5, bias=False)
    assert compiled.first.bias is None
    assert compiled(draw(0, 3, 4)).shape == (3, 2)
    compiled.second = nn.Linear(5, 7)
    assert net(draw(0, 3, 4)).shape == (3, 7)
    assert compiled(draw(0, 3, 4)).shape == (3, 7)
    compiled.register_buffer("seen", ex.zeros(2))
    assert "seen" in net.state_dict()
    with pytest.raises(AttributeError):
        _ = compiled.no_such_attribute


def test_a_compiled_module_changes_dtype_and_loads_state():
    ex.manual_seed(0)
    net, other = Net(), Net()
    compiled = ex.compile(net)
    for i in range(4):
        compiled(draw(i, 3, 4))
    compiled.load_state_dict(other.state_dict())
    compiled.eval()
    other.eval()
    assert compiled(draw(1, 3, 4)).tolist() == other(draw(1, 3, 4)).tolist()
    compiled.double()
    other.double()
    for i in range(4):
        assert compiled(draw(i, 3, 4).double()).tolist() == other(draw(i, 3, 4).double()).tolist()
    assert compiled.second.weight.dtype is ex.float64


def test_a_compiled_module_as_a_part_of_another():
    ex.manual_seed(0)
    inner = nn.Linear(4, 4)
    outer = nn.Sequential(ex.compile(inner), nn.ReLU(), nn.Linear(4, 2))
    assert list(outer.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert len(list(outer.parameters())) == 4
    optimizer = optim.SGD(outer.parameters(), lr=0.1)
    before = inner.weight.tolist()
    for i in range(4):
        optimizer.zero_grad()
        outer(draw(i, 3, 4)).square().sum().backward()
        optimizer.step()
    assert inner.weight.tolist() != before


def test_compiling_what_is_compiled():
    net = ex.compile(ex.compile(nn.Linear(3, 2)))
    fn = ex.compile(ex.compile(lambda x: x + 1))
    for i in range(4):
        assert net(draw(i, 2, 3)).shape == (2, 2)
        assert fn(ex.ones(1)).item() == 2


def test_copies_and_pickles_of_a_compiled_module():
    ex.manual_seed(0)
    net = ex.compile(Net().eval())
    x = draw(0, 3, 4)
    for _ in range(3):
        expected = net(x).tolist()
    for made in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert isinstance(made, Net)
        for _ in range(4):
            assert made(x).tolist() == expected
        with ex.no_grad():
            made.first.weight.zero_()
        assert made(x).tolist() != expected
        assert net(x).tolist() == expected
    shallow = copy.copy(net)
    assert shallow(x).tolist() == expected


def test_a_compiled_function_is_copied_with_the_step_it_belongs_to():
    run = ex.compile(lambda x: x * 2)
    assert copy.deepcopy(run)(ex.ones(1)).item() == 2


@needs_native_code
def test_statistics():
    ex.compile.clear()

    @ex.compile
    def counted(x):
        return (x * 2 + 1).tanh().sum()

    gc.collect()  # functions that go meanwhile would count twice
    before = ex.compile.stats()
    for i in range(6):
        counted(draw(i, 4))
    after = ex.compile.stats()
    assert isinstance(after, dict)
    for key in ("plans", "runs", "replays", "steps_recorded", "functions", "caches"):
        assert key in after
    assert after["plans"] - before["plans"] == 1
    assert after["runs"] - before["runs"] == 5
    assert after["replays"] - before["replays"] == 1
    assert any("counted" in str(name) for name in after["functions"])


@pytest.fixture
def counting():
    """Functions that are compiled meanwhile have the policy that users have."""
    before = choose(CountingPolicy)
    yield
    choose(before)


def stats_of(name):
    (found,) = [f for f in ex.compile.stats()["functions"] if f["name"].endswith(name)]
    return found


@needs_native_code
def test_a_function_that_does_not_repeat_itself_runs_eagerly_and_says_so(counting):
    rng, w = np.random.default_rng(0), ex.ones(3, requires_grad=True)

    @ex.compile
    def restless(x):
        x = x * w
        for k in rng.integers(0, 4, 24):
            x = [ex.sin, ex.cos, ex.tanh, ex.sigmoid][k](x)
        w.grad = None
        x.sum().backward()
        return x

    reasons = []
    for i in range(300):
        restless(draw(i, 3))
        reasons.append(stats_of("restless")["why"])
        assert reasons[-1] is None or reasons[-1] in str(ex.compile.stats())
    assert len([why for why in reasons if why is not None and "hardly repeat" in why]) > 250
    mine = stats_of("restless")
    assert mine["calls"] == 300
    assert mine["eager_calls"] > 250


@needs_native_code
def test_a_function_that_settles_down_is_planned_again(counting):
    lengths, w = [*range(1, 60, 4), *[50] * 1_000], ex.ones(8, requires_grad=True)

    @ex.compile
    def settling(x, n):
        for _ in range(n):
            x = (x * w + 1).sigmoid() * x
        w.grad = None
        x.sum().backward()
        return x

    n_eager = []
    for n in lengths:
        settling(ex.ones(8, 8), n)
        n_eager.append(stats_of("settling")["eager_calls"])
    assert n_eager[15] > 2
    assert n_eager[-1] == n_eager[-50]
    assert stats_of("settling")["runs"] > 50


@needs_native_code
def test_a_function_that_plans_do_not_make_faster_runs_eagerly(counting):
    @ex.compile
    def better_eager(x):
        return x * 2

    for i in range(200):
        better_eager(draw(i, 3))
    mine = stats_of("better_eager")
    assert mine["aside"]
    assert "as long as eagerly" in mine["why"]
    assert mine["plans"] == 0
    assert mine["eager_calls"] > 190


@needs_native_code
def test_a_function_that_grows_is_planned_after_all(counting):
    w = ex.ones(8, requires_grad=True)

    @ex.compile
    def growing(x, n):
        for _ in range(n):
            x = (x * w).sigmoid()
        if n > 4:
            w.grad = None
            x.sum().backward()
        return x

    for i in range(2_000):
        growing(draw(i, 8), 4 if i < 100 else 40)
    assert stats_of("growing")["runs"] > 200


def test_caches_are_bounded():
    run = ex.compile(lambda x, n: sum(((x * k).sin() for k in range(n)), x).sum())
    for i in range(60):
        run(ex.ones(3), i % 30)
    for size, limit, _evicted in ex.compile.stats()["caches"].values():
        assert size <= limit


@needs_native_code
def test_clear_empties_all_caches():
    run = ex.compile(lambda x: (x * 2).exp() + 1)
    for i in range(4):
        run(draw(i, 3))
    ex.compile.clear()
    before = ex.compile.stats()
    assert run(ex.zeros(1)).item() == 2
    for i in range(3):
        run(draw(i, 3))
    assert ex.compile.stats()["replays"] > before["replays"]


def test_clear_in_the_middle():
    def f(x, clear):
        y = x * 2
        if clear:
            ex.compile.clear()
        z = y.exp()
        z.sum().item()
        if clear:
            ex.compile.clear()
        return z + y

    run = ex.compile(f)
    for i in range(12):
        assert run(draw(i, 3), i % 3 == 2).tolist() == f(draw(i, 3), False).tolist()


def test_eager_steps_aside():
    kept = []

    @ex.compile
    def f(x):
        kept.append(x * 2)
        return x + 1

    before = ex.compile.stats()["steps_recorded"]
    with ex.eager():
        for _ in range(4):
            assert f(ex.ones(1)).item() == 2
    assert ex.compile.stats()["steps_recorded"] == before
    decorated = ex.eager(f)
    assert decorated(ex.ones(1)).item() == 2
    assert [k.item() for k in kept] == [2] * 5


@pytest.mark.alone
@needs_native_code
@pytest.mark.parametrize("eager", ["", "0", "1"])
def test_the_environment_variable_steps_aside(eager):
    code = (
        "import extempo as ex\n"
        "f = ex.compile(lambda x: x * 2 + 1)\n"
        "for _ in range(5): y = f(ex.ones(2))\n"
        "print(y.tolist(), ex.compile.stats()['steps_recorded'] > 0)\n"
    )
    done = in_a_process(code, {"EXTEMPO_EAGER": eager})
    assert done.stdout.split("] ")[0] == "[3.0, 3.0"
    assert done.stdout.strip().endswith(str(eager != "1"))


@pytest.mark.alone
@needs_native_code
def test_the_log_says_on_request_what_plans_consist_of():
    code = (
        "import extempo as ex\n"
        "f = ex.compile(lambda x: (x * 2).exp().sum())\n"
        "while not ex.compile.stats()['runs']: f(ex.ones(2))\n"
    )
    done = in_a_process(code, {"EXTEMPO_LOG": "plans", "EXTEMPO_EAGER": "", "EXTEMPO_POLICY": "always"})
    assert re.search(
        r"3 recorded ops became a plan of [^\n]*:\n    fused: mul, exp -> f32\[2\]\n    run sum", done.stderr
    )


@pytest.mark.alone
@needs_native_code
def test_the_log_says_what_happens_in_words():
    code = (
        "import extempo as ex\n"
        "w = ex.ones(2, requires_grad=True)\n"
        "@ex.compile\n"
        "def doubling(x): return (x * w * 2).grad_fn.name()\n"
        "doubling(ex.ones(2))\n"
    )
    done = in_a_process(code, {"EXTEMPO_LOG": "compile", "EXTEMPO_EAGER": ""})
    assert "doubling: recording ended early: the graph itself was asked for: by a hook, by grad_fn" in done.stderr


@pytest.mark.alone
def test_the_numpy_backend_runs_compiled_functions_eagerly():
    code = (
        "import extempo as ex\n"
        "w = ex.ones(2, requires_grad=True)\n"
        "f = ex.compile(lambda x: (x * w + 1).sum())\n"
        "for _ in range(4): f(ex.ones(2)).backward()\n"
        "print(w.grad.tolist(), ex.backends.stats()['backend'])\n"
    )
    done = in_a_process(code, {"EXTEMPO_BACKEND": "numpy"})
    assert done.stdout.split() == ["[4.0,", "4.0]", "numpy"]


def test_the_examples_of_the_guide():
    """The program that everything is for: a training step inside, lengths that change."""
    ex.manual_seed(0)
    embed, cell, out = nn.Embedding(20, 8), nn.LSTMCell(8, 8), nn.Linear(8, 3)
    parameters = [*embed.parameters(), *cell.parameters(), *out.parameters()]
    optimizer = optim.Adam(parameters, lr=0.05)

    @ex.compile
    def step(words, label):
        h = c = ex.zeros(1, 8)
        for word in words:
            h, c = cell(embed(ex.tensor([word])), (h, c))
        scores = out(h)
        loss = F.cross_entropy(scores, ex.tensor([label]))
        if scores.argmax().item() != label:
            loss = 2.0 * loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    rng = np.random.default_rng(0)
    losses = []
    for _ in range(80):
        words = rng.integers(0, 20, rng.integers(1, 6)).tolist()
        losses.append(step(words, sum(words) % 3 if len(words) < 3 else 0))
    assert np.mean(losses[-20:]) < np.mean(losses[:20])
