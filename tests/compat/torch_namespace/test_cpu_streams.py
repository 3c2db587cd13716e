"""The CPU has no queues of work: blocks run as any other."""

from __future__ import annotations

from extempo.compat.torch_namespace import cpu_streams


def test_streams_are_blocks_that_run_at_once():
    with cpu_streams.stream(cpu_streams.current_stream()) as stream:
        stream.synchronize()
    with cpu_streams.StreamContext(None):
        pass
    assert cpu_streams.Event().query()


def test_the_cpu_is_there():
    cpu_streams.set_device(0)
    assert cpu_streams.is_initialized()
    assert cpu_streams.get_capabilities()["architecture"]
