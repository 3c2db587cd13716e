"""A load test of `extempo serve` on this machine: bounded, on loopback, and it ends by itself.

    python benchmarks/serving.py                      # all of it
    python benchmarks/serving.py throughput           # ragged batches beside one by one, padding and onnxruntime
    python benchmarks/serving.py demo                 # the model of `extempo demo`, and the share of HTTP
    python benchmarks/serving.py overload             # more requests than it takes: each is answered or refused
    python benchmarks/serving.py hostile              # 10,000 requests that no honest client sends
    python benchmarks/run.py serving --write          # put its tables into docs/performance.md, too

The server has one core and one thread, the load generator a core of its own, where there are two. `throughput` is about
a 2-layer LSTM of 256 over 20 to 200 tokens and npz bodies: one server for each way to run it, all of them up at once,
asked in turn round after round; the figures are medians over the rounds after the first. CPU ms is the server's
processor time for a request, which tells the same on a machine that has other things to do. Below stands what the
processor does without HTTP: GFLOP/s of the model's matrix products one by one and together, and of one large product,
which no batching beats.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import io
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hostile_requests import REQUESTS, send
from report import machine, table

import extempo as ex
from extempo import nn
from extempo.batching.open_run import OpenRun
from extempo.cli.demo_task import Classifier
from extempo.exporting.calls import Dim
from extempo.exporting.folding import fold_constants as frozen
from extempo.exporting.program import Program
from extempo.serving.app import Service
from extempo.serving.models import Model
from extempo.serving.runners import Ticket, function_of
from extempo.serving.server import bound_socket, make_server, run_server
from extempo.serving.settings import Limits

N_WORDS, SIZE, N_CLASSES = 1000, 256, 10
SIZES = (128, SIZE, 512)  # of the same model, to see what batching can gain
SHORTEST, LONGEST = 20, 200
NPZ = "application/x-npz"


class Tagger(nn.Module):
    """Tokens of one sequence, or (time, batch) of padded ones with their lengths, to scores of classes."""

    def __init__(self, size: int = SIZE) -> None:
        super().__init__()
        self.embedding = nn.Embedding(N_WORDS, size)
        self.lstm = nn.LSTM(size, size, num_layers=2)
        self.out = nn.Linear(size, N_CLASSES)

    def program(self) -> Program:
        example = ex.randint(0, N_WORDS, (SHORTEST,))
        return ex.program(self.eval(), example, dynamic={"tokens": {0: Dim("tokens", min=1)}})

    def forward(self, tokens: ex.Tensor) -> ex.Tensor:
        states, _ = self.lstm(self.embedding(tokens))
        return self.out(states[-1])


class Padded(nn.Module):
    """The same model on many sequences, filled up to the longest."""

    def __init__(self, model: Tagger) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: ex.Tensor, lengths: ex.Tensor) -> ex.Tensor:
        states, _ = self.model.lstm(self.model.embedding(tokens))
        last = (lengths - 1).reshape(1, -1, 1).expand(1, tokens.shape[1], SIZE)
        return self.model.out(states.gather(0, last)[0])


class Sentences(nn.Module):
    """The model of the demo, on a tensor of words."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Classifier()

    def forward(self, words: ex.Tensor) -> ex.Tensor:
        h = ex.zeros(self.model.cell.hidden_size)
        for word in words:
            h = self.model.cell(self.model.embed(word), h)
        return self.model.score(h)


def write_programs(folder: Path) -> None:
    ex.manual_seed(0)
    model = Tagger()
    model.program().save(str(folder / "tagger.extempo"))
    tokens, batch = Dim("tokens", min=1), Dim("batch", min=1)
    examples = (ex.randint(0, N_WORDS, (SHORTEST, 3)), ex.tensor([SHORTEST, 3, 1]))
    dynamic = {"tokens": {0: tokens, 1: batch}, "lengths": {0: batch}}
    ex.program(Padded(model).eval(), examples, dynamic=dynamic).save(str(folder / "padded.extempo"))
    demo = ex.program(Sentences().eval(), ex.tensor([1, 2, 3]), dynamic={"words": {0: Dim("words", min=1)}})
    demo.save(str(folder / "demo.extempo"))
    scaling = ex.program(lambda x: x * 2, ex.ones(2, 3), dynamic={"x": {0: "n"}})
    scaling.save(str(folder / "scaling.extempo"))


