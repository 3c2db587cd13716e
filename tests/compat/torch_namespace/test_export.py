"""`torch.export`: programs by PyTorch's names."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.compat.torch_namespace import export


class Net(ex.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = ex.nn.Linear(3, 2)

    def forward(self, x, scale=None):
        y = self.layer(x)
        y = y if scale is None else y * scale
        return y.relu() if y.sum() > 0 else y


def test_a_model_is_exported_with_dynamic_shapes_and_saved(tmp_path):
    model = Net().eval()
    batch = export.Dim("batch", min=1, max=64)
    made = export.export(
        model, (ex.ones(4, 3),), {"scale": ex.tensor(2.0)}, dynamic_shapes={"x": {0: batch}, "scale": None}
    )
    x = ex.randn(7, 3)
    assert ex.allclose(made.module()(x, scale=ex.tensor(3.0)), model(x, ex.tensor(3.0)))
    assert made.range_constraints == {"batch": (1, 64)}
    assert set(made.state_dict) == {"layer.weight", "layer.bias"}
    export.save(made, tmp_path / "net.pt2")
    again = export.load(tmp_path / "net.pt2")
    assert ex.equal(again(x, ex.tensor(1.0)), made(x, ex.tensor(1.0)))
    assert [d.__name__ for d in export.dims("a", "b")] == ["a", "b"]
    assert "linear" in str(again)
    assert len(again.graph) == len(made.graph)


def test_arguments_are_a_tuple():
    with pytest.raises(ex.errors.ArgumentError, match=r"args must be a tuple, got Tensor; write \(x,\)"):
        export.export(Net(), ex.ones(4, 3))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        export.nothing  # noqa: B018 - asking is the test


def test_a_draft_is_an_export_and_needs_no_decompositions():
    assert export.draft_export is export.export
    assert export.default_decompositions() == {}


def test_an_exported_program_tells_what_it_takes_and_holds():
    model = ex.nn.Sequential(ex.nn.Linear(3, 3), ex.nn.BatchNorm1d(3))
    made = export.export(model, (ex.ones(4, 3),), dynamic_shapes={"input": {0: export.Dim.AUTO}})
    signature = made.graph_signature
    assert signature.user_inputs == ["input"]
    assert signature.parameters == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert [name for name, _ in made.named_parameters()] == signature.parameters
    assert len(list(made.parameters())) == 4
    assert [name for name, _ in made.named_buffers()] == signature.buffers
    assert len(list(made.buffers())) == len(signature.buffers)
    assert set(signature.buffers_to_mutate) == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}
    assert made.run_decompositions() is made
    for module in (made.graph_module, export.unflatten(made)):
        assert set(module.state_dict()) == set(model.state_dict())


def test_a_size_computed_from_another_is_refused_in_words():
    with pytest.raises(ex.errors.ExportError, match="a size that is computed from half has no form here"):
        2 * export.Dim("half")
