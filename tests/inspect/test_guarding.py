"""Training that stops at the first nan, or infinity in a loss, a gradient or a weight."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.autograd import engine
from extempo.errors import GraphFreedError, NonFiniteError
from extempo.inspect import guarding
from extempo.nn import functional as F


class Block(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.inner = nn.Linear(4, 8)
        self.outer = nn.Linear(8, 1)
        self.kind = kind

    def forward(self, x):
        h = self.inner(x)
        if self.kind == "log":
            h = (-h.abs()).log()
        elif self.kind == "sqrt":
            h = (h * 0).sqrt()
        return self.outer(h)


X = ex.ones(3, 4)


def trained(model, compiled=False):
    optimizer = ex.optim.SGD(model.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        loss = model(X).mean()
        loss.backward()
        optimizer.step()
        return loss

    return ex.compile(step) if compiled else step


def message(step, **options):
    with pytest.raises(NonFiniteError) as raised, ex.inspect.guard(**options):
        step()
    return str(raised.value)


@pytest.mark.usefixtures("always_planned")
@pytest.mark.parametrize("n_before", [0, 1, 3])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_nan_names_op_ranges_module_line_and_chain(compiled, n_before):
    model = Block("")
    step = trained(model, compiled)
    model.kind = "log"
    for _ in range(n_before):  # up to a plan
        step()
    with ex.no_grad():
        for p in model.parameters():
            p.copy_(ex.ones(p.shape))
    text = message(step)
    line = Block.forward.__code__.co_firstlineno + 3
    assert f"test_guarding.py:{line}) gave 24 nan from inputs -5 .. -5" in text
    if compiled and n_before:  # the plan gives out the loss
        assert text.startswith("guard: the loss is nan: log (")
        assert f"from there: log (test_guarding.py:{line}) -> linear (" in text
    else:
        assert text.startswith("guard: log (")
        assert "led there: linear (" in text
        assert f"-> neg (test_guarding.py:{line}) -> log;" in text
    assert "clamp its input" in text


@pytest.mark.usefixtures("always_planned")
@pytest.mark.parametrize("n_before", [0, 3])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_gradient_that_is_not_finite_names_the_op_whose_gradient_it_is(compiled, n_before):
    model = Block("sqrt")
    step = trained(model, compiled)
    for _ in range(n_before):
        step()
        with ex.no_grad():
            for p in model.parameters():
                p.copy_(ex.ones(p.shape))
    before = model.outer.weight.detach().clone()
    text = message(step, model=model)
    line = Block.forward.__code__.co_firstlineno + 5
    assert text.startswith("guard: the gradient of inner.weight is not finite, the loss is: backward of sqrt (")
    assert f"test_guarding.py:{line}) gave a gradient with 24 inf from inputs" in text
    assert ex.equal(model.outer.weight, before)  # the optimizer has not seen it


def test_the_module_is_named():
    model = nn.Sequential(nn.Linear(4, 4), Block("log"), nn.Linear(1, 1))
    assert "log (module 1, " in message(trained(model), model=model)
    assert "log (module 1, " in message(trained(model))  # the model is found


def test_a_weight_that_overflows_is_named_with_lr_and_gradient():
    model = nn.Linear(4, 1)
    optimizer = ex.optim.SGD(model.parameters(), lr=1e39)
    model(X).sum().backward()
    text = message(optimizer.step, model=model)
    assert "SGD.step made 4 inf of weight weight, its gradient is 3 .. 3 and lr is 1e+39" in text


def test_infinities_that_a_user_wrote_are_none():
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    x = ex.randn(2, 3, 4)
    mask = ex.full((3, 3), float("-inf")).triu(1)
    scores = ex.randn(3, 3, requires_grad=True)
    with ex.inspect.guard():
        attention(x, x, x, attn_mask=mask)[0].sum().backward()
        scores.masked_fill(ex.ones(3, 3).triu(1).bool(), -float("inf")).softmax(-1).sum().backward()
        F.cross_entropy(ex.randn(2, 3, requires_grad=True), ex.tensor([0, 1])).backward()


@pytest.mark.usefixtures("always_planned")
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_guard_changes_no_bit(compiled):
    def weights(guarded):
        ex.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 1))
        step = trained(model, compiled)
        for _ in range(6):
            if guarded:
                with ex.inspect.guard():
                    step()
            else:
                step()
        return [p.tolist() for p in model.parameters()]

    assert weights(True) == weights(False)


def test_the_graph_is_freed_as_without_a_guard():
    w = ex.ones(3, requires_grad=True)
    h = w.exp()
    loss = (h * h).sum()
    with ex.inspect.guard():
        loss.backward()
        with pytest.raises(GraphFreedError):
            loss.backward()
        with pytest.raises(GraphFreedError):
            h.sum().backward()
        kept = (w * w).sum()
        kept.backward(retain_graph=True)
        kept.backward()
        assert ex.autograd.grad((w * w).sum(), w)[0].tolist() == [2.0, 2.0, 2.0]


def test_gradients_that_are_asked_for_are_looked_at_too():
    w = ex.zeros(3, requires_grad=True)
    assert "backward of sqrt" in message(lambda: ex.autograd.grad(w.sqrt().sum(), w))


def test_hooks_and_functions_of_users_work_within():
    seen = []

    class Double(ex.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    w = ex.ones(3, requires_grad=True)
    w.register_hook(lambda g: seen.append(g.tolist()))
    with ex.inspect.guard():
        Double.apply(w).sum().backward()
    assert seen == [[2.0, 2.0, 2.0]]


def test_guards_nest_and_leave_nothing_behind():
    plain = engine.BackwardEngine
    with ex.inspect.guard():
        with ex.inspect.guard():
            assert engine.BackwardEngine is not plain
        assert engine.BackwardEngine is not plain
    assert engine.BackwardEngine is plain
    (ex.zeros(3, requires_grad=True).sqrt()).sum().backward()


def divided(x, y):
    with ex.no_grad():
        bad = x / y
    return bad.nan_to_num()


@pytest.mark.parametrize("is_first", [True, False])
def test_a_nan_that_goes_nowhere_stops_too(is_first):
    zeros = ex.zeros(2)
    if not is_first:  # native code knows the op then
        divided(zeros, zeros)
    text = message(lambda: divided(zeros, zeros))
    assert text.startswith("guard: div (")
    assert "gave 2 nan from inputs 0 .. 0, 0 .. 0" in text


@pytest.mark.parametrize("d", [ex.float16, ex.bfloat16, ex.float32, ex.float64])
@pytest.mark.parametrize("turn", [lambda t: t, lambda t: t.T, lambda t: t[:, ::2]], ids=["as it is", "turned", "parts"])
def test_every_dtype_and_layout_is_looked_at(d, turn):
    x = turn(ex.arange(12).reshape(3, 4).to(d))
    for _ in range(3):
        assert "gave 1 nan" in message(lambda: (x * 0) / x)


def test_a_nan_that_came_in_is_not_made_by_the_ops_that_meet_it():
    x = ex.tensor([1.0, float("nan")])
    with ex.inspect.guard():
        for _ in range(3):
            assert (x * 2 + x.exp()).isnan().tolist() == [False, True]
            assert (ex.ones(2) * float("nan")).isnan().all()
            assert ex.zeros(2).masked_fill(ex.tensor([True, False]), float("nan")).isnan().tolist() == [True, False]
            assert ex.where(x.isnan(), 0.0, x).tolist() == [1.0, 0.0]
            ex.full((2,), float("nan"))


@pytest.mark.usefixtures("always_planned")
@pytest.mark.parametrize("n_before", [0, 1, 2, 4])
def test_of_a_plan_a_nan_stops_that_leaves_it(n_before):
    @ex.compile
    def outside(x):
        h = x * 2
        return h.sqrt() * 3, h.sum()

    @ex.compile
    def inside(x):
        return (x * 2).sqrt().nan_to_num() * 3

    for _ in range(n_before):
        outside(-X), inside(-X)
    with ex.inspect.guard():
        assert inside(-X).tolist() == [[0.0] * 4] * 3
    text = message(lambda: outside(-X)[0].tolist())
    line = outside.__wrapped__.__code__.co_firstlineno + 3
    assert text.startswith("guard: sqrt (")
    assert f"test_guarding.py:{line}) gave 12 nan from inputs -2 .. -2" in text
    assert "guard: sqrt (" in message(lambda: inside(-X), every_op=True)


@pytest.mark.parametrize("n_before", [0, 3])
def test_of_a_batch_the_call_and_the_sample_are_named(n_before):
    @ex.batch
    def each(x, n):
        for _ in range(n):
            x = (x - 1).sqrt()
        return x

    samples, turns = [ex.full((2,), 4.0) for _ in range(3)], [1, 3, 1]
    for _ in range(n_before):
        each(samples, turns)
    text = r"guard: sqrt \(.*gave 2 nan from inputs -0.14"
    with pytest.raises(NonFiniteError, match=text) as raised, ex.inspect.guard():
        each(samples, turns)
    assert any("sample 1 of ex.batch" in note for note in raised.value.__notes__)


def test_a_profile_and_a_guard_go_together():
    zeros = ex.zeros(2)
    for _ in range(2):
        divided(zeros, zeros)
    with ex.profile() as prof:
        assert "guard: div (" in message(lambda: divided(zeros, zeros))
        divided(zeros, zeros)
    assert any(row.name == "div" for row in prof.by("op"))


def test_the_module_that_runs_is_named():
    model = nn.Sequential(nn.Linear(4, 4), Block("log"))
    assert "log (module 1, " in message(lambda: model(X))


@pytest.mark.parametrize("kind", ["sqrt", "log", ""])
def test_of_a_large_graph_values_are_let_go_and_it_is_made_again(monkeypatch, kind):
    monkeypatch.setattr(guarding, "_is_large", lambda n_nodes: True)
    model = Block(kind)
    step = trained(model)
    if not kind:
        with ex.inspect.guard():
            step()
        return
    text = message(step, model=model)
    assert f"{kind} (" in text
    assert "test_guarding.py:" in text
    if kind == "sqrt":
        assert "the gradient of inner.weight is not finite, the loss is: backward of sqrt (" in text
        assert "gave a gradient with 24 inf" in text


def test_a_large_graph_that_cannot_be_made_again_says_so(monkeypatch):
    monkeypatch.setattr(guarding, "_is_large", lambda n_nodes: True)
    w = ex.zeros(3, requires_grad=True)
    text = message(lambda: (w + ex.zeros(3)).sqrt().sum().backward())  # nothing has kept the zeros
    assert "the gradient of leaf 0" in text or "could not be made again" in text


def test_half_precision_is_looked_at():
    w = ex.ones(3, dtype=ex.bfloat16, requires_grad=True)
    with ex.inspect.guard():
        (w * w).sum().backward()
    assert "the gradient of leaf 0" in message(lambda: (w * 0).sqrt().sum().backward())
