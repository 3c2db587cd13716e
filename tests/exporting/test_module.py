"""program.module(): a module that trains, with the names, states and results of the model."""

from __future__ import annotations

import io

import extempo as ex
from extempo import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
        self.register_buffer("scale", ex.tensor(2.0))

    def forward(self, x):
        h = ex.zeros(4)
        for row in self.inner(x):
            h = h * 0.5 + row if row.sum() > 0 else h - row
        return h * self.scale + ex.ones(4)


def exported(model, **options):
    return ex.program(model, ex.randn(3, 3), dynamic={"x": {0: "n"}}, **options)


def test_gradients_and_names_are_those_of_the_model():
    model = Net().eval()
    module = exported(model).module()
    assert dict(module.named_parameters()).keys() == dict(model.named_parameters()).keys()
    assert module.state_dict().keys() == model.state_dict().keys()
    x = ex.randn(6, 3)
    for m in (model, module):
        (m(x) ** 2).sum().backward()
    for (_, ours), (_, theirs) in zip(module.named_parameters(), model.named_parameters(), strict=True):
        assert ex.allclose(ours.grad, theirs.grad, atol=1e-5)


def test_a_program_from_a_file_trains():
    file = io.BytesIO()
    exported(Net().eval()).save(file)
    file.seek(0)
    module = ex.load_program(file).module()
    x, target = ex.randn(5, 3), ex.zeros(4)
    optimizer = ex.optim.SGD(module.parameters(), lr=0.02)
    losses = []
    for _ in range(20):
        loss = ((module(x) - target) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_training_the_module_leaves_the_program_as_it_was():
    program = exported(Net().eval())
    module, x = program.module(), ex.randn(2, 3)
    before = program(x)
    with ex.no_grad():
        for p in module.parameters():
            p.zero_()
    assert ex.equal(program(x), before)
    assert not ex.equal(module(x), before)


def test_states_are_buffers_that_calls_update():
    norm = nn.BatchNorm1d(3)
    module = ex.program(norm, ex.randn(4, 3), training=True, dynamic={"input": {0: "n"}}).module()
    x = ex.randn(6, 3)
    for _ in range(2):
        assert ex.allclose(module(x), norm(x), atol=1e-5)
    assert ex.allclose(module.running_mean, norm.running_mean)
    assert module.num_batches_tracked.item() == 2


def test_a_program_inside_another_model_is_exported_again():
    inner = exported(Net().eval()).module().eval()
    program = ex.program(lambda x: inner(x) * 2, ex.randn(3, 3), dynamic={"x": {0: "n"}})
    x = ex.randn(5, 3)
    assert ex.allclose(program(x), inner(x) * 2)