# ---- servers, each a process


class Together:
    """Runs what has come as one call, and has nothing that goes on: other ways to run, behind the same server."""

    gathers = True

    def __init__(self, run: Any) -> None:
        self._run = run
        self.running: list[Ticket] = []

    def start(self, tickets: list[Ticket]) -> None:
        self.running += tickets

    def step(self) -> int:
        tickets, self.running = self.running, []
        if not tickets:
            return 0
        try:
            made = self._run([ticket.tensors[0] for ticket in tickets])
        except Exception as error:
            for ticket in tickets:
                ticket.fail(error)
            return len(tickets)
        for ticket, one in zip(tickets, made, strict=True):
            ticket.give([one])
        return len(tickets)

    def end(self, ticket: Ticket, error: Exception) -> None:
        self.running.remove(ticket)
        ticket.fail(error)

    def close(self) -> None:
        self.running = []


def padding(path: Path) -> Together:
    program = ex.load_program(str(path))

    def run(samples: list[ex.Tensor]) -> list[ex.Tensor]:
        lengths = [len(tokens) for tokens in samples]
        filled = np.zeros((max(lengths), len(samples)), np.int64)
        for column, tokens in enumerate(samples):
            filled[: len(tokens), column] = tokens.numpy()
        return list(program(ex.tensor(filled), ex.tensor(lengths)))

    return Together(run)


def onnx(path: Path) -> Together:
    """One by one, which is what a file for one sequence allows."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (name,) = [i.name for i in session.get_inputs()]

    def run(samples: list[ex.Tensor]) -> list[ex.Tensor]:
        return [ex.tensor(session.run(None, {name: tokens.numpy()})[0]) for tokens in samples]

    return Together(run)


def be_a_server(way: str, file: str, limits: Limits) -> None:
    """In a process of its own: print the port, serve until SIGTERM."""
    ex.set_num_threads(1)
    service = Service(limits, log=lambda text: print(text, file=sys.stderr))
    path = Path(file)
    model: Model = service.models.add(path.stem, 1, path)
    if way == "padding":
        model.lane.runner = padding(path.with_name("padded.extempo"))
    elif way == "onnxruntime":
        model.lane.runner = onnx(path.with_suffix(".onnx"))
    listening = bound_socket("127.0.0.1", 0)
    print(listening.getsockname()[1], flush=True)
    run_server(make_server(service), listening)


class Server:
    """A process that serves one way."""

    def __init__(self, way: str, file: Path, **limits: Any) -> None:
        given = [f"{name}={value}" for name, value in limits.items()]
        command = [sys.executable, __file__, "--be-a-server", way, str(file), *given]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if len(cores()) > 1:
            os.sched_setaffinity(self.process.pid, {cores()[1]})
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        self.way = way
        while not self._is_ready():
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        try:
            return self.get("/ready") != ""
        except OSError:
            return False

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
            return str(answer.read().decode())

    def metric(self, name: str) -> float:
        return float(re.findall(rf"^{re.escape(name)} (\S+)$", self.get("/metrics"), re.M)[0])

    def together(self) -> float:
        """Samples in a step, on average."""
        name = next(iter(re.findall(r'extempo_batch_samples_sum\{model="(\w+)"\}', self.get("/metrics"))))
        total, steps = (self.metric(f'extempo_batch_samples_{part}{{model="{name}"}}') for part in ("sum", "count"))
        return total / steps

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()


_CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]


def cores() -> list[int]:
    return _CORES


# ---- load


class Load(NamedTuple):
    """What came of a number of requests."""

    seconds: float
    latencies: list[float]  # of those that were answered 200
    statuses: dict[int, int]
    lost: int  # neither answered nor refused

    @property
    def per_second(self) -> float:
        return len(self.latencies) / self.seconds

    def percentile(self, q: float) -> float:
        return float(np.percentile(self.latencies, q)) if self.latencies else float("nan")


def request(body: bytes, media: str = NPZ) -> bytes:
    head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


async def answer(reader: asyncio.StreamReader) -> int:
    """The status of one answer, which is read to its end."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = re.search(rb"content-length: (\d+)", head)
    if length is not None:
        await reader.readexactly(int(length[1]))
    return int(head[9:12])


