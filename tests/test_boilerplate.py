"""Lines that PyTorch scripts carry along work as they are, after the import was changed."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import nn, optim
from extempo.errors import DtypeError


def test_imports_that_scripts_begin_with():
    import extempo.backends.cudnn as cudnn

    from extempo.cuda.amp import GradScaler, autocast
    from extempo.utils.data.dataloader import DataLoader
    from extempo.utils.data.dataset import Dataset
    from extempo.utils.data.sampler import SubsetRandomSampler

    cudnn.benchmark = True
    assert ex.backends.cudnn.benchmark
    cudnn.benchmark = False
    assert DataLoader is ex.data.DataLoader
    assert Dataset is ex.data.Dataset
    assert SubsetRandomSampler is ex.data.SubsetRandomSampler
    assert not GradScaler(enabled=False).is_enabled()
    with autocast(enabled=False):
        pass


def test_axis_and_keepdims_stand_for_dim_and_keepdim():
    x = ex.arange(6.0).reshape(2, 3)
    assert x.sum(axis=0).tolist() == [3, 5, 7]
    assert ex.mean(x, axis=1, keepdims=True).shape == (2, 1)
    assert x.max(axis=1).indices.tolist() == [2, 2]
    assert ex.cat([x, x], axis=1).shape == (2, 6)
    assert ex.stack([x, x], axis=2).shape == (2, 3, 2)
    assert float(np.sum(x)) == 15
    with pytest.raises(TypeError):
        x.sum(axes=0)


def test_a_gradient_penalty_passes_only_inputs():
    x = ex.ones(2, requires_grad=True)
    (g,) = ex.autograd.grad((x * x).sum(), x, create_graph=True, retain_graph=True, only_inputs=True)
    assert g.requires_grad


def test_names_that_are_not_there_yet_say_so():
    for name in ("profiler",):
        stands_for = getattr(ex, name)
        with pytest.raises(AttributeError, match="not part of"):
            stands_for.anything  # noqa: B018 - reading it is the test


def test_an_optimizer_wants_parameters_not_a_module():
    model = nn.Linear(2, 1)
    with pytest.raises(DtypeError, match=r"pass model\.parameters\(\)"):
        optim.SGD(model, lr=0.1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for wrong in ([], [1, 2]):
        with pytest.raises(DtypeError, match="the optimizer is as it was"):
            optimizer.follow(wrong)
    assert len(optimizer.param_groups[0]["params"]) == 2


def test_units_to_keep_can_be_a_mask():
    layer, after = nn.Linear(2, 3), nn.Linear(3, 1)
    nn.utils.prune_units(layer, [True, False, True], into=[after])
    assert (layer.out_features, after.in_features) == (2, 2)
    with pytest.raises(DtypeError, match="bool mask"):
        nn.utils.prune_units(layer, [0.5])


def test_a_followed_module_may_change_by_plain_assignment_and_within_forward():
    class Growing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(2, 2)])
            self.grow = False

        def forward(self, x: ex.Tensor) -> ex.Tensor:
            if self.grow:
                self.layers.append(nn.Linear(2, 2))
            for layer in self.layers:
                x = layer(x)
            return x

    model = Growing()
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    optimizer.follow(model)

    def step() -> None:
        model(ex.ones(1, 2)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    kept = optimizer.state[model.layers[0].weight]["exp_avg"].clone()
    model.grow = True
    model(ex.ones(1, 2))
    model.grow = False
    grown = model.layers[1].weight.detach().clone()
    step()
    assert len(optimizer.param_groups[0]["params"]) == 4
    assert not ex.equal(grown, model.layers[1].weight)
    assert not ex.equal(kept, optimizer.state[model.layers[0].weight]["exp_avg"])  # its moments went on
    model.layers[0] = nn.Linear(2, 2)
    replaced = model.layers[0].weight.detach().clone()
    step()
    assert not ex.equal(replaced, model.layers[0].weight)
    assert len(optimizer.param_groups[0]["params"]) == 4
