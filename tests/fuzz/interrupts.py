"""Ctrl-C at any moment of every kind of loop: it arrives, and what comes after it is as if it had never come.

Two ways to interrupt. *Injected*: CPython looks for signals on entering a Python function and after a call of a C
function, which is where it tells a profiler, too. So a profiler that raises KeyboardInterrupt at the n-th such event
within Extempo interrupts at an exact place, and a failure can be repeated. *Real*: a timer's signal, whose handler
raises it, anywhere.

After each one: it came out of the loop; no mode, recording, watch, generator or hook is left on; and a step from the
same state gives the same bits as one that was never interrupted.

Some losses are CPython's, and are not counted: an interrupt within `__del__` or callbacks of the standard library
(connections of `multiprocessing`, `weakref.finalize`), or of a user's classes, is printed and forgotten there; so is
one within some imports.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import os
import random
import signal
import sys
import sysconfig
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import extempo as ex
from extempo import autograd, nn, optim
from extempo.amp import autocasting
from extempo.core import effect_hooks
from extempo.core.active_traces import ACTIVE
from extempo.core.context import CONTEXT
from extempo.data import DataLoader, TensorDataset
from extempo.nn import functional as F
from extempo.train import Trainer
from extempo.utils.checkpoint import checkpoint

OURS = str(Path(ex.__file__).parent)
STANDARD = sysconfig.get_paths()["stdlib"]
LONGEST = 20_000  # events of a step at most, of which one is interrupted


class Program(NamedTuple):
    """A loop's body: `reset` brings back the state that it begins with, `step` returns what it computed."""

    reset: Callable[[], None]
    step: Callable[[], Any]


# ---- loops


def _network() -> tuple[Any, Any, Any]:
    ex.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    return model, ex.randn(6, 4), ex.randint(0, 3, (6,))


