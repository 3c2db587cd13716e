"""The command `extempo`: what it prints, in which width and colour, and how it ends."""

import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

import extempo as ex
from extempo.cli import environment, op_table
from extempo.cli.main import command
from extempo.core.op import ASPECTS, REGISTRY, Refuse

ESCAPE = "\x1b"


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(command, list(arguments), prog_name="extempo")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def assert_plain_and_narrow(text: str) -> None:
    assert ESCAPE not in text
    assert max(len(line) for line in text.splitlines()) <= 80


# The command as a whole


def test_version_is_the_one_of_the_package_and_of_its_metadata():
    assert run("--version").output == f"extempo, version {ex.__version__}\n"
    assert importlib.metadata.version("extempo") == ex.__version__


def test_no_arguments_print_the_help():
    result = run()
    assert result.exit_code == 0
    for name in ("info", "ops", "cache", "demo"):
        assert f"\n  {name} " in result.output


@pytest.mark.parametrize("arguments", [("--help",), ("info", "--help"), ("ops", "-h"), ("cache", "-h"), ("demo", "-h")])
def test_help_fits_a_terminal_of_80_columns(arguments):
    result = run(*arguments)
    assert result.exit_code == 0
    assert_plain_and_narrow(result.output)


def test_an_unknown_command_is_named_and_exits_with_2():
    result = run("fly")
    assert result.exit_code == 2
    assert "fly" in result.output


# extempo info


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


# extempo ops


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


# As a process


def start(*arguments: str, **options) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, *arguments], stderr=subprocess.PIPE, text=True, **options)


def test_python_dash_m_runs_the_command():
    process = start("-m", "extempo", "--version", stdout=subprocess.PIPE)
    output, errors = process.communicate()
    assert (process.returncode, output, errors) == (0, f"extempo, version {ex.__version__}\n", "")


def test_importing_extempo_does_not_import_the_command_line():
    code = "import sys, extempo; print([m for m in sys.modules if m.split('.')[0] in ('click', 'rich')])"
    output, errors = start("-c", code, stdout=subprocess.PIPE).communicate()
    assert (output, errors) == ("[]\n", "")


@pytest.mark.alone
@pytest.mark.parametrize("arguments", [("ops",), ("ops", "--json"), ("info",), ("demo",), ("--help",)])
def test_a_closed_pipe_ends_the_command_without_a_word(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    process = start("-m", "extempo", *arguments, stdout=writer)
    os.close(writer)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (1, "")


@pytest.mark.alone
@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to another process on Windows")
def test_an_interrupt_exits_with_130_and_no_traceback():
    # Making the data takes a minute here, so the signal always arrives in the middle of the command.
    code = """
import time
from extempo.cli import demo_task, main

def sequences(seed):
    print("ready", flush=True)
    time.sleep(60)

demo_task.sequences = sequences
main.main()
"""
    process = start("-c", code, "demo", stdout=subprocess.PIPE)
    while process.stdout.readline() != "ready\n":
        assert process.poll() is None, process.stderr.read()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors.strip() == ""
