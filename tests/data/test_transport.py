"""How batches travel: large buffers through shared memory that is used again, the rest through the connection."""

from __future__ import annotations

import multiprocessing
import socket
import sys

import numpy as np
import pytest

import extempo as ex
from extempo.data import (
    DataLoader,
    transport,
)
from extempo.data.transport import Receiver, Sender

pytestmark = pytest.mark.skipif(not hasattr(socket, "send_fds"), reason="descriptors do not travel here")

LARGE = 1 << 13  # bytes, more than what stays inside the pickle


@pytest.fixture
def ends():
    """A sender and a receiver on the two ends of one connection."""
    ours, theirs = multiprocessing.Pipe()
    yield Sender(ours), Receiver(theirs)
    ours.close()
    theirs.close()


def travel(ends, value):
    sender, receiver = ends
    sender.send("label", sender.pack(value))
    label, parcel = receiver.receive()
    assert label == "label"
    return parcel, receiver.open(parcel)


def test_small_values_travel_inside_the_pickle(ends):
    parcel, value = travel(ends, {"a": np.arange(3), "b": None})
    assert parcel.segment is None
    assert value["a"].tolist() == [0, 1, 2]


def test_large_arrays_travel_in_a_segment_and_arrive_in_memory_of_their_own(ends):
    sent = [np.arange(LARGE, dtype=np.uint8), np.arange(LARGE // 8 + 1, dtype=np.float64)]
    parcel, value = travel(ends, sent)
    assert parcel.sizes == (sent[0].nbytes, sent[1].nbytes)
    for ours, theirs in zip(value, sent, strict=True):
        assert np.array_equal(ours, theirs)
        ours[0] = 1  # it is writable, and nobody else's


def test_a_long_pickle_travels_in_a_segment_too(ends):
    text = [str(i) for i in range(20_000)]
    parcel, value = travel(ends, text)
    assert parcel.stream is None
    assert value == text


def test_a_segment_is_used_again_once_it_was_released_and_dropped_where_it_is_too_small(ends):
    sender, receiver = ends
    first, _ = travel(ends, np.zeros(LARGE, np.uint8))
    sender.release(receiver.released)
    receiver.released = []
    again, _ = travel(ends, np.zeros(LARGE, np.uint8))
    assert (first.segment, again.segment, again.new_size) == (0, 0, None)
    sender.release(receiver.released)
    larger, _ = travel(ends, np.zeros(10 * LARGE, np.uint8))
    assert (larger.segment, larger.dropped) == (1, (0,))


def test_a_parcel_that_nobody_wants_gives_its_memory_back_unread(ends):
    sender, receiver = ends
    sender.send(None, sender.pack(np.zeros(LARGE, np.uint8)))
    receiver.discard(receiver.receive()[1])
    assert receiver.released == [0]


def test_a_sender_that_is_gone_is_the_end_of_the_file(ends):
    sender, receiver = ends
    sender._connection.close()
    with pytest.raises(EOFError):
        receiver.receive()


def test_buffers_start_aligned():
    assert transport._offsets((1, 64, 65, 0)) == ([0, 64, 128, 256], 256)
    assert transport._offsets(()) == ([], 0)


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="classes of a test module reach workers by fork only")


def test_every_kind_of_sample_travels():
    samples = [{"t": ex.ones(3, dtype=ex.bfloat16), "big": ex.zeros(100, 100), "s": "x" * 100_000, "n": None}] * 2
    loader = DataLoader(samples, batch_size=None, num_workers=1)
    for sample in loader:
        assert sample["t"].dtype is ex.bfloat16
        assert sample["big"].shape == (100, 100)
        assert len(sample["s"]) == 100_000
        assert sample["n"] is None


def test_batches_belong_to_whoever_gets_them():
    loader = DataLoader([np.zeros(5000)] * 8, batch_size=2, num_workers=1, prefetch_factor=1)
    kept = []
    for batch in loader:
        batch.add_(1)
        kept.append(batch)
    assert all((batch == 1).all() for batch in kept)
