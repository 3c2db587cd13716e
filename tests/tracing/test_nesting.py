"""Compiled functions in compiled functions, threads, forked processes, generators, greenlets and recursion."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading

import greenlet
import pytest

import extempo as ex
from extempo import nn, optim
from extempo.core import active_traces, trace_tree

from .agreement import CALLS, agree, draw, grads, see


def test_nested_compiled_functions():
    def scenario(wrap):
        w = draw(0, 4, grad=True)
        inner = wrap(lambda x: (x * w).tanh())
        middle = wrap(lambda x: inner(x) + inner(x * 2))

        def f(x):
            y = middle(x)
            loss = (y * inner(y)).sum()
            loss.backward()
            return loss, y

        outer = wrap(f)
        for i in range(CALLS):
            yield outer(draw(i, 4)), w.grad, inner(draw(i, 4)), middle(draw(i, 4))

    agree(scenario)


def test_recursion():
    def scenario(wrap):
        def f(x, n):
            return x * 1.5 if n == 0 else run(x.sin(), n - 1) + x

        run = wrap(f)
        for i in range(9):
            yield run(draw(i, 3, grad=True), i % 3)

    agree(scenario)


def test_an_inner_function_that_fails():
    def scenario(wrap):
        def broken(x, fail):
            y = x * 2
            if fail:
                raise ValueError
            return y

        inner = wrap(broken)

        def f(x, fail):
            y = x + 1
            try:
                z = inner(y, fail)
            except ValueError:
                z = y * 3
            return z + y

        run = wrap(f)
        for i in range(8):
            yield run(draw(i, 3), i % 3 == 0)

    agree(scenario)


def test_compiled_modules_in_a_compiled_step():
    def scenario(wrap):
        ex.manual_seed(0)
        encoder, head = wrap(nn.Linear(3, 4)), wrap(nn.Sequential(nn.Tanh(), nn.Linear(4, 2)))

        def step(x):
            loss = head(encoder(x)).square().sum()
            loss.backward()
            return loss

        run = wrap(step)
        for i in range(CALLS):
            yield run(draw(i, 2, 3)), grads(*encoder.parameters(), *head.parameters())

    agree(scenario)


@pytest.fixture
def often():
    """Threads take turns a hundred times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(targets):
    """Run them at once; the errors that they raised."""
    errors = []

    def guarded(target):
        try:
            target()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(target,)) for target in targets]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return errors


def work(wrap_or_run, seed, n_calls=12):
    """One thread's share: its own weights, through a function that others call, too."""
    w = draw(seed, 4, grad=True)
    shown = []
    for i in range(n_calls):
        x = draw(100 * seed + i, 1 + i % 3, 4)
        y, loss = wrap_or_run(x, w, i % 4)
        if i % 2:
            loss.backward()
        shown.append(see((y, loss, w.grad)))
    return shown


def shared(x, w, n):
    y = x * w
    for _ in range(n):
        y = (y + x).tanh()
    if y.sum().item() > 0:
        y = y * 2
    return y, y.square().sum()


@pytest.mark.alone
def test_threads_that_call_one_compiled_function(often):
    run = ex.compile(shared)
    found = {}
    errors = in_threads([lambda k=k: found.update({k: work(run, k, 30)}) for k in range(6)])
    assert not errors, errors
    assert found == {k: work(shared, k, 30) for k in range(6)}


@pytest.mark.alone
def test_threads_that_share_parameters(often):
    w = draw(0, 4, grad=True)
    run = ex.compile(lambda x: (x * w).tanh().sum(0))
    expected = [see((draw(i, 3, 4) * w).tanh().sum(0)) for i in range(30)]
    found = []
    errors = in_threads([lambda: found.append([see(run(draw(i, 3, 4))) for i in range(30)]) for _ in range(4)])
    assert not errors, errors
    assert found == [expected] * 4


def train_alone(wrap, seed):
    ex.manual_seed(seed)
    w, v = draw(seed, 4, 5, grad=True), draw(seed + 1, 5, 2, grad=True)
    optimizer = optim.Adam([w, v], lr=0.1)

    def step(x):
        optimizer.zero_grad(set_to_none=False)
        loss = ((x @ w).relu() @ v).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    run = wrap(step)
    return see(([run(draw(100 * seed + i, 3, 4)) for i in range(25)], w, v))


@pytest.mark.alone
def test_threads_that_train_models_of_their_own(often):
    found = {}
    errors = in_threads([lambda k=k: found.update({k: train_alone(ex.compile, k)}) for k in range(4)])
    assert not errors, errors
    assert found == {k: train_alone(lambda f: f, k) for k in range(4)}


@pytest.mark.alone
def test_clearing_caches_while_others_run(often):
    run = ex.compile(shared)
    done = threading.Event()
    found = {}

    def clearing():
        while not done.wait(0.002):
            ex.compile.clear()
            ex.compile.stats()

    def working():
        try:
            found[0] = work(run, 0, 40)
        finally:
            done.set()

    errors = in_threads([clearing, working])
    assert not errors, errors
    assert found[0] == work(shared, 0, 40)


