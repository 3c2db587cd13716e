"""What tests of the planner count."""

from __future__ import annotations

import pytest


@pytest.fixture
def rolled(monkeypatch):
    """For each plan that is made: whether by way of a shorter loop."""
    from extempo.scheduling.pipeline import PlanningJob

    found = []
    made = PlanningJob.made

    def note(self, *arguments):
        plan = made(self, *arguments)
        found.append(self._stretch is not None)
        return plan

    monkeypatch.setattr(PlanningJob, "made", note)
    return found


@pytest.fixture
def n_planned(monkeypatch):
    """How often nodes were made for a request."""
    from extempo.scheduling import pipeline
    from extempo.scheduling.request import forget

    found = []
    made = pipeline.Planner.nodes

    def note(self, *arguments):
        found.append(len(self._steps))
        return made(self, *arguments)

    monkeypatch.setattr(pipeline.Planner, "nodes", note)
    forget()
    return found
