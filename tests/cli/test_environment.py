"""`extempo info`: the facts of a bug report."""

import importlib.metadata
import json
import re

import extempo as ex
from extempo.cli import environment

from .commands import assert_plain_and_narrow, run


def test_info_names_what_a_bug_report_needs():
    result = run("info")
    assert result.exit_code == 0
    assert_plain_and_narrow(result.output)
    for word in ("extempo", "python", "numpy", "cpu", "features", "cores", "backend", "blas", "threads", "float32"):
        assert re.search(rf"\b{word}\b", result.output), word


def test_info_as_json_has_the_same_facts():
    facts = json.loads(run("info", "--json").output)
    assert facts["versions"]["extempo"] == ex.__version__
    assert facts["versions"]["numpy"] == importlib.metadata.version("numpy")
    assert {section: list(names) for section, names in facts.items()} == {
        section: list(names) for section, names in environment.collect().items()
    }


def test_info_survives_a_machine_that_tells_nothing(monkeypatch):
    monkeypatch.setattr(environment, "_cpuinfo", lambda *names: "")
    monkeypatch.setattr(environment.platform, "processor", lambda: "")
    monkeypatch.setattr(environment.sys, "platform", "unheard-of")
    machine = environment.collect()["machine"]
    assert str(machine["cpu"]).startswith("unknown")
    assert machine["features"], "NumPy still knows what it uses"
