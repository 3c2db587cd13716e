"""Data parallel training beside PyTorch's DDP on gloo: ranks of one thread each, the same models, the same run.

    python benchmarks/distributed.py                          # all rows
    python benchmarks/distributed.py mlp_large --rounds 3

Every rank has a batch of its own, as large as that of the workload of this name. Rows are the shortest step times on
rank 0, as in run.py; libraries take turns. `scaling` is the time of one rank over that of two. `overhead` is DDP with
one rank against the model alone, step by step in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import mlp_small
import ragged_batch
import tree_lstm

WORKLOADS = ["mlp_large", "ragged_batch", "tree_lstm"]
REDUCED = {"all_reduce_4MB": 1 << 20, "all_reduce_64MB": 1 << 24}
FLOOR, SCALING_SLACK, OVERHEAD = 0.8, 1.0, 1.02
STEPS = {"mlp_large": 12, "ragged_batch": 6, "tree_lstm": 4, "all_reduce_4MB": 20, "all_reduce_64MB": 6}


# ---- what a rank does


def library(name: str) -> tuple[Any, Any, Any]:
    """The library, its distributed module and its DDP."""
    if name == "torch":
        import torch
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel as wrapper

        torch.set_num_threads(1)
        return torch, dist, wrapper
    import extempo
    from extempo import distributed
    from extempo.nn.parallel import DistributedDataParallel

    return extempo, distributed, DistributedDataParallel


def mlp(lib: Any, rank: int) -> tuple[Any, list[Any]]:
    """The model, as a module whose forward gives the loss, and its batches."""
    nn, F = lib.nn, lib.nn.functional

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(
                nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
            )

        def forward(self, x: Any, y: Any) -> Any:
            return F.cross_entropy(self.layers(x), y)

    _, x, y = mlp_small.data((784, 1024, 1024, 10), 256)
    return Model(), list(zip(lib.from_numpy(x), lib.from_numpy(y), strict=True))


def over_samples(lib: Any, one: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one sample for all of them: by ex.batch, or one by one."""
    if lib.__name__ == "extempo":
        return lib.batch(one)
    return lambda samples, labels: [one(*pair) for pair in zip(samples, labels, strict=True)]


def sequences(lib: Any, rank: int) -> tuple[Any, list[Any]]:
    nn, F = lib.nn, lib.nn.functional

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(ragged_batch.N_WORDS, ragged_batch.N_IN)
            self.lstm = nn.LSTMCell(ragged_batch.N_IN, ragged_batch.N_HIDDEN)
            self.to_classes = nn.Linear(ragged_batch.N_HIDDEN, ragged_batch.N_CLASSES)
            self.all = over_samples(lib, self.one)

        def one(self, words: Any, label: Any) -> Any:
            state = None
            for x in self.embedding(words):
                state = self.lstm(x, state)
            return F.cross_entropy(self.to_classes(state[0]), label)

        def forward(self, samples: Any, labels: Any) -> Any:
            return lib.stack(self.all(samples, labels)).mean()

    _, drawn, labels = ragged_batch.data()
    mine = list(zip(drawn, labels, strict=True))[rank::2]
    return Model(), [([lib.from_numpy(s) for s in words], list(lib.tensor(y))) for words, y in mine]


def trees(lib: Any, rank: int) -> tuple[Any, list[Any]]:
    nn, F = lib.nn, lib.nn.functional

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(tree_lstm.N_WORDS, tree_lstm.N_IN)
            self.to_leaf = nn.Linear(tree_lstm.N_IN, 3 * tree_lstm.N_HIDDEN)
            self.to_node = nn.Linear(2 * tree_lstm.N_HIDDEN, 5 * tree_lstm.N_HIDDEN)
            self.to_classes = nn.Linear(tree_lstm.N_HIDDEN, tree_lstm.N_CLASSES)
            self.cells = tree_lstm.cells_of(lib, self.to_leaf, self.to_node)
            self.all = over_samples(lib, self.one)

        def state_of(self, tree: Any) -> Any:
            leaf, node = self.cells
            if isinstance(tree, int):
                return leaf(self.embedding.weight[tree])
            return node(self.state_of(tree[0]), self.state_of(tree[1]))

        def one(self, tree: Any, label: Any) -> Any:
            return F.cross_entropy(self.to_classes(self.state_of(tree)[0]), label)

        def forward(self, samples: Any, labels: Any) -> Any:
            return lib.stack(self.all(samples, labels)).mean()

    _, drawn, labels = tree_lstm.data()
    mine = list(zip(drawn, labels, strict=True))[rank::2]
    return Model(), [(batch, list(lib.tensor(y))) for batch, y in mine]


MODELS = {"mlp_large": mlp, "ragged_batch": sequences, "tree_lstm": trees}