@pytest.mark.alone
def test_threads_that_go_on_with_one_result(often):
    w = draw(0, 4, 4, grad=True)
    heads = [
        lambda z: (z * 2).sin().sum(),
        lambda z: z.exp().sum() * 3,
        lambda z: (z[0] * z[-1]).sum(),
        lambda z: z.detach().sum() + z.T.reshape(-1)[2:5].square().sum(),
    ]

    def encode(x):
        return (x @ w).tanh()

    def gradient(head, z):
        loss = head(z)
        return see((loss, ex.autograd.grad(loss, w, retain_graph=True), z.T.is_contiguous()))

    run = ex.compile(encode)
    for i in range(40):
        x, found = draw(i, 3, 4), {}
        z = run(x)
        errors = in_threads([lambda k=k: found.update({k: gradient(heads[k], z)}) for k in range(4)])  # noqa: B023 # ends here
        assert not errors, errors
        assert found == {k: gradient(heads[k], encode(x)) for k in range(4)}


def test_a_result_is_read_and_differentiated_in_another_thread():
    def scenario(wrap):
        w = draw(0, 4, grad=True)
        run = wrap(lambda x: (x * w).tanh())
        for i in range(CALLS):
            y = run(draw(i, 4))
            t = threading.Thread(target=lambda y=y: (y * 2).sum().backward())
            t.start()
            t.join()
            yield y, w.grad

    agree(scenario)


def test_a_thread_started_inside():
    def scenario(wrap):
        def f(x):
            y = x * 2
            found = []
            t = threading.Thread(target=lambda: found.append((y + 1).sum()))
            t.start()
            t.join()
            return y, found[0] + 1

        run = wrap(f)
        for i in range(CALLS):
            yield run(draw(i, 4))

    agree(scenario)


def test_generators_made_inside_and_consumed_outside():
    def scenario(wrap):
        def f(x):
            y = x * 2
            return (y + k for k in range(3))

        def produce(x):
            for k in range(3):
                x = x.sin() + k
                yield x

        run, generate = wrap(f), wrap(produce)
        for i in range(CALLS):
            yield from run(draw(i, 3))
            steps = generate(draw(i, 3))
            yield next(steps)
            yield next(steps) * 2

    agree(scenario)


def test_generators_that_call_compiled_functions():
    def scenario(wrap):
        double = wrap(lambda x: x * 2 + 1)

        def numbers(seed):
            for k in range(4):
                yield double(draw(seed + k, 3))

        for a, b in zip(numbers(0), numbers(9), strict=True):
            yield double(a + b)

    agree(scenario)


def test_greenlets_that_switch_in_the_middle():
    def scenario(wrap):
        w = draw(0, 3, grad=True)
        main = greenlet.getcurrent()
        shown = []

        def f(x, k):
            y = x * w
            main.switch()
            z = (y + k).tanh()
            main.switch()
            return z.sum()

        run = wrap(f)

        def body(k):
            loss = run(draw(k, 3), k)
            loss.backward()
            shown.append(loss)

        for start in (0, 3, 6):
            lets = [greenlet.greenlet(body) for _ in range(3)]
            for k, let in enumerate(lets):
                let.switch(start + k)
            outside = w.detach() * 5
            for let in lets + lets:
                let.switch()
            yield shown, outside, w.grad

    agree(scenario)


def test_tasks():
    def scenario(wrap):
        async def f(x, k):
            y = x * 2
            await asyncio.sleep(0)
            return y + k

        plain = wrap(lambda x: x * 3)

        async def one(k):
            y = plain(draw(k, 3))
            await asyncio.sleep(0)
            return await f(y, k)

        async def all_of_them():
            return await asyncio.gather(*[one(k) for k in range(5)])

        yield asyncio.run(all_of_them())

    agree(scenario)


@pytest.mark.parametrize("wait", [True, False])
def test_results_of_several_calls_meet(wait):
    def scenario(wrap):
        w = draw(0, 4, grad=True)
        run = wrap(lambda x: (x * w).tanh())
        other = wrap(lambda a, b: (a * b).sum())
        for i in range(CALLS):
            parts = [run(draw(10 * i + k, 4)) for k in range(3)]
            if wait:
                yield parts
            loss = other(parts[0], parts[1]) + parts[2].sum()
            loss.backward()
            yield loss, parts, w.grad

    agree(scenario)


@pytest.mark.alone
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_process_is_forked_while_another_thread_works_on_a_tape_that_was_left():
    w = draw(3, 4, grad=True)
    run = ex.compile(lambda x: (x * w).exp().sum())
    losses = [run(draw(i, 3, 4)) for i in range(CALLS)]
    begun, forked = threading.Event(), threading.Event()

    def work():
        with active_traces.escaped_lock, trace_tree.tree_lock:
            at_work = losses[0]._source
            if at_work is not None:  # without native code nothing is recorded
                active_traces.worked_on, trace = id(at_work), at_work.trace
                before = trace.results
                trace.results = [trace.live_tensor(place) for place in range(len(before))]  # as in its backward
            begun.set()
            forked.wait()
            if at_work is not None:
                trace.results = before

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    child = os.fork()
    if not child:
        status = 1
        try:
            signal.alarm(30)  # a child that waits for a lock would wait for ever
            (losses[1] * 2).backward()
            with ex.no_grad():
                w.mul_(0.5)
            run(draw(9, 3, 4)).backward()
            status = 0
        finally:
            os._exit(status)
    forked.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
