"""Programs that plans can hardly make faster: what they take under ex.compile, relative to eager.

Each is called as often eagerly as compiled, in turn; after the first calls, in which it is found out that nothing is to
be gained, a call may take 1.05 of eager's time, or 0.5 us more than that, whichever is more. A row is the least of
several blocks of calls.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from interleave import Result
from report import OURS, source, table, verdict
from worker import version_of
from workload import Wrap, as_it_is, extempo, run_this, whole

RATIO_FLOOR, CALL_FLOOR = 1.05, 0.5e-6  # relative to eager, and seconds
N_FIRST, N_BLOCKS = 400, 20  # calls before anything is timed, blocks of calls that are

Call = Callable[[int], Any]


def inference(ex: Any, wrap: Wrap) -> Call:
    """A small MLP, batch 1, without gradients."""
    model = ex.nn.Sequential(ex.nn.Linear(16, 32), ex.nn.ReLU(), ex.nn.Linear(32, 4))
    x = ex.rand(1, 16)

    def predict(x: Any) -> Any:
        with ex.no_grad():
            return model(x)

    run = wrap(ex, predict)
    return lambda i: run(x)


def gan(ex: Any, wrap: Wrap) -> Call:
    """One step of two optimizers: a discriminator, then a generator."""
    nn, f = ex.nn, ex.nn.functional
    generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    critic = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizers = [ex.optim.Adam(model.parameters(), lr=1e-3) for model in (generator, critic)]
    real, ones, zeros = ex.rand(16, 2), ex.ones(16, 1), ex.zeros(16, 1)

    def step(noise: Any) -> Any:
        fake = generator(noise)
        loss = f.binary_cross_entropy_with_logits(critic(real), ones)
        loss = loss + f.binary_cross_entropy_with_logits(critic(fake.detach()), zeros)
        optimizers[1].zero_grad()
        loss.backward()
        optimizers[1].step()
        optimizers[0].zero_grad()
        f.binary_cross_entropy_with_logits(critic(fake), ones).backward()
        optimizers[0].step()
        return loss.item()

    run, noise = wrap(ex, step), ex.rand(16, 4)
    return lambda i: run(noise)


def gaussian_process(ex: Any, wrap: Wrap) -> Call:
    """The likelihood of a Gaussian process, whose linear algebra ends traces."""
    x, y = ex.rand(12, 1), ex.rand(12, 1)
    logs = ex.zeros(3, requires_grad=True)
    optimizer = ex.optim.SGD([logs], lr=1e-3)

    def step() -> Any:
        length, scale, noise = logs.exp()
        kernel = scale * (-((x - x.T) ** 2) / length).exp() + (noise + 0.1) * ex.eye(12)
        factor = ex.linalg.cholesky(kernel)
        solved = ex.linalg.solve_triangular(factor, y, upper=False)
        loss = 0.5 * (solved**2).sum() + factor.diagonal().log().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    run = wrap(ex, step)
    return lambda i: run()


def gradient_penalty(ex: Any, wrap: Wrap) -> Call:
    """A gradient of a gradient: the engine's, in every call."""
    model = ex.nn.Sequential(ex.nn.Linear(4, 16), ex.nn.Tanh(), ex.nn.Linear(16, 1))
    optimizer = ex.optim.SGD(model.parameters(), lr=1e-3)

    def step(x: Any) -> Any:
        x = x.requires_grad_()
        score = model(x).sum()
        (slope,) = ex.autograd.grad(score, x, create_graph=True)
        loss = ((slope.norm(dim=1) - 1.0) ** 2).mean() - score
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    run, points = wrap(ex, step), ex.rand(8, 4)
    return lambda i: run(points.clone())


def filled_table(ex: Any, wrap: Wrap) -> Call:
    """Dynamic programming on a table that is filled element by element."""

    def distance(a: list[int], b: list[int]) -> Any:
        d = ex.zeros(len(a) + 1, len(b) + 1)
        for i in range(1, len(a) + 1):
            for j in range(1, len(b) + 1):
                change = d[i - 1, j - 1] + float(a[i - 1] != b[j - 1])
                d[i, j] = ex.minimum(ex.minimum(d[i - 1, j], d[i, j - 1]) + 1.0, change)
        return d[-1, -1].item()

    words = np.random.RandomState(0).randint(0, 4, (8, 2, 5)).tolist()
    run = wrap(ex, distance)
    return lambda i: run(*words[i % 8])


