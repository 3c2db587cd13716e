"""Classic mistakes: each program is wrong, and what it prints or raises names the cause, the effect and the remedy.

In a program `# cause` marks the line that is wrong and `# effect` the line at which that is noticed.
"""

from __future__ import annotations

import linecache
import textwrap
import traceback
import warnings

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import DtypeError, GraphFreedError, NoGradientPathError, OverwrittenError, ShapeError
from extempo.train import Trainer
from extempo.train.stepping import NonFiniteLossError

BEFORE = """
import numpy as np
import extempo as ex
from extempo import nn
from extempo.nn import functional as F
from extempo.train import Trainer
ex.manual_seed(0)
x, y = ex.randn(8, 4), ex.tensor([0, 1, 2, 0, 1, 2, 0, 1])
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = ex.optim.SGD(model.parameters(), lr=0.1)
"""


class Outcome:
    """What running a program gave: its error, its warnings, its variables, and where its marked lines are."""

    def __init__(self, program):
        source = BEFORE.strip() + "\n" + textwrap.dedent(program)
        lines = source.splitlines(keepends=True)
        linecache.cache["train.py"] = (len(source), None, lines, "train.py")
        marks = ("cause", "effect")
        self.places = {mark: i + 1 for i, line in enumerate(lines) for mark in marks if f"# {mark}" in line}
        self.variables = {"__name__": "__main__"}
        self.error = None
        with warnings.catch_warnings(record=True) as self.warned:
            warnings.simplefilter("always")
            try:
                exec(compile(source, "train.py", "exec"), self.variables)
            except Exception as error:
                self.error = error

    @property
    def text(self):
        if self.error is not None:
            return "".join(traceback.format_exception_only(self.error))
        return "\n".join(str(w.message) for w in self.warned)

    @property
    def effect(self):
        """The line at which it was noticed."""
        if self.error is None:
            return self.warned[0].lineno
        frames = traceback.extract_tb(self.error.__traceback__)
        return [frame.lineno for frame in frames if frame.filename == "train.py"][-1]

    def names_the_cause(self, text=None):
        return f"train.py:{self.places['cause']}" in (text or self.text)


def test_an_overwrite_in_place():
    ran = Outcome("""
        w = ex.ones(3, requires_grad=True)
        h = w.exp()
        h += 1  # cause
        h.sum().backward()  # effect
    """)
    assert isinstance(ran.error, OverwrittenError)
    assert f"overwritten in place at train.py:{ran.places['cause']}" in ran.text
    assert ran.effect == ran.places["effect"]
    assert "use the out-of-place form there" in ran.text


def test_a_second_backward():
    ran = Outcome("""
        loss = F.cross_entropy(model(x), y)  # cause
        loss.backward()
        loss.backward()  # effect
    """)
    assert isinstance(ran.error, GraphFreedError)
    assert ran.names_the_cause()
    assert ran.effect == ran.places["effect"]
    assert "compute the loss again, or call backward(retain_graph=True)" in ran.text


def test_a_detached_loss():
    ran = Outcome("""
        out = model(x).detach()  # cause
        loss = F.cross_entropy(out, y)
        loss.backward()  # effect
    """)
    assert isinstance(ran.error, NoGradientPathError)
    assert f"cut by detach() at train.py:{ran.places['cause']}" in ran.text
    assert ran.effect == ran.places["effect"]
    assert "remove it there" in ran.text


def test_a_broadcast_that_silently_succeeds_in_a_loss():
    ran = Outcome("""
        regression = nn.Linear(4, 1)
        loss = F.mse_loss(regression(x), ex.ones(8))  # cause, and effect
        told = ex.explain(lambda: ((regression(x) - ex.ones(8)) ** 2).mean(), regression)
    """)
    assert ran.error is None
    assert "input has shape (8, 1), target (8,); they are broadcast" in ran.text
    assert ran.effect == ran.places["cause"]
    (finding,) = ran.variables["told"].findings
    assert f"sub (train.py:{ran.places['cause'] + 1}) of shapes (8, 1) and (8,) broadcasts to (8, 8)" in finding
    assert "squeeze or unsqueeze one of them" in finding


