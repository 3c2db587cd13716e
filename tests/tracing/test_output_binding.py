"""Which live tensor gets which output of a segment, as native code reads it."""

from __future__ import annotations

import struct

import extempo as ex
from extempo.backends.llvm.calls.output_binding import ENTRY, OF_BOUND, OF_LEAF, OF_VALUE, OUTPUT
from extempo.core.trace_tree import TraceNode
from extempo.scheduling.request import BackwardRequest
from extempo.tracing.output_binding import output_binding
from extempo.tracing.segment import first_segment

from .agreement import draw, needs_native_code
from .by_hand import new_executor, tracing

pytestmark = needs_native_code


def bound(fn, *args, backward=None, first=0):
    """(Its binding with the entries as dicts, what the function returned)."""
    with tracing(new_executor()) as executor:
        kept = fn(*args)
    trace = executor.trace
    segment = first_segment(trace, first, trace.live_from(first), TraceNode(), backward)
    binding = output_binding(segment, trace.makers, first, len(trace.makers))
    words = struct.iter_unpack(f"<{len(ENTRY)}q", binding.entries)
    return binding, [dict(zip(ENTRY, entry, strict=True)) for entry in words], kept


def test_a_tensor_gets_its_own_output():
    binding, entries, _ = bound(lambda x: (x.exp(), x.neg().tanh()), draw(0, 3))
    assert binding.places == (0, 2)
    assert [(e["kind"], e["source"], e["index"], e["tracked"]) for e in entries] == [
        (OUTPUT, 0, 0, 0),
        (OUTPUT, 1, 2, 0),
    ]
    assert (binding.stays, binding.alive, binding.kept) == (b"", [], [None] * 3)


def test_a_view_brings_its_base_along_which_nobody_refers_to():
    binding, entries, _ = bound(lambda x: x.exp().t(), draw(0, 2, 3, grad=True))
    assert binding.places == (0, 1)
    assert [(e["kind"], e["source"]) for e in entries] == [(OUTPUT, 0), (OF_BOUND, 0)]
    assert [alias is None for alias in binding.aliases] == [True, False]
    assert binding.alive == [0, 1]
    assert struct.unpack("<2q", binding.stays) == (0, 1)


def test_a_view_of_a_leaf_reads_the_leaf():
    _, entries, _ = bound(lambda x: x.t(), draw(0, 2, 3, grad=True))
    assert [(e["kind"], e["source"]) for e in entries] == [(OF_LEAF, 0)]


def test_a_view_of_what_ran_before_reads_that():
    _, entries, _ = bound(lambda x: ((y := x.exp()), y.t())[1], draw(0, 2, 3, grad=True), first=1)
    assert [(e["kind"], e["source"], e["index"]) for e in entries] == [(OF_VALUE, 0, 0)]


def test_detached_views_have_no_base_to_follow():
    binding, _, _ = bound(lambda x: x.exp().detach(), draw(0, 3, grad=True))
    assert binding.aliases == (None, None)


def test_a_backward_frees_the_nodes_that_have_saved_something():
    binding, entries, _ = bound(
        lambda x: (x.exp(), x.exp().sum()), draw(0, 3, grad=True), backward=BackwardRequest(2, -2, None)
    )
    assert binding.places == (0, 2)
    assert [e["freed"] for e in entries] == [1, 0]  # exp has saved its result, sum nothing
    assert binding.alive == [2]  # the others have their nodes at once


def test_nothing_live_binds_nothing():
    binding, entries, _ = bound(lambda x: x.exp() is None, draw(0, 3))
    assert (binding.places, entries) == ((), [])


def test_a_view_whose_start_is_a_number_of_the_call_names_it():
    root = TraceNode()
    for start in (0, 1, 1):
        with tracing(new_executor(root)) as executor:
            part = draw(0, 5, grad=True).exp()[start : start + 3]
        trace = executor.trace
        segment = first_segment(trace, 0, trace.live_from(0), TraceNode())
        alias = output_binding(segment, trace.makers, 0, len(trace.makers)).aliases[-1]
        assert alias == () or alias[0][0].name == trace.makers[-1].op.name
        assert (alias == ()) == (trace.makers[-1].baked is None)
        assert isinstance(part, ex.Tensor)
    assert alias == ()  # the second start was another one, so it is no guard any more
