"""Decorators of `torch.jit` hand back what they get."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.compat.torch_namespace import jit


def test_decorators_hand_the_function_back():
    def fn(x):
        return x

    for decorator in (jit.script, jit.export, jit.unused, jit.ignore, jit.ignore(drop=True), jit.script_if_tracing):
        assert decorator(fn) is fn


def test_a_module_stays_itself_and_nothing_is_scripting():
    layer = ex.nn.Linear(2, 2)
    assert jit.script(layer) is jit.freeze(layer) is jit.optimize_for_inference(layer) is layer
    assert not jit.is_scripting()
    assert not jit.is_tracing()
    assert jit.annotate(int, 3) == 3
    assert jit.isinstance([1], list)


def test_work_that_is_forked_is_done_at_once():
    assert jit.wait(jit.fork(max, 1, 2)) == 2


def test_annotations_of_scripts_can_be_written():
    assert jit.BroadcastingList2[int] == int | list[int]
    assert jit.Attribute(3, int) == 3
    assert not jit._enabled


def test_a_traced_model_is_its_program_and_keeps_its_branches(tmp_path):
    class Net(ex.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = ex.nn.Linear(3, 2)

        def forward(self, x):
            y = self.layer(x)
            return y if y.sum() > 0 else -y

    model = Net().eval()
    traced = jit.trace(model, ex.ones(4, 3))
    for x in (ex.ones(4, 3), -ex.ones(4, 3)):
        assert ex.allclose(traced(x), model(x))
    with ex.no_grad():
        traced.layer.bias.add_(1)
    jit.save(traced, tmp_path / "net.pt")
    assert ex.allclose(jit.load(tmp_path / "net.pt")(ex.ones(4, 3)), traced(ex.ones(4, 3)))


class Net(ex.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = ex.nn.Linear(3, 2)

    def forward(self, x, n: int = 1):
        y = self.layer(x) * n
        return y if y.sum() > 0 else -y


def test_a_traced_model_takes_other_sizes_where_its_code_does():
    layer = jit.trace(ex.nn.Linear(4, 2), ex.randn(3, 4))
    assert layer(ex.randn(7, 4)).shape == (7, 2)
    doubled = jit.trace(lambda x: x * 2, ex.randn(3, 4))
    assert doubled(ex.ones(5, 6)).shape == (5, 6)
    fixed = jit.trace(lambda x: x + ex.ones(3), ex.randn(3))
    with pytest.raises(ex.errors.ShapeError):
        fixed(ex.ones(4))


def test_a_scripted_module_is_saved_from_its_last_call_with_open_sizes(tmp_path):
    model = jit.script(Net().eval())
    with pytest.raises(ex.errors.UnsupportedError, match=r"torch\.jit\.save\(torch\.jit\.trace\(model, example\)"):
        model.save(tmp_path / "net.pt")
    model(ex.ones(4, 3))
    model.save(tmp_path / "net.pt")
    again = jit.load(tmp_path / "net.pt", map_location="cpu")
    for x in (ex.ones(7, 3), -ex.ones(2, 3)):
        assert ex.allclose(again(x), model(x))
    assert "input %0 x: f32[size_4, 3]" in again.code
    assert len(again.graph) > 3


def test_scripted_and_traced_modules_are_script_modules():
    class Old(jit.ScriptModule):
        def __init__(self):
            super().__init__()
            self.layer = ex.nn.Linear(3, 2)

        @jit.script_method
        def forward(self, x):
            return self.layer(x)

    assert Old()(ex.ones(1, 3)).shape == (1, 2)
    assert isinstance(Old(), jit.ScriptModule)
    assert isinstance(jit.script(Net()), jit.ScriptModule)
    assert isinstance(jit.trace(Net().eval(), ex.ones(4, 3)), jit.ScriptModule)
    assert not isinstance(Net(), jit.ScriptModule)
    assert issubclass(jit.TracerWarning, Warning)


def test_the_forward_of_a_module_is_traced_by_name():
    model = Net().eval()
    assert ex.allclose(jit.trace_module(model, {"forward": ex.ones(4, 3)})(ex.ones(4, 3)), model(ex.ones(4, 3)))
    with pytest.raises(ex.errors.UnsupportedError, match="a program is of one function"):
        jit.trace_module(model, {"forward": ex.ones(4, 3), "other": ex.ones(4, 3)})


def test_extra_files_are_refused_and_blocks_have_no_effect(tmp_path):
    traced = jit.trace(Net().eval(), ex.ones(4, 3))
    with pytest.raises(ex.errors.UnsupportedError, match="extra files"):
        jit.save(traced, tmp_path / "net.pt", _extra_files={"a": b""})
    with jit.optimized_execution(True), jit.fuser("fuser1"):
        traced(ex.ones(4, 3))


def test_fusion_is_not_to_be_had_and_may_be_wished_for():
    jit.enable_onednn_fusion(True)
    assert not jit.onednn_fusion_enabled()
    assert jit.set_fusion_strategy([("STATIC", 2)]) == []
    with jit.strict_fusion():
        pass
    with pytest.raises(RuntimeError):
        raise jit.Error("caught as PyTorch's programs catch it")
