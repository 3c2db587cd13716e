"""What the constants of core/costs.py are on this machine.

    python benchmarks/fit_costs.py

Each is the least of several runs of a small program that differs from another one in what the constant stands for. The
table of the source is of one machine, and stays as it is: what `ex.compile` does must not depend on where it runs. A
constant that is off by more than a factor of two, here and elsewhere, should be changed there.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from interleave import ONE_THREAD

os.environ.update(ONE_THREAD, EXTEMPO_CACHE_DIR=tempfile.mkdtemp(), EXTEMPO_COMPILE_WAIT="1")  # LLVM has all to do

import numpy as np

import extempo as ex
from extempo import nn
from extempo.backends.llvm.ir.machine import machine
from extempo.core import costs
from extempo.tracing import policy

N_RUNS, N_CALLS, MUCH = 7, 20, 2.0
FEW, MANY = 60, 160  # ops of two programs whose difference is that of 100 ops


def seconds_of(call: Callable[[], Any]) -> float:
    """That a call takes, at the least."""
    least = float("inf")
    for _ in range(5):
        call()
    gc.collect()
    gc.disable()
    for _ in range(N_RUNS):
        began = time.process_time()
        for _ in range(N_CALLS):
            call()
        least = min(least, (time.process_time() - began) / N_CALLS)
    gc.enable()
    return least


@contextmanager
def following(chosen: type[policy.CountingPolicy]) -> Iterator[None]:
    before = policy.choose(chosen)
    yield
    policy.choose(before)


def compiled(fn: Callable[..., Any], chosen: type[policy.CountingPolicy] = policy.AlwaysPlan) -> Callable[..., Any]:
    with following(chosen):
        made: Callable[..., Any] = ex.compile(fn)
    return made


def slope(call: Callable[[int], Any]) -> tuple[float, float]:
    """What one more op adds to a call of so many, and what is left at none."""
    few, many = (seconds_of(lambda: call(n)) for n in (FEW, MANY))  # noqa: B023 # called at once
    each = (many - few) / (MANY - FEW)
    return each, few - FEW * each


def per_op(call: Callable[[int], Any]) -> float:
    return slope(call)[0]


def chain(x: Any, n: int) -> Any:
    for _ in range(n):
        x = x.tanh()
    return x


def products(x: Any, w: Any, n: int) -> Any:
    for _ in range(n):
        x = x @ w
    return x


def parts(x: Any, n: int) -> None:
    for _ in range(n):
        x = x.tanh()
        x.item()


def backward(w: Any, n: int) -> None:
    w.grad = None
    chain(w, n).sum().backward()


def eager() -> dict[str, float]:
    x, tracked, square = ex.ones(4), ex.ones(4, requires_grad=True), ex.eye(4)
    weight = ex.eye(4).requires_grad_()

    def pass_products(n: int) -> None:
        weight.grad = None
        products(square, weight, n).sum().backward()

    op, linked = per_op(lambda n: chain(x, n)), per_op(lambda n: chain(tracked, n))
    passed, engine = slope(lambda n: backward(tracked, n))
    product, linked_product = (
        per_op(lambda n: products(square, square, n)),
        per_op(lambda n: products(square, weight, n)),
    )
    return {
        "EAGER_ELEMENTWISE": op,
        "EAGER_OP": product,
        "EAGER_NODE": linked - op,
        "EAGER_BACKWARD_ELEMENTWISE": passed - linked,
        "EAGER_BACKWARD": per_op(pass_products) - linked_product,
        "EAGER_ENGINE": engine,
        "BODY_OP": body_op(op + product),
    }


def body_op(linear_and_tanh: float) -> float:
    """The Python of modules, for each of the ops that they run; seconds of two ops without it."""
    layers = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def run(n: int) -> None:
        x = ex.ones(1, 4)
        for _ in range(n):
            x = layers(x)

    with ex.no_grad():
        return (per_op(run) - linear_and_tanh) / 2


def traced() -> dict[str, float]:
    x, w, one = ex.ones(4), ex.ones(4, requires_grad=True), ex.ones(1, requires_grad=True)
    by_plan, op_by_op, in_parts = compiled(chain), compiled(chain, policy.NeverPlan), compiled(parts)
    step, returned = compiled(backward), compiled(chain)
    traced_op, around = slope(lambda n: by_plan(x, n))
    plan_run = per_op(lambda n: in_parts(one, n)) - traced_op
    _, with_backward = slope(lambda n: step(w, n))
    _, left = slope(lambda n: returned(w, n))
    return {
        "CALL": around - costs.PLAN_RUN,
        "TRACED_OP": traced_op,
        "PLAN_RUN": plan_run,
        "PLANNED_BACKWARD": with_backward - around + costs.PLAN_RUN,
        "LEAVE": left - around + costs.PLAN_RUN,
        "REPLAYED_OP": per_op(lambda n: op_by_op(x, n)) - traced_op,
        "NEW_OP": new_op(),
    }


def new_op() -> float:
    """Tracing for the first time: a compiled function's first call."""

    def first(n: int) -> float:
        least = float("inf")
        for _ in range(N_RUNS):
            run, x = compiled(chain), ex.ones(4)
            began = time.process_time()
            run(x, n)
            least = min(least, time.process_time() - began)
        return least

    return (first(MANY) - first(FEW)) / (MANY - FEW) - costs.REPLAYED_OP