async def drive(port: int, requests: list[bytes], n_clients: int, n_requests: int) -> Load:
    """So many clients, each of which asks again when it has been answered; so many requests in all."""
    latencies: list[float] = []
    statuses: dict[int, int] = {}
    left = iter(range(n_requests))
    lost = 0

    async def client() -> None:
        nonlocal lost
        streams = None
        for i in left:
            began = time.perf_counter()
            try:
                streams = streams or await asyncio.open_connection("127.0.0.1", port)
                streams[1].write(requests[i % len(requests)])
                status = await asyncio.wait_for(answer(streams[0]), 120)
            except (OSError, EOFError, TimeoutError):
                lost += 1
                streams = None
                continue
            statuses[status] = statuses.get(status, 0) + 1
            if status == 200:
                latencies.append(time.perf_counter() - began)
            else:
                streams[1].close()
                streams = None
        if streams is not None:
            streams[1].close()

    began = time.perf_counter()
    await asyncio.gather(*[client() for _ in range(n_clients)])
    return Load(time.perf_counter() - began, latencies, statuses, lost)


def load(server: Server, requests: list[bytes], n_clients: int, n_requests: int) -> Load:
    return asyncio.run(drive(server.port, requests, n_clients, n_requests))


def token_requests(n: int = 256) -> list[bytes]:
    rng = np.random.default_rng(0)
    lengths = rng.integers(SHORTEST, LONGEST + 1, n)
    return [request(npz(tokens=rng.integers(0, N_WORDS, int(length)))) for length in lengths]


# ---- what is measured


HEADER = ("way", "requests/s", "ratio", "p50 ms", "p99 ms", "CPU ms", "ratio", "together")


def compare(servers: list[Server], requests: list[bytes], n_clients: int, n_requests: int, n_rounds: int) -> str:
    """Ask servers in turn, round after round: a table of medians, ratios to the first."""
    rounds: dict[str, list[Load]] = {server.way: [] for server in servers}
    cpu: dict[str, list[float]] = {server.way: [] for server in servers}
    for server in servers:  # a round that does not count: kernels are compiled, and the server learns what is quicker
        load(server, requests, n_clients, n_requests)
    for _ in range(n_rounds):
        for server in servers:
            before = server.metric("process_cpu_seconds")
            found = load(server, requests, n_clients, n_requests)
            cpu[server.way].append((server.metric("process_cpu_seconds") - before) / n_requests)
            if found.lost or set(found.statuses) != {200}:
                sys.exit(f"{server.way}: {found.lost} requests lost, answers {found.statuses}")
            rounds[server.way].append(found)
    rates = {way: statistics.median(one.per_second for one in of_way) for way, of_way in rounds.items()}
    costs = {way: 1000 * statistics.median(of_way) for way, of_way in cpu.items()}
    rows = []
    for server in servers:
        way = server.way
        p50, p99 = (1000 * statistics.median(one.percentile(q) for one in rounds[way]) for q in (50, 99))
        numbers = (rates[way], rates[way] / rates[servers[0].way], p50, p99, costs[way])
        ratio = costs[servers[0].way] / costs[way]
        digits = (1, 2, 1, 1, 2, 2, 1)
        cells = [f"{x:.{n}f}" for x, n in zip((*numbers, ratio, server.together()), digits, strict=True)]
        rows.append([way, *cells])
    return table(HEADER, rows)


def throughput(folder: Path, n_clients: int, n_requests: int, n_rounds: int) -> str:
    title = f"2-layer LSTM of {SIZE}, {SHORTEST} to {LONGEST} tokens, npz bodies, {n_clients} clients, one core:"
    tagger = folder / "tagger.extempo"
    ways = [("one by one", 1), ("padding", 64), ("ragged", 64)]
    note = ""
    if importlib.util.find_spec("onnxruntime") is None:
        note = "\n\nonnxruntime is left out: it is not installed."
    else:
        ex.load_program(str(tagger)).to_onnx(str(tagger.with_suffix(".onnx")))
        ways.append(("onnxruntime", 64))
    servers = [Server(way, tagger, max_batch=most) for way, most in ways]
    try:
        found = compare(servers, token_requests(), n_clients, n_requests, n_rounds)
    finally:
        for server in servers:
            server.end()
    return f"{title}\n\n{found}{note}\n\n{without_http(n_rounds)}"


