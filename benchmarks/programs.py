"""Programs that people write, eager and compiled, beside PyTorch eager and torch.compile, on one thread.

Predictions of a GPT with a cache, a beam search, single samples through an MLP, a CNN and a step of an LSTM; training
of a ResNet-18, a U-Net, PPO, DQN, MAML, a neural ODE, a deep equilibrium, a mixture of experts, a softmax of 50,000,
and in float64 a logistic regression and a Gaussian process. All run the same text; times are milliseconds a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from interleave import COMPILED, Result, measure, started
from report import BASELINE, DIFFERS, OURS, shown, source, table, verdict
from user_programs import images, learning, predicting, solving
from workload import Step, Workload, Wrap, as_it_is, extempo, run_this, torch, whole

FLOOR = 1.0  # the most that a program may take, relative to PyTorch eager
TORCH_COMPILE = "torch.compile"
COLUMNS = (BASELINE, OURS, COMPILED, TORCH_COMPILE)
HEADER = (
    "program",
    "torch ms",
    "eager ms",
    "compiled ms",
    "torch.compile ms",
    "eager ratio",
    "floor",
    "compiled ratio",
    "floor",
    "note",
)

Program = Callable[[Any, Wrap], Step]

PROGRAMS: dict[Program, int] = {  # and how many steps are timed at once
    predicting.gpt_generation: 1,
    predicting.beam_search: 4,
    predicting.mlp_inference: 200,
    predicting.cnn_inference: 40,
    predicting.lstm_step: 100,
    images.resnet18: 1,
    images.unet: 2,
    learning.ppo: 16,
    learning.dqn: 16,
    learning.maml: 4,
    solving.neural_ode: 4,
    solving.deep_equilibrium: 8,
    solving.mixture_of_experts: 4,
    solving.large_softmax: 2,
    solving.logistic_regression: 20,
    solving.gaussian_process: 20,
}


def _run(program: Program, library: Callable[[], Any], wrap: Wrap) -> Step:
    return program(library(), wrap)


def workload(program: Program, block: int) -> Workload:
    peers = {
        OURS: partial(_run, program, extempo, as_it_is),
        COMPILED: partial(_run, program, extempo, whole),
        BASELINE: partial(_run, program, torch, as_it_is),
        TORCH_COMPILE: partial(_run, program, torch, whole),
    }
    return Workload(program.__name__, program.__doc__, block, peers, FLOOR, FLOOR)


WORKLOADS = [workload(*row) for row in PROGRAMS.items()]


def row(measured: Workload, results: Sequence[Result]) -> list[str]:
    """The cells of one program's row."""
    found = {result.peer: result for result in results}
    known = {peer: r for peer, r in found.items() if r.times and not r.error}
    times = [
        f"{known[peer].minimum:.3f}" if peer in known else "-" for peer in (BASELINE, OURS, COMPILED, TORCH_COMPILE)
    ]
    cells, base = [measured.name, *times], known.get(BASELINE)
    for peer in (OURS, COMPILED):
        ratio = known[peer].minimum / base.minimum if base and peer in known else None
        cells += ["-", ""] if ratio is None else [shown(ratio), verdict(ratio, FLOOR)]
    notes = [f"{peer}: {r.error}" for peer, r in found.items() if r.error and peer != TORCH_COMPILE]
    notes += [f"{peer}: {DIFFERS}" for peer in known if base and not known[peer].agrees_with(base)]
    return [*cells, "; ".join(notes)]


def section(wanted: str | None, rounds: int) -> str:
    """One process for each peer and program: plans and kernels of one do not help another."""
    chosen = None if wanted is None else {OURS, COMPILED, BASELINE, *wanted.split(",")}
    rows, results = [], []
    for measured in WORKLOADS:
        peers = [peer for peer in measured.peers if chosen is None or peer in chosen]
        with started("programs", peers) as processes:
            results = measure(measured, processes, rounds)
        rows.append(row(measured, results))
    where = source(results, f"minima of {rounds} rounds")
    return f"### programs\n\n{(__doc__ or '').strip()}\n\n{table(HEADER, rows)}\n\n{where}"


if __name__ == "__main__":
    run_this(__file__)
