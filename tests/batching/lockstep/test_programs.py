"""Which functions run in lockstep, and that every call sees what the function reads as it is."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import pytest

import extempo as ex
import extempo.nn.functional as F
from extempo import nn
from extempo.batching import policy
from extempo.batching.lockstep import programs

from .loops_beside import alike, assert_same, check, n_in_lockstep, ragged, weight


def _close(a, b):
    assert_same([x.detach() for x in a], [x.detach() for x in b], "result")


def _both(batched, fn, *columns, ran=True, **kwargs):
    """Call an ex.batch that is there already."""
    expected = [fn(*s, **kwargs) for s in zip(*columns, strict=True)]
    got = batched(*columns, **kwargs)
    assert (n_in_lockstep(batched) > 0) == ran, batched.explain()
    _close(got, expected)
    return got


# ---- when it is tried


def test_the_first_call_runs_in_lockstep():
    w = weight(3)
    batched = ex.batch(lambda x: (x * w).sum())
    batched(ragged(3))
    assert n_in_lockstep(batched) == 5


def test_a_function_for_which_a_loop_is_better_is_one_for_some_calls_and_not_recorded(monkeypatch):
    w = weight(3)
    n_tries = []

    def prefers(self, together, looped):
        n_tries.append((together, looped))
        return False

    monkeypatch.setattr(policy.Outlook, "prefers", prefers)
    batched = ex.batch(lambda x: (x * w).sum())
    for i in range(policy.LOOPS + 2):
        got = batched(ragged(3))
        assert batched.stats()["nodes"] == 0
        assert batched.stats()["aside"] == (policy.LOOPS - i) % (policy.LOOPS + 1)
    assert len(n_tries) == 2
    _close(got, [(x * w).sum() for x in ragged(3)])


def test_one_sample_is_recorded():
    w = weight(3)
    check(lambda x: (x * w).sum(), ragged(3, lengths=[4]), parameters=[w], ran=False)


def test_two_samples_run_in_lockstep():
    w = weight(3)
    check(lambda x: (x * w).sum(), ragged(3, lengths=[4, 2]), parameters=[w])


def test_no_sample_gives_no_result():
    assert ex.batch(lambda x: x.sum())([]) == []


def test_a_function_with_ops_that_run_one_by_one_is_recorded_where_lockstep_does_not_pay(monkeypatch):
    monkeypatch.setattr(policy.Outlook, "prefers", lambda self, together, looped: False)
    batched = ex.batch(lambda x: (x @ x.T).cumprod(1).sum())
    batched(ragged(3))
    assert n_in_lockstep(batched) == 0
    assert batched.stats()["nodes"] > 0


# ---- the way a function takes


def _guarded(x, w):
    if len(x) > 3:
        return (x @ w).sum()
    if len(x) == 1:
        return (x @ w).mean() * 3
    return (x @ w).amax(0).sum()


def test_samples_whose_sizes_decide_otherwise_get_programs_of_their_own():
    w = weight(3, 4)
    batched = ex.batch(lambda x: _guarded(x, w))
    for lengths in ((4, 1, 3, 7, 3), (2, 2), (1, 1, 9), (5, 1, 2)):
        _both(batched, lambda x: _guarded(x, w), ragged(3, lengths=lengths))
        assert n_in_lockstep(batched) == len(lengths)


def test_programs_are_joined_only_if_nothing_else_was_asked():
    def fn(x, y):
        if len(x) > 3:
            if len(y) > 3:
                return x.sum()
            return x.sum() * 2
        return x.sum()

    batched = ex.batch(fn)
    for _ in range(3):
        _both(batched, fn, ragged(3, lengths=[5, 2, 5]), ragged(3, lengths=[5, 5, 2]))


def test_programs_whose_results_have_other_places_are_not_joined():
    def fn(x):
        return {"sum": x.sum()} if len(x) > 3 else (x.sum(),)

    for _ in range(3):
        check(fn, ragged(3))


def test_programs_of_nearly_equal_constants_are_not_joined():
    def fn(x):
        return x.double().sum() * (1.0000000001 if len(x) > 3 else 1.0000000002)

    for _ in range(3):
        check(fn, ragged(3))


def test_more_ways_than_programs_leave_samples_to_be_recorded():
    def fn(x):
        for n in range(2, 9):
            if len(x) < n:
                return (x * n).sum()
        return x.sum()

    batched = ex.batch(fn)
    for _ in range(2):
        _both(batched, fn, ragged(3, lengths=range(1, 12)))


def test_one_way_that_prints_leaves_the_others_in_lockstep(capsys):
    def fn(x):
        if len(x) == 1:
            print("one row")
        return x.sum(0)

    batched = ex.batch(fn)
    for _ in range(3):
        got = batched(ragged(3))
        _close(got, [x.sum(0) for x in ragged(3)])
        assert capsys.readouterr().out == "one row\n"
        assert n_in_lockstep(batched) == 4


def test_sizes_that_were_equal_may_differ_later():
    def fn(x, y):
        return x.sum(0) + y.sum(0)

    batched = ex.batch(fn)
    for a, b in (((3, 3), (3, 3)), ((4, 4), (4, 4)), ((4, 2), (4, 2)), ((4, 2), (3, 5)), ((4, 4), (2, 2))):
        _both(batched, fn, ragged(3, lengths=a), ragged(3, lengths=b))


BROADCAST = [((3, 5), (3, 5)), ((3, 5), (1, 1)), ((1, 4), (4, 4)), ((1, 4), (6, 1)), ((2, 1), (2, 3)), ((1, 2), (2, 1))]


@pytest.mark.parametrize("order", [1, -1])
def test_broadcasting_is_that_of_each_sample(order):
    def fn(x, y):
        return x * y

    batched = ex.batch(fn)
    for a, b in BROADCAST[::order] * 2:
        expected = [fn(p, q) for p, q in zip(ragged(2, lengths=a), ragged(2, lengths=b), strict=True)]
        _close(batched(ragged(2, lengths=a), ragged(2, lengths=b)), expected)


# ---- functions found again, and told apart


def test_a_closure_made_anew_in_every_step_is_found_again():
    w = weight(3, 4)

    def made(w):
        return lambda x: (x @ w).sum()

    for _ in range(5):
        check(made(w), ragged(3), parameters=[w])
    known = programs._BY_CODE.setdefault(made(w).__code__, None)
    assert len(known.functions) == 1
    assert len(known.functions[0]().programs) == 1


def test_closures_of_one_code_with_other_weights_are_not_confused():
    weights = [weight(3, 4, seed=i) for i in range(3)]

    def made(w, scale):
        return lambda x: (x @ w).sum() * scale

    for i, w in enumerate(weights):
        check(made(w, 2), ragged(3), parameters=weights)
        check(made(w, 2.0 + i), ragged(3), parameters=weights)


def test_a_function_that_reads_something_else_at_every_call_is_recorded():
    w = weight(3, 4)

    def made(scale):
        return lambda x: (x @ w).sum() * scale

    for i in range(30):
        batched = ex.batch(made(float(i)))
        batched(ragged(3))
    assert not batched._notes.programs
    assert "others at almost every call" in batched._notes.why_recorded


def test_defaults_keyword_arguments_and_bound_objects_tell_functions_apart():
    w = weight(3)

    class Model:
        def __init__(self, scale):
            self.scale = scale

        def run(self, x, *, power=1):
            return ((x * w) ** power).sum() * self.scale

    a, b = Model(2.0), Model(3.0)
    for _ in range(2):
        check(a.run, ragged(3), parameters=[w])
        check(b.run, ragged(3), parameters=[w])
        check(a.run, ragged(3), parameters=[w], power=2)
        check(a.run, ragged(3), parameters=[w], power=3)
        a.scale += 1


def test_a_tensor_as_a_keyword_argument_is_the_one_of_this_call():
    w = weight(3)

    def fn(x, scale):
        return (x * w * scale).sum()

    for seed in range(3):
        scale = weight(3, seed=seed)
        check(fn, ragged(3), parameters=[w, scale], scale=scale)
        scale.detach().mul_(2)
        check(fn, ragged(3), parameters=[w, scale], scale=scale)


# ---- what changes between calls


class _Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 4)
        self.outer = nn.Linear(4, 2)
        self.scale = 1.5

    def forward(self, x):
        return self.outer(ex.tanh(self.inner(x))).sum(0) * self.scale


def _changes():
    def weight_written(net):
        with ex.no_grad():
            net.inner.weight.mul_(2.0)

    def weight_replaced(net):
        net.inner.weight = nn.Parameter(weight(4, 3, seed=9).detach())

    def weight_without_gradient(net):
        net.inner.weight.requires_grad_(False)

    def data_replaced(net):
        net.inner.weight.data = weight(4, 3, seed=11).detach()

    def layer_replaced(net):
        net.outer = nn.Linear(4, 3)

    def layer_shared(net):
        net.inner.weight = nn.Parameter(weight(3, 3, seed=1).detach())
        net.inner.bias = None
        net.outer = net.inner

    def attribute(net):
        net.scale = 2.5

    def forward_of_the_layer(net):
        net.outer.forward = lambda x: x * 2

    def forward_of_the_model(net):
        net.forward = lambda x: net.inner(x).sum(0) * 3

    def hook(net):
        net.outer.register_forward_hook(lambda module, args, result: result * 2)

    def pre_hook(net):
        net.inner.register_forward_pre_hook(lambda module, args: (args[0] + 1,))

    def double(net):
        net.inner.bias = None

    def tied(net):
        net.outer.bias = nn.Parameter(net.outer.bias.detach() + 1)

    return [value for value in locals().values() if callable(value)]


@pytest.mark.parametrize("change", _changes(), ids=lambda change: change.__name__)
@pytest.mark.parametrize("how", ["module", "closure", "method"])
def test_a_change_of_the_model_is_seen_by_the_next_call(change, how):
    ex.manual_seed(0)
    net = _Net()
    fn = {"module": net, "closure": lambda x: net(x) + 0, "method": net.forward}[how]
    batched = ex.batch(fn)
    samples = ragged(3)
    _both(batched, fn, samples)
    change(net)
    fn = net.forward if how == "method" else fn
    batched = ex.batch(fn) if how == "method" else batched
    for _ in range(2):
        expected = [fn(x) for x in samples]
        expected_gradients = _gradients(expected, net)
        got = batched(samples)
        assert_same(got, expected, "result")
        _close(_gradients(got, net), expected_gradients)


def _gradients(results, net):
    for p in net.parameters():
        p.grad = None
    sum((r * r).sum() for r in results).backward()
    return [ex.zeros(1) if p.grad is None else p.grad.clone() for p in net.parameters()]


FACTOR = 2.0
TABLE = {"factor": 2.0}


def _reads_globals(x):
    return (x * FACTOR).sum(0) * TABLE["factor"]


def test_globals_and_what_is_in_containers_are_those_of_the_call(monkeypatch):
    batched = ex.batch(_reads_globals)
    _both(batched, _reads_globals, ragged(3))
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    _both(batched, _reads_globals, ragged(3))
    monkeypatch.setitem(TABLE, "factor", 7.0)
    _both(batched, _reads_globals, ragged(3))


def test_a_variable_of_the_function_around_it_is_that_of_the_call():
    scale = 1.0

    def fn(x):
        return x.sum(0) * scale

    batched = ex.batch(fn)
    for _ in range(4):
        _both(batched, fn, ragged(3))
        scale += 1.0


def test_train_and_eval_are_told_apart():
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    net.eval()
    batched = ex.batch(net)
    _both(batched, net, ragged(3))
    net.train()
    ex.manual_seed(3)
    drawn = batched(ragged(3))
    assert n_in_lockstep(batched) == 0
    ex.manual_seed(3)
    _close(ex.batch(net, debug=True)(ragged(3)), drawn)
    net.eval()
    _both(batched, net, ragged(3), ran=n_in_lockstep(batched) > 0)


def test_a_requires_grad_that_is_switched_on_is_seen():
    w = weight(3).detach()
    batched = ex.batch(lambda x: (x * w).sum())
    assert not batched(ragged(3))[0].requires_grad
    w.requires_grad_()
    assert batched(ragged(3))[0].requires_grad
    w.requires_grad_(False)
    assert not batched(ragged(3))[0].requires_grad


def test_the_type_of_a_tensor_that_the_function_only_asks_for_is_that_of_the_call():
    w = weight(3)

    def fn(x):
        return x.sum(0) * (2.0 if w.requires_grad else 3.0) * w.shape[0]

    batched = ex.batch(fn)
    _both(batched, fn, ragged(3))
    w.requires_grad_(False)
    _both(batched, fn, ragged(3))
    w.data = ex.ones(5)
    _both(batched, fn, ragged(3))


def test_the_default_dtype_is_that_of_the_call():
    def fn(x):
        return ex.zeros(3) + 1, x.sum(0)

    batched = ex.batch(fn)
    try:
        for dtype in (ex.float32, ex.float64, ex.float32):
            ex.set_default_dtype(dtype)
            assert [y.dtype for y, _ in batched(ragged(3))] == [dtype] * 5
            assert n_in_lockstep(batched) == 5
    finally:
        ex.set_default_dtype(ex.float32)


# ---- modes


def test_a_function_that_asks_whether_a_value_is_tracked_is_recorded():
    w = weight(3)

    def fn(x):
        y = (x * w).sum(0)
        return y * 2 if y.requires_grad else y

    batched = ex.batch(fn)
    for mode in (ex.enable_grad, ex.no_grad, ex.enable_grad):
        with mode():
            _both(batched, fn, ragged(3), ran=False)


def test_without_gradients_results_are_not_tracked():
    w = weight(3)
    batched = ex.batch(lambda x: (x * w).sum())
    for mode in (ex.no_grad, ex.inference_mode, ex.enable_grad, ex.no_grad):
        with mode():
            got = batched(ragged(3))
            assert n_in_lockstep(batched) == 5
            assert got[0].requires_grad == (mode is ex.enable_grad)


def test_no_grad_inside_the_function_is_kept():
    w = weight(3)

    def fn(x):
        with ex.no_grad():
            y = x * w
        return (y * w).sum(), y

    expected = [fn(x) for x in ragged(3)]
    got = ex.batch(fn)(ragged(3))
    assert_same(got, expected, "result")


def test_debug_is_the_plain_loop():
    batched = ex.batch(lambda x: x.sum(), debug=True)
    batched(ragged(3))
    assert n_in_lockstep(batched) == 0


def test_inside_a_compiled_function_and_inside_a_sample_results_are_those_of_the_loop():
    w = weight(3, 4)

    def fn(x):
        return ex.tanh(x @ w).sum()

    batched = ex.batch(fn)
    samples = ragged(3)
    expected = [fn(x) for x in samples]

    @ex.compile
    def step(samples):
        return sum(batched(samples))

    for _ in range(4):
        _close([step(samples)], [sum(expected)])

    outer = ex.batch(lambda xs: sum(batched(xs)))
    for _ in range(3):
        _close(outer([samples, samples[:2]]), [sum(expected), sum(expected[:2])])


def test_two_threads_may_call_one_function():
    w = weight(3, 4)

    def fn(x):
        h = ex.zeros(4)
        for row in x:
            h = ex.tanh(row @ w + h)
        return h

    batched = ex.batch(fn)
    samples = [ragged(3, lengths=[2 + i, 1, 4]) for i in range(4)]
    expected = [[fn(x) for x in own] for own in samples]
    failures = []

    def work(i):
        try:
            for _ in range(5):
                _close(batched(samples[i]), expected[i])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_two_threads_may_trace_one_model_at_a_time():
    net = _Net()
    expected = [net(x) for x in ragged(3)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=ex.batch(net), args=(ragged(3),)) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(before)
    batched = ex.batch(net)
    _close(batched(ragged(3)), expected)
    assert n_in_lockstep(batched) == 5, batched.explain()


# ---- errors


def _raised(call):
    with pytest.raises(Exception) as caught:  # noqa: PT011 # which one is what is asked for
        call()
    return caught.value


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x[2].sum() * 2,
        lambda x: x[-3] * 2,
        lambda x: x.sum(0) + ex.ones(len(x)),
        lambda x: x.reshape(4, -1).sum() * 2,
        lambda x: ex.ones(5)[len(x)] * x.sum(),
        lambda x: x.sum() / (len(x) - 1),
        lambda x: x.sum(0) * [1.0, 2.0, 3.0][len(x) - 1],
    ],
    ids=["index", "negative", "broadcast", "reshape", "size_as_index", "division", "list"],
)
def test_an_error_of_one_sample_is_that_of_the_loop_with_its_number(fn):
    w = weight(3)
    good, bad = ragged(3, lengths=[3, 3, 3]), ragged(3, lengths=[3, 1, 3, 7])
    batched = ex.batch(fn)
    for samples in (good, bad, good, bad):
        numbers, errors = [], []
        for i, x in enumerate(samples):
            try:
                fn(x)
            except Exception as error:
                numbers.append(i)
                errors.append(error)
        if not errors:
            _close(batched(samples), [fn(x) for x in samples])
            continue
        error = _raised(lambda samples=samples: batched(samples))
        found = [i for i, e in zip(numbers, errors, strict=True) if type(e) is type(error)]
        assert found, (error, errors)
        assert f"in sample {found[0]} of ex.batch" in error.__notes__
    check(lambda x: (x * w).sum(), ragged(3), parameters=[w])


def test_a_keyboard_interrupt_leaves_everything_as_it_was(monkeypatch):
    w = weight(3, 4)

    def fn(x):
        return ex.tanh(x @ w).sum(0)

    batched = ex.batch(fn)
    run = programs.run_program

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(programs, "run_program", interrupted)
    with pytest.raises(KeyboardInterrupt):
        batched(ragged(3))
    monkeypatch.setattr(programs, "run_program", run)
    _both(batched, fn, ragged(3))
    check(fn, ragged(3), parameters=[w])


# ---- memory


def test_a_model_is_freed_with_its_programs_and_samples():
    def used():
        net = _Net()
        batched = ex.batch(lambda x: net(x).sum())
        samples = ragged(3)
        for _ in range(3):
            sum(batched(samples)).backward()
        assert n_in_lockstep(batched) == 5
        return weakref.ref(net), weakref.ref(net.inner.weight), weakref.ref(samples[0])

    refs = used()
    gc.collect()
    assert [r() for r in refs] == [None, None, None]


def test_a_closure_over_weights_is_freed():
    def used():
        w = weight(3, 4)
        check(lambda x: (x @ w).sum(), ragged(3), parameters=[w])
        return weakref.ref(w)

    r = used()
    gc.collect()
    assert r() is None


def test_nothing_grows_with_closures_made_anew():
    w = weight(3, 4)
    samples = ragged(3, lengths=[2, 1])

    def made(scale):
        return lambda x: (x @ w).sum() * scale

    def count():
        gc.collect()
        return len(gc.get_objects())

    for i in range(20):
        ex.batch(made(float(i)))(samples)
    before = count()
    for i in range(40):
        ex.batch(made(float(i + 100)))(samples)
    assert count() - before < 2_000


# ---- what is said about it


def test_stats_and_explain_speak_of_lockstep():
    w = weight(3, 4)
    batched = check(lambda x: ex.tanh(x @ w).sum(), ragged(3), parameters=[w])
    stats = batched.stats()
    assert stats["samples"] == 5
    assert stats["launches"] == 3
    assert stats["nodes"] == 15
    assert "5 samples in lockstep: 3 ops, each for all at once" in str(batched.explain())
    assert "tanh, 5 calls in 1 batch, 5.0 calls together" in str(batched.explain())


def test_explain_says_why_a_function_is_recorded():
    def fn(x):
        return x * float(x.sum())

    batched = ex.batch(fn)
    batched(ragged(3))
    assert "recorded sample by sample, rather than run in lockstep: the value of a tensor is read" in str(
        batched.explain()
    )


def test_layers_of_the_library_run_in_lockstep():
    for layer in (nn.Linear(3, 4), nn.LayerNorm(3), nn.Sequential(nn.Linear(3, 4), nn.ReLU())):
        check(lambda x, layer=layer: layer(x).sum(0), ragged(3), parameters=layer.parameters())
    check(lambda x: F.gelu(x).sum(0), alike(4, 3))
