"""`extempo launch`: starts ranks by Open MPI's mpirun, shows whose line is whose, and leaves nothing behind.

mpirun runs in a session of its own, so Ctrl-C reaches the ranks by us: first as an interrupt, which lets them write a
checkpoint, then by force. Every process of a job carries the job's name in its environment, by which what is left is
found. Should this process itself be killed, the system ends mpirun, and the ranks with it.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from ..errors import DistributedError

JOB = "EXTEMPO_JOB"  # the variable that names a job
_GRACE = 10.0  # seconds that ranks have to end after an interrupt
_FORCE = 3.0  # seconds that mpirun has to end them after that
_TAG = re.compile(rb"^\[[^\],]*,(\d+)\]<(?:stdout|stderr)>: ?(.*)$")
_KILLED = re.compile(r"process rank (\d+) with PID \d+ on node \S+ exited on signal (\d+)")
_FAILED = re.compile(r"Process name: \[[^\]]*,\s*(\d+)\]\s+Exit code:\s+(\d+)")
_ABORTED = re.compile(r"process rank (\d+) with PID \d+ on node \S+ calling \"abort\"")
_SURVIVED = re.compile(r"extempo: rank ([\d, ]+) is lost")


def find_mpirun() -> str:
    """The path of mpirun: of the Open MPI wheel beside this Python, or the system's."""
    beside = Path(sys.executable).with_name("mpirun")
    found = str(beside) if beside.exists() else shutil.which("mpirun")
    if found is None:
        raise DistributedError("extempo launch: there is no mpirun; pip install 'extempo[mpi]' brings one")
    return found


def launch(
    script: str,
    args: Sequence[str] = (),
    n_ranks: int = 1,
    *,
    hosts: str | None = None,
    threads: int | None = None,
    survive: bool = False,
    torch: bool = False,
    prefix: bool = True,
) -> int:
    """Run a script as several ranks and wait for its end; the exit status.

    script: a Python program.
    args: its arguments.
    n_ranks: how many processes.
    hosts: "a:4,b:4" to use other machines, by ssh; this one alone if left out.
    threads: of each rank; the cores of this machine divided by its ranks if left out.
    survive: the others go on when a rank is lost (Open MPI's ULFM).
    torch: `import torch` means Extempo, as `extempo run` does.
    prefix: show the number of the rank before each line.
    """
    job = Job(command(script, args, n_ranks, hosts, survive, torch), environment(n_ranks, hosts, threads), prefix)
    return job.run()


def command(script: str, args: Sequence[str], n_ranks: int, hosts: str | None, survive: bool, torch: bool) -> list[str]:
    """The mpirun that starts the ranks."""
    made = [find_mpirun(), "-n", str(n_ranks), "--oversubscribe", "--bind-to", "none", "--output", "tag"]
    # On one machine ranks share memory, and open no port.
    made += ["--host", hosts] if hosts else ["--mca", "btl", "self,sm"]
    made += ["--with-ft", "ulfm"] if survive else []
    if n_ranks >= (os.cpu_count() or 1):  # no core to spare: who waits lets others run
        made += ["--mca", "mpi_yield_when_idle", "1"]
    if hosts:
        made += [word for name in _PASSED_ON for word in ("-x", name)]
    made += [sys.executable, "-u", "-m", "extempo.distributed.rank_process", *(["--torch"] if torch else [])]
    return [*made, script, *args]


_PASSED_ON = (JOB, "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONPATH")


