"""A profile: what it says of a program, how it begins and ends, and what happens when things go wrong."""

from __future__ import annotations

import gc
import json
import threading
import time
import weakref

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.backends.selection import native
from extempo.errors import ExtempoError
from extempo.profiling import recording
from extempo.profiling.api import record_function, tensorboard_trace_handler
from extempo.profiling.steps import schedule


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.blocks = nn.ModuleList([nn.Linear(16, 16) for _ in range(2)])

    def forward(self, x):
        x = ex.relu(self.first(x))
        for block in self.blocks:
            x = x + ex.tanh(block(x))
        return x


def training(n_steps=20, compiled=False):
    model = Net()
    optimizer = optim.Adam(model.parameters())
    x = ex.ones(4, 8)

    def step():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()

    run = ex.compile(step) if compiled else step
    for _ in range(6 if compiled else 2):
        run()

    def program():
        for _ in range(n_steps):
            run()

    return program


def shares(rows):
    return sum(row.share for row in rows)


@pytest.mark.parametrize("compiled", [False, True])
def test_the_parts_add_up_to_the_time_by_the_clock(compiled):
    program = training(compiled=compiled)
    begin = time.perf_counter()
    with ex.profile() as prof:
        program()
    seconds = time.perf_counter() - begin
    for what in ("line", "module", "op", "phase"):
        assert abs(shares(prof.by(what)) - 1) < 0.01
    assert prof.seconds <= seconds
    assert {"backward", "optimizer", "Python"} <= {row.name for row in prof.by("phase")}


def test_lines_modules_and_ops_are_those_of_the_program():
    program = training()
    with ex.profile() as prof:
        program()
    names = [row.name for row in prof.by("line")]
    assert any("x = x + ex.tanh(block(x))" in name and name.startswith("test_api.py:") for name in names)
    assert not any("extempo/nn" in name or "linear.py" in name for name in names)
    modules = {row.name for row in prof.by("module")}
    assert {"Net", "first Linear", "blocks.0 Linear", "blocks.1 Linear"} <= modules
    assert prof.by("module")["blocks.0 Linear"].calls == 20
    ops = prof.by("op")
    assert ops["linear"].calls == 60
    assert ops["tanh"].calls == 40
    assert ops["Adam.step"].calls == 20
    (row,) = [row for row in prof.by("line") if "x = x + ex.tanh(block(x))" in row.name]
    assert row.backward > 0


@pytest.mark.skipif(ex.backends.stats()["backend"] == "numpy", reason="plans are native")
def test_a_compiled_step_is_booked_on_the_lines_of_its_ops():
    program = training(compiled=True)
    with ex.profile() as prof:
        program()
    (row,) = [row for row in prof.by("line") if "x = x + ex.tanh(block(x))" in row.name]
    assert row.native > 0
    kernels = [row.name for row in prof.by("kernel")]
    assert any(name.startswith("fused: ") for name in kernels)
    assert any(row.is_estimate for row in prof.by("line"))
    assert "shared among their lines by estimated cost" in str(prof)


def test_a_batch_is_profiled():
    cell = nn.GRUCell(4, 4)

    def read(xs):
        h = ex.zeros(1, 4)
        for x in xs:
            h = cell(x.reshape(1, 4), h)
        return h.sum()

    run = ex.batch(read)
    samples = [ex.ones(n, 4) for n in (3, 5, 4)]
    run(samples)
    with ex.profile() as prof:
        run(samples)
    assert abs(shares(prof.by("phase")) - 1) < 0.01
    assert any("run(samples)" in row.name for row in prof.by("line"))


