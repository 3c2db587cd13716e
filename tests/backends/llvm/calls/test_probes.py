"""Probes before native code: what they write, and that they are gone afterwards."""

from __future__ import annotations

import pytest

import extempo as ex

pytest.importorskip("llvmlite")
if ex.backends.stats()["backend"] == "numpy":
    pytest.skip("the native backend does not run here", allow_module_level=True)

from extempo.backends.llvm.calls import callables
from extempo.backends.llvm.calls.probes import FINDS_LINE, FIRST_SITE, KEEPS_FIRST, Probes
from extempo.dispatch.fast_path import launcher


@pytest.fixture(scope="module")
def probes():
    return Probes(launcher())


@pytest.fixture
def timed(probes):
    """A function around Python's `sorted`, with a probe before it, and the records of its calls."""
    call = probes.around("sorted by a probe", sorted)
    probes.begin(8)

    def instead(key):
        return probes.stub(FIRST_SITE, key[1], FINDS_LINE | KEEPS_FIRST) if key[0] == "sorted by a probe" else None

    callables.replace_code(instead)
    yield call
    callables.replace_code(None)
    probes.end()


def test_a_record_has_times_line_and_what_it_was_called_with(probes, timed):
    given = [3, 1, 2]
    assert timed(given, reverse=True) == [3, 2, 1]
    records, n_written = probes.written()
    assert n_written == len(records) == 1
    assert records[0]["begin"] < records[0]["end"]
    assert probes.kept[int(records[0]["object"])] is given
    code = test_a_record_has_times_line_and_what_it_was_called_with.__code__
    assert probes.kept[int(records[0]["code"])] is code
    assert 0 <= records[0]["instruction"] < len(code.co_code)


def test_errors_pass_through(probes, timed):
    with pytest.raises(TypeError, match="not iterable"):
        timed(3)
    assert probes.written()[1] == 1


def test_a_full_ring_keeps_the_last_records(probes, timed):
    for _ in range(20):
        timed(())
    records, n_written = probes.written()
    assert n_written == 20
    assert len(records) == 8
    assert (records["begin"][1:] > records["begin"][:-1]).all()


def test_python_may_write_a_record(probes, timed):
    probes.write(3, 5, FIRST_SITE, 2, 0)
    records, _ = probes.written()
    assert (records[0]["begin"], records[0]["end"], records[0]["instruction"]) == (3, 5, 2)


def test_a_call_that_ends_after_the_profile_writes_nothing(probes, timed):
    def ends(x):
        probes.end()
        return x

    assert timed([1], key=ends) == [1]
    probes.begin(8)
    assert probes.written()[1] == 0


def test_other_functions_run_their_own_code_again(timed):
    callables.replace_code(None)
    assert all(definition.method == key[1] for key, (_, definition) in callables._definitions.items())