def stepper(lib: Any, model: Any, batches: list[Any]) -> Callable[[int], Any]:
    adam = lib.optim.Adam(model.parameters(), lr=1e-3)

    def step(i: int) -> Any:
        adam.zero_grad()
        loss = model(*batches[i % len(batches)])
        loss.backward()
        adam.step()
        return loss.item()

    # What `ex.batch` runs is planned by itself; a plain model is compiled.
    return lib.compile(step) if lib.__name__ == "extempo" and not hasattr(model.module, "all") else step


def timed(run: Callable[[int], Any], n: int, n_warm: int, meet: Callable[[], Any]) -> float:
    times = []
    for i in range(n_warm + n):
        meet()
        began = time.perf_counter()
        run(i)
        times.append(time.perf_counter() - began)
    return min(times[n_warm:])


def work(name: str, row: str, n_warm: int) -> None:
    """Print what rank 0 has measured."""
    lib, dist, wrapper = library(name)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if row in REDUCED:
        x = lib.ones(REDUCED[row])
        seconds = timed(lambda i: dist.all_reduce(x), STEPS[row], n_warm, dist.barrier)
    elif row == "overhead":
        model, batches = mlp(lib, rank)
        plain = lib.nn.Module()
        plain.__dict__["module"] = model
        plain.forward = model.forward
        plain.parameters = model.parameters
        runs = [stepper(lib, m, batches) for m in (plain, wrapper(model))]
        times: list[list[float]] = [[], []]
        for i in range(n_warm + 40):
            for k, run in enumerate(runs):
                began = time.perf_counter()
                run(i)
                times[k].append(time.perf_counter() - began)
        seconds = statistics.median(times[1][n_warm:]) / statistics.median(times[0][n_warm:])
    else:
        model, batches = MODELS[row](lib, rank)
        seconds = timed(stepper(lib, wrapper(model), batches), STEPS[row], n_warm, dist.barrier)
    if rank == 0:
        print("measured", json.dumps(seconds), flush=True)
    dist.destroy_process_group()


# ---- who starts ranks


def measure(name: str, row: str, n_ranks: int, n_warm: int) -> float:
    """The shortest step time of a library with so many ranks, in seconds."""
    arguments = [__file__, "--worker", name, row, "--warm", str(n_warm)]
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    if name == "extempo":
        command = [sys.executable, "-m", "extempo", "launch", "-n", str(n_ranks), "--threads", "1", *arguments]
        commands = [(command, {**os.environ, **one_thread})]
    else:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(n_ranks)}
        commands = [
            ([sys.executable, *arguments], {**os.environ, **one_thread, **place, "RANK": str(rank)})
            for rank in range(n_ranks)
        ]
    processes = [subprocess.Popen(c, env=env, stdout=subprocess.PIPE, text=True) for c, env in commands]
    printed = "".join(process.communicate(timeout=600)[0] for process in processes)
    found = [line for line in printed.splitlines() if "measured" in line]
    if not found:
        raise RuntimeError(f"{name}, {row}, {n_ranks} ranks: nothing was measured")
    return float(json.loads(found[0].partition("measured")[2]))


def report(row: str, n_rounds: int, n_warm: int) -> dict[str, float]:
    """The shortest over rounds, libraries and numbers of ranks in turn."""
    counts = (2,) if row in REDUCED else (1, 2)
    found: dict[str, list[float]] = {f"{name} {n}": [] for name in ("extempo", "torch") for n in counts}
    for _ in range(n_rounds):
        for key, times in found.items():
            name, n = key.split()
            times.append(measure(name, row, int(n), n_warm))
    return {key: min(times) for key, times in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", default=[*REDUCED, *WORKLOADS, "overhead"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=4)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.worker, given.rows[0], given.warm)
        return 0
    failed = False
    for row in given.rows:
        if row == "overhead":
            ratio = statistics.median(measure("extempo", row, 1, given.warm) for _ in range(given.rounds))
            is_right = ratio <= OVERHEAD
            print(f"overhead of DDP with one rank: {ratio:.3f} of the model alone (at most {OVERHEAD})", end="")
        else:
            found = report(row, given.rounds, given.warm)
            ratio = found["extempo 2"] / found["torch 2"]
            is_right = ratio <= FLOOR or row in REDUCED
            print(
                f"{row}: 2 ranks {found['extempo 2'] * 1e3:.2f} ms, PyTorch {found['torch 2'] * 1e3:.2f} ms, ", end=""
            )
            print(f"ratio {ratio:.2f}{'' if row in REDUCED else f' (at most {FLOOR})'}", end="")
            if row not in REDUCED:
                own, peer = (found[f"{name} 1"] / found[f"{name} 2"] for name in ("extempo", "torch"))
                is_right &= own >= peer * SCALING_SLACK
                print(f"; scaling {own:.2f}, PyTorch {peer:.2f}", end="")
        print(f": {'pass' if is_right else 'FAIL'}", flush=True)
        failed |= not is_right
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
