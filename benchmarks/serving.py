"""A load test of `extempo serve` on this machine: bounded, on loopback, and it ends by itself.

    python benchmarks/serving.py                      # all of it
    python benchmarks/serving.py throughput           # ragged batches beside one by one, padding and onnxruntime
    python benchmarks/serving.py demo                 # the model of `extempo demo`, and the share of HTTP
    python benchmarks/serving.py overload             # more requests than it takes: each is answered or refused
    python benchmarks/serving.py hostile              # 10,000 requests that no honest client sends

The server has one core and one thread, the load generator a core of its own, where there are two. `throughput` is about
a 2-layer LSTM of 256 over 20 to 200 tokens and npz bodies: one server for each way to run it, all of them up at once,
asked in turn round after round; the figures are medians over the rounds. CPU ms is the server's processor time for a
request, which tells the same on a machine that has other things to do.
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
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hostile_requests import REQUESTS, send

import extempo as ex
from extempo import nn
from extempo.cli.demo_task import Classifier
from extempo.exporting.calls import Dim
from extempo.serving.app import Service
from extempo.serving.models import Model
from extempo.serving.runners import Ticket
from extempo.serving.server import bound_socket, make_server
from extempo.serving.settings import Limits

N_WORDS, SIZE, N_CLASSES = 1000, 256, 10
SHORTEST, LONGEST = 20, 200
NPZ = "application/x-npz"


class Tagger(nn.Module):
    """Tokens of one sequence, or (time, batch) of padded ones with their lengths, to scores of classes."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(N_WORDS, SIZE)
        self.lstm = nn.LSTM(SIZE, SIZE, num_layers=2)
        self.out = nn.Linear(SIZE, N_CLASSES)

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
    model = Tagger().eval()
    tokens, batch = Dim("tokens", min=1), Dim("batch", min=1)
    example = ex.randint(0, N_WORDS, (SHORTEST,))
    ex.program(model, example, dynamic={"tokens": {0: tokens}}).save(str(folder / "tagger.extempo"))
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

    def __init__(self, run: Any) -> None:
        self._run = run
        self.running: list[Ticket] = []

    def start(self, tickets: list[Ticket]) -> None:
        self.running += tickets

    def step(self) -> None:
        tickets, self.running = self.running, []
        if not tickets:
            return
        try:
            made = self._run([ticket.tensors[0] for ticket in tickets])
        except Exception as error:
            for ticket in tickets:
                ticket.fail(error)
            return
        for ticket, one in zip(tickets, made, strict=True):
            ticket.give([one])

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
    make_server(service).run(sockets=[listening])


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


def compare(servers: list[Server], requests: list[bytes], n_clients: int, n_requests: int, n_rounds: int) -> None:
    """Ask servers in turn, round after round, and print medians."""
    rounds: dict[str, list[Load]] = {server.way: [] for server in servers}
    cpu: dict[str, list[float]] = {server.way: [] for server in servers}
    for server in servers:
        load(server, requests, n_clients, min(n_requests, 2 * n_clients))
    for _ in range(n_rounds):
        for server in servers:
            before = server.metric("process_cpu_seconds")
            found = load(server, requests, n_clients, n_requests)
            cpu[server.way].append((server.metric("process_cpu_seconds") - before) / n_requests)
            if found.lost or set(found.statuses) != {200}:
                sys.exit(f"{server.way}: {found.lost} requests lost, answers {found.statuses}")
            rounds[server.way].append(found)
    slowest = statistics.median(one.per_second for one in rounds["one by one"])
    dearest = statistics.median(cpu["one by one"])
    print(f"{'':<14}{'requests/s':>11}{'ratio':>8}{'p50 ms':>9}{'p99 ms':>9}{'CPU ms':>9}{'ratio':>8}{'together':>10}")
    for server in servers:
        found_ = rounds[server.way]
        rate = statistics.median(one.per_second for one in found_)
        p50, p99 = (1000 * statistics.median(one.percentile(q) for one in found_) for q in (50, 99))
        name = next(iter(re.findall(r'extempo_batch_samples_sum\{model="(\w+)"\}', server.get("/metrics"))))
        steps = server.metric(f'extempo_batch_samples_count{{model="{name}"}}')
        together = server.metric(f'extempo_batch_samples_sum{{model="{name}"}}') / steps
        ms = 1000 * statistics.median(cpu[server.way])
        text = f"{server.way:<14}{rate:>11.1f}{rate / slowest:>8.2f}{p50:>9.1f}{p99:>9.1f}"
        print(f"{text}{ms:>9.2f}{1000 * dearest / ms:>8.2f}{together:>10.1f}")