def without_http(n_rounds: int) -> str:
    """What the processor does in the model itself, and hence the most that batching can gain."""
    ex.set_num_threads(1)
    left, right = ex.randn(2048, 1024), ex.randn(1024, 1024)
    with ex.no_grad():
        (peak,) = quickest([lambda: left @ right], n_rounds)
    peak = 2.0 * 2048 * 1024 * 1024 / peak
    rows, most = [], 0.0
    for size in SIZES:
        lengths, times = model_times(size, n_rounds)
        products = float(lengths.sum()) * 2 * 2 * (2 * size * 4 * size)  # 2 layers, inputs and states, 4 gates
        alone, together = (products / seconds for seconds in times)
        each = [f"{1e3 * seconds / len(lengths):.2f}" for seconds in times]
        speeds = [f"{speed / 1e9:.1f}" for speed in (alone, together, peak)]
        rows.append([str(size), *each, *speeds, f"{together / alone:.2f}", f"{peak / alone:.2f}"])
        if size == SIZE:
            most = peak / alone
    header = ("without HTTP, size", "ms alone", "ms of 64", "GFLOP/s alone", "of 64", "one product", "ratio", "limit")
    return (
        f"{table(header, rows)}\n\n"
        f"One by one the model of {SIZE} reaches {1 / most:.0%} of what a large matrix product does on this processor, "
        f"so no way to batch it in float32 can gain more than {most:.2f} times, and HTTP, the same for all, takes its "
        "share. Smaller weights in another dtype would speed up both sides."
    )


def model_times(size: int, n_rounds: int) -> tuple[Any, list[float]]:
    """The lengths of 64 samples, and the seconds of all of them one by one and together."""
    call = function_of(frozen(Tagger(size).program()))
    rng = np.random.default_rng(0)
    lengths = rng.integers(SHORTEST, LONGEST + 1, 64)
    samples = [ex.tensor(rng.integers(0, N_WORDS, int(n))) for n in lengths]

    def one_by_one() -> None:
        for sample in samples:
            call([sample])

    def together() -> None:
        run = OpenRun(call, len(samples))
        for sample in samples:
            run.submit([sample])
        run.drain()

    with ex.no_grad():
        return lengths, quickest([one_by_one, together], n_rounds)


def quickest(runs: Sequence[Callable[[], Any]], n_rounds: int) -> list[float]:
    """Seconds of each, taken in turn."""
    best = [float("inf")] * len(runs)
    for _ in range(max(3, n_rounds) + 2):  # plans are made by the first two
        for i, run in enumerate(runs):
            began = time.perf_counter()
            run()
            best[i] = min(best[i], time.perf_counter() - began)
    return best


def demo(folder: Path, n_clients: int, n_requests: int, n_rounds: int) -> str:
    title = f"The model of `extempo demo`, 1 to 8 words, npz bodies, {n_clients} clients, one core:"
    file = folder / "demo.extempo"
    rng = np.random.default_rng(0)
    words = [rng.integers(1, 11, int(n)) for n in rng.integers(1, 9, 256)]
    servers = [Server("one by one", file, max_batch=1), Server("ragged", file, max_batch=64)]
    try:
        requests = [request(npz(words=w)) for w in words]
        found = compare(servers, requests, n_clients, n_requests, n_rounds)
        alone = min(load(servers[0], requests, 1, min(256, n_requests)).percentile(50) for _ in range(3))
    finally:
        for server in servers:
            server.end()
    ex.set_num_threads(1)
    program = ex.load_program(str(file))
    times = []
    for _ in range(5):
        began = time.perf_counter()
        for w in words:
            program(ex.tensor(w))
        times.append((time.perf_counter() - began) / len(words))
    model = min(times)
    return (
        f"{title}\n\n{found}\n\nOne client, one by one: {1e3 * alone:.2f} ms a request, {1e3 * model:.2f} ms of which "
        f"in the model; HTTP, bodies and the wait for others are {1 - model / alone:.0%}."
    )


def overload(folder: Path, n_requests: int) -> str:
    """More clients than the queue and the requests at a time: every request is answered 200, 429 or 503."""
    server = Server("ragged", folder / "tagger.extempo", max_queue=32, max_requests=96, max_batch=16)
    try:
        found = load(server, token_requests(), 128, n_requests)
        after = load(server, token_requests(), 1, 8)
    finally:
        server.end()
    answered = ", ".join(f"{n} x {status}" for status, n in sorted(found.statuses.items()))
    text = f"Overload: {n_requests} requests of 128 clients: {answered}; {found.lost} lost."
    good = not found.lost and set(found.statuses) <= {200, 429, 503} and after.statuses == {200: 8}
    if not good or sum(found.statuses.values()) != n_requests:
        sys.exit(f"{text} Then {after.statuses}. The server has not stood it")
    return text


