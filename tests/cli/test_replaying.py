"""extempo replay: the list, stopping, and what is wrong with a file."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

import extempo as ex
from extempo.cli.main import command


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "step.extempo"
    x = ex.tensor([1.0, 2.0], requires_grad=True)
    with ex.record(path):
        x.exp().sum().backward()
    return path


def test_nodes_are_listed_with_a_verdict(path):
    found = CliRunner().invoke(command, ["replay", str(path)])
    assert found.exit_code == 0
    assert "exp" in found.output
    assert "mul (backward)" in found.output
    assert found.output.rstrip().endswith("every bit as recorded")


def test_a_difference_is_an_exit_status(path):
    content = ex.load(path)
    content["values"] = {name: value + 1 for name, value in content["values"].items()}
    ex.save(content, path)
    found = CliRunner().invoke(command, ["replay", "--json", str(path)])
    assert found.exit_code == 1
    assert "is the first of" in found.output


def test_stopping_at_a_node_opens_a_debugger_with_its_inputs(path, monkeypatch):
    commands = iter(["p inputs[0].tolist()", "q"])
    monkeypatch.setattr("extempo.cli.replaying.Pdb._cmdloop", _driven(commands))
    node = ex.inspect.replay(path).nodes[0].name
    found = CliRunner().invoke(command, ["replay", str(path), "--stop", node])
    assert found.exit_code == 0, found.output
    assert f"{node} exp forward" in found.output


def _driven(commands):
    def cmdloop(self):
        for text in commands:
            if self.onecmd(text):
                return

    return cmdloop


def test_what_is_wrong_is_said_in_a_line(path, tmp_path):
    cut = tmp_path / "cut.extempo"
    cut.write_bytes(path.read_bytes()[:500])
    found = CliRunner().invoke(command, ["replay", str(cut)])
    assert found.exit_code == 1
    assert found.output.startswith("Error: ")
    assert "Traceback" not in found.output
    assert "there is no node %99" in CliRunner().invoke(command, ["replay", str(path), "--stop", "99"]).output
