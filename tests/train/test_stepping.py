"""A loss that is not finite: what is named, and that nothing was changed."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.nn import functional as F
from extempo.train import Callback, NonFiniteLossError, Trainer


class Rooted(nn.Module):
    """The root is nan where the input is negative."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(3, 2)

    def forward(self, x):
        roots = x.sqrt()  # the line to be named
        return self.out(self.drop(self.norm(roots)))


def batches(bad_at):
    generator = ex.Generator().manual_seed(0)
    made = [(ex.rand(8, 3, generator=generator), ex.randint(2, (8,), generator=generator)) for _ in range(5)]
    made[bad_at][0][2, 1] = -1.0
    return made


def trainer(**options):
    ex.manual_seed(1)
    model = Rooted()
    return Trainer(model, F.cross_entropy, optim.Adam(model.parameters(), lr=0.01), progress=False, **options)


def everything(made):
    return [value.clone() for value in made.model.state_dict().values()]


@pytest.mark.parametrize("options", [{}, {"compile": False}, {"accumulate": 2}, {"clip_grad_norm": 1.0}])
def test_a_nan_loss_names_the_op_and_its_line_and_leaves_the_model_as_it_was(options):
    n_good = 2 if "accumulate" in options else 3  # batches before the step
    n_steps = n_good // options.get("accumulate", 1)
    sound = trainer(**options)
    sound.fit(batches(4)[:n_good], epochs=1)
    expected, draw = everything(sound), ex.get_rng_state()
    made = trainer(**options)
    with pytest.raises(NonFiniteLossError) as caught:
        made.fit(batches(3), epochs=1)
    message = str(caught.value)
    lines = Path(__file__).read_text().splitlines()
    line = next(i for i, text in enumerate(lines, 1) if "the line to be named" in text)
    assert f"step {n_steps + 1}, epoch 1: the loss is nan: sqrt (" in message
    assert re.search(rf"test_stepping\.py:{line}\) gave 1 nan from inputs -1 \.\. ", message)
    assert "as it was before this step" in message
    assert made.n_steps == n_steps
    if "accumulate" not in options:  # else the first batch of the group was good, and has left its statistics
        assert ex.equal(ex.get_rng_state(), draw)
        assert all(ex.equal(a, b) for a, b in zip(everything(made), expected, strict=True)), "batch statistics too"
    assert all(ex.equal(a, b) for a, b in zip(made.model.parameters(), sound.model.parameters(), strict=True))
    assert all(p.grad is None for p in made.model.parameters())
    made.fit(batches(3)[:3], epochs=1)
    assert made.epoch == 1, "it can go on"


def test_bad_data_is_named():
    x, y = batches(0)[1]
    x[0, 0] = math.inf
    with pytest.raises(NonFiniteLossError, match="input 0 of this batch is not finite"):
        trainer().fit([batches(0)[1], (x, y)], epochs=1)
    model = nn.Linear(3, 1)
    made = Trainer(model, F.mse_loss, optim.SGD(model.parameters(), lr=0.1), progress=False)
    good = ex.ones(2, 3), ex.ones(2, 1)
    with pytest.raises(NonFiniteLossError, match="the loss is nan: target of this batch is not finite"):
        made.fit([good, (ex.ones(2, 3), ex.tensor([[1.0], [math.nan]]))], epochs=1)


class Distance(nn.Module):
    """Its loss is finite, and the gradient of the root at 0 is not."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(ex.ones(2))

    def forward(self, x):
        return (x + self.shift).abs().sqrt().sum(1)  # infinite slope at 0


def distances():
    return [(ex.ones(1, 2), ex.ones(1)), (-ex.ones(1, 2), ex.ones(1)), (ex.ones(1, 2), ex.ones(1))]


def test_a_gradient_that_is_not_finite_is_named_at_the_next_step():
    model = Distance()
    made = Trainer(model, F.mse_loss, optim.SGD(model.parameters(), lr=0.0), progress=False)
    with pytest.raises(NonFiniteLossError, match=r"step 3, .*parameter shift is not finite since the last step"):
        made.fit(distances(), epochs=1)


@pytest.mark.parametrize("compiled", [True, False])
def test_with_clipping_a_gradient_that_is_not_finite_stops_before_the_step(compiled):
    model = Distance()
    made = Trainer(
        model,
        F.mse_loss,
        optim.SGD(model.parameters(), lr=0.0),
        clip_grad_norm=1.0,
        compile=compiled,
        progress=False,
    )
    with pytest.raises(NonFiniteLossError, match="step 2, epoch 1: the gradients are not finite") as caught:
        made.fit(distances(), epochs=1)
    assert "sqrt" in str(caught.value) or "shift" in str(caught.value)
    assert ex.equal(model.shift, ex.ones(2))
    assert model.shift.grad is None


def test_models_of_one_sample_name_the_op_too():
    class One(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(1, 2)

        def forward(self, x):
            return self.out((x - 1.0).log().reshape(1))

    model = One()
    made = Trainer(model, F.cross_entropy, optim.SGD(model.parameters()), batch=True, progress=False)
    data = [(ex.tensor([2.0, 3.0]), [0, 1]), (ex.tensor([3.0, 0.5]), [0, 1])]
    with pytest.raises(NonFiniteLossError, match=r"step 2, .*: log \(.*test_stepping\.py"):
        made.fit(data, epochs=1)


def test_a_nan_in_validation_names_the_op_and_changes_nothing():
    made = trainer()
    good = batches(0)[1:]
    states = []

    class Keeping(Callback):
        def on_step(self, trainer, loss):
            states.append(everything(trainer))

    made.callbacks.append(Keeping())
    line = next(
        i for i, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "the line to be named" in text
    )
    with pytest.raises(NonFiniteLossError, match=rf"validation, epoch 1: the loss is nan: sqrt \(.*:{line}\)"):
        made.fit(good, batches(0), epochs=1)
    assert all(ex.equal(a, b) for a, b in zip(states[-1], everything(made), strict=True))


def test_a_forward_that_forgets_to_return_is_named():
    class Forgetful(nn.Linear):
        def forward(self, x):
            super().forward(x)

    model = Forgetful(3, 2)
    made = Trainer(model, F.cross_entropy, optim.SGD(model.parameters(), lr=0.1), progress=False)
    with pytest.raises(TypeError, match=r"Forgetful\.forward gave None; does it forget to return its result"):
        made.fit([(ex.ones(2, 3), ex.tensor([0, 1]))], epochs=1)


@pytest.mark.parametrize("options", [{}, {"compile": False}])
def test_a_step_whose_loss_is_not_finite_is_recorded_and_can_be_replayed(options, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(NonFiniteLossError) as caught:
        trainer(**options).fit(batches(1), epochs=1)
    replay = ex.inspect.replay(re.search(r"extempo replay (\S+)", str(caught.value))[1])
    assert replay.first_difference is None
    bad = next(node for node in replay.nodes if " nan" in node.value)
    assert bad.op == "sqrt"
    assert "test_stepping.py" in bad.line
    assert any(node.phase == "backward" for node in replay.nodes)


def test_a_batch_of_samples_whose_loss_is_not_finite_is_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    model = nn.Linear(3, 2)

    def loss(output, target):
        return output.sum() * float("nan")

    made = Trainer(model, loss, optim.SGD(model.parameters()), batch=True, progress=False)
    with pytest.warns(UserWarning, match="nan before any"), pytest.raises(NonFiniteLossError, match="extempo replay"):
        made.fit(batches(1), epochs=1)
    assert [path.suffix for path in tmp_path.iterdir()] == [".extempo"]