def hostile(folder: Path, n_requests: int) -> str:
    """Requests that no honest client sends, and slow ones beside them; honest ones are answered as before."""
    server = Server("ragged", folder / "scaling.extempo", max_body=2_000_000, body_timeout=2.0)
    good = request(b'{"inputs":{"x":[[1,2,3]]}}', "application/json")
    statuses: dict[str, int] = {}
    name = "process_resident_memory_bytes"
    try:
        memory = [server.metric(name)]
        slow: list[socket.socket] = []
        for i in range(n_requests):
            if i % 50 == 0:  # begins a request, and says nothing more
                slow.append(_slow(server.port, bool(len(slow) % 2)))
            status = send(server.port, REQUESTS[i % len(REQUESTS)]).decode("latin-1") or "closed"
            statuses[status] = statuses.get(status, 0) + 1
            if i % max(1, n_requests // 10) == max(1, n_requests // 10) - 1:
                memory.append(server.metric(name))
        for one in slow:
            one.close()
        after = load(server, [good], 4, 100)
    finally:
        server.end()
    answered = ", ".join(f"{n} x {status}" for status, n in sorted(statuses.items()))
    growth = memory[-1] - memory[len(memory) // 2]
    shown = " ".join(f"{m / 1e6:.0f}" for m in memory)
    text = f"Hostile: {n_requests} requests: {answered}. Memory in MB: {shown} (second half {growth / 1e6:+.1f})."
    if after.statuses != {200: 100} or growth >= 20e6 or any(status.startswith("5") for status in statuses):
        sys.exit(f"{text} Then {after.statuses}. The server has not stood it")
    return text


def _slow(port: int, with_body: bool) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=30)
    more = b"Content-Length: 50\r\n\r\n{" if with_body else b""
    client.sendall(b"POST /predict HTTP/1.1\r\nHost: localhost\r\n" + more)
    return client


PARTS = ("throughput", "demo", "overload", "hostile")


def measured(parts: Sequence[str], n_clients: int, n_requests: int, n_rounds: int, n_hostile: int) -> Iterator[str]:
    """What each of these parts finds, one after the other."""
    all_cores = set(cores())
    if len(all_cores) > 1:
        os.sched_setaffinity(0, {cores()[0]})
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_programs(folder)
            for part in parts:
                if part == "throughput":
                    yield throughput(folder, n_clients, n_requests, n_rounds)
                elif part == "demo":
                    yield demo(folder, n_clients, 4 * n_requests, n_rounds)
                elif part == "overload":
                    yield overload(folder, n_requests)
                else:
                    yield hostile(folder, n_hostile)
    finally:
        if len(all_cores) > 1:
            os.sched_setaffinity(0, all_cores)


def section(wanted: str | None, rounds: int) -> str:
    """For docs/performance.md; a fourth of the rounds of others, which are long ones here."""
    n_rounds = max(1, rounds // 4)
    about = (__doc__ or "").partition("\n\n")[2].partition("\n\n")[2].strip()
    found = "\n\n".join(measured(PARTS, 64, 512, n_rounds, 10_000))
    return f"### serving\n\n{about}\n\n{found}\n\n{machine()}; extempo {ex.__version__}; medians of {n_rounds} rounds"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"{', '.join(PARTS)}; all by default")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=512, help="of each round of throughput, and of overload")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hostile", type=int, default=10_000, help="hostile requests")
    if sys.argv[1:2] == ["--be-a-server"]:
        way, file, *given = sys.argv[2:]
        pairs = [text.split("=") for text in given]
        limits: dict[str, Any] = {name: float(v) if name.endswith("timeout") else int(v) for name, v in pairs}
        be_a_server(way, file, Limits(**limits))
        return
    args = parser.parse_args()
    unknown = [part for part in args.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]}; choose from {', '.join(PARTS)}")
    for text in measured(args.parts or PARTS, args.clients, args.requests, args.rounds, args.hostile):
        print(text + "\n", flush=True)


if __name__ == "__main__":
    main()
