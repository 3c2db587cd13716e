"""To which phase the time of a site belongs."""

from __future__ import annotations

from extempo.profiling import sites


def test_a_stage_has_all_that_runs_inside_of_it():
    assert sites.phase_of(sites.KERNEL, None) == "native run"
    assert sites.phase_of(sites.OP, None) == "dispatch and recording"
    assert sites.phase_of(sites.MODULE, None) == "Python"
    assert sites.phase_of(sites.KERNEL, "backward") == "backward"
    assert sites.phase_of(sites.OPTIMIZER, None) == "optimizer"


def test_planning_is_planning_wherever_it_happens():
    assert sites.stage_of(sites.PLANNING, "backward") == "planning"
    assert sites.stage_of(sites.BACKWARD, "planning") == "planning"
    assert sites.stage_of(sites.BACKWARD, "optimizer") == "optimizer"
    assert sites.stage_of(sites.OP, None) is None