def inside() -> dict[str, float]:
    """What ends traces, or makes them run, in a compiled function."""
    w, memory = ex.ones(4, requires_grad=True), ex.ones(4)

    def closing(n: int) -> Any:
        y = w
        for _ in range(n):
            y = y.tanh()
            y.requires_grad_().grad_fn  # noqa: B018 # asks for the graph itself
        return y

    def graph(n: int) -> Any:
        return chain(w, n).grad_fn

    def writing(n: int) -> None:
        for _ in range(n):
            memory.mul_(1.0)

    run, nodes, close = compiled(writing), compiled(graph), compiled(closing)
    node = per_op(nodes) - per_op(graph)
    return {
        "MATERIALISED_NODE": node,
        "CLOSE": per_op(close) - per_op(closing) - node - costs.PLAN_RUN,
        "WRITE": per_op(run) - per_op(writing),
    }


def arithmetic() -> dict[str, float]:
    large, square = ex.ones(1 << 18), ex.ones(256, 256)
    n_bytes = 3 * 4 * (1 << 18)
    return {
        "BYTE": seconds_of(lambda: large + large) / n_bytes,
        "MULTIPLICATION": seconds_of(lambda: square @ square) / 256**3,
    }


def planning() -> dict[str, float]:
    """Plans of structures that are new, with kernels that are not."""

    def plan(n: int) -> float:
        least = float("inf")
        for _ in range(N_RUNS):
            ex.compile.clear()
            rng = np.random.default_rng(0)
            order = rng.integers(0, 3, n)

            def mixed(x: Any, order: Any = order) -> Any:
                for k in order:
                    x = (x * 1.5, x @ x, x.sum(0, keepdim=True) + x)[k]
                return x

            run, x = compiled(mixed), ex.ones(4, 4)
            run(x)
            began = time.process_time()
            run(x)
            least = min(least, time.process_time() - began)
        return least

    few, many = plan(FEW), plan(MANY)
    each = (many - few) / (MANY - FEW)
    return {"PLANNED_OP": each, "PLAN": max(few - FEW * each, 0.0)}


def kernels() -> dict[str, float]:
    """What LLVM takes for the fused kernels of some functions and of their gradients."""
    ops = [ex.tanh, ex.sigmoid, ex.exp, ex.sin, lambda x: x * 1.5, lambda x: x + x, lambda x: x * x]
    n_before, before = machine().compiled, machine().compile_seconds
    for seed in range(N_RUNS):
        w = ex.ones(4, requires_grad=True)
        order = np.random.default_rng(seed).integers(0, len(ops), 6)

        def step(w: Any = w, order: Any = order) -> None:
            y = w
            for k in order:
                y = ops[k](y)
            y.sum().backward()

        run = compiled(step)
        for _ in range(3):
            run()
    return {"KERNEL": (machine().compile_seconds - before) / (machine().compiled - n_before)}


def layers() -> list[nn.Module]:
    """Of a sample in ex.batch: each is a kind of its own (no two run interleaved), and has met no size before."""
    half = [nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Softmax(-1), nn.LayerNorm(4), nn.Sigmoid()]
    return [*half, nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4), nn.LogSoftmax(-1), nn.LayerNorm(4), nn.SiLU()]


_CALLS = [0]


def of_samples(sizes: list[int], runs: Callable[[Any], Any], tracked: bool) -> float:
    """What one more op of each sample adds to a call on samples of these sizes, with its backward if tracked."""
    samples, every = [ex.ones(size, 4, requires_grad=tracked) for size in sizes], layers()

    def sample(x: Any, ops: Any) -> Any:
        _CALLS[0] += 1  # so that it is recorded: what only computes runs in lockstep
        for op in ops:
            x = op(x)
        return x

    sample.__code__ = sample.__code__.replace()  # a line of its own, which met no other sizes before

    def run(n: int) -> None:
        results = runs(sample)(samples, ops=every[:n])
        if tracked:
            ex.stack([y.sum() for y in results]).sum().backward()

    with ex.set_grad_enabled(tracked):
        few, many = (seconds_of(lambda: run(n)) for n in (6, 12))  # noqa: B023 # called at once
    return (many - few) / 6


def loop(sample: Callable[..., Any]) -> Callable[..., Any]:
    return lambda samples, ops: [sample(x, ops) for x in samples]


