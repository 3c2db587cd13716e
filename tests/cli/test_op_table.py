"""`extempo ops`: what the registry knows of each op."""

import json

import pytest

from extempo.cli import op_table
from extempo.core.op import ASPECTS, REGISTRY, Refuse

from .commands import assert_plain_and_narrow, run


def test_ops_prints_one_line_for_each_registered_op():
    result = run("ops")
    assert result.exit_code == 0
    assert_plain_and_narrow(result.output)
    beginnings = [line.split()[:2] for line in result.output.splitlines()]
    for name, op in REGISTRY.items():
        assert beginnings.count([name[:24], op.family]) >= 1, name  # a long name goes on in the next line


def test_ops_as_json_tells_each_aspect_of_each_op():
    rows = json.loads(run("ops", "--json").output)
    assert {row["name"] for row in rows} == set(REGISTRY)
    for row in rows:
        assert list(row["aspects"]) == list(ASPECTS)
        assert row["doc"], row["name"]


@pytest.mark.parametrize("name", ["add", "matmul"])
def test_ops_with_a_name_prints_all_that_is_known_of_that_op(name):
    result = run("ops", name)
    assert result.exit_code == 0
    assert_plain_and_narrow(result.output)
    for word in (name, REGISTRY[name].family, *ASPECTS):
        assert word in result.output
    assert json.loads(run("ops", name, "--json").output)["name"] == name


def test_ops_with_a_wrong_name_suggests_the_right_one():
    result = run("ops", "matmull")
    assert result.exit_code == 2
    assert "'matmull'; did you mean matmul" in result.output


def make_op(name: str, family: str, **refused: str) -> type:
    aspects = {aspect: Refuse(refused[aspect]) if aspect in refused else object() for aspect in ASPECTS}
    fields = {"name": name, "family": family, "__doc__": f"The op {name}.", **aspects}
    return type(name, (), fields)


@pytest.fixture
def four_ops(monkeypatch):
    late = "not yet: comes later"
    ops = [
        make_op("exp", "elementwise", lower=late, batch=late),
        make_op("log", "elementwise", lower=late, batch=late),
        make_op("sum", "reduction", lower=late),
        make_op("argmax", "reduction", lower=late, vjp="argmax is piecewise constant", onnx="not yet: no mapping"),
    ]
    monkeypatch.setattr(op_table, "REGISTRY", {op.name: op for op in ops})


@pytest.mark.usefixtures("four_ops")
def test_missing_groups_ops_by_aspect_and_reason_and_names_whole_families():
    output = run("ops", "--missing").output
    assert output.splitlines() == [
        "lower: not yet: comes later (4)",
        "  all of elementwise (2), reduction (2)",
        "batch: not yet: comes later (2)",
        "  all of elementwise (2)",
        "onnx: not yet: no mapping (1)",
        "  reduction: argmax",
    ]


@pytest.mark.usefixtures("four_ops")
def test_missing_leaves_out_what_is_refused_for_good():
    gaps = json.loads(run("ops", "--missing", "--json").output)
    assert [(gap["aspect"], gap["ops"]) for gap in gaps] == [
        ("lower", ["exp", "log", "argmax", "sum"]),
        ("batch", ["exp", "log"]),
        ("onnx", ["argmax"]),
    ]


@pytest.mark.usefixtures("four_ops")
def test_ops_marks_present_refused_and_not_yet_apart():
    argmax = next(line for line in run("ops").output.splitlines() if line.startswith("argmax"))
    assert argmax.split(maxsplit=3) == ["argmax", "reduction", "in-s.br.x", "The op argmax."]


def test_nothing_missing_is_said_in_words(monkeypatch):
    monkeypatch.setattr(op_table, "REGISTRY", {"exp": make_op("exp", "elementwise")})
    assert run("ops", "--missing").output == 'No aspect is refused with "not yet".\n'
