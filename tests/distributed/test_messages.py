"""Messages to oneself; those between ranks are in test_collectives.py."""

from __future__ import annotations

import io
import sys

import pytest

import extempo as ex
from extempo import distributed as dist
from extempo.errors import ArgumentError, DistributedError


@pytest.mark.usefixtures("alone")
def test_a_process_can_send_itself_what_it_receives_later():
    x, y = ex.zeros(2), ex.zeros(2)
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, ex.ones(2), 0), dist.P2POp(dist.irecv, x, 0)])
    assert all(work.wait() and work.is_completed() and work.is_success() for work in works)
    assert x.tolist() == [1.0, 1.0]
    with pytest.raises(DistributedError, match="wait for ever"):
        dist.recv(y)
    with pytest.raises(ArgumentError, match="say which rank"):
        dist.send(x)
    with pytest.raises(ArgumentError, match="isend or"):
        dist.P2POp(dist.send, x, 0)


@pytest.mark.usefixtures("alone")
def test_breakpoint_stops_on_one_rank_after_some_passes(monkeypatch, capsys):
    from extempo.distributed import messages

    monkeypatch.setattr(messages, "_PASSED", [0])
    monkeypatch.setattr(messages, "_has_terminal", lambda: False)
    monkeypatch.setattr(sys, "stdin", io.StringIO("p 6 * 7\nc\n"))
    for _ in range(2):
        dist.breakpoint(rank=0, skip=1)
    assert "42" in capsys.readouterr().out
