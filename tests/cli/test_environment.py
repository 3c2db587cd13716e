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
    for word in ("extempo", "python", "numpy", "cpu", "cores", "backend", "blas", "threads", "float32"):
        assert re.search(rf"\b{word}\b", result.output), word
    assert len(result.output.splitlines()) <= 20, "a newcomer reads it all"


def test_features_packages_and_caches_are_an_option_away():
    short, everything = run("info").output, run("info", "--all").output
    assert "extempo info --all" in short
    for word in ("features", "greenlet", "shape rules", "memory pool", "evicted"):
        assert word not in short.replace("the CPU's features", "")
        assert word in everything
    assert_plain_and_narrow(everything)


def test_cores_that_may_not_be_used_are_told_of():
    assert environment._cores({"cores": 8, "usable cores": 8}) == 8
    assert environment._cores({"cores": 8, "usable cores": "unknown"}) == 8
    assert environment._cores({"cores": 8, "usable cores": 2}) == "8, of which 2 may be used here"


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