@pytest.mark.skipif(native() is None, reason="there are no plans")
def test_the_time_of_batches_is_shared_among_the_lines_of_their_calls():
    cell, gate = nn.GRUCell(48, 48), nn.Linear(48, 1)

    def read(xs):
        h = ex.zeros(1, 48)
        for x in xs:
            if h.sum() > 1e9:  # so that samples wait for values
                break
            h = cell(x.reshape(1, 48), h)
            h = h * gate(h)
        return h.sum()

    run = ex.batch(read)
    samples = [ex.ones(n % 5 + 2, 48) for n in range(40)]
    for _ in range(3):
        run(samples)
    with ex.profile() as prof:
        run(samples)
    assert run.stats()["launches"] > 0  # it was no loop
    assert abs(shares(prof.by("phase")) - 1) < 0.01
    rows = {row.name: row for row in prof.by("line") if row.native}
    cells, sums = (next(r for name, r in rows.items() if text in name) for text in ("h = cell(", "return h.sum()"))
    assert cells.is_estimate
    assert cells.native > sums.native


def test_the_report_fits_80_columns_and_says_phases():
    program = training()
    with ex.profile() as prof:
        program()
    text = str(prof)
    assert max(map(len, text.splitlines())) <= 80
    assert "by the clock" in text
    assert "native run" in text


def test_what_was_found_goes_into_files(tmp_path):
    program = training(3)
    with ex.profile() as prof:
        program()
    prof.flame(tmp_path / "flame.svg")
    prof.html(tmp_path / "page.html")
    prof.chrome(tmp_path / "trace.json")
    prof.chrome(tmp_path / "trace.json.gz")
    prof.export_stacks(str(tmp_path / "stacks.txt"))
    assert (tmp_path / "flame.svg").read_text().startswith("<svg")
    assert "By kernel" in (tmp_path / "page.html").read_text()
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert (tmp_path / "trace.json.gz").read_bytes()[:2] == b"\x1f\x8b"
    stack, _, time = (tmp_path / "stacks.txt").read_text().splitlines()[0].rpartition(" ")
    assert stack
    assert int(time) > 0
    assert json.loads(prof.to_json())["mode"] == "trace"
    assert "<svg" in prof._repr_html_()


def test_a_sampled_profile_knows_lines_and_phases():
    with ex.profile(mode="sample") as prof:
        end = time.perf_counter() + 0.2
        while time.perf_counter() < end:
            sum(range(1000))
    assert abs(shares(prof.by("phase")) - 1) < 0.01
    assert any("sum(range(1000))" in row.name or "while time" in row.name for row in prof.by("line"))
    assert "sample" in str(prof)
    assert prof.advice == []
    with pytest.raises(ExtempoError, match="samples are no trace"):
        prof.chrome("nowhere.json")


def test_an_error_inside_goes_on_and_the_profile_ends():
    with pytest.raises(ValueError, match="mine"), ex.profile() as prof:  # noqa: PT012 - an op, then the error
        ex.ones(3) + 1
        raise ValueError("mine")
    assert recording.current() is None
    assert prof.by("op")["add"].calls == 1


def test_an_op_that_fails_is_recorded_and_its_error_is_the_same():
    with ex.profile() as prof, pytest.raises(ex.errors.ShapeError):
        ex.ones(3) + ex.ones(4)
    assert prof.seconds > 0


def test_an_interrupt_ends_the_profile():
    with pytest.raises(KeyboardInterrupt), ex.profile() as prof:  # noqa: PT012 - an op, then the interrupt
        ex.ones(3) + 1
        raise KeyboardInterrupt
    assert recording.current() is None
    assert "add" in {row.name for row in prof.by("op")}


def test_profiles_may_be_inside_one_another():
    with ex.profile() as outer:
        ex.ones(3) + 1
        with ex.profile() as inner:
            ex.ones(3) * 2
        ex.ones(3) - 1
    assert recording.current() is None
    assert {"mul"} <= {row.name for row in inner.by("op")}
    assert "add" not in {row.name for row in inner.by("op")}
    assert {"add", "mul", "sub"} <= {row.name for row in outer.by("op")}


def test_a_profile_can_be_used_again():
    prof = ex.profile()
    with prof:
        ex.ones(3) + 1
    assert "add" in {row.name for row in prof.by("op")}
    with prof:
        ex.ones(3) * 2
    assert "add" not in {row.name for row in prof.by("op")}