def batched() -> dict[str, tuple[float, ...]]:
    """(Without gradients, with them). A batch of few samples and of many tells a call from what is around a batch."""
    n_few, n_many = 4, 64
    found: dict[str, list[float]] = {name: [] for name in ("BATCHED_CALL", "BATCH", "SIZED_BATCH", "LOOPED_OP")}
    for tracked in (False, True):
        with following(policy.AlwaysPlan):
            few, many = (of_samples([3] * n, ex.batch, tracked) for n in (n_few, n_many))
            sized = of_samples([3 + i for i in range(n_few)], ex.batch, tracked)
        call = (many - few) / (n_many - n_few)
        looped = of_samples([3] * n_few, loop, tracked)
        found["BATCHED_CALL"].append(call)
        found["BATCH"].append(few - n_few * call)
        found["SIZED_BATCH"].append(sized - n_few * call)
        found["LOOPED_OP"].append(looped / n_few)
    return {name: tuple(seconds) for name, seconds in found.items()}


def seconds_on(samples: list[Any], sample: Callable[..., Any], runs: Callable[[Any], Any], tracked: bool) -> float:
    """A call on samples, with its backward if tracked."""
    run = runs(sample)

    def step() -> None:
        results = run(samples)
        if tracked:
            ex.stack([y.sum() for y in results]).sum().backward()

    with ex.set_grad_enabled(tracked):
        return seconds_of(step)


def each(sample: Callable[..., Any]) -> Callable[..., Any]:
    return lambda samples: [sample(x) for x in samples]


def in_lockstep() -> dict[str, tuple[float, ...]]:
    """(Without gradients, with them), by two samples: of functions of few ops and of many, of few turns and of many."""
    names = ("LOCKSTEP", "LOCKSTEP_OP", "LOCKSTEP_TURN", "LOCKSTEP_TURN_OP", "LOOPED_TURN_OP", "SEQUENCE_TURN")
    found: dict[str, list[float]] = {name: [] for name in names}
    few_turns, many_turns = [[ex.ones(n + i, 4) for i in range(2)] for n in (8, 40)]
    step, recurrent = nn.Linear(4, 4), nn.LSTM(64, 64)

    def chain(*ops: Any) -> Callable[..., Any]:
        def sample(x: Any) -> Any:
            for op in ops:
                x = op(x)
            return x

        return sample

    def reads(x: Any) -> Any:
        h = ex.zeros(4)
        for row in x:
            h = ex.tanh(step(row) + step(h))
        return h

    def attends(x: Any) -> Any:
        keys, h = step(x), ex.zeros(4)
        for _ in x:
            h = (keys + h).tanh().mean(0)
        return h

    def per_turn(sample: Callable[..., Any], runs: Callable[[Any], Any], tracked: bool) -> float:
        few, many = (seconds_on(samples, sample, runs, tracked) for samples in (few_turns, many_turns))
        return (many - few) / 32

    for tracked in (False, True):
        with following(policy.AlwaysPlan):
            few, many = (seconds_on(few_turns, chain(*layers()[:n]), ex.batch, tracked) for n in (6, 12))
            found["LOCKSTEP_OP"].append((many - few) / 6)
            found["LOCKSTEP"].append(few - (many - few))
            found["LOCKSTEP_TURN"].append(per_turn(reads, ex.batch, tracked))
            found["LOCKSTEP_TURN_OP"].append(per_turn(attends, ex.batch, tracked) / 3)
        found["LOOPED_TURN_OP"].append(per_turn(reads, each, tracked) / 2 / 4)
        found["SEQUENCE_TURN"].append(per_turn(lambda x: recurrent(x.repeat(1, 16))[0], each, tracked) / 2)
    return {name: tuple(seconds) for name, seconds in found.items()} | {"LOOPED_WEIGHT_BYTE": weight_byte()}


def weight_byte() -> tuple[float, ...]:
    """(Without gradients, with them), of a product: a large weight beside a small one, for few rows."""
    small, large = (nn.Linear(64, n) for n in (8, 264))
    samples = [ex.ones(4, 64) for _ in range(8)]
    found = []
    for tracked in (False, True):
        few, many = (seconds_on(samples, layer, each, tracked) for layer in (small, large))
        found.append((many - few) / 8 / (256 * 64 * 4))
    return tuple(found)


def rows(name: str, known: Any, found: Any) -> Iterator[tuple[str, float, float]]:
    """One of each number: a cost of ex.batch has two."""
    if isinstance(known, tuple):
        yield name, known[0], found[0]
        yield f"{name}, with gradients", known[1], found[1]
    else:
        yield name, known, found


def main() -> None:
    found = {**eager(), **traced(), **inside(), **arithmetic(), **planning(), **kernels(), **batched(), **in_lockstep()}
    print(f"{'':28}{'core/costs.py':>14}{'here':>14}")
    table = [row for name, seconds in found.items() for row in rows(name, getattr(costs, name), seconds)]
    for name, known, seconds in table:
        differs = seconds <= 0 or not 1 / MUCH < seconds / known < MUCH
        print(f"{name:28}{known:14.3g}{seconds:14.3g}{'   differs' if differs else ''}")
    shutil.rmtree(os.environ["EXTEMPO_CACHE_DIR"])


if __name__ == "__main__":
    main()