def accumulation(ex: Any, wrap: Wrap) -> Call:
    """Gradients of four small batches, a step, and a moving average of the weights."""
    model = ex.nn.Sequential(ex.nn.Linear(8, 16), ex.nn.ReLU(), ex.nn.Linear(16, 1))
    mean = [p.detach().clone() for p in model.parameters()]
    optimizer = ex.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    batches = [ex.rand(4, 8) for _ in range(4)]

    def step(batches: list[Any]) -> None:
        optimizer.zero_grad()
        for x in batches:
            (model(x).square().mean() / len(batches)).backward()
        optimizer.step()
        with ex.no_grad():
            for average, p in zip(mean, model.parameters(), strict=True):
                average.mul_(0.99).add_(p, alpha=0.01)

    run = wrap(ex, step)
    return lambda i: run(batches)


def branching_model(ex: Any, wrap: Wrap) -> Call:
    """A module that reads a value and branches, compiled by itself; the loss and the step are outside."""

    class Branching(ex.nn.Module):  # type: ignore[misc, name-defined] # the library is an argument
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.last = ex.nn.Linear(8, 16), ex.nn.Linear(16, 16), ex.nn.Linear(16, 1)

        def forward(self, x: Any) -> Any:
            h = self.first(x).relu()
            while h.sum().item() > 4.0:
                h = self.second(h).relu() * 0.5
            return self.last(h)

    model = Branching()
    optimizer = ex.optim.SGD(model.parameters(), lr=1e-3)
    run = wrap(ex, model)
    inputs = [ex.rand(4, 8) * (k + 1.0) for k in range(4)]

    def step(i: int) -> Any:
        loss = run(inputs[i % 4]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


PROGRAMS = (inference, gan, gaussian_process, gradient_penalty, filled_table, accumulation, branching_model)


def block(call: Call, first: int, n_calls: int) -> float:
    """Seconds that a call takes, of several in a row."""
    began = time.perf_counter()
    for i in range(first, first + n_calls):
        call(i)
    return (time.perf_counter() - began) / n_calls


def measure(
    program: Callable[[Any, Wrap], Call], n_first: int = N_FIRST, n_blocks: int = N_BLOCKS
) -> tuple[float, float]:
    """Seconds of a call (eager, compiled), in turn, after the same number of calls."""
    ex, calls = extempo(), []
    for wrap in (as_it_is, whole):
        ex.manual_seed(0)
        calls.append(program(ex, wrap))
    for call in calls:
        block(call, 0, n_first)
    n_calls = max(8, min(200, int(2e-3 / block(calls[0], 0, 8))) // 8 * 8)
    least = [float("inf")] * len(calls)
    gc.collect()
    for k in range(n_blocks):
        for which, call in enumerate(calls):
            least[which] = min(least[which], block(call, n_first + k * n_calls, n_calls))
    return least[0], least[1]


def section(wanted: str | None, rounds: int) -> str:
    rows = []
    for program in PROGRAMS:
        eager, compiled = measure(program, n_blocks=rounds)
        most = max(RATIO_FLOOR, 1.0 + CALL_FLOOR / eager)
        ratio = compiled / eager
        about = (program.__doc__ or "").rstrip(".")
        rows.append([about, f"{1e6 * eager:.1f}", f"{1e6 * compiled:.1f}", f"{ratio:.2f}", verdict(ratio, most)])
    head = ["program", "eager us", "compiled us", "ratio", "floor"]
    about = __doc__.strip()
    where = source([Result(OURS, version_of(OURS))], f"the least of {rounds} blocks, after {N_FIRST} calls")
    return f"### no_gain\n\n{about}\n\n{table(head, rows)}\n\n{where}"


if __name__ == "__main__":
    run_this(__file__)