def test_a_forgotten_zero_grad():
    ran = Outcome("""
        with ex.inspect.guard():
            for _ in range(3):
                loss = F.cross_entropy(model(x), y)
                told = ex.explain(loss, model, optimizer)
                loss.backward()
                optimizer.step()  # effect
    """)
    assert ran.error is None
    assert len(ran.warned) == 1
    assert ran.effect == ran.places["effect"]
    assert "backward has added to the gradients of the last SGD.step" in ran.text
    assert "call optimizer.zero_grad() before each backward" in ran.text
    assert any("the gradient of an earlier backward" in f for f in ran.variables["told"].findings)


@pytest.mark.parametrize("forget", ["optimizer.zero_grad()", "optimizer.zero_grad(False)", "model.zero_grad()"])
def test_gradients_that_are_forgotten_are_no_mistake(forget):
    ran = Outcome(f"""
        with ex.inspect.guard():
            for _ in range(4):
                {forget}
                for _ in range(2):  # accumulated on purpose
                    F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """)
    assert (ran.error, ran.warned) == (None, [])


def test_a_forgotten_eval():
    ran = Outcome("""
        noisy = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
        with ex.no_grad():
            out = noisy(x)  # cause
        told = ex.explain(out, noisy)
    """)
    (finding,) = ran.variables["told"].findings
    assert ran.names_the_cause(finding)
    assert "in training mode, in which 1 behaves otherwise than at use: call model.eval() first" in finding


def test_softmax_before_cross_entropy():
    ran = Outcome("""
        probabilities = model(x).softmax(1)  # cause
        loss = F.cross_entropy(probabilities, y)  # effect
        told = ex.explain(loss, model)
        class Wrong(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = model
            def forward(self, x):
                return self.net(x).softmax(1)
        Trainer(Wrong(), F.cross_entropy, optimizer, progress=False).fit([(x, y)])
    """)
    (finding,) = ran.variables["told"].findings
    assert f"softmax (train.py:{ran.places['cause']}) goes into cross_entropy " in finding
    assert f"(train.py:{ran.places['effect']})" in finding
    assert "leave the softmax out" in finding
    assert "cross_entropy wants scores: leave the softmax out" in ran.text  # by the Trainer


def test_a_nan_from_the_logarithm_of_zero():
    ran = Outcome("""
        with ex.inspect.guard(model):
            p = model(x).relu()
            loss = (p * p.log()).sum()  # cause
            loss.backward()
    """)
    assert ran.error is not None
    assert "guard: mul (" in ran.text
    assert ran.names_the_cause()
    assert ran.effect == ran.places["cause"]  # before a loss is differentiated
    assert "inf" in ran.text


def test_an_exploding_loss():
    ran = Outcome("""
        optimizer = ex.optim.SGD(model.parameters(), lr=1e6)  # cause
        def loss(out, target):
            return (out ** 2).mean()
        Trainer(model, loss, optimizer, progress=False, guard=True).fit([(x, y)] * 50)  # effect
    """)
    assert isinstance(ran.error, NonFiniteLossError)
    assert "fit: step " in ran.text
    assert ran.effect == ran.places["effect"]
    plain = Outcome("""
        optimizer = ex.optim.SGD(model.parameters(), lr=1e25)
        def loss(out, target):
            return (out ** 2).mean()
        Trainer(model, loss, optimizer, progress=False).fit([(x, y)] * 50)
    """)
    assert isinstance(plain.error, NonFiniteLossError)
    assert "training has diverged: lower the learning rate, or set clip_grad_norm" in plain.text


def test_a_graph_that_is_kept_by_a_sum_of_losses():
    ran = Outcome("""
        total = 0.0
        for _ in range(40):
            loss = F.cross_entropy(model(x), y)
            total += loss  # cause
        told = ex.memory.holders()
    """)
    held = next(h for h in ran.variables["told"] if h.code.startswith("total += loss"))
    assert f"train.py:{ran.places['cause']} keeps" in str(held)
    assert "of 40 iterations" in str(held)


