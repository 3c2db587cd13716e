"""The parser of graphs: what it splits where, and what it refuses."""

import pytest

from extempo.core.graph import Graph, type_text
from extempo.core.graph_text import parse_type, split_arguments, without_comment
from extempo.errors import GraphError


@pytest.mark.parametrize("text", ["it's", 'say "it\'s"', "ends with \\", "a, (b", "x  # y", "'", '\\"'])
def test_arguments_are_split_and_comments_cut_outside_of_quotes_only(text):
    assert split_arguments(f"%0, {text!r}, k=(1, 2)") == ["%0", repr(text), "k=(1, 2)"]
    assert without_comment(f"%1 = f({text!r})  # it's line 3") == f"%1 = f({text!r})"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph(\n  %0: f32[b]\n) {\n  return %0\n}", "Program.parse"),
        ("graph(\n  %0: f32[2]\n) {\n  return %0", "the text ends in line 4"),
        ("graph(\n  %0: f32[2]\n) {\n  %1 = nonsense(%0) : f32[2]\n  return %1\n}", "not registered"),
        ("graph(\n) {\n  return %7\n}", "%7"),
        ("graph(\n  %0: f32[2]\n) {\n  %1 = exp(%0) : f32[3]\n  return %1\n}", "should give f32"),
        ("graph(\n  what is this\n) {\n}", "line 2"),
    ],
)
def test_parse_refuses_bad_text_and_says_where(text, message):
    with pytest.raises(GraphError, match=message):
        Graph.parse(text)


@pytest.mark.parametrize("text", ["f32[2, 3]", "(f32[2], i64[2])", "float", "int", "bool"])
def test_a_type_is_read_back(text):
    assert type_text(parse_type(text)) == text


def test_a_literal_that_cannot_be_read_back_is_named_with_its_line():
    with pytest.raises(GraphError, match="line 4: 'open' is no literal"):
        Graph.parse("graph(\n  %0: f32[2]\n) {\n  %1 = exp(%0, k=open) : f32[2]\n  return %1\n}")
