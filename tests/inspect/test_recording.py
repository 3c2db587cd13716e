"""ex.record: what is in the file, and that recording changes nothing."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.core.context import CONTEXT
from extempo.exporting.text import parse_program


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        h, _ = self.rnn(self.embed(x))
        return self.out(self.drop(self.norm(h[:, -1]).relu()))


def iteration():
    ex.manual_seed(3)
    net = Net()
    optimizer = optim.Adam(net.parameters(), lr=0.01)
    x, y = ex.randint(0, 10, (4, 6)), ex.tensor([0, 1, 2, 0])

    def step():
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return net, step


def recorded(run):
    file = io.BytesIO()
    with ex.record(file):
        run()
    file.seek(0)
    return file


def test_an_iteration_with_its_optimizer_is_replayed_bit_for_bit():
    _, step = iteration()
    step()
    replay = ex.inspect.replay(recorded(step))
    assert replay.first_difference is None
    assert replay.changed == []
    assert replay.updates == ["optimizer step: Adam, 9 parameters, every bit"]
    assert {node.phase for node in replay.nodes} == {"forward", "backward"}
    assert "every bit as recorded" in str(replay)


def test_recording_changes_no_bit_of_the_training():
    plain_net, plain = iteration()
    plain()
    expected = plain()
    net, step = iteration()
    recorded(step)
    assert step() == expected
    for a, b in zip(plain_net.parameters(), net.parameters(), strict=True):
        assert ex.equal(a, b)
    assert CONTEXT.get().interceptor is None


def test_the_file_is_a_program_with_names_and_no_pickle():
    _, step = iteration()
    file = recorded(step)
    content = ex.load(file)
    program = parse_program(content["program"], content["weights"])
    assert {"embed.weight", "rnn.weight_hh_l0", "out.bias", "norm.running_mean"} <= set(program.weights)
    assert {"grad.embed.weight", "grad.out.bias"} <= set(program.outputs)
    assert "embed.weight" in program.trainable
    assert len(program.inputs) >= 2
    assert content["environment"]["backend"] == ex.backends.stats()["backend"]
    assert content["random"].dtype == ex.uint8


@pytest.mark.parametrize("how", [ex.compile, lambda f: ex.compile(f, static=True)], ids=["compile", "static"])
def test_a_compiled_function_is_recorded_op_by_op(how):
    w = ex.ones(3, requires_grad=True)

    @how
    def f(x):
        return (x * w).exp().sum()

    for _ in range(3):
        f(ex.ones(3))
    replay = ex.inspect.replay(recorded(lambda: f(ex.ones(3))))
    assert [n.op for n in replay.nodes][-3:] == ["mul", "exp", "sum"]


def test_samples_of_a_batch_are_recorded():
    f = ex.batch(lambda x: (x * 2).sum())
    replay = ex.inspect.replay(recorded(lambda: f([ex.ones(2), ex.ones(3)])))
    assert [n.op for n in replay.nodes if n.op in ("mul", "sum")] == ["mul", "sum"] * 2
    assert replay.first_difference is None


def test_values_that_are_written_in_place_later_stay_as_they_were():
    x = ex.ones(3)

    def run():
        y = x * 2
        y.add_(1)
        y[0] = 7
        x.zero_()
        return (y * y).sum() + x.sum()

    replay = ex.inspect.replay(recorded(run))
    assert replay.first_difference is None
    assert replay.nodes[-1].value.endswith("all 67")


def test_an_op_of_the_users_is_given_as_a_value():
    class Double(ex.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = ex.ones(2, requires_grad=True)
    replay = ex.inspect.replay(recorded(lambda: Double.apply(x).sum().backward()))
    assert replay.first_difference is None


def test_layouts_are_kept():
    x = ex.arange(6.0).reshape(2, 3).t()
    y = ex.randn(2, 4).t()
    replay = ex.inspect.replay(recorded(lambda: (x.contiguous() @ ex.ones(2, 5), y @ x.t())))
    assert replay.first_difference is None


def test_a_block_that_raises_leaves_its_file_up_to_there(tmp_path):
    path = tmp_path / "step.extempo"
    with pytest.raises(ex.errors.ShapeError), ex.record(path):
        ex.ones(2).exp() + ex.ones(3)
    replay = ex.inspect.replay(path)
    assert "exp" in [node.op for node in replay.nodes]
    assert "the recorded iteration ended with ShapeError" in str(replay)
    assert CONTEXT.get().interceptor is None


def test_values_that_take_too_much_are_an_error():
    with pytest.raises(ex.errors.ArgumentError, match="more than most_bytes"), ex.record(io.BytesIO(), most_bytes=100):
        ex.ones(1000).exp()


def test_an_optimizer_of_the_users_is_said_not_to_be_replayed():
    class Own(optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {})

        def step(self, closure=None):
            return None

    w = ex.ones(2, requires_grad=True)

    def run():
        (w * 2).sum().backward()
        Own([w]).step()

    assert "Own is no optimizer of ex.optim; not replayed" in ex.inspect.replay(recorded(run)).updates[0]


def test_an_iteration_is_recorded_by_a_program_that_is_profiled(tmp_path):
    program = "import extempo as ex\nwith ex.profile():\n    with ex.record('it.extempo'):\n        ex.ones(2).exp()\n"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)
    assert (tmp_path / "it.extempo").exists()