def _training(
    wrap: Callable[[Any], Any] = lambda step: step,
    forward: Callable[[Any, Any], Any] = lambda model, x: model(x),
    make_optimizer: Callable[[Any], Any] = lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    anew: int = 0,
) -> Program:
    """A training step; `anew`: wrapped at every step, and run so often."""
    model, x, y = _network()
    optimizer = make_optimizer(model.parameters())
    scheduler = optim.lr_scheduler.StepLR(optimizer, 2)
    states = [{k: v.clone() for k, v in model.state_dict().items()}, optimizer.state_dict(), scheduler.state_dict()]

    def body(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(model, x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    made = wrap(body)

    def reset() -> None:
        for thing, state in zip((model, optimizer, scheduler), states, strict=True):
            thing.load_state_dict(state)
        model.train()
        optimizer.zero_grad()
        ex.manual_seed(1)

    def step() -> Any:
        run = wrap(body) if anew else made
        for _ in range(anew or 1):
            loss = run(x, y).item()
        with ex.no_grad():
            after = model(x).sum().item()
        scheduler.step()
        return loss, after, [p.detach().numpy().tobytes() for p in model.parameters()]

    return Program(reset, step)


def _seeded(step: Callable[[], Any]) -> Program:
    return Program(lambda: ex.manual_seed(1) and None, step)


def _batched(anew: bool = False) -> Program:
    """A function of samples; `anew`: with a cell that is traced at every step."""
    model, x, _ = _network()
    model.eval()

    def make() -> Any:
        return ex.cell(lambda h, row: ex.tanh(h + model[0](row)))

    kept = make()

    def sample(rows: Any, cell: Any) -> Any:
        h = ex.zeros(8)
        for row in rows:
            h = cell(h, row)
        return h.sum() if float(h[0]) > 0 else h.mean()

    def step() -> Any:
        model.zero_grad()
        results = ex.batch(sample)([x[:n] for n in range(1, 6)], cell=make() if anew else kept)
        ex.stack(results).sum().backward()
        # What was interrupted while it was traced may be batched otherwise: equal to rounding, as batches are.
        return [round(r.item(), 4) for r in results], (model[0].weight.grad * 1e4).round().tolist()

    return _seeded(step)


def _ragged() -> Program:
    _, x, _ = _network()
    rnn = nn.GRU(4, 5, batch_first=True)

    def step() -> Any:
        rnn.zero_grad()
        rows = ex.ragged([x[:n] for n in (3, 1, 5)])
        y, _ = rnn(rows)
        loss = y.softmax(-1).sum(1).pow(2).sum()
        loss.backward()
        return loss.item(), rnn.weight_ih_l0.grad.numpy().tobytes()

    return _seeded(step)


def _loader(**options: Any) -> Program:
    _, x, y = _network()
    loader = DataLoader(TensorDataset(x, y), batch_size=2, shuffle=True, **options)
    return _seeded(lambda: [(a.tolist(), b.tolist()) for a, b in loader])


def _trainer() -> Program:
    model, x, y = _network()
    state = {k: v.clone() for k, v in model.state_dict().items()}
    data = DataLoader(TensorDataset(x, y), batch_size=3, shuffle=True)

    def reset() -> None:
        model.load_state_dict(state)
        model.train()
        model.zero_grad()
        ex.manual_seed(1)

    def step() -> Any:
        trainer = Trainer(model, F.cross_entropy, optim.SGD(model.parameters(), lr=0.1), progress=False)
        trainer.fit(data, data)
        return [p.detach().numpy().tobytes() for p in model.parameters()], model.training

    return Program(reset, step)


def _transforms() -> Program:
    model, x, y = _network()
    model.eval()
    weights = {k: v.detach() for k, v in model.named_parameters()}

    def loss(weights: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy(ex.func.functional_call(model, weights, (x,)), y)

    def step() -> Any:
        found = ex.func.vmap(ex.func.grad(loss), in_dims=(None, 0, 0))(weights, x, y)
        return (
            {k: v.numpy().tobytes() for k, v in found.items()},
            sorted(model._parameters),
            model[0].weight.requires_grad,
        )

    return _seeded(step)


def _saving() -> Program:
    model, x, _ = _network()
    model.eval()
    folder = tempfile.TemporaryDirectory()
    path = os.path.join(folder.name, "model.safetensors")

    def step() -> Any:
        ex.save(model.state_dict(), path)
        model.load_state_dict(ex.load(path))
        return model(x).tolist(), os.listdir(folder.name)

    return _seeded(step)


def _modes() -> Program:
    x = ex.ones(2, requires_grad=True)
    generator = ex.Generator().manual_seed(3)

    def step() -> Any:
        found = []
        for make in (
            ex.no_grad,
            ex.enable_grad,
            ex.inference_mode,
            lambda: ex.set_grad_enabled(False),
            ex.eager,
            autograd.detect_anomaly,
            lambda: autograd.set_detect_anomaly(True),
            lambda: autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
            lambda: ex.amp.autocast("cpu"),
            ex.random.fork_rng,
            lambda: ex.random.use_generator(generator),
        ):
            with make():
                found.append((x * 2).requires_grad)
        return found

    return _seeded(step)


LOOPS: dict[str, Callable[[], Program]] = {
    "eager": _training,
    "compiled": lambda: _training(ex.compile),
    "new functions": lambda: _training(ex.compile, anew=1),
    "planning": lambda: _training(ex.compile, anew=4),
    "static": lambda: _training(lambda step: ex.compile(step, static=True)),
    "recording static": lambda: _training(lambda step: ex.compile(step, static=True), anew=2),
    "batch": _batched,
    "new cells": lambda: _batched(anew=True),
    "ragged": _ragged,
    "loader": _loader,
    "workers": lambda: _loader(num_workers=1, persistent_workers=True),
    "trainer": _trainer,
    "transforms": _transforms,
    "adam": lambda: _training(make_optimizer=lambda p: optim.AdamW(p, lr=0.1)),
    "checkpoint": lambda: _training(forward=lambda model, x: checkpoint(model, x, use_reentrant=False)),
    "saving": _saving,
    "modes": _modes,
}


# ---- interrupting


class _Injector:
    """A profiler that raises at its n-th event within Extempo."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.place = ""

    def __call__(self, frame: Any, event: str, arg: Any) -> None:
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(OURS) and _is_real(frame, event):
            self.left -= 1
            if self.left < 0 and not self.place:
                self.place = f"{frame.f_code.co_qualname} at {frame.f_code.co_filename}:{frame.f_lineno}, {event} {arg}"
                raise KeyboardInterrupt


def _is_real(frame: Any, event: str) -> bool:
    """Whether a signal may come here, too, and does what an exception of a profiler does."""
    if event == "c_return":
        return True
    if frame.f_lasti > 0 and frame.f_code.co_flags & inspect.CO_GENERATOR:  # or it is closed, where no signal comes in
        return False
    # CPython 3.11 tells a profiler of a call before the first instruction that `interrupts.guarded` can cover.
    return sys.version_info >= (3, 12) or frame.f_code.co_exceptiontable[:1] != b"\x80"


def injected(step: Callable[[], Any], at: int) -> tuple[str, str]:
    """Interrupt a step at its n-th event, if it has so many: what is wrong with how it came out, and where it was."""
    injector, wrong = _Injector(at), "the interrupt was lost"
    before = sys.getprofile()
    try:
        sys.setprofile(injector)
        step()
    except KeyboardInterrupt:
        wrong = ""
    except Exception as error:
        wrong = f"the interrupt became a {type(error).__name__}: {error}"
    finally:
        sys.setprofile(before)
    return wrong if injector.place else "", injector.place


def events_of(step: Callable[[], Any]) -> int:
    """How many there are, up to a limit."""
    injector = _Injector(LONGEST)
    before = sys.getprofile()
    try:
        sys.setprofile(injector)
        step()
    except KeyboardInterrupt:
        return LONGEST
    finally:
        sys.setprofile(before)
    return LONGEST - injector.left


def signalled(step: Callable[[], Any], seconds: float) -> tuple[str, str]:
    """Run steps until a real signal comes: what is wrong with how it came out, and where it was."""
    place: list[str] = []

    def handler(number: int, frame: Any) -> None:
        place.append("".join(traceback.format_stack(frame, 4)).rstrip())
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        while not place:
            step()
    except KeyboardInterrupt:
        return "", place[0]
    except Exception as error:
        return f"the interrupt became a {type(error).__name__}: {error}", place[0]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return "the interrupt was lost", place[0]


# ---- looking


@contextlib.contextmanager
def unraisable_of_others() -> Any:
    """A list that grows by each exception that the standard library's own `__del__` or callback has swallowed."""
    found: list[Any] = []

    def note(unraisable: Any) -> None:
        trace = unraisable.exc_traceback
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        if trace is None or trace.tb_frame.f_code.co_filename.startswith(STANDARD):
            found.append(unraisable.err_msg)

    before, sys.unraisablehook = sys.unraisablehook, note
    try:
        yield found
    finally:
        sys.unraisablehook = before


def left_on() -> list[str]:
    """What is not as it should be where nothing runs."""
    mode, found = CONTEXT.get(), []
    if (mode.grad, mode.inference, mode.interceptor, mode.recording, mode.stepped_aside) != (
        True,
        False,
        None,
        None,
        False,
    ):
        found.append(f"the mode: {[getattr(mode, name) for name in mode.__slots__]}")
    if ACTIVE.recordings:
        found.append("a recording")
    if len(effect_hooks._on) or effect_hooks._originals:
        found.append("a watch")
    if autograd.is_anomaly_enabled():
        found.append("anomaly mode")
    if autocasting._STATE.get()[0]:
        found.append("autocast")
    if ex.random.current_generator() is not ex.default_generator:
        found.append("another generator")
    return found


def put_right() -> None:
    """After a failure, so that it is not found again."""
    CONTEXT.set(type(CONTEXT.get())(True, False, None, False))
    ACTIVE.recordings.clear()
    autograd.set_detect_anomaly(False)
    ex.random._set_current(ex.default_generator)


class Loop:
    """One kind of loop, and what a step that nobody interrupts gives."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.program = LOOPS[name]()
        for _ in range(4):  # what is recorded is planned, and everything is imported
            self.right = self._whole()
        self.program.reset()
        self.n_events = max(events_of(self.program.step), 1)

    def _whole(self) -> Any:
        self.program.reset()
        return self.program.step()

    def interrupt_at(self, n: int) -> str:
        """Interrupt at an event; says what is wrong afterwards."""
        self.program.reset()
        wrong, place = injected(self.program.step, n)
        return self._check(wrong, f"event {n}, {place}")

    def interrupt_after(self, seconds: float) -> str:
        self.program.reset()
        with unraisable_of_others() as others:
            wrong, place = signalled(self.program.step, seconds)
        return self._check("" if others else wrong, f"{seconds:.6f} s, {place}")

    def _check(self, wrong: str, place: str) -> str:
        found = [wrong, *left_on()]
        put_right()
        try:
            if self._whole() != self.right:
                found.append("the next step gives other results")
        except Exception as error:
            found.append(f"the next step fails: {type(error).__name__}: {error}")
        found = [one for one in found if one]
        return f"{self.name}: {', '.join(found)}; interrupted at {place}" if found else ""


_loops: dict[str, Loop] = {}


def case(seed: int, number: int) -> str:
    """Interrupt one kind of loop once or twice; says what is wrong, if anything is."""
    rng = random.Random(f"{seed} {number}")
    name = list(LOOPS)[number % len(LOOPS)]
    loop = _loops.get(name) or _loops.setdefault(name, Loop(name))
    wrong = loop.interrupt_at(rng.randrange(loop.n_events))
    if not wrong and hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
        wrong = loop.interrupt_after(rng.uniform(1e-5, 5e-3))
    return wrong


def run(seed: int, seconds: float) -> int:
    """Interrupt every kind of loop, in turn, until time is up; returns how many failures were found and printed."""
    n_failures, end = 0, time.monotonic() + seconds
    for number in itertools.count():
        if time.monotonic() >= end:
            break
        wrong = case(seed, number)
        if wrong:
            n_failures += 1
            print(f"interrupts.case({seed}, {number}): {wrong}", flush=True)
    return n_failures