def test_a_ring_that_is_full_says_how_much_was_lost():
    a = ex.ones(3)
    with ex.profile(records=64) as prof:
        for _ in range(500):
            a + 1
    assert prof.n_lost > 300
    assert "records lost, the oldest" in str(prof).replace("\n  ", " ")
    assert abs(shares(prof.by("phase")) - 1) < 0.01


def test_ops_of_other_threads_are_told_apart():
    def work():
        for _ in range(50):
            ex.ones(100).exp()

    with ex.profile() as prof:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        ex.ones(3) + 1
    assert "exp" not in {row.name for row in prof.by("op")}
    assert prof.by("op", thread=1)["exp"].calls == 50
    assert "thread=1" in str(prof)


def test_a_profile_of_another_thread_is_about_that_thread():
    found = []

    def work():
        with ex.profile() as prof:
            ex.ones(100).exp()
        found.append(prof)

    with ex.profile():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found[0].by("op")["exp"].calls == 1


def test_it_is_a_decorator_also_of_generators():
    prof = ex.profile()

    @prof
    def twice(x):
        return x * 2

    @prof
    def steps(x):
        yield x + 1
        return x - 1

    twice(ex.ones(2))
    assert "mul" in {row.name for row in prof.by("op")}
    assert len(list(steps(ex.ones(2)))) == 1
    assert {"add", "sub"} <= {row.name for row in prof.by("op")}


def test_named_stretches_are_in_the_tree():
    with ex.profile() as prof:
        for _ in range(3):
            with record_function("loss"):
                ex.ones(3) + 1
    (event,) = [event for event in prof.key_averages() if event.key == "loss"]
    assert event.count == 3
    (node,) = [node for node in prof.trees[0].walk() if node.name == "loss"]
    assert any(below.name == "add" for below in node.walk())


def test_a_schedule_chooses_steps_and_a_handler_writes_files(tmp_path):
    written = tensorboard_trace_handler(str(tmp_path), use_gzip=True)
    with ex.profile(schedule=schedule(wait=1, warmup=1, active=1, repeat=2), on_trace_ready=written) as prof:
        for _ in range(8):
            ex.ones(3) + 1
            prof.step()
    assert len(list(tmp_path.iterdir())) == 2
    assert prof.by("op")["add"].calls == 1


def test_nothing_of_a_profile_stays():
    call, backward = nn.Module.__call__, ex.Tensor.backward
    program = training(2)
    for mode in ("trace", "sample"):
        with ex.profile(mode=mode):
            program()
    assert nn.Module.__call__ is call
    assert ex.Tensor.backward is backward
    assert not [thread for thread in threading.enumerate() if thread.name == "extempo profile"]


def test_modules_that_were_profiled_go_when_the_profile_goes():
    model = nn.Linear(2, 2)
    gone = weakref.ref(model)
    with ex.profile() as prof:
        model(ex.ones(1, 2))
    prof.by("module")
    del model, prof
    gc.collect()
    assert gone() is None


def test_what_cannot_be_asked_for_is_refused():
    with pytest.raises(ExtempoError, match="mode='other' is not known"):
        ex.profile(mode="other")
    with pytest.raises(ExtempoError, match="records=0"):
        ex.profile(records=0)
    with pytest.raises(ExtempoError, match="nothing was recorded yet"):
        ex.profile().by("line")
    assert "nothing was recorded yet" in str(ex.profile())
    with ex.profile() as prof:
        pass
    with pytest.raises(ExtempoError, match="by='file' is not known"):
        prof.by("file")
    with pytest.raises(KeyError, match="no op 'nothing'"):
        prof.by("op")["nothing"]


def test_a_profile_that_is_switched_off_records_nothing():
    with ex.profile(enabled=False) as prof:
        ex.ones(3) + 1
    assert prof.key_averages() == []


def test_results_are_the_same_with_and_without():
    def result():
        ex.manual_seed(0)
        model = Net()
        model(ex.randn(3, 8)).sum().backward()
        return [p.grad.tolist() for p in model.parameters()]

    plain = result()
    with ex.profile():
        profiled = result()
    assert plain == profiled