def environment(n_ranks: int, hosts: str | None, threads: int | None) -> dict[str, str]:
    """What ranks find in their environment."""
    here = n_ranks if hosts is None else -(-n_ranks // len(hosts.split(",")))
    each = str(threads or max(1, (os.cpu_count() or 1) // here))
    made = {**os.environ, JOB: secrets.token_hex(8), "OMP_NUM_THREADS": each, "OPENBLAS_NUM_THREADS": each}
    made.setdefault("PYTHONPATH", "")
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # Open MPI wants to be asked twice
        made |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        made |= {"PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return made


class Job:
    """An mpirun and its ranks, from the start to the last of them."""

    def __init__(self, command: list[str], environment: dict[str, str], prefix: bool) -> None:
        self.name = environment[JOB]
        self._command = command
        self._environment = environment
        self._prefix = prefix
        self._said = b""  # what mpirun itself had to say
        self._lost: list[str] = []  # that others went on without
        self._interrupted_at: list[float] = []

    def run(self) -> int:
        """Start it and wait for its end; the exit status."""
        handlers = {number: signal.signal(number, self._interrupted) for number in (signal.SIGINT, signal.SIGTERM)}
        process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        try:
            self._show(process)
            status = process.wait()
        finally:
            self._clear(process)
            for number, handler in handlers.items():
                signal.signal(number, handler)
        if self._interrupted_at:
            status = 130
        verdict = self._verdict(status)
        if verdict:
            print(f"extempo launch: {verdict}", file=sys.stderr, flush=True)
        return 128 - status if status < 0 else status

    def _interrupted(self, number: int, frame: Any) -> None:
        self._interrupted_at.append(time.monotonic())
        if len(self._interrupted_at) == 1:
            for pid in self.processes():
                _kill(pid, signal.SIGINT)

    def _show(self, process: subprocess.Popen[bytes]) -> None:
        """Pass on what ranks print, line by line, until both streams end or patience does."""
        assert process.stdout is not None
        assert process.stderr is not None
        streams: dict[IO[bytes], tuple[bytes, Any]] = {
            process.stdout: (b"", sys.stdout), process.stderr: (b"", sys.stderr)
        }  # fmt: skip
        with selectors.DefaultSelector() as selector:
            for stream in streams:
                selector.register(stream, selectors.EVENT_READ)
            while streams:
                for key, _ in selector.select(0.2):
                    stream = key.fileobj  # type: ignore[assignment] # the streams that were registered
                    data = os.read(stream.fileno(), 1 << 16)
                    rest, target = streams[stream]
                    *lines, rest = (rest + data).split(b"\n")
                    if not data:
                        lines = [*lines, rest] if rest else lines
                        selector.unregister(stream)
                        del streams[stream]
                    else:
                        streams[stream] = (rest, target)
                    self._pass_on(lines, target)
                if self._is_overdue():
                    return

    def _is_overdue(self) -> bool:
        asked = self._interrupted_at
        return bool(asked) and (len(asked) > 1 or time.monotonic() - asked[0] > _GRACE)

    def _pass_on(self, lines: Iterable[bytes], target: Any) -> None:
        for line in lines:
            found = _TAG.match(line)
            if found is None:
                self._said += line + b"\n"
                continue
            text = found[2].decode(errors="replace")
            if (survived := _SURVIVED.match(text)) is not None:
                self._lost.append(survived[1])
            target.write(f"[{found[1].decode()}] {text}\n" if self._prefix else f"{text}\n")
        target.flush()

    def _clear(self, process: subprocess.Popen[bytes]) -> None:
        """Nothing of the job is left, whatever happened."""
        if process.poll() is None:
            _kill(process.pid, signal.SIGTERM)
            try:
                process.wait(_FORCE)
            except subprocess.TimeoutExpired:
                _kill(process.pid, signal.SIGKILL)
                process.wait()
        deadline = time.monotonic() + _FORCE
        while (left := self.processes()) and time.monotonic() < deadline:
            for pid in left:
                _kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    def processes(self) -> list[int]:
        """The ranks of this job on this machine, and what they have started."""
        mark = f"{JOB}={self.name}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (path / "environ").read_bytes() and b"mpirun" not in (path / "cmdline").read_bytes():
                    found.append(int(path.name))
            except OSError:  # it has ended, or is another user's
                continue
        return [pid for pid in found if pid != os.getpid()]

    def _verdict(self, status: int) -> str:
        """The last line: which rank was lost, or why the job ended."""
        said = " ".join(self._said.decode(errors="replace").split())
        if self._interrupted_at:
            return "interrupted; no process is left"
        if (found := _KILLED.search(said)) is not None:
            return f"rank {found[1]} is lost: killed by {signal.Signals(int(found[2])).name}; the job has ended"
        if (found := _ABORTED.search(said)) is not None:
            return f"rank {found[1]} failed; the job has ended"
        if (found := _FAILED.search(said)) is not None:
            return f"rank {found[1]} failed with exit status {found[2]}; the job has ended"
        if self._lost:
            return f"rank {', '.join(self._lost)} was lost; the others went on to the end"
        if status:
            return f"the job has ended with status {status}. {said}"
        return ""


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _end_with_parent() -> None:
    """In the child, before it becomes mpirun: the system ends it when this process dies."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
