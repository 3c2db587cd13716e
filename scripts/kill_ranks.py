"""Kills ranks at random moments of a training run, and says whether the others went on as they should.

    python scripts/kill_ranks.py                     # 60 kills, of any rank, rank 0 included
    python scripts/kill_ranks.py --kills 6 --plain   # without ULFM: the job must end within 10 s and name the rank
    python scripts/kill_ranks.py --stop 30           # one rank stands still for 30 s: the same bits at the end

After each run that went on, rank 0 trains again alone, on what the ranks that were left had learnt from in each step,
and compares the weights: the curve must be that of a run with fewer ranks from the kill on.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = """
import hashlib, os, sys
import extempo as ex
from extempo import nn, optim, distributed as dist
from extempo.nn.parallel import DistributedDataParallel as DDP

N_STEPS = int(sys.argv[1])


def made():
    ex.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 40), nn.Tanh(), nn.Linear(40, 1)).to(ex.float64)


def batches():
    drawn = ex.Generator().manual_seed(5)
    for _ in range(N_STEPS):
        yield ex.randn(8, 4, 20, generator=drawn, dtype=ex.float64)


dist.init_process_group()
net = made()
model = DDP(net)
sgd = optim.SGD(model.parameters(), lr=0.01)
learnt = []
for i, x in enumerate(batches()):
    if i == 1:
        print("pid", os.getpid(), flush=True)
    size, rank = dist.get_world_size(), dist.get_rank()
    sgd.zero_grad()
    model(x[rank]).square().mean().backward()
    sgd.step()
    learnt.append((rank, size == dist.get_world_size(), size))
everybody = [None] * dist.get_world_size()
dist.all_gather_object(everybody, (learnt, [p.detach().numpy().tobytes() for p in net.parameters()]))
if dist.get_rank() == 0:
    again = made()
    other = optim.SGD(again.parameters(), lr=0.01)
    for i, x in enumerate(batches()):
        _, whole, size = learnt[i]
        ranks = range(size) if whole else [steps[i][0] for steps, _ in everybody]
        other.zero_grad()
        sum(again(x[rank]).square().mean() for rank in ranks).div(len(ranks)).backward()
        other.step()
    apart = max(float((p - q).detach().abs().max()) for p, q in zip(net.parameters(), again.parameters()))
    alike = all(weights == everybody[0][1] for _, weights in everybody)
    bits = hashlib.sha256(b"".join(everybody[0][1])).hexdigest()[:16]
    print("result", dist.get_world_size(), alike, apart < 1e-9, bits, flush=True)
"""


class Run:
    """One job that is disturbed."""

    def __init__(self, folder: Path, n_ranks: int, n_steps: int, survive: bool) -> None:
        path = folder / "program.py"
        path.write_text(PROGRAM)
        options = ["--survive"] if survive else []
        command = [sys.executable, "-m", "extempo", "launch", "-n", str(n_ranks), *options, str(path), str(n_steps)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.pids: dict[int, int] = {}
        assert self._process.stdout is not None
        while len(self.pids) < n_ranks:
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError(self._process.communicate()[1])
            rank, _, text = line.partition("] ")
            if text.startswith("pid"):
                self.pids[int(rank[1:])] = int(text.split()[1])

    def end(self, seconds: float) -> tuple[int, list[str], str]:
        """Exit status, the words of the result, and the launcher's last line."""
        try:
            out, err = self._process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGTERM)
            out, err = self._process.communicate()
            return -1, [], f"not done within {seconds:g} s: {err[-500:]}"
        words = [line.split()[2:] for line in out.splitlines() if "result" in line]
        return self._process.returncode, words[0] if words else [], (err.splitlines() or [""])[-1]


def kill_once(folder: Path, n_ranks: int, n_steps: int, delay: float, victim: int, survive: bool) -> str:
    """Empty if everything was as it should be, else what was not."""
    run = Run(folder, n_ranks, n_steps, survive)
    time.sleep(delay)
    try:
        os.kill(run.pids[victim], signal.SIGKILL)
    except ProcessLookupError:
        run.end(60)
        return "too late: it was done"
    began = time.monotonic()
    status, result, last = run.end(120 if survive else 60)
    if survive and status == 0 and (not result or result[0] == str(n_ranks)):
        return "too late: the last step was done"
    if not survive:
        is_right = status != 0 and f"rank {victim} is lost" in last and time.monotonic() - began < 10
    else:
        is_right = status == 0 and result[:3] == [str(n_ranks - 1), "True", "True"] and f"rank {victim} was" in last
    return "" if is_right else f"status {status}, result {result}, last line {last!r}"


def stop_once(folder: Path, n_ranks: int, n_steps: int, seconds: float) -> str:
    """One rank stands still for a while; empty if the result has the bits of an undisturbed run."""
    results = []
    for disturbed in (False, True):
        run = Run(folder, n_ranks, n_steps, True)
        if disturbed:
            os.kill(run.pids[n_ranks - 1], signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(run.pids[n_ranks - 1], signal.SIGCONT)
        results.append(run.end(120 + seconds)[1])
    return "" if results[0] == results[1] and results[0] else f"{results[0]} became {results[1]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plain", action="store_true", help="without ULFM")
    parser.add_argument("--stop", type=float, help="stop a rank for so many seconds instead")
    given = parser.parse_args()
    draws = random.Random(given.seed)
    n_right = n_late = 0
    with tempfile.TemporaryDirectory() as folder:
        if given.stop is not None:
            wrong = stop_once(Path(folder), given.ranks, given.steps, given.stop)
            print(wrong or f"a rank that stood still for {given.stop:g} s changed no bit")
            return bool(wrong)
        for i in range(given.kills):
            victim, delay = draws.randrange(given.ranks), draws.random()
            wrong = kill_once(Path(folder), given.ranks, given.steps, delay, victim, not given.plain)
            n_late += wrong.startswith("too late")
            n_right += not wrong
            print(f"{i + 1}: rank {victim} killed after {delay:.2f} s: {wrong or 'as it should be'}", flush=True)
    print(f"{n_right} of {given.kills - n_late} as they should be; {n_late} came too late")
    return n_right != given.kills - n_late


if __name__ == "__main__":
    sys.exit(main())