@pytest.mark.parametrize("compiled", [False, True])
def test_the_trainer_warns_of_graphs_that_are_kept(compiled):
    ran = Outcome(f"""
        kept = []
        def loss(out, target):
            found = F.cross_entropy(out, target)
            kept.append(found * 1.0)  # cause
            return found
        Trainer(model, loss, optimizer, progress=False, compile={compiled}).fit([(x, y)] * 60)
    """)
    assert len(ran.warned) == 1
    assert ran.names_the_cause()
    assert "memory grows with every step; keep loss.detach() or loss.item() instead" in ran.text


def test_labels_of_a_wrong_dtype():
    ran = Outcome("""
        labels = y.float()  # cause
        F.cross_entropy(model(x), labels)  # effect
    """)
    assert isinstance(ran.error, ShapeError)
    assert ran.effect == ran.places["effect"]
    assert "class indices must be integers: target.long()" in ran.text


def test_parameters_that_the_optimizer_does_not_have():
    ran = Outcome("""
        optimizer = ex.optim.SGD(model[0].parameters(), lr=0.1)  # cause
        loss = F.cross_entropy(model(x), y)
        told = ex.explain(loss, model, optimizer)
        Trainer(model, F.cross_entropy, optimizer, progress=False).fit([(x, y)])
    """)
    (finding,) = ran.variables["told"].findings
    assert "not in the optimizer, so never updated: 2.weight, 2.bias" in finding
    assert "make the optimizer of model.parameters()" in finding
    assert "the optimizer does not have 2.weight, 2.bias" in ran.text


def test_layers_in_a_plain_list():
    ran = Outcome("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(4, 4), nn.Linear(4, 3)]  # cause
            def forward(self, x):
                return self.layers[1](self.layers[0](x))
        optimizer = ex.optim.SGD(Net().parameters(), lr=0.1)  # effect
    """)
    assert "Layers in a plain list are not seen: use nn.ModuleList" in ran.text
    assert ran.effect == ran.places["effect"]
    assert "layers is a plain list: make it nn.ModuleList(...)" in str(ran.warned[0].message)


def test_input_of_numpy_in_float64():
    ran = Outcome("""
        data = ex.from_numpy(np.ones((8, 4)))  # cause
        model(data)  # effect
    """)
    assert isinstance(ran.error, DtypeError)
    assert ran.effect == ran.places["effect"]
    assert "input is extempo.float64 but weight is extempo.float32; convert the input: x.float()" in ran.text
    assert "in 0 (Linear), which got float64 (8, 4)" in ran.text


@pytest.mark.parametrize(
    ("wrong", "remedy"),
    [
        ("None", "did a forward before it forget to return its result?"),
        ("[[1.0, 2.0, 3.0, 4.0]]", "make one with ex.tensor(...)"),
    ],
)
def test_no_tensor_where_one_belongs(wrong, remedy):
    ran = Outcome(f"""
        given = {wrong}  # cause
        model(given)  # effect
    """)
    assert isinstance(ran.error, DtypeError)
    assert ran.effect == ran.places["effect"]
    assert remedy in ran.text
    assert ", which got " in ran.text


def test_a_model_without_mistakes_is_told_none():
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = ex.optim.Adam(model.parameters(), lr=1e-3)
    x, y = ex.randn(8, 4), ex.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    loss = nn.functional.cross_entropy(model(x), y)
    assert ex.explain(loss, model, optimizer).findings == []
    loss.backward()
    assert not [f for f in ex.explain(loss, model, optimizer).findings if "dead units" not in f]
    optimizer.zero_grad()
    trainer = Trainer(model, nn.functional.cross_entropy, optimizer, progress=False, guard=True)
    trainer.fit([(x, y)] * 60, epochs=2)
