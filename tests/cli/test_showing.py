"""What commands print: plain and of 80 columns where it is piped."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner
from rich.text import Text

from extempo.cli.showing import PIPED_COLUMNS, columns, json_option, show, show_as, two_columns


@click.command()
@json_option()
def sums(as_json):
    show_as(as_json, 3, lambda n: f'{{"n": {n}}}', lambda n: Text(f"there are {n}"))


def test_a_value_is_printed_for_people_or_for_programs():
    assert CliRunner().invoke(sums).output == "there are 3\n"
    assert CliRunner().invoke(sums, ["--json"]).output == '{"n": 3}\n'
    assert "Print one JSON object." in CliRunner().invoke(sums, ["--help"]).output


def test_piped_lines_are_narrow_plain_and_without_spaces_at_the_end(capsys):
    show(Text("word " * 60, "bold red"))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 1
    assert all(len(line) <= PIPED_COLUMNS and line == line.rstrip() and "\x1b" not in line for line in lines)


def test_two_columns_keep_names_whole(capsys):
    table = two_columns(overflow="fold")
    table.add_row("directory", "/very/long" * 12)
    show(table)
    out = capsys.readouterr().out
    assert out.startswith("directory  /very/long")
    assert "".join(part for part in out.split()[1:]) == "/very/long" * 12


@pytest.mark.parametrize(("asked", "expected"), [("60", 60), ("120", 120), ("", 80), ("0", 80), ("wide", 80)])
def test_exported_columns_say_the_width_of_what_is_piped(monkeypatch, asked, expected):
    monkeypatch.setenv("COLUMNS", asked)
    assert columns() == expected
