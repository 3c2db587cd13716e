"""What programs ask of PyTorch's engine has an answer."""

from __future__ import annotations

from extempo.compat.torch_namespace import autograd_names


def test_nothing_runs_elsewhere():
    assert not autograd_names.kineto_available()
    assert not autograd_names.is_multithreading_enabled()
    assert not autograd_names.is_view_replay_enabled()
    assert autograd_names.set_override_stale_capture_stream(True) is None