def throughput(folder: Path, n_clients: int, n_requests: int, n_rounds: int) -> None:
    print(f"\n2-layer LSTM of {SIZE}, {SHORTEST} to {LONGEST} tokens, npz bodies, {n_clients} clients, one core\n")
    tagger = folder / "tagger.extempo"
    ways = [("one by one", 1), ("padding", 64), ("ragged", 64)]
    program = ex.load_program(str(tagger))
    if importlib.util.find_spec("onnxruntime") is None:
        print("onnxruntime is left out: it is not installed")
    elif not hasattr(program, "to_onnx"):
        print("onnxruntime is left out: programs have no to_onnx")
    else:
        program.to_onnx(str(tagger.with_suffix(".onnx")))
        ways.append(("onnxruntime", 64))
    servers = [Server(way, tagger, max_batch=most) for way, most in ways]
    try:
        compare(servers, token_requests(), n_clients, n_requests, n_rounds)
    finally:
        for server in servers:
            server.end()


def demo(folder: Path, n_clients: int, n_requests: int, n_rounds: int) -> None:
    print(f"\nthe model of extempo demo, 1 to 8 words, npz bodies, {n_clients} clients, one core\n")
    file = folder / "demo.extempo"
    rng = np.random.default_rng(0)
    words = [rng.integers(1, 11, int(n)) for n in rng.integers(1, 9, 256)]
    servers = [Server("one by one", file, max_batch=1), Server("ragged", file, max_batch=64)]
    try:
        requests = [request(npz(words=w)) for w in words]
        compare(servers, requests, n_clients, n_requests, n_rounds)
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
    print(
        f"\none client, one by one: {1e3 * alone:.2f} ms a request, {1e3 * model:.2f} ms of which in the model: "
        f"HTTP, bodies and the wait for others are {1 - model / alone:.0%}"
    )


def overload(folder: Path, n_requests: int) -> bool:
    """More clients than the queue and the requests at a time: every request is answered 200, 429 or 503."""
    server = Server("ragged", folder / "tagger.extempo", max_queue=32, max_requests=96, max_batch=16)
    try:
        found = load(server, token_requests(), 128, n_requests)
        after = load(server, token_requests(), 1, 8)
    finally:
        server.end()
    answered = ", ".join(f"{n} x {status}" for status, n in sorted(found.statuses.items()))
    good = not found.lost and set(found.statuses) <= {200, 429, 503} and after.statuses == {200: 8}
    print(f"\noverload: {n_requests} requests of 128 clients: {answered}, {found.lost} lost; then {after.statuses}")
    return good and sum(found.statuses.values()) == n_requests


def hostile(folder: Path, n_requests: int) -> bool:
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
    print(f"\nhostile: {n_requests} requests: {answered}; then {after.statuses}")
    print("memory, MB:", " ".join(f"{m / 1e6:.0f}" for m in memory), f"(second half: {growth / 1e6:+.1f})")
    return after.statuses == {200: 100} and growth < 20e6 and not any(status.startswith("5") for status in statuses)


def _slow(port: int, with_body: bool) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=30)
    more = b"Content-Length: 50\r\n\r\n{" if with_body else b""
    client.sendall(b"POST /predict HTTP/1.1\r\nHost: localhost\r\n" + more)
    return client


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="throughput, demo, overload, hostile; all by default")
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
    parts = args.parts or ["throughput", "demo", "overload", "hostile"]
    if len(cores()) > 1:
        os.sched_setaffinity(0, {cores()[0]})
    good = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_programs(folder)
        if "throughput" in parts:
            throughput(folder, args.clients, args.requests, args.rounds)
        if "demo" in parts:
            demo(folder, args.clients, 4 * args.requests, args.rounds)
        if "overload" in parts:
            good &= overload(folder, args.requests)
        if "hostile" in parts:
            good &= hostile(folder, args.hostile)
    if not good:
        sys.exit("the server has not stood it")


if __name__ == "__main__":
    main()
